"""The exit statuses of kleader; the command's own status passes through. The source is SPEC's table, and the manual."""

from __future__ import annotations

NOT_DONE = 1  # the answer is no: there is no such lock, it does not lead, it was not handed over, a check failed
NOT_ACQUIRED = 124  # --wait or --timeout has passed; timeout(1)'s status
FAILED = 125  # kleader itself failed: no cluster, no permission, no answer in time
NOT_EXECUTABLE = 126  # the command cannot be executed; the shell's status
NOT_FOUND = 127  # the command was not found; the shell's status
SIGNALLED = 128  # and the number of the signal that ended the command; the shell's status
LEADERSHIP_LOST = 255  # glog.Fatalf's status, with which kube-controller-manager exits
