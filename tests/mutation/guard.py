"""One row of the table of guards: where a guard stands, what takes it away, and the test that then fails.

A guard is found by its module, its function and a pattern of code. Layout, comments and the names of local variables
are free in a pattern: a variable that is renamed, or a line that moves within its function, breaks no row.
"""

from __future__ import annotations

import ast
import builtins
import copy
import importlib
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support import election

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FunctionType

ROOT = Path(__file__).parents[2]
_UNCOUNTED = SimpleNamespace(count=lambda *_: None)  # trials of a mutant are nobody's trials
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Guard(NamedTuple):
    """``keeps``: what the code keeps. Where ``function`` says ``old``, ``new`` takes it away, and ``test`` fails."""

    keeps: str
    function: (
        str  # "election.renew:renewed", "locks.lease:LeaseLock.write"; "supervisor.deadline:" for the module itself
    )
    old: str  # an expression or statements, found there once; `...` is any expression, or any statements
    new: str  # "" for no statement at all; its first `...` is what the first `...` of its sort in ``old`` was
    test: str  # below tests/, as pytest names it; or as it is called, "unit/test_x.py::test_y(1)": it runs in memory
    schedule: tuple[str, int] | None = None  # kind and seed of one on which the simulator fails without it
    rare: str = ""  # or why there is none
    beside: str = ""  # what another guard keeps that covers for this one in the simulator: both are taken away

    @property
    def file(self) -> str:
        """Below kleader/."""
        return _file(self.function.partition(":")[0])

    @property
    def in_memory(self) -> bool:
        """Whether its test needs no fixture, so that one process can take away one such guard after another."""
        return self.test.endswith(")")

    def run_test(self) -> None:
        """Call the test of a guard in memory, with its module's names, tests.support.election's and `uncounted`."""
        path, _, call = self.test.partition("::")
        room = importlib.import_module(f"tests.{path[: -len('.py')].replace('/', '.')}")
        eval(call, {"uncounted": _UNCOUNTED, **vars(election), **vars(room)})  # noqa: S307 - of this table

    def applied(self, root: Path = ROOT) -> str:
        """The module's text without the guard. ValueError where the row is out of date."""
        return ast.unparse(self._without((root / "kleader" / self.file).read_text()))

    def check(self) -> None:
        """ValueError where the row is out of date."""
        module = _tree(self.file)
        with self._named():
            _found_once(module, self.function.partition(":")[2], self.old, self.new)

    @contextmanager
    def taken_away(self) -> Iterator[None]:
        """Have this process run the function without it."""
        module, _, name = self.function.partition(":")
        function = _find(f"kleader.{module}", name)
        mutated = compile(self._without(_source(self.file)), self.file, "exec")
        code = _code(mutated, name.split("."))
        saved, function.__code__ = function.__code__, code
        try:
            yield
        finally:
            function.__code__ = saved

    def _without(self, source: str) -> ast.Module:
        module = ast.parse(source)
        with self._named():
            replace(module, self.function.partition(":")[2], self.old, self.new)
        return module

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            msg = f"{self.keeps}: kleader/{self.file}: {error}"
            raise ValueError(msg) from None


def replace(module: ast.Module, function: str, old: str, new: str) -> None:
    """Put ``new`` in the place of ``old`` there. ValueError where that is not found once."""
    match, substitute = _found_once(module, function, old, new)
    made = _Substitute(match).visit(ast.Module(copy.deepcopy(substitute), []))
    for node in ast.walk(made):
        if isinstance(node, (ast.expr, ast.stmt)):
            ast.copy_location(node, match.first)
    match.put(made.body)
    ast.fix_missing_locations(module)


def _found_once(module: ast.Module, function: str, old: str, new: str) -> tuple[_Match, list[ast.stmt]]:
    """Where ``old`` is, and ``new``."""
    scope = _scope(module, function)
    pattern, substitute = parse(old, new)
    fixed = fixed_names(module)
    is_expression = len(substitute) == 1 and isinstance(substitute[0], ast.Expr)
    matches = list(_matches(scope, pattern, fixed, whole=not is_expression))
    if len(matches) != 1:
        msg = f"{function or 'the module'} says {len(matches)} times, not once: {old!r}"
        raise ValueError(msg)
    read, bound = _names(substitute)
    if unknown := read - bound - fixed.union(*_names(pattern)):
        msg = f"{new!r} reads {', '.join(unknown)}, which is no global variable and is not in {old!r}"
        raise ValueError(msg)
    return matches[0], substitute


def _names(statements: list[ast.stmt]) -> tuple[set[str], set[str]]:
    """The names that they read, and those that they bind."""
    nodes = [node for each in statements for node in ast.walk(each)]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return read, bound | {node.arg for node in nodes if isinstance(node, ast.arg)}


