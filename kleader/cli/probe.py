"""What ``kleader is-leader`` answers. Probes run it often, so it reads their plain command lines without click."""

from __future__ import annotations

import os

from kleader.cli import COMPLETION_VARIABLE
from kleader.cli.console import fail, print_line
from kleader.exits import FAILED, NOT_DONE
from kleader.ipc import status_socket

_ANSWER_SECONDS = 1.0

OPTIONS = {"name": "--name", "namespace": "-n --namespace"}  # by the argument of `answer` that each gives
_ARGUMENTS = {spelling: argument for argument, spellings in OPTIONS.items() for spelling in spellings.split()}


def plain_options(words: list[str]) -> dict[str, str] | None:
    """The arguments of `answer`, as click would find them; None for what is left to click, or is another command.

    Left to click are help, completion, options by variables, and whatever is not one of the two options with a value.
    """
    variables = any(name.startswith(("KLEADER_IS_LEADER_", COMPLETION_VARIABLE)) for name in os.environ)
    if words[:1] != ["is-leader"] or variables:
        return None
    found: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        spelling, equals, value = word.partition("=")
        argument, value = _ARGUMENTS.get(spelling), value if equals else next(rest, "")
        if not argument or value[:1] in {"", "="}:
            return None
        found[argument] = value
    return found


def answer(name: str | None = None, namespace: str | None = None) -> int:
    """Print the role of the kleader that has this lock here; the exit status. SystemExit: a lock must be named, say."""
    if name is None and (name := os.environ.get("KLEADER_NAME") or None):
        namespace = namespace or os.environ.get("KLEADER_NAMESPACE") or None
    if name is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
        fail("which lock? give --name: outside a Pod, several locks may run on this host", FAILED)
    received, silent, untrusted_users = status_socket.ask(name, _ANSWER_SECONDS)
    matching = [answer for answer in received if name in {None, answer.name} and namespace in {None, answer.namespace}]
    locks = {answer.lock for answer in matching}
    if len(locks) > 1 or len({status_socket.label(answer.name) for answer in matching} | silent) > 1:
        found = ", ".join(sorted(locks) + [f"one of {label} that does not answer" for label in sorted(silent)])
        fail(f"more than one lock runs on this host: {found}: choose one with --name (and -n)", FAILED)
    leads = any(answer.leads for answer in matching)
    if silent and not leads:
        fail("the kleader on this host does not answer: it is stopped, or the machine is overloaded", FAILED)
    if not matching:
        lock = f" of the lock {name}" if name else ""
        others = "".join(f"; the sockets of user {user} are not trusted" for user in sorted(untrusted_users))
        hint = f"if it runs in another container, share a directory and set {status_socket.RUNTIME_DIR}"
        fail(f"no kleader{lock} runs here{others}: {hint}", FAILED)
    role = "leader" if leads else matching[0].role
    print_line("leader, but its command does not run" if role == "leader" and not leads else role)
    return 0 if leads else NOT_DONE
