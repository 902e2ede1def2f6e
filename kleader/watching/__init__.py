"""Looks on: reads locks of every kind, whoever wrote them, and says what an observer can know of them."""
