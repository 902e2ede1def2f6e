"""The witness sees what it is there to see."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.checker import MS, Witness, WitnessError
from tests.support.processes import alive

if TYPE_CHECKING:
    from tests.support.processes import Processes


def env(identity: str, token: int) -> dict[str, str | None]:
    return {"KLEADER_IDENTITY": identity, "KLEADER_FENCING_TOKEN": str(token)}


def test_one_after_the_other_is_no_overlap(processes: Processes, witness: Witness) -> None:
    for number in range(1, 4):
        process = processes.start(witness.command(), env=env(f"c{number}", number))
        term = witness.wait_start(number)
        assert (term.pid, term.token, term.identity) == (process.pid, str(number), f"c{number}")
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        assert witness.terms()[-1].main.ended
    witness.check(terms=3)
    assert witness.overlaps() == []
    assert [(a.identity, b.identity) for a, b, _ in witness.handovers()] == [("c1", "c2"), ("c2", "c3")]
    assert len(witness.gaps()) == 2
    assert min(witness.gaps()) > 0


def test_two_at_once_are_an_overlap(processes: Processes, witness: Witness) -> None:
    processes.start(witness.command(), env=env("a", 1))
    first = witness.wait_start(1)
    processes.start(witness.command(), env=env("b", 2))
    second = witness.wait_start(2)
    witness.wait(lambda: witness.terms()[0].last > second.born, "a beats on beside b")
    (overlap,) = witness.overlaps()
    assert overlap.later.main.clash is not None
    assert overlap.ns is not None
    with pytest.raises(WitnessError, match=rf"pid {first.pid} \(a\) was alive beside pid {second.pid} \(b\)"):
        witness.check()


def test_a_descendant_alone_is_an_overlap(processes: Processes, witness: Witness) -> None:
    processes.start(witness.command("--descendant", "--exit-after=0"), env=env("a", 1)).wait()
    orphan = witness.wait_descendant(1)
    assert orphan.identity == "a"
    processes.start(witness.command("--exit-after=0"), env=env("b", 2)).wait()
    witness.wait(lambda: witness.terms()[0].last > witness.terms()[1].born, "the descendant beats on")
    (overlap,) = witness.overlaps()
    assert overlap.earlier is not None
    assert (overlap.earlier.pid, overlap.later.identity) == (witness.terms()[0].pid, "b")
    assert overlap.later.main.clash is not None
    assert overlap.ns is not None, "its beats tell, too"


def test_a_stopped_process_is_an_overlap_though_it_cannot_beat(processes: Processes, witness: Witness) -> None:
    stopped = processes.start(witness.command(), env=env("a", 1))
    witness.wait_start(1)
    stopped.signal(signal.SIGSTOP)
    processes.start(witness.command("--exit-after=0"), env=env("b", 2)).wait()
    (overlap,) = witness.overlaps()
    assert overlap.later.identity == "b"
    assert overlap.later.main.clash is not None


def test_a_stopped_process_that_is_killed_later_was_an_overlap(processes: Processes, witness: Witness) -> None:
    """The flock, not a beat, is what tells: neither of the two wrote anything while both lived."""
    stopped = processes.start(witness.command(), env=env("a", 1))
    witness.wait_beats(1)
    stopped.signal(signal.SIGSTOP)
    silent = witness.terms()[0].last
    while witness.terms()[0].last != silent:  # a beat may have been under way
        silent = witness.terms()[0].last
    processes.start(witness.command("--exit-after=0"), env=env("b", 2)).wait()
    stopped.kill()
    (overlap,) = witness.overlaps()
    assert overlap.ns is None
    assert "the flock was held" in str(overlap)


def test_a_zombie_with_a_living_thread_is_an_overlap(processes: Processes, witness: Witness) -> None:
    zombie = processes.start(witness.command("--zombie-leader"), env=env("a", 1))
    witness.wait_beats(2)
    assert alive(zombie.pid)
    processes.start(witness.command("--exit-after=0"), env=env("b", 2)).wait()
    assert len(witness.overlaps()) == 1
    zombie.kill()
    assert not alive(zombie.pid)


def test_a_killed_process_is_no_overlap_with_the_next(processes: Processes, witness: Witness) -> None:
    killed = processes.start(witness.command(), env=env("a", 1))
    witness.wait_beats(3)
    killed.kill()
    processes.start(witness.command("--exit-after=0"), env=env("b", 2)).wait()
    witness.check(terms=2)
    assert not witness.terms()[0].main.ended
    assert witness.gaps()[0] > 0


@pytest.mark.parametrize("fate", [signal.SIGCONT, signal.SIGSTOP])
def test_a_rival_that_lives_on_beside_others_is_no_overlap(
    processes: Processes, witness: Witness, fate: signal.Signals
) -> None:
    """That is its own fault, and it hides no other's."""
    rival = processes.start(witness.command("--rival"), env={"KLEADER_IDENTITY": "rival"})
    witness.wait_beats(2)
    rival.signal(fate)
    first = processes.start(witness.command(), env=env("a", 1))
    witness.wait_start(2)
    witness.check(terms=2)
    first.signal(signal.SIGSTOP)
    processes.start(witness.command("--exit-after=0"), env=env("b", 2)).wait()
    assert [each.earlier and each.earlier.identity for each in witness.overlaps()] == ["a"]


@pytest.mark.parametrize("killed", [True, False])
def test_a_rival_that_outlives_the_next_is_the_newest_that_runs(
    processes: Processes, witness: Witness, *, killed: bool
) -> None:
    """A killed process writes no end, and an ended one has written it."""
    processes.start(witness.command("--rival"), env={"KLEADER_IDENTITY": "rival"})
    witness.wait_beats(1)
    later = processes.start(witness.command(), env=env("a", 1))
    term = witness.wait_start(2)
    later.signal(signal.SIGKILL if killed else signal.SIGTERM)
    later.wait()
    since = witness.now(term).last if killed else term.last
    witness.wait(lambda: witness.terms()[0].last > since, "the rival beats on")
    running, newest = witness.newest(since), witness.newest()
    assert running is not None
    assert newest is not None
    assert (running.identity, newest.identity) == ("rival", "a")


