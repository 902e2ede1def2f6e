"""What a run is given and does not use: klog's flags in a manifest, and variables that no option reads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

PREFIX = "KLEADER_RUN_"
_META = f"{__name__}.klog"
_SERVICE = "_SERVICE_HOST"  # the kubelet sets it for each Service, with others of the same prefix

# klog's flags, and --log-flush-frequency of k8s.io/component-base. A switch takes its value only after =.
SWITCHES = (
    *("--logtostderr", "--alsologtostderr", "--add_dir_header", "--one_output", "--skip_headers", "--skip_log_headers"),
    "--legacy_stderr_threshold_behavior",
)
VALUES = (
    *("--log_backtrace_at", "--log_dir", "--log_file", "--log_file_max_size", "--stderrthreshold", "--vmodule"),
    "--log-flush-frequency",
)


def klog_options() -> Iterator[click.Option]:
    """Hidden options that take klog's flags in both spellings, with ``_`` and ``-``, and note that one was given."""
    for variable, flags in (("klog_switch", SWITCHES), ("klog_value", VALUES)):
        names = dict.fromkeys(name for flag in flags for name in (flag, flag.replace("_", "-")))
        attributes: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if flags is SWITCHES else {}
        attributes |= {"multiple": True, "expose_value": False, "hidden": True, "allow_from_autoenv": False}
        yield click.Option([*names, variable], callback=_note, **attributes)


def _note(ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> None:
    if value:
        ctx.meta[_META] = True


def warnings(known: Collection[str], environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """A sentence on klog's flags, and one for each variable that looks like an option's and is not in ``known``."""
    if click.get_current_context().meta.get(_META):
        yield "ignored klog's flags: kleader logs to standard error; -v, -q and --log-format shape the log"
    services = [name.removesuffix(_SERVICE) for name in environ if name.endswith(_SERVICE)]
    injected = tuple(f"{service}{part}" for service in services for part in ("_SERVICE_", "_PORT"))
    for name, value in sorted(environ.items()):
        if value and name.startswith(PREFIX) and name not in known and not name.startswith(injected):
            from difflib import get_close_matches

            close = get_close_matches(name, known, 1, 0.8)
            hint = f"did you mean {close[0]}?" if close else "no option reads it; unset it, or see kleader-run(1)"
            yield f"ignored the variable {name}: {hint}"
