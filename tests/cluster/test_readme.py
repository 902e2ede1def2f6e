"""Every command line of README, manual pages and help works as it is, and the Role of kleader-run(1) is enough."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]

from tests.support.api import ApiError, lease, lease_path, path
from tests.support.controlplane import KUBECTL, binaries
from tests.support.documented import Line, calls, command_lines
from tests.support.objects import endpoints, pod, record
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

ROOT = Path(__file__).parents[2]
RULES = re.findall(r"^rules:\n(?:[- ] .*\n)+", (ROOT / "man/kleader-run.1").read_text("utf-8"), re.MULTILINE)
ONLY_PARSED = {  # and why; tests/unit/test_cli_readme.py parses every line
    "kubectl exec -n jobs beat-5d9c7b-x2x4k -- kleader check --name beat": "no kubelet runs a Pod here",
    "kubectl exec -n jobs POD -- kleader check --name beat": "no kubelet runs a Pod here",
    "kleader copy-to /kleader": "tests/standalone runs it, from the archive",
    "kleader resign --force": "its page has a line with the name of a lock",
    "make demo": "tests/process/test_demo.py runs kleader demo",
    "make test": "it runs the quick tests, of which this page's are no part",
    "make install": "tests/process/test_install.py",
    "make image": "tests/standalone",
    "skopeo copy oci-archive:dist/kleader-VERSION-linux-x86_64.oci.tar docker://registry.example/kleader": "no server",
    "source <(kleader completion zsh)": "tests/process/test_completion.py has the shells",
    "kleader completion fish | source": "tests/process/test_completion.py has the shells",
}
EVERY = {line.text: line for line in reversed(command_lines())}
LINES = [line for text, line in reversed(EVERY.items()) if text not in ONLY_PARSED]
PLACES = {"NAMESPACE": "jobs", "NAME": "importer", "COMMAND": "./importer", "POD": "a-pod"}
ASKING = {"status", "wait", "resign", "transfer", "is-leader"}  # commands that need a leader
EFFECTS = {  # what standard output shows when a line has done what it is there for
    r"-- true$": "",
    r"kleader run |is-leader.*&&|--for free": r"ran$",
    r"is-leader": "",
    r"kubectl apply": r"^deployment.apps/[a-z-]+ (created|configured|unchanged)$",
    r"kubectl diff": r"^\+kind: Deployment$",
    r"status -A|status .*kube-system": "",
    r"status [^|]*--watch": r"held by worker-0",
    r"status|--for leader": r"worker-0",
    r"resign .*--force": r"cleared",
    r"resign|transfer": r"worker-1 leads",
    r"events": r"worker-0 became leader$",
    r"check": r"^ok +permission",
    r"drain": r"node/node-1 drained",
}
PROGRAM = """#!{python}
import sys
sys.path.insert(0, {here!r})
from kleader.cli.main import main
main()
"""
RUN_OF_ITS_OWN = 'mount -t tmpfs none /run && exec "$@"'


@pytest.fixture
def kubectl() -> Path:
    """Where it is."""
    return binaries(KUBECTL) / KUBECTL


class Shell:
    """A directory, an environment and a cluster in which each line can be pasted into a shell."""

    def __init__(self, plane: Plane, kubectl: Path, directory: Path, processes: Processes) -> None:
        self.plane, self._directory, self._processes = plane, directory, processes
        stub = "#!/bin/sh\necho ran"
        names = ["programs/celery", "nightly-report", "poll-mail", "nightly", "feed"]
        names += ["maintenance", "importer", "migrate", "report"]
        programs = dict.fromkeys(names, stub)
        programs["programs/kleader"] = PROGRAM.format(python=sys.executable, here=os.getcwd())  # noqa: PTH109
        (directory / "programs").mkdir()
        (directory / ".config/fish/completions").mkdir(parents=True)
        for name, text in programs.items():
            (directory / name).write_text(text)
            (directory / name).chmod(0o755)
        (directory / "programs/kubectl").symlink_to(kubectl)
        for name in ("jobs", "operators"):
            plane.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name in ("jobs", "operators", "default"):
            plane.api.delete(path("coordination.k8s.io/v1", "Lease", name))
        for kind in ("ConfigMap", "Endpoints"):
            with contextlib.suppress(ApiError):
                plane.api.delete(path("v1", kind, "jobs", "importer"))
        given = {"HOME": directory, "XDG_RUNTIME_DIR": directory, "KLEADER_RUNTIME_DIR": directory}
        paths = f"{directory}/programs:{os.environ['PATH']}"
        self._environment = {
            "KUBECONFIG": str(plane.kubeconfig()),
            "PATH": paths,
            **{k: str(v) for k, v in given.items()},
        }

    def paste(self, text: str) -> Process:
        """Start the line in a shell, as root with a /run of its own."""
        private = ["unshare", "--mount", "sh", "-c", RUN_OF_ITS_OWN, "sh"] if os.geteuid() == 0 else []
        argv = [*private, "bash", "-c", text]
        return self._processes.start(argv, env=self._environment, cwd=self._directory)

    def elect(self, namespace: str, name: str) -> None:
        """Start a leader, worker-0, and a candidate that waits, worker-1, and is listed as a standby."""
        for identity, event in (("worker-0", "command_started"), ("worker-1", "leader_observed")):
            options = f"-n {namespace} --name {name} --identity {identity} --log-format json"
            self.paste(f"kleader run {options} -- sleep 1000").wait_err(f'"event": "{event}"')
        registry = lease_path(namespace, f"candidates.{name}")
        self.plane.api.wait(registry, lambda seen: "worker-1" in json.dumps(seen), "the list of the candidates")

    def prepare(self, text: str) -> None:
        """Make what the line is about: a lock with a leader, a record whose holder is dead, or an object."""
        api = self.plane.api
        for command, arguments in calls(text):
            params = command.make_context(str(command.name), list(arguments)).params
            namespace, name = params.get("namespace") or "default", params.get("argument") or params.get("name")
            if name and params.get("force"):
                api.apply(lease(namespace, name, "somebody", duration=1))
            elif name and command.name in ASKING and params.get("for") != "free":
                self.elect(namespace, name)
        if "--as " in text:
            assert self.paste("kleader manifest -n jobs --name beat -- true | kubectl apply -f -").wait() == 0
        if "lease/feed" in text:
            self.elect("jobs", "feed")
        if " endpoints importer" in text:
            api.apply(endpoints("jobs", "importer", record("somebody")))
        if " lease importer" in text:
            api.apply(lease("jobs", "importer", "somebody"))
        if "node-1" in text:
            api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}})
        if "a-pod" in text:
            api.apply(
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "jobs", "name": "default"}}
            )
            api.apply(pod("jobs", "a-pod"))


@pytest.fixture
def shell(plane: Plane, kubectl: Path, tmp_path: Path, processes: Processes) -> Shell:
    return Shell(plane, kubectl, tmp_path, processes)


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.place}: {line.text}")
def test_each_documented_command_line_works(line: Line, shell: Shell) -> None:
    """Each is given to a shell as it is, with a name for each placeholder."""
    text = re.sub("|".join(rf"\b{place}\b" for place in PLACES), lambda found: PLACES[found[0]], line.text)
    shell.prepare(text)
    effect = next((effect for pattern, effect in EFFECTS.items() if re.search(pattern, text)), "")
    if "--watch" in text or "events" in text:  # the one does not end, the other may be early
        _until_it_shows(effect, text, shell)
        return
    done = shell.paste(text)
    assert done.wait() == ("kubectl diff" in text), done.out + done.err
    assert re.search(effect, done.out, re.MULTILINE), done.out + done.err


def _until_it_shows(effect: str, text: str, shell: Shell) -> None:
    """Paste a line again and again, or read what it goes on to print."""
    started = [shell.paste(text)]

    def shown() -> bool:
        if not started[-1].running and not re.search(effect, started[-1].out, re.MULTILINE):
            started.append(shell.paste(text))
        return bool(re.search(effect, started[-1].out, re.MULTILINE))

    wait_until(shown, f"{effect!r} from {text}")


def test_each_command_line_that_is_only_parsed_is_still_documented() -> None:
    assert ONLY_PARSED.keys() <= EVERY.keys()


def test_the_documented_role_suffices_to_wait_lead_and_release(
    own_plane: ControlPlane, namespace: str, processes: Processes
) -> None:
    """It watches (it does not fall back to polling), takes over, creates where there is none, and releases."""
    user = own_plane.new_bare_user()
    own_plane.grant(user, namespace, yaml.safe_load(RULES[0])["rules"])
    own_plane.api.create(lease(namespace, "worker", "somebody", duration=3600))
    config = own_plane.kubeconfig(user, namespace)
    argv = [sys.executable, "-m", "kleader", "run", "--name=worker", f"--kubeconfig={config}", "--", "echo", "ran"]
    process = processes.start(argv)
    process.wait_log("leader_observed", r"is somebody\b")
    own_plane.api.merge(lease_path(namespace, "worker"), {"spec": {"holderIdentity": ""}})
    assert process.wait() == 0, process.err
    own_plane.api.delete(lease_path(namespace, "worker"))
    again = processes.start(argv)
    assert again.wait() == 0, again.err
    for each in (process, again):
        assert each.out == "ran\n"
        assert each.logged("released")
        assert "polling" not in each.err
