"""Imports point one way: cli → supervisor → ipc ← elector → locks → kube → election."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]

# Each room, and the rooms it may import; itself and the bare package, which imports nothing, go without saying.
ARROWS = {
    "": "",
    "__main__": "cli",
    "backoff": "",
    "cli": "election exits ipc kube launch locks log observe preload system supervisor",
    "elector": "backoff election exits ipc kube locks log procs system",
    "election": "exits",
    "exits": "",
    "exporter": "ipc log system",
    "ipc": "election exits log system",
    "launch": "elector exits exporter ipc kube locks log preload system supervisor",
    "kube": "backoff election log system",
    "locks": "election kube log system",
    "log": "system",
    "preload": "",
    "observe": "backoff election ipc kube locks log system",
    "system": "log",
    "procs": "log system",
    "supervisor": "backoff election exits ipc log procs system",
}
# Each package from elsewhere, and the modules that may import it, by the beginning of their names.
PACKAGES = {
    "click": ("kleader.cli",),
    "async_timeout": ("kleader.kube",),
    "h11": ("kleader.elector", "kleader.exporter", "kleader.kube"),
    "certifi": ("kleader.kube.credential_plugins",),
    "kubernetes": ("kleader.kube.credential_plugins",),
    "prometheus_client": ("kleader.exporter.metrics",),
    "psutil": ("kleader.system.portable",),
    "yaml": ("kleader.kube.kubeconfig", "kleader.cli.yaml_output"),
}
# The standard library, where it is not open to all: only values in election, nothing heavy in the lean processes.
VALUES = (
    "__future__ collections dataclasses datetime decimal enum fractions functools itertools json math operator re "
    "string types typing"
)
IMPURE_CALLS = "date.today datetime.now datetime.today datetime.utcnow input open print __import__"
LEAN = "backoff ipc launch log preload procs supervisor system"
HEAVY = "asyncio concurrent email http importlib inspect logging multiprocessing ssl urllib"
# The composition root belongs to every lean process: what only one of them needs is imported where that one starts.
LAZY = {"launch": "elector exporter supervisor"}


def room_of(name: str) -> str:
    """The room of a dotted name under kleader; a value of the package itself has none."""
    second = name.split(".")[1:2]
    return second[0] if second and second[0] in ARROWS else ""


def imports(module: str, tree: ast.AST, *, package: bool) -> Iterator[tuple[ast.stmt, str]]:
    """Every import, also inside functions and for types alone, with the absolute dotted name of what it binds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")[: (1 if package else 0) - node.level or None] if node.level else []
            origin = ".".join([*parents, *filter(None, [node.module])])
            yield from ((node, f"{origin}.{alias.name}") for alias in node.names)


def refusal(module: str, name: str, *, at_start: bool) -> str:
    """Why `module` may not import `name`; empty where it may."""
    room, target, top = room_of(module), room_of(name), name.partition(".")[0]
    own = top == "kleader"
    rules = {
        f"every process pays for {top}": module == "kleader",
        f"no arrow from {room} to {target}": own and target not in {"", room, *ARROWS[room].split()},
        f"only where the {target} starts": own and at_start and target in LAZY.get(room, "").split(),
        f"{top} is not for {room}": top in PACKAGES and not module.startswith(PACKAGES[top]),
        f"{top} is no dependency": not own and top not in PACKAGES and top not in sys.stdlib_module_names,
        f"election has no use for {top}": room == "election" and not own and top not in VALUES.split(),
        f"{top} is heavy": room in LEAN.split() and top in HEAVY.split(),
    }
    return ", ".join(why for why, broken in rules.items() if broken)


def violations(module: str, source: str, *, package: bool = False) -> list[str]:
    """Each line of a module's source that goes against the tables above."""
    tree = ast.parse(source)
    if module != "kleader" and module.split(".")[1] not in ARROWS:
        return [f"{module} is in no room"]
    found = [
        f"{module}:{node.lineno}: {why}"
        for node, name in imports(module, tree, package=package)
        if (why := refusal(module, name, at_start=node in tree.body))
    ]
    if room_of(module) == "election":
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        found += [
            f"{module}:{call.lineno}: {ast.unparse(call.func)} is not pure"
            for call in calls
            if ast.unparse(call.func) in IMPURE_CALLS.split()
        ]
    return found


