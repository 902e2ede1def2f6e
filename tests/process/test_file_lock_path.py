"""The file lock's path: whatever it names by now, a newcomer waits for the end of who leads."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING

import pytest

from kleader.locks import file
from tests.process.conftest import guard_of
from tests.process.test_file_lock import end_all, stop, waiting

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Trials
    from tests.process.conftest import Start
    from tests.support.checker import Witness


def replaced(lock: Path) -> None:
    """Put another file there, as an editor does."""
    other = lock.with_suffix(".new")
    other.write_bytes(b"")
    other.replace(lock)


def led_elsewhere(place: Path) -> None:
    """Make a symbolic link point to another directory, as a deploy does."""
    other = place.with_suffix(".new")
    other.with_suffix(".d").mkdir()
    other.symlink_to(other.with_suffix(".d"))
    other.replace(place)


@pytest.mark.parametrize("how", ["removed", "replaced", "directory removed", "led elsewhere"])
def test_a_leader_whose_lock_file_goes_away_ends_its_term_before_a_newcomer_leads(
    candidate: Start, witness: Witness, lock: Path, trials: Trials, how: str
) -> None:
    (lock.parent / "release").mkdir()
    place = lock.parent / "place"
    place.symlink_to("release")
    option = f"--lock=file:{place / 'l'}"
    first = candidate(witness.command("--ignore-term", "--descendant"), option, name="first")
    witness.wait_descendant()
    waits = candidate(witness.command(), option, name="waits")
    waiting(waits)
    if how == "removed":
        (place / "l").unlink()
    elif how == "replaced":
        replaced(place / "l")
    elif how == "directory removed":
        (lock.parent / "release").rename(lock.parent / "away")
        (lock.parent / "release").mkdir()
    else:
        led_elsewhere(place)
    newcomer = candidate(witness.command(), option, name="newcomer")
    first.wait_err("was removed or replaced")
    assert first.wait() == 255
    witness.wait_start(2)
    end_all(witness, waits, newcomer)
    trials.count(1, "lock files taken away")


def test_a_leader_that_is_stopped_has_its_path_wherever_that_leads_by_now(
    candidate: Start, witness: Witness, lock: Path
) -> None:
    """Neither it nor its guard can notice."""
    (lock.parent / "release").mkdir()
    place = lock.parent / "place"
    place.symlink_to("release")
    option = f"--lock=file:{place / 'l'}"
    first = candidate(witness.command(), option, name="first")
    witness.wait_start()
    guard = guard_of(first)
    stop(first.pid)
    stop(guard)
    led_elsewhere(place)
    second = candidate(witness.command(), option, "--no-wait", name="second")
    assert second.wait() == 124
    os.kill(guard, signal.SIGCONT)
    end_all(witness, first)


def test_a_file_replaced_under_waiting_candidates_is_followed(
    candidate: Start, witness: Witness, lock: Path, trials: Trials
) -> None:
    """Again and again, without an overlap and without giving up."""
    running = [candidate(witness.command("--ignore-term"), "--on-loss=wait", name=f"c{number}") for number in range(3)]
    for turn in range(1, 8):
        witness.wait_start(turn)
        replaced(lock)
    witness.wait_start(8)
    leader = next(each for each in running if each.name == witness.terms()[-1].identity)
    for each in running:
        each.signal(signal.SIGTERM)
    leader.wait_err("stopping the command")
    leader.signal(signal.SIGTERM)
    end_all(witness, *running)
    trials.count(7, "lock files taken away")


def test_a_place_has_its_addresses_however_long_it_is(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 200)
    deep.mkdir()
    (tmp_path / "link").symlink_to(deep)
    names = set(file.addresses(str(deep / "a")))
    assert names & set(file.addresses(str(tmp_path / "link" / "a")))
    assert not names & set(file.addresses(str(deep / "b")))
    assert all(len(name) <= 108 for name in names)


def test_nobody_else_may_have_an_address_of_a_held_lock(candidate: Start, witness: Witness, lock: Path) -> None:
    first = candidate(witness.command())
    witness.wait_start()
    for name in file.addresses(str(lock)):
        with socket.socket(socket.AF_UNIX) as other, pytest.raises(OSError, match="in use"):
            other.bind(name)
    end_all(witness, first)
