"""What a waiting candidate keeps in memory."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

_PRESENT, _FRAME = 1 << 63, (1 << 55) - 1  # proc_pid_pagemap(5)
_MIB = 1 << 20


def pss(pids: list[int]) -> float:
    """MiB: the kernel's proportional share (Pss of smaps_rollup), summed; less the more others map those files."""
    rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids]
    return sum(int(re.findall(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)[0]) for rollup in rollups) / 1024


def alone(pids: list[int]) -> float | None:
    """MiB: each page that any of them maps counted once, as their PSS would be with nobody else on the machine.

    None where the kernel does not show page frames (it takes CAP_SYS_ADMIN).
    """
    frames: set[int] = set()
    for pid in pids:
        frames |= _frames(pid)
    frames.discard(0)
    return len(frames) * os.sysconf("SC_PAGE_SIZE") / _MIB if frames else None


def _frames(pid: int) -> set[int]:
    page = os.sysconf("SC_PAGE_SIZE")
    found: set[int] = set()
    maps = Path(f"/proc/{pid}/maps").read_text()
    with Path(f"/proc/{pid}/pagemap").open("rb") as pagemap:
        for line in maps.splitlines():
            if re.search(r"\[(vdso|vvar.*|vsyscall)\]$", line):
                continue  # the kernel's own, in nobody's memory
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            pagemap.seek(start // page * 8)
            data = pagemap.read((end - start) // page * 8)
            found |= {entry & _FRAME for (entry,) in struct.iter_unpack("=Q", data) if entry & _PRESENT}
    return found
