"""Installs kleader: PREFIX/lib/kleader-VERSION-HASH, and a link PREFIX/lib/kleader to it that is switched at once.

``python -m tools.install PREFIX [--destdir DIR] [--wheelhouse DIR]``; `make install` calls it. A tree is complete
before it has its name, and is never written to afterwards: a kleader that runs keeps its own version to its end.
PREFIX/share has copies of the files of the tree's share; `make install-data` (``--data``) makes these files alone.
"""

from __future__ import annotations

import argparse
import compileall
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tools.slim import slim

SOURCE = Path(__file__).parents[1]
REQUIREMENTS = ".requirements/run.txt"
PROGRAMS = {
    "kleader": "kleader.cli.main:main",
    "kubectl-leader": "kleader.cli.main:kubectl_leader",
    "kubectl_complete-leader": "kleader.cli.main:kubectl_complete",
}
COMPLETIONS = {
    "bash": "share/bash-completion/completions/kleader",
    "zsh": "share/zsh/site-functions/_kleader",
    "fish": "share/fish/vendor_completions.d/kleader.fish",
}
# The path is the tree's own, not the link's: what this process starts later is of the same version.
LAUNCHER = """import os, sys
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
from {module} import {function}
sys.exit({function}())
"""


def main() -> int:
    """Install; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prefix")
    parser.add_argument(
        "--destdir", default="", help="a directory that stands for / (of a package that is being built)"
    )
    parser.add_argument("--wheelhouse", default="", help="take the wheels from this directory, not from an index")
    parser.add_argument("--data", action="store_true", help="the pages and the completions alone; needs click")
    args = parser.parse_args()
    if not Path(args.prefix).is_absolute():
        return _failed(f"PREFIX must be an absolute path: {args.prefix}")
    if re.search(r"\s", python()) or len(python()) > 120:  # noqa: PLR2004 - execve(2): 255 bytes, 127 before Linux 5.1
        return _failed(f"the path of this Python does not fit into a #! line: {python()}")
    os.umask(0o022)
    root = Path(f"{args.destdir}{args.prefix}")
    try:
        if args.data:
            install_data(root)
        else:
            install(root, args.destdir, args.wheelhouse)
    except PermissionError as error:
        return _failed(f"cannot write to {error.filename}: sudo make install, or make install PREFIX=$HOME/.local")
    except subprocess.CalledProcessError:
        if args.data:
            return _failed(f"the completions need click: install it for {python()}")
        needed = f"all of it in {args.wheelhouse}" if args.wheelhouse else "a package index, or see make wheelhouse"
        return _failed(f"could not install what {REQUIREMENTS} names: it needs {needed}")
    return 0


def install(root: Path, destdir: str = "", wheelhouse: str = "") -> Path:
    """Install below ``root``, which is PREFIX in ``destdir``. The tree. CalledProcessError, PermissionError."""
    lib = root / "lib"
    tree = lib / f"kleader-{version()}-{digest()}"
    lib.mkdir(parents=True, exist_ok=True)
    if not tree.exists():
        print(f"installing {tree}; it takes a minute, or several on a busy machine", flush=True)
        with tempfile.TemporaryDirectory(prefix=".kleader-", dir=lib) as scratch:
            new = Path(scratch, "tree")
            print("fetching the packages", flush=True)
            build(new, wheelhouse)
            print("compiling", flush=True)
            compileall.compile_dir(
                new, quiet=1, workers=0, stripdir=scratch + "/tree", prependdir=_runs_at(tree, destdir)
            )
            new.rename(tree)
    if (lib / "kleader").is_dir() and not (lib / "kleader").is_symlink():  # as kleader was installed before
        (lib / "kleader").rename(lib / "kleader-before")
    _link(lib / "kleader", tree.name)
    for program in PROGRAMS:
        _link(root / "bin" / program, f"../lib/kleader/bin/{program}")
    _copy_data(tree, root)
    print(f"installed {tree}")
    if not destdir and str(root / "bin") not in os.environ.get("PATH", "").split(os.pathsep):
        print(f"PATH does not contain {root}/bin: add it")
    if older := [each.name for each in lib.glob("kleader-*") if each != tree]:
        print(f"left for those that run it, in {lib}: {' '.join(sorted(older))}")
    return tree


def install_data(root: Path) -> None:
    """Install the pages and the completions below ``root``. CalledProcessError where this Python has no click."""
    with tempfile.TemporaryDirectory() as scratch:
        add_data(Path(scratch), [sys.executable, "-B", "-m", "kleader"])
        _copy_data(Path(scratch), root)


def build(tree: Path, wheelhouse: str = "") -> None:
    """All that runs, in a new directory."""
    fetch(tree, wheelhouse)
    add_kleader(tree, python())
    add_data(tree, [str(tree / "bin" / "kleader")])


def add_kleader(tree: Path, interpreter: str = "") -> None:
    """kleader, and what starts it, beside the packages: programs of an interpreter, else scripts for one."""
    shutil.copytree(SOURCE / "kleader", tree / "kleader", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "bin").mkdir(exist_ok=True)
    for program, function in PROGRAMS.items():
        module, _, name = function.partition(":")
        launcher = tree / "bin" / program
        script = LAUNCHER.format(module=module, function=name)
        launcher.write_text(f"#!{interpreter} -IS\n{script}" if interpreter else script)
        launcher.chmod(0o755 if interpreter else 0o644)


def add_data(tree: Path, kleader: list[str]) -> None:
    """The pages, and the completions that a kleader prints, in the tree's share. CalledProcessError."""
    for page in pages():
        place = tree / "share" / "man" / f"man{page.suffix[1:]}" / page.name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, place)
    for shell, file in COMPLETIONS.items():
        (tree / file).parent.mkdir(parents=True)
        printed = subprocess.run([*kleader, "completion", shell], cwd=SOURCE, capture_output=True, check=True).stdout
        (tree / file).write_bytes(printed)


