"""Plain kubeconfigs are read without the kubernetes package, and just as it reads them."""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kleader.locks import kubeconfig, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conftest import Trials

ROOT = Path(__file__).parents[2]
STORIES = 1000
ABSENT = object()


def data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


ODD = 0.06  # of all values
FILES = ["missing", "there", "", 5, None, "~/pem"]
DATA = ["", "a", "YQ==*", "YWI=*", "\N{SNOWMAN}", 7, None, data("é")]
#: Key → what it may ordinarily be, and what besides.
Pool = dict[str, tuple[list[object], list[object]]]
CLUSTER: Pool = {
    "server": (["https://h:1", "https://h/", "https://h/a//"], ["http://h", "h:1", "", 5, None, ABSENT]),
    "certificate-authority": ([ABSENT, ABSENT, "pem"], FILES),
    "certificate-authority-data": ([ABSENT, ABSENT, data("a certificate\n"), data("x") + "\n"], DATA),
    "insecure-skip-tls-verify": ([ABSENT, True, False], ["false", 1, None]),
    "tls-server-name": ([ABSENT, "h"], ["", 5, None]),
    "proxy-url": ([ABSENT], ["http://p", "", None]),
    "extensions": ([ABSENT, [{"name": "minikube.sigs.k8s.io", "extension": {"version": "v1"}}]], [None, "x"]),
    "disable-compression": ([ABSENT], [True]),
}
USER: Pool = {
    "token": ([ABSENT, "t"], [" t ", "t\nu", "t\n", "", 5, None, "\N{SNOWMAN}"]),
    "tokenFile": ([ABSENT], ["pem", "missing", ""]),
    "client-certificate": ([ABSENT, ABSENT, "there/pem", "./pem"], FILES),
    "client-certificate-data": ([ABSENT, ABSENT, data("c"), " " + data("cc")], DATA),
    "client-key": ([ABSENT, ABSENT, "there/pem"], FILES),
    "client-key-data": ([ABSENT, ABSENT, data("k")], DATA),
    "as": ([ABSENT, "somebody"], ["", 5, None, "a\nb"]),
    "as-groups": ([ABSENT, ["g", "h"]], [[], "g", [5], None]),
    "as-uid": ([ABSENT], ["u"]),
    "username": ([ABSENT], ["u"]),
    "password": ([ABSENT], ["p"]),
    "auth-provider": ([ABSENT], [{}, {"name": "gcp"}]),
    "exec": ([ABSENT], [{}, None]),
}
NAME: tuple[list[object], list[object]] = (["x"], ["y", "", 5, None, ABSENT])
CONTEXT: Pool = {
    "cluster": NAME,
    "user": NAME,
    "namespace": ([ABSENT, "n"], ["", 5, None]),
    "extensions": ([ABSENT, []], [None]),
}


def chosen(rng: random.Random, keys: Pool) -> dict[str, Any]:
    found = {key: rng.choice(pool[rng.random() < ODD]) for key, pool in keys.items()}
    return {key: value for key, value in found.items() if value is not ABSENT}


def entries(rng: random.Random, kind: str, keys: Pool) -> object:
    """One of its name nearly always; now and then none, two, or no list at all."""
    odd: list[Sequence[object]] = [["y", "x"], ["x", "x"], [], ["x", 5]]
    names = rng.choice(odd) if rng.random() < ODD else ["x"]
    found: list[object] = [{"name": name, kind: chosen(rng, keys)} for name in names]
    whole: list[object] = [None, {}, "x", [{"name": "x"}], [{"name": "x", kind: None}], [None]]
    return rng.choice(whole) if rng.random() < ODD else found


def config(rng: random.Random) -> object:
    parts = {"contexts": ("context", CONTEXT), "clusters": ("cluster", CLUSTER), "users": ("user", USER)}
    whole: dict[str, object] = {name: entries(rng, *part) for name, part in parts.items()}
    return chosen(rng, {"current-context": NAME}) | whole