def parse(old: str, new: str) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Both as statements; "" is none."""
    return ast.parse(old).body, ast.parse(new).body


class _Match:
    """One place that fits. ``names``: of the pattern, to those that stand here."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.holes: list[ast.AST] = []  # expressions
        self.bodies: list[list[Any]] = []  # statements, where `...` stands for a statement
        self.first: ast.AST = ast.Pass()
        self._holder: Any = None
        self._where: tuple[str, int | None, int] = ("", None, 0)

    def found(self, holder: ast.AST, field: str, at: int | None, count: int, first: ast.AST) -> _Match:
        self._holder, self._where, self.first = holder, (field, at, count), first
        return self

    def put(self, statements: list[ast.stmt]) -> None:
        """These in its place; their value, where it is an expression."""
        field, at, count = self._where
        made: list[Any] = list(statements)
        if not count:
            made, count = [each.value for each in statements if isinstance(each, ast.Expr)], 1
        if at is None:
            setattr(self._holder, field, made[0])
            return
        there = getattr(self._holder, field)
        there[at : at + count] = made
        if not there and field == "body":
            there.append(ast.Pass())

    def fits(self, pattern: Any, node: Any, fixed: set[str]) -> bool:  # noqa: ANN401, PLR0911 - any part of a tree
        """Whether this part of the code is this part of the pattern."""
        if _is_hole(pattern) and isinstance(node, ast.expr):
            self.holes.append(node)
            return True
        if isinstance(pattern, list) and isinstance(node, list):
            if len(pattern) == 1 and isinstance(pattern[0], ast.Expr) and _is_hole(pattern[0].value):
                self.bodies.append(node)
                return True
            return len(pattern) == len(node) and all(
                self.fits(one, other, fixed) for one, other in zip(pattern, node, strict=True)
            )
        if type(pattern) is not type(node):
            return False
        if isinstance(pattern, ast.Name):
            return self._same(pattern.id, node.id, fixed)
        if isinstance(pattern, ast.arg):
            return self._same(pattern.arg, node.arg, fixed)
        if isinstance(pattern, ast.AST):
            fields = [name for name in pattern._fields if name not in {"ctx", "kind", "type_comment", "type_ignores"}]
            return all(self.fits(getattr(pattern, each, None), getattr(node, each, None), fixed) for each in fields)
        return bool(pattern == node)

    def _same(self, name: str, here: str, fixed: set[str]) -> bool:
        if name in fixed or here in fixed:
            return name == here
        if name in self.names:
            return self.names[name] == here
        if here in self.names.values():
            return False
        self.names[name] = here
        return True


class _Substitute(ast.NodeTransformer):
    """Names as they are here, and what the holes hold."""

    def __init__(self, match: _Match) -> None:
        self._match, self._holes, self._bodies = match, list(match.holes), list(match.bodies)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """Likewise."""
        return ast.Name(self._match.names.get(node.id, node.id), node.ctx)

    def visit_Expr(self, node: ast.Expr) -> Any:  # noqa: ANN401 - ast's
        """A statement, or a hole for several."""
        if _is_hole(node.value) and self._bodies:
            return self._bodies.pop(0)
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """A constant, or a hole."""
        return self._holes.pop(0) if _is_hole(node) and self._holes else node


def _matches(scope: ast.AST, pattern: list[ast.stmt], fixed: set[str], *, whole: bool) -> Iterator[_Match]:
    """Each place below ``scope`` that fits: statements; or an expression, unless statements take its place."""
    lone = pattern[0].value if len(pattern) == 1 and isinstance(pattern[0], ast.Expr) and not whole else None
    for node in ast.walk(scope):
        for field, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            for at, child in enumerate(children):
                place = at if isinstance(value, list) else None
                match = _Match()
                if lone:
                    if isinstance(child, ast.expr) and match.fits(lone, child, fixed):
                        yield match.found(node, field, place, 0, child)
                elif isinstance(child, ast.stmt) and match.fits(pattern, value[at : at + len(pattern)], fixed):
                    yield match.found(node, field, place, len(pattern), child)


def _is_hole(node: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _scope(module: ast.Module, function: str) -> ast.AST:
    """The function, class or module of this name. ValueError where there is none."""
    found: Any = module
    for name in filter(None, function.split(".")):
        named = [each for each in found.body if isinstance(each, (*_FUNCTIONS, ast.ClassDef)) and each.name == name]
        if not named:
            msg = f"there is no {function}"
            raise ValueError(msg)
        found = named[-1]
    return found  # type: ignore[no-any-return]


@cache
def fixed_names(module: ast.Module) -> set[str]:
    """The names that stand for themselves in a pattern: the module's own, Python's, and self."""
    names = {*vars(builtins), "self"}
    left = list(ast.iter_child_nodes(module))
    while left:
        node = left.pop()
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            names.add(node.name)
            continue
        if isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        left += ast.iter_child_nodes(node)
    return names


@cache
def _source(file: str) -> str:
    return (ROOT / "kleader" / file).read_text()


@cache
def _tree(file: str) -> ast.Module:
    """To read only."""
    return ast.parse(_source(file))


@cache
def _file(module: str) -> str:
    path = module.replace(".", "/")
    return f"{path}/__init__.py" if (ROOT / "kleader" / path).is_dir() else f"{path}.py"


def _find(module: str, name: str) -> FunctionType:
    """The function itself, below its decorators."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = found.__dict__[part]
    found = getattr(found, "__func__", found)
    found = getattr(found, "func", getattr(found, "fget", found))
    while hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    return found  # type: ignore[no-any-return]


def _code(code: CodeType, names: list[str]) -> CodeType:
    for name in names:
        code = [each for each in code.co_consts if getattr(each, "co_name", "") == name][-1]
    return code