def sources() -> Iterator[tuple[str, Path]]:
    """Every module of kleader by its dotted name."""
    for path in sorted((ROOT / "kleader").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def test_every_import_follows_the_arrows() -> None:
    found = [
        violation
        for module, path in sources()
        for violation in violations(module, path.read_text("utf-8"), package=path.name == "__init__.py")
    ]
    assert not found, "\n".join(found)


# Names that still occur twice; "main" is the entry point of its room. Never add one.
SHARED_NAMES = {"main"}


def test_a_module_s_name_occurs_once_in_the_tree() -> None:
    rooms = {module.rpartition(".")[2] for module, path in sources() if path.name == "__init__.py"}
    names = Counter([*rooms, *(path.stem for _, path in sources() if path.name != "__init__.py")])
    assert {name for name, count in names.items() if count > 1} == SHARED_NAMES


# Classes of one name: "Command" is also click's. kleader.system has each class for Linux and for elsewhere.
SHARED_CLASSES = {"Command"}


def test_a_class_s_name_occurs_once_in_the_tree() -> None:
    found = Counter(
        node.name
        for module, path in sources()
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and room_of(module) != "system"
    )
    assert {name for name, count in found.items() if count > 1} == SHARED_CLASSES


def import_graph() -> dict[str, set[str]]:
    """The modules of kleader, each with those that it imports at its start, inside functions or for types."""
    modules = dict(sources())
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        tree = ast.parse(path.read_text("utf-8"))
        named = [name for _, name in imports(module, tree, package=path.name == "__init__.py")]
        found = {name if name in modules else name.rpartition(".")[0] for name in named}
        graph[module] = found & modules.keys() - {module}
    return graph


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    TopologicalSorter(import_graph()).prepare()  # CycleError names the modules


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("kleader.election.step_function", "import time"),
        ("kleader.election.step_function", "def f():\n    from os import environ"),
        ("kleader.election.record", "from datetime import datetime\nx = datetime.now()"),
        ("kleader.election.timing", "from kleader import log"),
        ("kleader.election.timing", "from ..locks import base"),
        ("kleader.kube.credentials", "import kubernetes.client"),
        ("kleader.locks.base", "from kleader.elector import loop"),
        ("kleader.kube.client", "from kleader.locks import base"),
        ("kleader.ipc.plan", "from kleader.supervisor.child import spawn"),
        ("kleader.supervisor.main", "from kleader.elector import loop"),
        ("kleader.supervisor.main", "import click"),
        ("kleader.supervisor.status_report", "from kleader.exporter import health"),
        ("kleader.exporter.health", "import prometheus_client"),
        ("kleader.supervisor.main", "if x:\n    import asyncio.events"),
        ("kleader.elector.loop", "import click"),
        ("kleader.system.linux", "import psutil"),
        ("kleader.launch", "import kleader.supervisor.main"),
        ("kleader.cli.run", "import kubernetes"),
        ("kleader.cli.run", "import kleader.elector"),
        ("kleader.cli.run", "import requests"),
        ("kleader", "import json"),
        ("kleader.utils", ""),
    ],
)
def test_an_import_against_the_arrows_is_found(module: str, source: str) -> None:
    assert len(violations(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("kleader.launch", "def f():\n    from kleader.supervisor import main"),
        ("kleader.kube.credential_plugins", "from kubernetes import config"),
        ("kleader.election.step_function", "from .record import Record"),
        ("kleader.cli.run", "from kleader import __version__"),
    ],
)
def test_an_import_along_the_arrows_is_accepted(module: str, source: str) -> None:
    assert violations(module, source) == []


def test_the_supervisor_starts_without_anything_heavy() -> None:
    modules = [module for module, _ in sources() if room_of(module) == "supervisor"]
    assert modules, "no supervisor to try"
    code = "\n".join(
        ["import sys", f"sys.path.insert(0, {str(ROOT)!r})", *(f"import {module}" for module in modules)],
    )
    code += "\nprint(*sys.modules)"
    child = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    loaded = {name.split(".")[0] for name in child.stdout.split()}
    assert "kleader" in loaded
    heavy = loaded & {"asyncio", "click", "h11", "http", "kubernetes", "logging", "psutil", "ssl", "urllib3"}
    assert not heavy
