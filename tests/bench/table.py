"""One table for people, and the machine it was measured on."""

from __future__ import annotations

import math
import os
import platform
import re
import ssl
import statistics
from pathlib import Path


def quantile(values: list[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def median(values: list[float]) -> float:
    """p50."""
    return statistics.median(values)


def heading(title: str, unit: str, last: str = "") -> str:
    """The line above a group of rows."""
    return f"\n{title:<44} {'n':>4} {'p50':>8} {'p99':>8} {'max':>8}  {last}".rstrip() + f"   ({unit})"


def row(name: str, values: list[float], last: str = "", scale: float = 1e3) -> str:
    """One measured thing; p99 only where a hundred trials give one."""
    p50, most = median(values) * scale, max(values) * scale
    p99 = f"{quantile(values, 0.99) * scale:8.1f}" if len(values) >= 100 else f"{'':8}"
    return f"  {name:<42} {len(values):4} {p50:8.1f} {p99} {most:8.1f}  {last}".rstrip()


def aim(what: str, value: float, *, least: float = -math.inf, most: float = math.inf) -> str:
    """One figure beside what it should be."""
    bound = f"at most {most:g}" if least == -math.inf else f"at least {least:g}"
    return f"  {what:<42} {value:13.1f}  {'as it should be' if least <= value <= most else 'MISSED'}, {bound}"


def machine() -> str:
    """Cores, processor, kernel, Python."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = re.search(r"^model name\s*: (.*)$", _read("/proc/cpuinfo"), re.MULTILINE)
    processor = found[1] if found else platform.machine()
    return (
        f"{cores} cores ({processor}), {platform.system()} {platform.release()}, Python {platform.python_version()},"
        f" {ssl.OPENSSL_VERSION}"
    )


def load() -> str:
    """What else the machine was doing: the load average of the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
