"""Runs the command while the elector holds the lock: signals, terminal, tree, deadlines, exit status.

Imports nothing that talks to a network. ``states.py`` has the states and the transitions, ``leadership.py`` what
happens in a term, ``state_machine.py`` what happens before and after, ``main.py`` the loop.

The deadlines. The elector sends stop_at and kill_at when it has acquired or renewed the lock; ``deadline.py`` keeps
them. Three act on them, each without the others: at stop_at the supervisor ends the term, and at kill_at, or a kill
budget earlier while there is no elector, it kills (``leadership.py: _check_end_of_term``); a moment later
``elector/watchdog.py`` kills in the place of a supervisor that does not answer; then the kernel's timer kills a
supervisor that is stopped or stuck.

From one command to the next. The main process ends: KILLING, until ``ProcessTree.is_empty`` proves that no process of
the tree is left. RELEASING: the elector gets ``AllProcessesExited`` and releases the lock. Another candidate's elector
sees that, acquires the lock, and sends ``Acquired``; LEADING: its supervisor forks the command, sends ``Started``, lets
the process through its exec barrier, and the process checks the clock once more before its exec (``child.py: become``).
"""
