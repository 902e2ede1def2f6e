"""The process beside the supervisor that holds the lock: everything that touches the network, and the second guard."""