@pytest.mark.parametrize("number", [signal.SIGCONT, signal.SIGSTOP])
def test_a_rival_that_starts_beside_another_s_command_is_an_overlap(
    processes: Processes, witness: Witness, number: signal.Signals
) -> None:
    first = processes.start(witness.command(), env=env("a", 1))
    witness.wait_beats(2)
    first.signal(number)
    processes.start(witness.command("--rival", "--exit-after=0.1"), env={"KLEADER_IDENTITY": "rival"}).wait()
    (overlap,) = witness.overlaps()
    assert overlap.earlier is not None
    assert (overlap.earlier.identity, overlap.later.identity) == ("a", "rival")


def test_an_overlap_with_the_survivor_of_an_overlap_is_found(processes: Processes, witness: Witness) -> None:
    """The survivor takes the flock once it is free, so that a third command finds it held."""
    first = processes.start(witness.command(), env=env("a", 1))
    witness.wait_start(1)
    processes.start(witness.command(), env=env("b", 2))
    witness.wait_start(2)
    first.kill()
    witness.wait_beats(2)
    processes.start(witness.command("--exit-after=0"), env=env("c", 3)).wait()
    assert [overlap.later.identity for overlap in witness.overlaps()] == ["b", "c"]


@pytest.mark.parametrize(("tokens", "wrong"), [((9, 10), 0), ((10, 9), 1), ((5, 5), 1), ((99, 100, 98), 1)])
def test_tokens_must_grow_by_length_then_text(
    processes: Processes, witness: Witness, tokens: tuple[int, ...], wrong: int
) -> None:
    for token in tokens:
        processes.start(witness.command("--exit-after=0"), env=env("same", token)).wait()
    assert len(witness.wrong_tokens()) == wrong
    if wrong:
        with pytest.raises(WitnessError, match=r"token \d+ came after \d+"):
            witness.check()


def test_a_restart_in_place_keeps_its_token(processes: Processes, witness: Witness) -> None:
    for _ in range(2):
        processes.start(witness.command("--exit-after=0"), env=env("a", 1)).wait()
    witness.check(terms=2, restarts=True)
    assert witness.handovers() == []


def test_a_rival_can_ignore_or_delay_sigterm(processes: Processes, witness: Witness) -> None:
    deaf = processes.start(witness.command("--ignore-term"))
    witness.wait_start(1)
    deaf.signal(signal.SIGTERM)
    witness.wait_beats(3)
    assert deaf.running
    deaf.kill()
    slow = processes.start(witness.command("--term-delay=0.2", "--status=7"))
    told = witness.wait_start(2).main.last
    slow.signal(signal.SIGTERM)
    assert slow.wait() == 7
    witness.wait_end(witness.terms()[1])
    assert witness.terms()[1].last - told >= 200 * MS


def test_sigint_kills_a_rival(processes: Processes, witness: Witness) -> None:
    process = processes.start(witness.command())
    witness.wait_start()
    process.signal(signal.SIGINT)
    assert process.wait() == -signal.SIGINT
    assert witness.terms()[0].main.ended


def test_a_rival_ends_when_its_file_appears(processes: Processes, witness: Witness, tmp_path: Path) -> None:
    process = processes.start(witness.command(f"--exit-when={tmp_path / 'go'}", "--status=3"))
    witness.wait_start()
    (tmp_path / "go").touch()
    assert process.wait() == 3


def test_a_descendant_has_no_descriptor_but_the_witness_own(processes: Processes, witness: Witness) -> None:
    """What it held of its parent's (a pipe, a file lock) is closed: the flock and the log are left."""
    process = processes.start(witness.command("--descendant"))
    orphan = witness.wait_descendant()
    witness.wait(lambda: witness.terms()[0].descendants[0].beats, "what tells its parent is closed")
    files = {str(fd.readlink()) for fd in Path(f"/proc/{orphan.pid}/fd").iterdir()}
    assert files == {str(witness.path), f"{witness.path}.lock"}
    process.signal(signal.SIGTERM)
    process.wait()
    os.kill(orphan.pid, signal.SIGTERM)
    witness.wait(lambda: witness.terms()[0].descendants[0].beats > orphan.beats + 2, "it is deaf to TERM")
    assert alive(orphan.pid)


def test_a_wait_in_vain_reports_the_history(processes: Processes, tmp_path: Path) -> None:
    witness = Witness(tmp_path / "witness.log")
    with pytest.raises(WitnessError, match="nothing was written"):
        witness.wait_start(1, timeout=0.01)
    processes.start(witness.command("--exit-after=0"), env=env("a", 1)).wait()
    with pytest.raises(WitnessError, match=r"start number 2: not within 0\.01 s\n.*start +pid \d+ token 1 a\n.*end "):
        witness.wait_start(2, timeout=0.01)


def test_waiting_ends_with_the_last_process_that_could_write(processes: Processes, witness: Witness) -> None:
    processes.start(witness.command("--exit-after=0.1"), env=env("a", 1))
    with pytest.raises(WitnessError, match=r"start number 2: all processes have ended\n.*start +pid \d+ token 1 a\n"):
        witness.wait_start(2, timeout=600)


def test_an_unknown_option_is_refused(processes: Processes, witness: Witness) -> None:
    process = processes.start(witness.command("--ignore-trem"))
    assert process.wait() == 1
    assert "no such option: ignore-trem" in process.err
