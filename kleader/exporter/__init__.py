"""The process that serves health, metrics and the leader over HTTP, and writes the state file; none waits for it."""
