"""Follows locks of every kind without taking part: for ``status``, ``wait`` and requests to leaders."""
