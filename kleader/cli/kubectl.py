"""``kubectl leader …``: the two programs that kubectl looks for on PATH, the plugin and its completion."""

from __future__ import annotations

import sys

from kleader.cli.main import cli, main


def leader() -> None:
    """Run the command line, as ``kubectl leader`` in its help and its usage errors."""
    main("kubectl leader")


def complete() -> None:
    """Print what completes the arguments, as kubectl reads it of a ``kubectl_complete-NAME``."""
    from kleader.cli.completion import answer_kubectl

    answer_kubectl(cli, sys.argv[1:])
