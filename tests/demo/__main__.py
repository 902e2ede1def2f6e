"""`python -m tests.demo`: `kleader demo` on a Lease, at the cluster that the environment names or at one of its own."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile

from kleader.cli.demo_picture import Picture
from kleader.cli.demo_stage import DemoError
from kleader.cli.demo_story import play
from tests.demo.place import Lease
from tests.support.processes import adopt_orphans, sweep


def _stop(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    """Show it; one line if that cannot be."""
    argparse.ArgumentParser(prog="python -m tests.demo", description=__doc__).parse_args()
    signal.signal(signal.SIGTERM, _stop)
    adopt_orphans()
    picture = Picture()
    try:
        place = Lease()
        try:
            with tempfile.TemporaryDirectory(prefix="kleader-demo-") as directory:
                return 0 if play(place, directory, picture) else 1
        finally:
            place.end()
            sweep()
    except DemoError as error:
        picture.finish()
        print(f"demo: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        picture.finish()
        return 130


if __name__ == "__main__":
    sys.exit(main())
