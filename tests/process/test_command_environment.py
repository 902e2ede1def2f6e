"""What the command is given, and what it is spared."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trustme

import kleader
from tests.process.conftest import IN_NAMESPACE, KLEADER, file_elector_of
from tests.support.processes import alive, wait_gone, wait_until

if TYPE_CHECKING:
    from tests.process.conftest import Start
    from tests.support.processes import Processes

pytestmark = pytest.mark.slow

PYTHON = [sys.executable, "-I", "-S", "-c"]
REPORT = r"""
import json, os
fds = {}
for name in os.listdir("/proc/self/fd"):
    try:
        fds[name] = os.readlink("/proc/self/fd/" + name)
    except OSError:
        pass  # the directory's own
status = [line.split() for line in open("/proc/self/status") if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]
print(json.dumps({"fds": fds, "env": dict(os.environ), "status": status, "pid": os.getpid(), "ppid": os.getppid(),
                  "umask": os.umask(0), "cwd": os.getcwd(), "nice": os.nice(0)}))
"""
REPORTER = [*PYTHON, REPORT]


def test_the_command_learns_its_term_from_the_environment(candidate: Start) -> None:
    kleader = candidate(REPORTER, name="me")
    assert kleader.wait() == 0
    env = json.loads(kleader.out)["env"]
    assert (env["KLEADER_IDENTITY"], env["KLEADER_LOCK"], env["KLEADER_NAME"]) == ("me", "file", "t")
    assert env["KLEADER_NAMESPACE"] == "default"
    assert env["KLEADER_FENCING_TOKEN"].isdecimal()
    assert env["KLEADER_TRANSITIONS"] == "0"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", env["KLEADER_ACQUIRE_TIME"])
    assert len([name for name in env if name.startswith("KLEADER_TERM_")]) == 1


def test_nested_kleaders_keep_both_markers_and_both_locks(candidate: Start, tmp_path: Path) -> None:
    inner = [*KLEADER, "run", f"--lock=file:{tmp_path / 'inner'}", "--name=inner", "--", *REPORTER]
    kleader = candidate(inner, name="outer")
    assert kleader.wait() == 0
    seen = json.loads(kleader.out)
    assert len([name for name in seen["env"] if name.startswith("KLEADER_TERM_")]) == 2
    assert seen["env"]["KLEADER_NAME"] == "inner"
    assert {Path(target).name for number, target in seen["fds"].items() if int(number) > 2} == {"inner", "the.lock"}


@pytest.mark.parametrize("options", [(), ("--http=127.0.0.1:0",)], ids=["", "http"])
@pytest.mark.parametrize("kind", ["file", ""])
def test_only_the_lock_files_descriptor_is_inherited(
    candidate: Start, alone: Start, kind: str, options: tuple[str, ...]
) -> None:
    kleader = (candidate if kind else alone)(REPORTER, *options)
    assert kleader.wait() == 0
    fds = {int(number): target for number, target in json.loads(kleader.out)["fds"].items()}
    assert [Path(target).name for number, target in fds.items() if number > 2] == (["the.lock"] if kind else [])


def test_descriptors_of_the_user_are_passed_on_with_listen_pid_made_the_commands(candidate: Start) -> None:
    reading, writing = os.pipe()
    started = ["sh", "-c", 'exec 3<&0 9<&0; LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"', "-"]
    kleader = candidate(REPORTER, before=started, stdin=reading)
    assert kleader.wait() == 0
    seen = json.loads(kleader.out)
    assert "pipe:" in seen["fds"]["3"]
    assert seen["fds"]["3"] == seen["fds"]["9"]
    assert (seen["env"]["LISTEN_FDS"], seen["env"]["LISTEN_PID"]) == ("1", str(seen["pid"]))
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "0<&- 1>&-", "0<&- 1>&- 2>&-"])
def test_standard_descriptors_that_were_closed_stay_closed(candidate: Start, tmp_path: Path, closed: str) -> None:
    """And none of kleader's own files takes their numbers: a command that prints must not write into the lock file."""
    seen = tmp_path / "seen"
    report = REPORT.replace("print(", f"print(file=open({str(seen)!r}, 'w'), *[").replace("}))", "})])")
    kleader = candidate([*PYTHON, report], before=["sh", "-c", f'exec "$@" {closed}', "-"])
    assert kleader.wait() == 0
    left = {number for number in json.loads(seen.read_text())["fds"] if int(number) <= 2}
    assert left == {"0", "1", "2"} - set(re.findall(r"(\d)[<>]&-", closed))


