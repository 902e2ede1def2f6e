"""kleader as a tree that needs no Python, no library and no package of the system around."""
