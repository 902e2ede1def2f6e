"""Tells others what the supervisor says: over HTTP, and in a file. Nothing waits for it, and nothing depends on it."""