STATES = {
    "as usual": "",
    "nohup": "trap '' HUP;",
    "in the background": "trap '' INT QUIT;",
    "CHLD and USR1 ignored": "trap '' CHLD USR1 WINCH TSTP;",
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("pid_1", [False, True], ids=["anywhere", "as PID 1"])
def test_the_command_has_the_signal_mask_and_dispositions_of_kleaders_parent(
    candidate: Start,
    processes: Processes,
    state: str,
    pid_1: bool,  # noqa: FBT001
) -> None:
    started = [*(IN_NAMESPACE if pid_1 else []), "sh", "-c", f'{STATES[state]} exec "$@"', "-"]
    # SIGPIPE and SIGXFSZ: the reporter is Python, and ignores them in both runs
    bare = processes.start([*started, *REPORTER])
    kleader = candidate(REPORTER, before=started)
    assert (bare.wait(), kleader.wait()) == (0, 0)
    assert json.loads(kleader.out)["status"] == json.loads(bare.out)["status"]


def test_a_blocked_signal_stays_blocked_for_the_command(processes: Processes, tmp_path: Path) -> None:
    block = (
        "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGRTMIN]);"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    bare = processes.start([*PYTHON, block, *REPORTER])
    kleader = processes.start(
        [*PYTHON, block, *KLEADER, "run", f"--lock=file:{tmp_path / 'l'}", "--name=t", "--", *REPORTER]
    )
    assert (bare.wait(), kleader.wait()) == (0, 0)
    assert json.loads(kleader.out)["status"] == json.loads(bare.out)["status"]


def test_sigpipe_ends_the_command_as_it_ends_any_program(candidate: Start) -> None:
    assert candidate(["sh", "-c", "kill -PIPE $$; exit 0"]).wait() == 128 + signal.SIGPIPE


def test_directory_umask_and_niceness_are_untouched(candidate: Start, tmp_path: Path) -> None:
    before = ["nice", "-n", "3", "sh", "-c", 'umask 027; exec "$@"', "-"]
    kleader = candidate(REPORTER, before=before)
    assert kleader.wait() == 0
    seen = json.loads(kleader.out)
    assert (seen["umask"], seen["nice"], seen["cwd"]) == (0o027, os.nice(0) + 3, str(Path.cwd()))


# --- logs


def test_json_logs_are_one_object_a_line_with_the_same_keys(candidate: Start, lock: Path) -> None:
    """A file lock has no namespace."""
    kleader = candidate(["true"], "--log-format=json", "-v", "--user=x", name="me")
    assert kleader.wait() == 0
    lines = [json.loads(line) for line in kleader.err.splitlines()]
    assert len(lines) >= 5
    assert "leave out --user" in lines[0]["message"]
    assert {(line["namespace"], line["name"]) for line in lines} == {(None, str(lock))}
    for line in lines:
        assert list(line)[:7] == ["time", "level", "message", "lock", "namespace", "name", "identity"]
        assert line["role"] in {"candidate", "leader", "stopping", "sweeping", "releasing", "ended"}


def test_text_logs_carry_no_control_characters(candidate: Start, lock: Path) -> None:
    """For any record of the last holder."""
    lock.write_text(json.dumps({"kleader": 1, "holderIdentity": "\x1b[2Jevil\nline\u202e" + "x" * 3000}))
    with lock.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        kleader = candidate(["true"], "--wait=100ms")
        assert kleader.wait() == 124
    assert "evil" in kleader.err
    assert not re.search(r"[^\n\x20-\x7e]", kleader.err)
    assert len(kleader.logged()) == len(kleader.err.splitlines())


def test_a_log_without_a_reader_delays_no_term(candidate: Start, tmp_path: Path) -> None:
    """Stderr is a full pipe whose reader sleeps: the command is started, stopped and killed all the same."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writing, True)
    flag = tmp_path / "runs"
    kleader = candidate(
        ["sh", "-c", f"trap '' TERM; echo $$ >{flag}; while :; do sleep 0.01; done"],
        "--stop-timeout=100ms", "-v", stderr=writing,
    )  # fmt: skip
    wait_until(lambda: flag.exists() and flag.read_text(), "the command")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 128 + signal.SIGKILL
    wait_gone(int(flag.read_text()))
    os.close(reading)
    os.close(writing)


def test_a_log_whose_reader_has_closed_ends_no_run(candidate: Start, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    kleader = candidate(["sh", "-c", "exit 5"], stderr=writing)
    os.close(writing)
    assert kleader.wait() == 5


# --- memory


def test_a_waiting_candidate_for_the_file_lock_is_small(candidate: Start, lock: Path) -> None:
    """Both processes together, PSS."""
    lock.write_text("")
    with lock.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        kleader = candidate(["true"])
        wait_until(lambda: Path(f"/proc/{kleader.pid}/cmdline").read_bytes().count(b"supervise") == 1, "the supervisor")
        wait_until(lambda: children(kleader.pid), "the guard")
        sizes = [pss(pid) for pid in (kleader.pid, *children(kleader.pid))]
    print("PSS of supervisor and guard, kB:", *sizes)  # noqa: T201
    assert sum(sizes) <= 32_000
    assert alive(kleader.pid)


def children(pid: int) -> list[int]:
    """Its children now."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def pss(pid: int) -> int:
    """Proportional set size in kB."""
    return int(re.findall(r"^Pss: +(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)[0])


# --- ps


def test_ps_shows_the_lock_of_each_process(candidate: Start, processes: Processes, lock: Path) -> None:
    """The supervisor, its guard, and an elector, which cannot reach its API server."""
    first = candidate(["sleep", "600"])
    assert all(f" file:{lock} -- sleep 600" in command_line(pid) for pid in (file_elector_of(first), first.pid))
    second = processes.start([*KLEADER, "run", "--name=jobs", "-s", "https://127.0.0.1:1", "--", "true"])
    wait_until(lambda: "supervise" in command_line(second.pid), "the supervisor")
    assert " lease/jobs -- true" in command_line(second.pid)
    wait_until(lambda: any(command_line(pid).endswith(" lease/jobs") for pid in children(second.pid)), "the elector")


def command_line(pid: int) -> str:
    """Its words."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").replace("\0", " ")


def test_the_supervisor_imports_no_large_module() -> None:
    packages = str(Path(kleader.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {packages!r}); import kleader.launch, kleader.supervisor.main;"
    code += "import kleader.elector.launchers, kleader.elector.file_elector; print(*sys.modules)"
    found = subprocess.run([*PYTHON, code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"dataclasses", "logging", "asyncio", "pathlib", "inspect", "ast", "subprocess", "ssl"} & set(found)


NO_DEV_FD = """
mount -t tmpfs none /mnt && touch /mnt/null && mount --bind /dev/null /mnt/null && mount --rbind /mnt /dev && exec "$@"
"""
IN_SMALL_IMAGE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c", NO_DEV_FD, "-"]


def test_an_image_needs_no_dev_but_null(candidate: Start) -> None:
    kleader = candidate(["sh", "-c", "[ ! -e /dev/fd ] && exit 3"], before=IN_SMALL_IMAGE)
    assert kleader.wait() == 3, kleader.err


def test_a_client_certificate_is_used_in_an_image_without_dev_fd(processes: Processes) -> None:
    made = trustme.CA().issue_cert("a-user.example")
    chain, key = b"".join(each.bytes() for each in made.cert_chain_pems), made.private_key_pem.bytes()
    access = {"server": "https://127.0.0.1:1", "cert": chain.decode(), "key": key.decode()}
    code = f"import os; from kleader.kube import tls; tls.server_context({access}); print(os.path.exists('/dev/fd'))"
    used = processes.start([*IN_SMALL_IMAGE, sys.executable, "-c", code])
    assert used.wait() == 0, used.err
    assert used.out == "False\n"


def test_a_proc_of_another_namespace_is_refused(processes: Processes, tmp_path: Path) -> None:
    """No tree can be proven empty in a /proc that shows other processes: no command starts."""
    started = tmp_path / "started"
    lock = ["--lock", f"file:{tmp_path}/the.lock", "--name", "job"]
    run = processes.start(["unshare", "--pid", "--fork", *KLEADER, "run", *lock, "--", "touch", str(started)])
    assert run.wait() == 125
    assert "/proc does not show this PID namespace: mount it" in run.err
    assert not started.exists()
