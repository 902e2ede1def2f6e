"""Runs a command only while this candidate is the leader.

Every process of kleader imports this package, so it imports nothing.
"""

__version__ = "0.1.0"
