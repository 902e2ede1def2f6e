"""The guards that are the operating system's, and how it is asked about processes."""

from __future__ import annotations

from tests.mutation.guard import Guard

MUTANTS = [
    Guard(
        "the clock counts the machine's sleep (CLOCK_BOOTTIME)",
        "system.linux:clock",
        "time.CLOCK_BOOTTIME",
        "time.CLOCK_MONOTONIC",
        "unit/test_clock.py::test_the_clock_counts_a_suspend",
    ),
    Guard(
        "the supervisor's timer counts the machine's sleep",
        "system.linux:Timer.__init__",
        "_CLOCK_BOOTTIME",
        "1",
        "unit/test_clock.py::test_a_timer_runs_on_the_clock",
    ),
    Guard(
        "the kernel's timer counts the machine's sleep",
        "system.linux:KillTimer.__init__",
        "_CLOCK_BOOTTIME",
        "1",
        "unit/test_clock.py::test_the_kernels_kill_timer_runs_on_the_clock",
    ),
    Guard(
        "an instant in the past does not disarm a timer",
        "system.linux:_at",
        "max(1, int(instant * _NANO))",
        "int(instant * _NANO)",
        "unit/test_clock.py::test_the_kernels_kill_timer_runs_on_the_clock",
    ),
    Guard(
        "a flood of signals delays no deadline",
        "system.linux:",
        "0.005",
        "5",
        "unit/test_signals.py::test_a_read_ends_after_five_milliseconds_though_more_signals_wait",
    ),
    Guard(
        "a signal that is not for the command is not forwarded",
        "supervisor.signals:wanted",
        "each.number not in _OWN and (not (each.number == signal.SIGPIPE and each.sender == me))",
        "not (each.number == signal.SIGPIPE and each.sender == me)",
        "process/test_status.py::test_every_catchable_signal_except_chld_ttin_and_ttou_reaches_the_command",
    ),
    Guard(
        "a /proc of another PID namespace is refused",
        "system.procfs:myself",
        "process(os.getpid()) if shown == str(os.getpid()) else None",
        "process(os.getpid())",
        "process/test_command_environment.py::test_a_proc_of_another_namespace_is_refused",
    ),
    Guard(
        "a shortage of descriptors is no proof that a process is dead",
        "system.procfs:process",
        "if error.errno in _NOT_SHOWN:\n    return None\nraise",
        "return None",
        "unit/test_procfs.py::test_a_scan_without_descriptors_does_not_prove_a_tree_empty",
    ),
    Guard(
        "a shortage of descriptors is no proof that there are no children",
        "system.procfs:_of_thread",
        "if error.errno not in _NOT_SHOWN:\n    raise",
        "pass",
        "unit/test_procfs.py::test_a_scan_without_descriptors_does_not_prove_a_tree_empty",
    ),
    Guard(
        "a shortage of descriptors is no proof that there are no descendants",
        "system.procfs:_of_all_threads",
        "if error.errno in _NOT_SHOWN:\n    return []\nraise",
        "return []",
        "unit/test_procfs.py::test_a_scan_without_descriptors_does_not_prove_a_tree_empty",
    ),
    Guard(
        "a signal is sent to this process only, not to a later one with its pid",
        "system.procfs:kill",
        "_same(target) and _send(lambda: signal.pidfd_send_signal(fd, signum))",
        "_send(lambda: signal.pidfd_send_signal(fd, signum))",
        "unit/test_procfs.py::test_a_reused_pid_is_not_taken_for_the_earlier_process",
    ),
    Guard(
        "a pid that another process has by now is not followed",
        "system.procfs:below",
        "each and each.parent in seen and (each.parent not in but)",
        "each",
        "unit/test_procfs.py::test_a_reused_pid_is_not_taken_for_the_earlier_process",
    ),
    Guard(
        "children of all threads are found",
        "system.procfs:_family",
        "each is None or each.threads == 1",
        "True",
        "unit/test_procfs.py::test_a_descendant_is_found_whichever_thread_forked_it",
    ),
]
