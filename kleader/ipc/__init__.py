"""How the processes of one kleader share what they know: the plan, messages over channels, the status socket."""
