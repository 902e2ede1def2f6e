"""A tight fork bomb that needs no compiler: `bomb.py KIND LIMIT FILE [USER]` becomes a program of a few instructions.

KIND is group: each process forks as fast as it can, and all stay in one process group; setsid: each leaves for a
session of its own first; chain: each makes another that shares its memory (CLONE_VM), and ends at once; chain-setsid:
as chain, each in a session of its own. All are deaf to TERM. No more than LIMIT are there at once (RLIMIT_NPROC, of a
user id of their own where this is root). None runs for longer than 20 s of the processor's time. FILE is the program.
"""

from __future__ import annotations

import os
import platform
import resource
import signal
import struct
import sys

OWN_USER = 61_234  # whose processes are counted, where one may become this user
CLONE_VM = 0x100
_BASE = 0x400000
_HEADERS = 64 + 56


def x86_64(*, chain: bool, setsid: bool) -> bytes:
    """The instructions."""
    leave = b"\xb8\x70\0\0\0\x0f\x05" if setsid else b""  # setsid()
    if not chain:
        fork = b"\xb8\x39\0\0\0\x0f\x05\x85\xc0"  # fork()
        body = fork + b"\x75" + struct.pack("b", -len(fork) - 2) + leave  # not in the child: again
        return body + b"\xeb" + struct.pack("b", -len(body) - 2)
    flags = b"\xbf" + struct.pack("<I", CLONE_VM | signal.SIGCHLD)
    clone = (
        flags + b"\x31\xf6\x31\xd2\x45\x31\xd2\x45\x31\xc0\xb8\x38\0\0\0\x0f\x05\x85\xc0"
    )  # clone(flags, 0, 0, 0, 0)
    body = clone + b"\x78" + struct.pack("b", -len(clone) - 2)  # an error: again
    body += b"\x74\x09" + b"\xb8\x3c\0\0\0\x31\xff\x0f\x05" + leave  # not in the child: exit(0)
    return body + b"\xeb" + struct.pack("b", -len(body) - 2)


def aarch64(*, chain: bool, setsid: bool) -> bytes:
    """The instructions."""
    call = 0xD4000001
    words = [0xD2800000 | (signal.SIGCHLD | (CLONE_VM if chain else 0)) << 5]  # x0
    words += [0xD2800001, 0xD2800002, 0xD2800003, 0xD2800004, 0xD2801B88, call]  # clone(x0, 0, 0, 0, 0)
    if chain:
        words += [0xB7F80000 | (-len(words) & 0x3FFF) << 5]  # tbnz x0, #63: an error: again
        words += [0xB4000080, 0xD2800000, 0xD2800BA8, call]  # cbz x0: not in the child: exit(0)
    else:
        words += [0xB5000000 | (-len(words) & 0x7FFFF) << 5]  # cbnz x0: not in the child: again
    words += [0xD28013A8, call] if setsid else []  # setsid()
    words += [0x14000000 | (-len(words) & 0x3FFFFFF)]
    return struct.pack(f"<{len(words)}I", *words)


MACHINES = {"x86_64": (62, x86_64), "aarch64": (183, aarch64)}


def program(kind: str) -> bytes:
    """An executable file of Linux."""
    number, assemble = MACHINES[platform.machine()]
    code = assemble(chain=kind.startswith("chain"), setsid=kind.endswith("setsid"))
    size = _HEADERS + len(code)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    elf = struct.pack("<HHIQQQIHHHHHH", 2, number, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return ident + elf + struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000) + code


def main() -> None:
    """As the head of this file says."""
    kind, limit, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    user = int(sys.argv[4]) if len(sys.argv) > 4 else OWN_USER
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(program(kind))
    os.chmod(path, 0o755)  # noqa: PTH101, S103 - that other user runs it
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    if os.geteuid() == 0:
        os.setuid(user)
    else:
        owners = (os.stat(f"/proc/{pid}").st_uid for pid in os.listdir("/proc") if pid.isdecimal())  # noqa: PTH116, PTH208
        limit += sum(owner == os.getuid() for owner in owners)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    os.execv(path, [path])


if __name__ == "__main__":
    main()