def outcome(read: Any, options: dict[str, str]) -> object:  # noqa: ANN401
    """The access, or that there is none."""
    try:
        access = read(options, [])
        kubeconfig._check_texts(access)
    except Exception:  # noqa: BLE001 - of every kind
        return "refused"
    return access


def test_a_plain_kubeconfig_is_read_as_the_library_reads_it_and_the_rest_by_the_library(
    tmp_path: Path, trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same access, or a refusal by both, whatever it holds."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "there").mkdir()
    for place in (tmp_path, tmp_path / "there"):
        (place / "pem").write_text("from a file\n")
    path, plainly = tmp_path / "config", 0
    for seed in range(STORIES):
        rng = random.Random(seed)  # noqa: S311 - replayed from its seed
        path.write_text(json.dumps(config(rng)))
        options = {"kubeconfig": str(path), "context": rng.choice(["", "", "x", "y"])}
        options |= {"cluster": rng.choice([""] * 9 + ["x"]), "user": rng.choice([""] * 9 + ["x"])}
        expected = outcome(kubeconfig.ask_library, options)
        assert outcome(kubeconfig.read, options) == expected, f"seed {seed}: {path.read_text()}"
        plainly += plain.read(options) is not None
    assert plainly > STORIES / 20
    trials.count(STORIES, "random kubeconfigs")


YAML = """\
apiVersion: v1
clusters:
- cluster:
    certificate-authority: pem
    extensions:
    - extension: {last-update: today, provider: minikube.sigs.k8s.io}
      name: cluster_info
    server: https://192.168.49.2:8443
  name: minikube
contexts:
- context: {cluster: minikube, namespace: default, user: minikube}
  name: minikube
current-context: minikube
kind: Config
preferences: {}
users:
- name: minikube
  user: {client-certificate: pem, client-key: pem}
"""


@pytest.mark.parametrize("content", [b"", b"\xff", b"[", b"[]", b"5", b"a: &a [*a]", b"!!python/object:os.system {}"])
def test_what_is_no_kubeconfig_is_left_to_the_library(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    assert plain.read({"kubeconfig": str(path)}) is None
    assert plain.read({"kubeconfig": str(tmp_path / "missing")}) is None


def test_several_files_are_merged_by_the_library_and_one_name_is_never_two(tmp_path: Path) -> None:
    (tmp_path / "pem").write_text("pem")
    for name in ("one", "one:two"):
        (tmp_path / name).write_text(YAML)
    assert plain.read({"kubeconfig": str(tmp_path / "one")})
    assert plain.read({"kubeconfig": str(tmp_path / "one:two")}) is None
    assert plain.read({"kubeconfig": f"{tmp_path}/one:{tmp_path}/one"}) is None


def test_paths_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    """Those that the library reads too."""
    for name in ("pem", "token"):
        (tmp_path / name).write_text(name)
    (tmp_path / "config").write_text(YAML.replace("client-key: pem", "client-key: pem, tokenFile: ./token"))
    options = {"kubeconfig": str(tmp_path / "config")}
    assert plain.read(options) is None
    access = kubeconfig.read(options, [])
    assert access["ca"] == access["cert"] == access["key"] == "pem"
    assert Path(access["token_file"]).resolve() == tmp_path / "token"


def test_what_minikube_writes_is_plain_and_costs_no_import_of_the_library(tmp_path: Path) -> None:
    (tmp_path / "pem").write_text("PEM")
    path = tmp_path / "config"
    path.write_text(YAML)
    code = f"""import sys; sys.path.insert(0, {str(ROOT)!r})
from kleader.locks import kubeconfig
access = kubeconfig.read({{"kubeconfig": {str(path)!r}}}, [])
assert (access["server"], access["ca"], access["key"]) == ("https://192.168.49.2:8443", "PEM", "PEM"), access
assert "kubernetes" not in sys.modules and "urllib3" not in sys.modules"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
