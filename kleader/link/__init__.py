"""What the processes of one kleader tell each other: the plan, the messages, and the channel that carries them."""
