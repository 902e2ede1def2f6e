"""Owns the command: signals, terminal, tree, deadlines, exit status. Imports nothing that talks to a network."""
