"""Fetches all wheels that `make install` needs: ``python -m tools.wheelhouse DIR``.

They are for this Python and this machine. `make install WHEELHOUSE=DIR` then uses no package index.
"""

from __future__ import annotations

import subprocess
import sys

from tools import install


def main() -> int:
    """Fetch; returns the exit status."""
    (directory,) = sys.argv[1:]
    try:
        install.pip("download", "--dest", directory, requirements=install.SOURCE / install.REQUIREMENTS)
    except subprocess.CalledProcessError:
        print(f"error: could not fetch what {install.REQUIREMENTS} names: it needs a package index", file=sys.stderr)
        return 1
    print(f"make install WHEELHOUSE={directory} needs no package index")
    return 0


if __name__ == "__main__":
    sys.exit(main())
