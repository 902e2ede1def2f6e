"""The guards of what runs beside the command, and before it: the standby, hooks, and their keepers."""

from __future__ import annotations

from tests.mutation.mutant import Mutant

MUTANTS = [
    Mutant(
        "a hook's processes are no part of the command's tree",
        "supervisor/hooks.py",
        "        self._tree.spared |= {each.pid for each in self._asides if each.pid}\n",
        "",
        "process/test_hooks.py::test_the_sweep_of_the_command_leaves_it_alone",
    ),
    Mutant(
        "a hook's orphans stay with its keeper (PR_SET_CHILD_SUBREAPER)",
        "supervisor/aside.py",
        "        platform.adopt_orphans()\n",
        "",
        "process/test_hooks.py::test_the_sweep_of_the_command_leaves_it_alone",
    ),
    Mutant(
        "what a hook leaves is killed",
        "supervisor/aside.py",
        "            Sweep(Tree(), Deadline(None, 0.0), self._log).blindly()\n",
        "            pass\n",
        "process/test_hooks.py::test_what_it_leaves_is_killed_when_it_ends",
    ),
    Mutant(
        "the standby is asked to stop, then killed, before the command starts",
        "supervisor/life.py",
        "State.GIVING_WAY if self._plan.standby else State.LEADING",
        "State.LEADING",
        "process/test_standby.py::test_it_is_dead_before_the_leading_command_starts[('--ignore-term',)]",
    ),
    Mutant(
        "that nothing of the standby is left is proven by a sweep",
        "supervisor/life.py",
        "        if not self._standby.pid:\n            self._begin_sweep(now)\n",
        "        if not self._standby.pid:\n            self._to(State.SWEEPING)\n            self._swept(now)\n",
        "process/test_standby.py::test_whoever_of_it_is_stopped_or_killed_before[9-keeper]",
    ),
    Mutant(
        "what keeps a standby is woken up by its supervisor's death (PR_SET_PDEATHSIG)",
        "supervisor/aside.py",
        "        platform.die_with_parent(signal.SIGCONT)",
        "        pass",
        "process/test_standby.py::test_it_dies_with_a_supervisor_that_is_killed_while_it_waits[stopped]",
    ),
    Mutant(
        "a term that ends while the standby gives way starts nothing",
        "supervisor/life.py",
        "            if not (term.over or term.quit):\n                self._to(State.LEADING)",
        "            if True:\n                self._to(State.LEADING)",
        "process/test_standby.py::test_an_end_while_it_gives_way_starts_nothing[TERM-143]",
    ),
    Mutant(
        "when the standby is proven dead the deadline comes before the start",
        "supervisor/life.py",
        "                self._to(State.LEADING)\n                term.start_at = now\n                return\n",
        "                self._to(State.LEADING)\n                self._start(now)\n                return\n",
        "process/test_standby.py::test_what_a_standby_left_that_dies_after_stop_at_lets_nothing_start",
    ),
    Mutant(
        "where a keeper's end is the standby's, that is proven",
        "supervisor/life.py",
        "            if self._state is State.GIVING_WAY:\n                self._begin_sweep(now)\n",
        "            if self._state is State.GIVING_WAY:\n"
        "                self._to(State.SWEEPING)\n                self._swept(now)\n",
        "process/test_standby.py::test_it_is_dead_when_its_keeper_is_killed_while_it_gives_way",
    ),
    Mutant(
        "a standby that does not die costs the lock",
        "supervisor/life.py",
        "        if now >= term.way_by and not self.over:\n            self._block(now)\n",
        "",
        "process/test_standby.py::test_a_standby_that_does_not_die_costs_the_lock_and_the_command_is_not_started",
    ),
    Mutant(
        "what a keeper keeps dies with it",
        "supervisor/aside.py",
        "                platform.die_with_parent(signal.SIGKILL)\n",
        "",
        "process/test_standby.py::test_it_dies_with_its_keeper_though_nobody_can_sweep",
    ),
    Mutant(
        "neither hook nor standby has the lock",
        "supervisor/aside.py",
        "        platform.close_all_but({0, 1, 2, link, *self._log.descriptors})\n",
        "",
        "process/test_hooks.py::test_no_keeper_has_the_lock",
    ),
]
