"""Packages of Debian, each of the version and the hash that a lock file names, by an apt that nothing else configures.

``python -m tools.standalone.debian`` writes the lock file anew, with what Debian serves now.

Debian serves the newest version of a package alone: once it has replaced a locked one, a build needs the lock written
anew, or a KLEADER_DEBIAN_MIRROR that keeps the old ones, such as a snapshot of Debian's archive.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[2]
LOCK = SOURCE / ".requirements" / "debian.txt"
SUITE = "trixie"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
ARCHITECTURES = ("amd64", "arm64")
HEADER = """\
# architecture, package, version, SHA-256 of its .deb in Debian {suite}; written by `make lock`
"""


class DebianError(Exception):
    """There is no apt, no mirror, or not that package; one line for a person."""


class Package(NamedTuple):
    """A line of the lock file."""

    architecture: str
    name: str
    version: str
    sha256: str


def locked(architecture: str) -> list[Package]:
    """The packages of the lock file for an architecture."""
    lines = (line for line in LOCK.read_text().splitlines() if not line.startswith("#"))
    return [found for found in (Package(*line.split()) for line in lines) if found.architecture == architecture]


def fetch(package: Package, cache: Path) -> Path:
    """The package's file, from the cache if it is there. DebianError."""
    file = cache / f"{package.name}_{package.sha256[:16]}.deb"
    if not file.exists():
        got = Apt(package.architecture, cache).download(f"{package.name}={package.version}")
        if digest(got) != package.sha256:
            raise DebianError(f"{package.name} {package.version} is not the file that {LOCK.name} names")
        got.rename(file)
    return file


def unpack(file: Path, to: Path) -> None:
    """The content of a package's file, into a directory."""
    subprocess.run(["dpkg-deb", "--extract", file, to], check=True)


def lock() -> None:
    """Write the lock file: the same packages, of the versions that Debian serves now."""
    names = sorted({line.split()[1] for line in LOCK.read_text().splitlines() if not line.startswith("#")})
    lines = []
    for architecture in ARCHITECTURES:
        apt = Apt(architecture, cache_home())
        for name in names:
            file = apt.download(name)
            lines.append(" ".join((architecture, name, _field(file, "Version"), digest(file))) + "\n")
    LOCK.write_text(HEADER.format(suite=SUITE) + "".join(lines))


class Apt:
    """apt for one architecture: its own sources, lists and cache, and nothing of this machine's but a mirror's name."""

    def __init__(self, architecture: str, cache: Path, suite: str = SUITE) -> None:
        if not shutil.which("apt-get") or not Path(KEYRING).exists():
            raise DebianError("no apt-get, or no debian-archive-keyring: build on Debian, or by the Containerfile")
        self._home = cache / "apt" / f"{suite}-{architecture}"
        self._suite = suite
        self._architecture = architecture
        self._fresh = False
        for place in ("state/lists/partial", "cache/archives/partial"):
            (self._home / place).mkdir(parents=True, exist_ok=True)
        (self._home / "state" / "status").touch()

    def download(self, package: str) -> Path:
        """The file of NAME or of NAME=VERSION. DebianError."""
        self._update()
        downloads = self._home / "downloads"
        shutil.rmtree(downloads, ignore_errors=True)
        downloads.mkdir()
        self._run("download", package, cwd=downloads)
        (file,) = downloads.glob("*.deb")
        return file

    def download_all(self, *packages: str) -> list[Path]:
        """The files of packages, and of all that these depend on. DebianError."""
        self._update()
        archives = self._home / "cache" / "archives"
        for former in archives.glob("*.deb"):
            former.unlink()
        self._run("install", "--yes", "--download-only", "--no-install-recommends", *packages)
        return sorted(archives.glob("*.deb"))

    def _update(self) -> None:
        if not self._fresh:
            main, security = _mirrors()
            sources = ((main, self._suite), (security, f"{self._suite}-security"))
            lines = (f"deb [signed-by={KEYRING}] {mirror} {suite} main\n" for mirror, suite in sources)
            (self._home / "sources.list").write_text("".join(lines))
            self._run("update")
            self._fresh = True

    def _run(self, *arguments: str, cwd: Path | None = None) -> None:
        options = {
            "Dir::Etc::sourcelist": self._home / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::State": self._home / "state",
            "Dir::State::status": self._home / "state" / "status",
            "Dir::Cache": self._home / "cache",
            "APT::Architecture": self._architecture,
            "APT::Architectures": self._architecture,
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
        }
        command = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items()), *arguments]
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["apt-get failed"])[-1]
            hint = "Debian may have replaced it: see tools/standalone/debian.py" if "download" in arguments else ""
            raise DebianError(f"{' '.join(arguments)}: {why}; {hint}".rstrip("; "))


def cache_home() -> Path:
    """Where parts are kept between builds: below $XDG_CACHE_HOME, else ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kleader" / "standalone"


def digest(file: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _mirrors() -> tuple[str, str]:
    """Debian's archive and its security archive: of $KLEADER_DEBIAN_MIRROR, else those that this machine's apt uses."""
    if given := os.environ.get("KLEADER_DEBIAN_MIRROR"):
        return f"{given}/debian", f"{given}/debian-security"
    wanted = ["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages", "Origin: Debian"]
    lines = subprocess.run(wanted, capture_output=True, text=True, check=True).stdout.splitlines()
    found = dict(line.split(" ", 1) for line in lines)
    try:
        return found["Debian"], found["Debian-Security"]
    except KeyError:
        raise DebianError("apt here has no mirror of Debian: name one by KLEADER_DEBIAN_MIRROR") from None


def _field(file: Path, name: str) -> str:
    return subprocess.run(
        ["dpkg-deb", "--field", file, name], capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    try:
        lock()
    except DebianError as error:
        sys.exit(f"error: {error}")
