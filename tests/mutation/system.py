"""The guards that are the operating system's, and how it is asked about processes."""

from __future__ import annotations

from tests.mutation.mutant import Mutant

MUTANTS = [
    Mutant(
        "the clock counts the machine's sleep (CLOCK_BOOTTIME)",
        "platform/linux.py",
        "    return time.clock_gettime(time.CLOCK_BOOTTIME)\n",
        "    return time.clock_gettime(time.CLOCK_MONOTONIC)\n",
        "unit/test_clock.py::test_it_has_counted_the_sleep",
    ),
    Mutant(
        "the supervisor's timer counts the machine's sleep",
        "platform/linux.py",
        "timerfd_create(_CLOCK_BOOTTIME,",
        "timerfd_create(1,",
        "unit/test_clock.py::test_a_timer_rings_by_it",
    ),
    Mutant(
        "the kernel's guard counts the machine's sleep",
        "platform/linux.py",
        "timer_create(_CLOCK_BOOTTIME,",
        "timer_create(1,",
        "unit/test_clock.py::test_the_kernels_guard_strikes_by_it",
    ),
    Mutant(
        "an instant before all others disarms no timer",
        "platform/linux.py",
        "max(1, int(instant * _NANO))",
        "int(instant * _NANO)",
        "unit/test_clock.py::test_the_kernels_guard_strikes_by_it",
    ),
    Mutant(
        "a flood of signals keeps no deadline waiting",
        "platform/linux.py",
        "_LONGEST_READ = 0.005",
        "_LONGEST_READ = 5",
        "unit/test_signals.py::test_a_read_ends_after_five_milliseconds_though_more_signals_wait",
    ),
    Mutant(
        "a signal that is not for the command is not forwarded",
        "supervisor/signals.py",
        "if each.number not in _OURS and",
        "if",
        "process/test_status.py::test_every_catchable_signal_reaches_the_command_but_chld_ttin_and_ttou",
    ),
    Mutant(
        "a /proc of another PID namespace is refused",
        "platform/procfs.py",
        " if shown == str(os.getpid()) else None",
        "",
        "process/test_surroundings.py::test_a_proc_of_another_namespace_is_refused",
    ),
    Mutant(
        "a shortage of descriptors is no proof that a process is dead",
        "platform/procfs.py",
        "        if error.errno in _NOT_SHOWN:\n            return None\n        raise\n",
        "        return None\n",
        "unit/test_procfs.py::test_a_shortage_of_descriptors_is_no_proof_that_nobody_is_there",
    ),
    Mutant(
        "nor that there are no children",
        "platform/procfs.py",
        "        if error.errno not in _NOT_SHOWN:\n            raise\n",
        "        pass\n",
        "unit/test_procfs.py::test_a_shortage_of_descriptors_is_no_proof_that_nobody_is_there",
    ),
    Mutant(
        "nor that there is nobody below",
        "platform/procfs.py",
        "        if error.errno in _NOT_SHOWN:\n            return []\n        raise\n",
        "        return []\n",
        "unit/test_procfs.py::test_a_shortage_of_descriptors_is_no_proof_that_nobody_is_there",
    ),
    Mutant(
        "a signal is sent to this very process, not to one that has its pid by now",
        "platform/procfs.py",
        "        return _same(target) and _send(lambda: signal.pidfd_send_signal(fd, signum))\n",
        "        return _send(lambda: signal.pidfd_send_signal(fd, signum))\n",
        "unit/test_procfs.py::test_a_pid_that_is_another_processs_by_now_leads_nowhere",
    ),
    Mutant(
        "a pid that is another process's by now leads nowhere",
        "platform/procfs.py",
        "        if each and each.parent in seen and each.parent not in but:",
        "        if each:",
        "unit/test_procfs.py::test_a_pid_that_is_another_processs_by_now_leads_nowhere",
    ),
    Mutant(
        "children of all threads are found",
        "platform/procfs.py",
        "    if each is None or each.threads == 1:\n",
        "    if True:\n",
        "unit/test_procfs.py::test_whoever_is_below_is_found_whichever_thread_forked_it",
    ),
]
