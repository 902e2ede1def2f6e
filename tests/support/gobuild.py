"""Programs in Go, built once into a cache outside the work tree: $XDG_CACHE_HOME/kleader/MODULE/KEY/."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

TESTS = Path(__file__).resolve().parent.parent


class GoError(Exception):
    """Go is missing, too old, or the build failed; one line for a person."""


def cache_home() -> Path:
    """Return $XDG_CACHE_HOME, else ~/.cache, as the XDG base directory specification has it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


@dataclass(frozen=True)
class GoModule:
    """A Go module under tests/: its directory, and which package each binary is built from."""

    name: str
    packages: dict[str, str]
    ldflags: str = ""
    otherwise: str = ""  # what else helps a person who has no Go

    @property
    def source(self) -> Path:
        return TESTS / self.name

    def required(self, module: str) -> str:
        """Return the version of `module` that go.mod requires."""
        found = re.search(
            rf"^\s*(?:require )?{re.escape(module)} (v\S+)", (self.source / "go.mod").read_text(), re.MULTILINE
        )
        if found is None:
            raise GoError(f"{self.name}/go.mod does not require {module}")
        return found[1]

    @property
    def cache(self) -> Path:
        """The directory that holds exactly these sources' binaries for this machine.

        Modules that share a directory under tests/ may use one another: all of it counts.
        """
        digest = hashlib.sha256(f"{self.ldflags} {sys.platform} {platform.machine()}".encode())
        tree = TESTS / Path(self.name).parts[0]
        for file in sorted(path for path in tree.rglob("*") if path.suffix in {".go", ".mod", ".sum"}):
            content = file.read_bytes()
            digest.update(f"\n{file.relative_to(tree)} {len(content)}\n".encode() + content)
        return cache_home() / "kleader" / self.name / digest.hexdigest()[:16]

    def missing(self, binaries: Iterable[str]) -> list[str]:
        """Return those of `binaries` that are not built yet."""
        return [binary for binary in binaries if not (self.cache / binary).is_file()]

    def build(self, *binaries: str) -> Path:
        """Build what is missing of `binaries`, one build at a time; return the directory that holds them.

        Each binary appears whole or not at all (built beside, then renamed). Raises GoError.
        """
        cache = self.cache
        if not self.missing(binaries):
            return cache
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if missing := self.missing(binaries):  # another build may have made them while we waited for the lock
                self._build(missing, cache)
        return cache

    def _build(self, binaries: list[str], cache: Path) -> None:
        version = self._toolchain()
        sys.stderr.write(f"building {', '.join(binaries)} with {version} into {cache} (minutes, the first time)\n")
        with tempfile.TemporaryDirectory(dir=cache, prefix=".build-") as scratch:
            packages = [self.packages[binary] for binary in binaries]
            command = ["go", "build", "-trimpath", "-ldflags", f"-s -w {self.ldflags}".strip(), "-o", f"{scratch}/"]
            done = subprocess.run([*command, *packages], cwd=self.source, stdin=subprocess.DEVNULL, check=False)
            if done.returncode != 0:
                raise GoError(f"go build in {self.source} ended with status {done.returncode}: see above")
            for package, binary in zip(packages, binaries, strict=True):
                built = Path(scratch) / package.rpartition("/")[2]
                built.rename(cache / binary)

    def _toolchain(self) -> str:
        """Return the version of Go that will build this; raise GoError where it cannot."""
        found = re.search(r"^go (\S+)", (self.source / "go.mod").read_text(), re.MULTILINE)
        wanted = found[1] if found else "?"
        hint = f"install Go {wanted} or newer{self.otherwise}"
        if shutil.which("go") is None:
            raise GoError(f"go is not on PATH: {hint}")
        # In the module's directory: there a Go that may fetch the newer toolchain says which it will use.
        said = subprocess.run(["go", "env", "GOVERSION"], cwd=self.source, capture_output=True, text=True, check=False)
        version = said.stdout.strip()
        if said.returncode != 0 or _number(version) < _number(wanted):
            own = version or " ".join(said.stderr.split()) or "unknown"
            raise GoError(f"this Go is too old ({own}): {hint}")
        return version


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
