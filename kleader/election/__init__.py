"""Decides who leads. Pure: no input or output, no clock and no randomness of its own."""
