"""``python -m kleader``."""

from __future__ import annotations

from kleader.cli.main import main

if __name__ == "__main__":
    main()
