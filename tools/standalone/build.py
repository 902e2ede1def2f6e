"""Builds kleader as a tree that needs nothing of the system around: ``python -m tools.standalone.build``.

dist/kleader-VERSION-linux-ARCHITECTURE.tar.gz has CPython with its loader and its libraries, as Debian maintains them,
the packages of .requirements/run.txt, kleader, its pages, licences and an SBOM. Its bytes depend on this source alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tools import install, slim
from tools.standalone import debian
from tools.standalone.debian import SOURCE, DebianError, cache_home

MINOR = "3.13"  # of Debian's Python
COMPILER = SOURCE / ".requirements" / "standalone.txt"  # Zig, whose C library is in the launcher
LIBRARIES = (
    *("libc.so.6", "libcrypto.so.3", "libdl.so.2", "libexpat.so.1", "libffi.so.8", "libgcc_s.so.1", "libm.so.6"),
    *("libpthread.so.0", "libresolv.so.2", "librt.so.1", "libssl.so.3", "libutil.so.1", "libz.so.1", "libzstd.so.1"),
)
# Of the standard library: what tests, builds, shows windows, or edits; what would need more libraries; and a link to
# /etc of the machine that builds.
LEFT_OUT = (
    "sitecustomize.py",
    *("EXTERNALLY-MANAGED", "config-*", "curses", "dbm", "doctest.py"),
    *("idlelib", "pdb.py", "pydoc_data", "sqlite3", "test", "turtle.py", "unittest"),
    *("venv", "xmlrpc"),
    *(f"lib-dynload/{each}.*" for each in ("_bz2", "_curses*", "_dbm", "_lzma", "_sqlite3", "_uuid", "readline")),
    *(f"lib-dynload/{each}.*" for each in ("_codecs_*", "_ctypes_test", "_multibytecodec", "_test*", "_xx*", "xx*")),
)
PIP_ONLY = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json")


class Architecture(NamedTuple):
    """What each trade calls it."""

    name: str  # the kernel, and the C compiler
    debian: str
    loader: str


ARCHITECTURES = {
    each.name: each
    for each in (
        Architecture("x86_64", "amd64", "ld-linux-x86-64.so.2"),
        Architecture("aarch64", "arm64", "ld-linux-aarch64.so.1"),
    )
}


def main() -> int:
    """Build; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--architecture", choices=sorted(ARCHITECTURES), default=platform.machine())
    parser.add_argument("--image", action="store_true", help="pack it as an OCI image too, with no container engine")
    parser.add_argument("--dist", type=Path, default=SOURCE / "dist")
    args = parser.parse_args()
    os.umask(0o022)
    # Zig opens more files at once than the 1024 that a container's processes may begin with.
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    try:
        print("building the standalone kleader takes minutes, the first time and on a busy machine longer", flush=True)
        print(build(ARCHITECTURES[args.architecture], args.dist, image=args.image))
        if args.architecture != "x86_64":
            print(f"untried: no {args.architecture} machine has run this archive")
    except DebianError as error:
        return _failed(str(error))
    except subprocess.CalledProcessError as error:
        return _failed(f"{error.cmd[0]} failed, see above; the first time it needs a package index")
    return 0


def build(architecture: Architecture, dist: Path, *, image: bool = False) -> Path:
    """The archive, and maybe its OCI image, below ``dist``. DebianError, CalledProcessError."""
    native = ARCHITECTURES[platform.machine()]
    name = f"kleader-{install.version()}"
    archive = dist.resolve() / f"{name}-linux-{architecture.name}.tar.gz"
    cache = cache_home()
    with tempfile.TemporaryDirectory() as scratch:
        python = runtime(native, Path(scratch, "native"), cache)
        tree = Path(scratch, name)
        packages = debian.locked(architecture.debian)
        runtime(architecture, tree, cache)
        fill(architecture, tree, cache)
        (tree / "share" / "doc").mkdir()
        (tree / "share" / "doc" / "debian.txt").write_text("".join(" ".join(each) + "\n" for each in packages))
        shutil.copyfile(COMPILER, tree / "share" / "doc" / "compiler.txt")
        dist.mkdir(exist_ok=True)
        tools = SOURCE / "tools" / "standalone"
        subprocess.run([python, "-IS", tools / "finish.py", tree, f"{archive}.part"], check=True)
        Path(f"{archive}.part").rename(archive)
        if image:
            packed = f"{str(archive).removesuffix('.tar.gz')}.oci.tar"
            subprocess.run([python, "-IS", tools / "image.py", archive, packed], check=True)
    return archive


