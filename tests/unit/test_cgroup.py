"""The cgroup that kleader was started alone in, as files show it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kleader.procs import cgroup

if TYPE_CHECKING:
    from pathlib import Path

MOUNTS = """\
22 1 0:20 / /proc rw - proc proc rw
31 22 0:28 / {0} rw - tmpfs cgroup rw
41 31 0:37 / {0}/v1 rw - cgroup cgroup rw,name=systemd
42 31 0:38 {1} {0}/v2 rw,relatime shared:5 - cgroup2 cgroup2 rw
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As if this process were alone in the cgroup /a/b of a system that has those of version 1 too."""
    made = tmp_path / "v2/a/b"
    made.mkdir(parents=True)
    (made / "cgroup.procs").write_text(f"{os.getpid()}\n")
    (made / "cgroup.kill").touch()
    for pid, path in (("self", "/a/b"), ("11", "/a/b"), ("12", "/a/c")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cgroup").write_text(f"8:pids:/x\n1:name=systemd:/\n0::{path}\n")
    (tmp_path / "self/mountinfo").write_text(MOUNTS.format(tmp_path, "/"))
    monkeypatch.setattr(cgroup, "_PROC", str(tmp_path))
    return made


def test_the_cgroup_that_this_process_is_alone_in_is_found_and_killed(place: Path) -> None:
    assert cgroup.alone_in() == str(place)
    assert cgroup.kill_all(str(place), [11])
    assert (place / "cgroup.kill").read_text() == "1"


def test_a_cgroup_mount_may_begin_below_the_root(place: Path, tmp_path: Path) -> None:
    (tmp_path / "self/mountinfo").write_text(MOUNTS.format(tmp_path, "/outer"))
    (tmp_path / "self/cgroup").write_text("0::/outer/a/b\n")
    assert cgroup.alone_in() == str(place)


@pytest.mark.parametrize("other", ["1", "0"], ids=["a process", "one of another PID namespace"])
def test_no_cgroup_is_found_that_has_another_process(place: Path, other: str) -> None:
    (place / "cgroup.procs").write_text(f"{os.getpid()}\n{other}\n")
    assert cgroup.alone_in() == ""


def test_no_cgroup_is_found_that_has_a_child_cgroup(place: Path) -> None:
    (place / "c").mkdir()
    assert cgroup.alone_in() == ""


def test_no_cgroup_is_found_that_may_not_be_killed(place: Path) -> None:
    """As the root of all has no such file, nor a kernel before 5.14."""
    (place / "cgroup.kill").unlink()
    assert cgroup.alone_in() == ""


@pytest.mark.parametrize("name", ["self/cgroup", "self/mountinfo", "v2/a/b/cgroup.procs"])
@pytest.mark.parametrize("what", [None, b"", b"\xff"], ids=["missing", "empty", "not text"])
def test_no_cgroup_is_found_without_readable_files(place: Path, tmp_path: Path, name: str, what: bytes | None) -> None:
    if what is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(what)
    assert cgroup.alone_in() == ""
    assert place.exists()


def test_a_process_that_was_moved_to_another_cgroup_kills_none(place: Path) -> None:
    """Others may be in the one that it has left."""
    (place / "cgroup.procs").write_text("1\n")
    assert not cgroup.kill_all(str(place), [])
    assert not cgroup.kill_all("", [])
    assert (place / "cgroup.kill").read_text() == ""


def test_no_cgroup_is_killed_while_a_process_of_the_command_is_in_another(place: Path) -> None:
    """As with `podman run`: it would outlive kleader, and nobody would be left to kill it. 13 has ended."""
    assert not cgroup.kill_all(str(place), [11, 13, 12])
    assert (place / "cgroup.kill").read_text() == ""
    assert cgroup.kill_all(str(place), [11, 13])
