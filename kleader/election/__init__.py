"""Decides who leads. Pure: no input or output, no clock and no randomness of its own.

Why no two commands run at once, in six lines. Each names the function that keeps it, and the guard whose removal a
test notices (``tests/mutation``); ``tests/unit/test_argument.py`` finds each of them. "Rule 1" to "rule 9" in this
package are the rules of the lock delay, ``lock_delay.py``: how line 2 is kept, and when a candidate need
not wait, because what it wrote over (a release, above all) proves that every earlier command is dead.

1. A term counts from before its renewal was sent.
   ``election/renew.py: count``, guard "rule 4: a term counts from before its request"
2. Every other candidate counts from after it observed the lock.
   ``election/lock_delay.py: raise_safe_at``, guard "rule 1: another candidate's record counts from after its answer"
3. R + G + K + S <= D: the command is dead before the lease can have run out by any clock whose rate S allows for.
   ``election/timing.py: choose``, guard "timings that cannot be safe are refused"
4. Three actors that share no code kill at the deadline: the supervisor, the elector, the kernel's timer.
   ``supervisor/deadline.py: Deadline``, guard "the kernel's timer kills a supervisor that sleeps over kill_at"
   ``elector/watchdog.py: Watchdog``, guard "a supervisor that stays silent is killed"
5. A release is written only after the tree is proven empty, by a candidate that had the right to start, over its own
   record, and, where the lock expires, repeated only over the version that it was first sent over.
   ``election/release.py: close``, guard "rule 7: a candidate that may not start releases nothing"
   ``election/release.py: get_done``, guard "rule 7: a release without an answer is repeated over the same version only"
   ``supervisor/leadership.py: Leadership``, guard "the tree is not reported empty before that is proven"
6. Every write is compare-and-swap on the version and the uid that were observed, or a creation of what was observed to
   be missing, and counts only if its answer shows it.
   ``locks/object_lock.py: ObjectLock``, guard "an update names the version that the decision saw"
   ``election/step_function.py: step``, guard "a write counts only if its answer shows it"
"""