def runtime(architecture: Architecture, tree: Path, cache: Path) -> Path:
    """CPython with its loader and libraries in a new directory; its python3. DebianError, CalledProcessError."""
    loader, lib, licences = tree / "lib" / "loader", tree / "lib", tree / "share" / "licences"
    loader.mkdir(parents=True)
    licences.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for package in debian.locked(architecture.debian):
            debian.unpack(debian.fetch(package, cache), root)
            documents = root / "usr" / "share" / "doc" / package.name
            if (documents / "copyright").is_file():  # else it has its base's
                shutil.copyfile(documents / "copyright", licences / package.name)
        shutil.copytree(root / "usr" / "share" / "common-licenses", licences / "common-licenses")
        shared = root / "usr" / "lib" / f"{architecture.name}-linux-gnu"
        shutil.copytree(root / "usr" / "lib" / f"python{MINOR}", lib / f"python{MINOR}", ignore_dangling_symlinks=True)
        for library in LIBRARIES:
            shutil.copy(shared / library, lib / library)
        shutil.copy(shared / architecture.loader, loader / "kleader")
        shutil.copy(root / "usr" / "bin" / f"python{MINOR}", loader / "python3")
    for pattern in LEFT_OUT:
        for unused in (lib / f"python{MINOR}").glob(pattern):
            shutil.rmtree(unused) if unused.is_dir() else unused.unlink()
    compiled = launcher(architecture, cache)
    shutil.copyfile(compiled / "COPYRIGHT", licences / "musl")
    (tree / "bin").mkdir()
    for program in ("python3", *install.PROGRAMS):
        shutil.copy(compiled / "launcher", tree / "bin" / program)
    return tree / "bin" / "python3"


def launcher(architecture: Architecture, cache: Path) -> Path:
    """The compiled launcher, and the licence of the C library in it. CalledProcessError."""
    source = SOURCE / "tools" / "standalone" / "launcher.c"
    built = cache / f"launcher-{architecture.name}-{debian.digest(source)[:8]}-{debian.digest(COMPILER)[:8]}"
    if not built.exists():
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            install.pip_install(Path(scratch, "zig"), COMPILER)
            zig = [f"{scratch}/zig/ziglang/zig", "cc", "-target", f"{architecture.name}-linux-musl"]
            flags = ["-static", "-Os", "-s", "-Wall", "-Wextra", "-Werror"]
            places = {"ZIG_GLOBAL_CACHE_DIR": f"{cache}/zig", "ZIG_LOCAL_CACHE_DIR": f"{scratch}/local"}
            done = Path(scratch, "done")
            done.mkdir()
            argv = [*zig, *flags, "-o", str(done / "launcher"), str(source)]
            subprocess.run(argv, check=True, env={**os.environ, **places})
            shutil.copy(Path(scratch, "zig", "ziglang", "lib", "libc", "musl", "COPYRIGHT"), done)
            done.rename(built)
    return built


def fill(architecture: Architecture, tree: Path, cache: Path) -> None:
    """Put kleader, the packages and the pages into the tree. CalledProcessError."""
    packages = tree / "lib" / "kleader"
    uv = cache / "uv"
    if not (uv / "bin" / "uv").exists():
        install.pip_install(uv, SOURCE / ".requirements" / "lock.txt")
    subprocess.run(
        [
            *(str(uv / "bin" / "uv"), "--quiet", "--no-config", "pip", "install", "--target", str(packages)),
            *("--python-version", MINOR, "--python-platform", f"{architecture.name}-manylinux_2_28"),
            *("--require-hashes", "--only-binary", ":all:", "--no-deps", "--link-mode", "copy"),
            *("--requirements", str(SOURCE / install.REQUIREMENTS)),
        ],
        check=True,
        env={**os.environ, "UV_CACHE_DIR": str(cache / "uv-cache"), "UV_PYTHON_DOWNLOADS": "never"},
    )
    slim.slim(packages)
    shutil.rmtree(packages / "bin", ignore_errors=True)
    for dropped in (file for name in PIP_ONLY for file in packages.glob(f"*.dist-info/{name}")):
        dropped.unlink()
    for rest in (".lock", "CACHEDIR.TAG"):
        (packages / rest).unlink(missing_ok=True)
    install.add_kleader(packages)
    for page in install.pages():
        place = tree / "share" / "man" / f"man{page.suffix[1:]}" / page.name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, place)
    shutil.copyfile(SOURCE / "LICENSE", tree / "share" / "licences" / "kleader")


def _failed(why: str) -> int:
    print(f"error: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
