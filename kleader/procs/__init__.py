"""Kills every process of the command: what finds them, what kills them, and the last resort."""