def fetch(tree: Path, wheelhouse: str = "") -> None:
    """The packages that kleader needs, as their hashes want them, less what it does not use. CalledProcessError."""
    pip_install(tree, SOURCE / REQUIREMENTS, wheelhouse)
    shutil.rmtree(tree / "bin", ignore_errors=True)  # their programs, for that scratch
    slim(tree)


def pip_install(to: Path, requirements: Path, wheelhouse: str = "") -> None:
    """Install wheels of the hashes that a file names into a directory. CalledProcessError."""
    where = ["--no-index", "--find-links", wheelhouse] if wheelhouse else []
    pip("install", "--no-compile", "--target", str(to), *where, requirements=requirements)


def pip(*arguments: str, requirements: Path) -> None:
    """Run pip of a new virtual environment, for wheels of the hashes that a file names. CalledProcessError."""
    with tempfile.TemporaryDirectory() as scratch:
        venv.create(scratch, with_pip=True)
        argv = [f"{scratch}/bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
        subprocess.run([*argv, "--require-hashes", "--only-binary", ":all:", "-r", str(requirements)], check=True)


def pages() -> list[Path]:
    """The manual pages."""
    return sorted((SOURCE / "man").glob("*.[1-9]"))


def version() -> str:
    """The version of the kleader that is installed."""
    (found,) = re.findall(r'(?m)^__version__ = "(.*)"$', (SOURCE / "kleader" / "__init__.py").read_text())
    return str(found)


def digest() -> str:
    """Of all that a tree is made from."""
    made = hashlib.sha256(python().encode())
    files = (path for path in (SOURCE / "kleader").rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    tools = (SOURCE / "tools" / tool for tool in ("install.py", "slim.py"))
    for path in [*tools, SOURCE / REQUIREMENTS, *pages(), *sorted(files)]:
        made.update(f"\0{path.relative_to(SOURCE)}\0".encode() + path.read_bytes())
    return made.hexdigest()[:10]


def python() -> str:
    """The path of this interpreter, by a name of its minor version, for which packages are compiled."""
    base: str = sys._base_executable  # type: ignore[attr-defined]  # noqa: SLF001 - not a virtual environment's
    return os.path.realpath(base)


def _runs_at(tree: Path, destdir: str) -> str:
    return str(tree).removeprefix(destdir)


def _link(place: Path, to: str) -> None:
    """A symbolic link, in the place of what is there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".kleader-") as scratch:
        new = Path(scratch, "link")
        new.symlink_to(to)
        new.replace(place)


def _copy_data(tree: Path, root: Path) -> None:
    """The tree's share, as files that everybody may read, in the place of what is there."""
    for file in (file for file in (tree / "share").rglob("*") if file.is_file()):
        place = root / file.relative_to(tree)
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".kleader-") as scratch:
            Path(shutil.copy(file, scratch)).replace(place)
        place.chmod(0o644)


def _failed(why: str) -> int:
    print(f"error: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
