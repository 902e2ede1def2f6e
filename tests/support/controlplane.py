"""A real kube-apiserver and etcd for the tests; also `python -m tests.support.controlplane build|path|run`.

The binaries are $KUBEBUILDER_ASSETS's where that is set (envtest's convention), else built from tests/controlplane;
so are kube-controller-manager and kubectl where they have none, as some envtests have not.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.api import Api, Object, path_of
from tests.support.audit import POLICY, AuditLog
from tests.support.daemon import Daemon
from tests.support.gobuild import GoError, GoModule
from tests.support.plane import LEASE_RULES, RBAC, GivenPlane, Plane
from tests.support.port import LOOPBACK, Port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

NEEDED = ("etcd", "kube-apiserver")
MANAGER, KUBECTL = "kube-controller-manager", "kubectl"
EXTRA = (MANAGER, KUBECTL)  # built where $KUBEBUILDER_ASSETS has none of its own
USERS = 2000  # user-0 … user-1999 may do LEASE_RULES everywhere; bare-0 … bare-1999 what a test grants
CANDIDATES = "candidates"
ORPHAN: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "orphan"}}


def module() -> GoModule:
    """Return the Go module that the binaries are built from."""
    commands = ("kube-apiserver", *EXTRA)
    packages = {"etcd": "./etcd", **{name: f"k8s.io/kubernetes/cmd/{name}" for name in commands}}
    otherwise = ", or set KUBEBUILDER_ASSETS to a directory with kube-apiserver and etcd"
    version = GoModule("controlplane", packages).required("k8s.io/kubernetes")
    major, minor, _ = version.removeprefix("v").split(".")
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    flags = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamps.items())
    return GoModule("controlplane", packages, flags, otherwise)


def binaries(*names: str) -> Path:
    """Return the directory that holds `names`, building what is missing of them; GoError where that cannot be."""
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        missing = [name for name in names if shutil.which(name, path=assets) is None]
        if not missing:
            return Path(assets)
        if not {*missing} <= {*EXTRA}:
            raise GoError(f"KUBEBUILDER_ASSETS={assets} has no {', '.join(missing)}")
    return module().build(*names)


def build_all() -> Path:
    """Build what the tests may need; return the directory that holds NEEDED."""
    if not os.environ.get("KUBEBUILDER_ASSETS"):
        return binaries(*NEEDED, *EXTRA)  # at once: they share most packages
    for name in EXTRA:
        binaries(name)
    return binaries(*NEEDED)


class ControlPlane(Plane):
    """kube-apiserver and etcd of one's own, on free ports of the loopback, with all state in one temporary directory.

    RBAC; tokens for admin (system:masters), user-N and bare-N; client certificates of `ca`; each request audited at
    Metadata level. `apiserver`, `etcd` and `manager` are Daemons: stop(), kill(), start() (port, state stay), pause(),
    resume(). `manager` is kube-controller-manager with the garbage collector alone; it runs from `collect_garbage` on.
    With `coordinated` the control plane elects among LeaseCandidates (KEP-4355), and lets other Leases be.
    """

    def __init__(self, *, coordinated: bool = False, fsync: bool = False) -> None:
        super().__init__()
        self._coordinated = coordinated
        self._fsync = fsync
        self._secret = secrets.token_hex(8)
        self._users = iter(range(USERS))
        self._bare = iter(range(USERS))

    def start(self) -> None:
        """Start both and return once the API server is ready; DaemonError with its log's tail, or GoError."""
        import trustme  # noqa: PLC0415 - `build` runs without the tests' packages

        where = binaries(*NEEDED)
        self.ca = trustme.CA(organization_name="kleader tests")
        self.dir = Path(tempfile.mkdtemp(prefix="kleader-plane-"))
        self._ports = [Port() for _ in range(3)]
        self.port, client, peer = (port.number for port in self._ports)
        self.url = f"https://{LOOPBACK}:{self.port}"
        self._write_files()
        self.api = Api(self.url, self.ca_file, token=self.token("admin"))
        self.audit = AuditLog(self.dir / "audit.log")
        self.etcd = Daemon(
            "etcd", self._etcd_command(where, client, peer), self.dir / "etcd.log", lambda: _accepts(client)
        )
        command = self._apiserver_command(where, client)
        self.apiserver = Daemon("kube-apiserver", command, self.dir / "apiserver.log", self._ready)
        self.manager = Daemon(MANAGER, [], self.dir / "manager.log", self._collected)
        try:
            self.etcd.start(wait=False)
            self.apiserver.start()
            self._grant_candidates()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill all and remove their directory."""
        for daemon in self._daemons:
            daemon.kill()
        for port in self._ports:
            port.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    @property
    def _daemons(self) -> list[Daemon]:
        return [self.manager, self.apiserver, self.etcd]

    @property
    def pids(self) -> list[int]:
        return [daemon.pid for daemon in self._daemons if daemon.running]

    def collect_garbage(self) -> None:
        if self.manager.running:
            return
        self.manager.argv = self._manager_command(binaries(MANAGER))
        nobody = {"apiVersion": "v1", "kind": "Pod", "name": "nobody", "uid": secrets.token_hex(16)}
        self.api.apply({**ORPHAN, "metadata": {**ORPHAN["metadata"], "ownerReferences": [nobody]}})
        self.manager.start()

    def recover(self) -> None:
        """Bring both back to running and ready, whatever a test did to them, and `manager` where it is paused."""
        for daemon in self._daemons:
            if daemon.running:
                daemon.resume()
            elif daemon is not self.manager:
                daemon.start(wait=False)
        self.apiserver.wait_ready()

    # --- users
    def token(self, user: str) -> str:
        """Return the static token of admin, user-N or bare-N."""
        return f"{user}.{self._secret}"

    def new_user(self) -> str:
        return f"user-{next(self._users)}"

    def new_bare_user(self) -> str:
        """Return a user that nobody else has and that may do nothing until `grant`."""
        return f"bare-{next(self._bare)}"

    def as_user(self, user: str) -> Api:
        """Return a client that calls as `user`."""
        return Api(self.url, self.ca_file, token=self.token(user))

    def audit_requests(self, user: str) -> list[Object]:
        """Return what `user` asked the server for, oldest first (see AuditLog.requests)."""
        return self.audit.requests(user)

    def certificate(self, user: str, group: str = "none", *, valid: float = 3600) -> tuple[Path, Path]:
        """Issue a client certificate good for `valid` s (negative: expired); return its path and its key's."""
        until = dt.datetime.now(dt.timezone.utc) + dt.timedelta(seconds=valid)
        leaf = self.ca.issue_cert(
            "client.invalid",
            common_name=user,
            organization_name=group,
            not_before=until - dt.timedelta(days=365),
            not_after=until,
        )
        stem = self.dir / f"{user}-{next(self._serial)}"
        certificate, key = stem.with_suffix(".crt"), stem.with_suffix(".key")
        leaf.cert_chain_pems[0].write_to_path(certificate)
        leaf.private_key_pem.write_to_path(key)
        key.chmod(0o600)
        return certificate, key

    def cluster(self) -> Object:
        return {"server": self.url, "certificate-authority": str(self.ca_file)}

    def credentials(self, user: str) -> Object:
        return {"token": self.token(user)}

    # --- how they are started
    def _write_files(self) -> None:
        self.dir.chmod(0o700)
        self.ca_file = self.dir / "ca.crt"
        self.ca.cert_pem.write_to_path(self.ca_file)
        leaf = self.ca.issue_cert(LOOPBACK, "localhost", common_name="kube-apiserver")
        leaf.cert_chain_pems[0].write_to_path(self.dir / "apiserver.crt")
        leaf.private_key_pem.write_to_path(self.dir / "apiserver.key")
        self.ca.issue_cert("service-account.invalid").private_key_pem.write_to_path(self.dir / "service-account.key")
        (self.dir / "audit-policy.json").write_text(json.dumps(POLICY))
        lines = [f'{self.token("admin")},admin,admin,"system:masters"']
        for number in range(USERS):
            user, bare = f"user-{number}", f"bare-{number}"
            lines += [f'{self.token(user)},{user},{user},"{CANDIDATES}"', f"{self.token(bare)},{bare},{bare}"]
        (self.dir / "tokens.csv").write_text("\n".join(lines) + "\n")

    def _etcd_command(self, where: Path, client: int, peer: int) -> list[str]:
        client_url, peer_url = f"http://{LOOPBACK}:{client}", f"http://{LOOPBACK}:{peer}"
        command = [
            str(where / "etcd"),
            f"--data-dir={self.dir / 'etcd'}",
            f"--listen-client-urls={client_url}",
            f"--advertise-client-urls={client_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            "--socket-reuse-port",
        ]
        # What a test writes need not survive a power cut, and the disk's own pace is not what is tested.
        return command if self._fsync else [*command, "--unsafe-no-fsync"]

    def _apiserver_command(self, where: Path, etcd: int) -> list[str]:
        key = self.dir / "service-account.key"
        flags: dict[str, object] = {
            "etcd-servers": f"http://{LOOPBACK}:{etcd}",
            "bind-address": LOOPBACK,
            "advertise-address": LOOPBACK,  # else it looks for a default route
            "endpoint-reconciler-type": "none",  # and refuses to publish a loopback address
            "secure-port": self.port,
            "permit-port-sharing": "true",
            "tls-cert-file": self.dir / "apiserver.crt",
            "tls-private-key-file": self.dir / "apiserver.key",
            "client-ca-file": self.ca_file,
            "token-auth-file": self.dir / "tokens.csv",
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "service-cluster-ip-range": "10.0.0.0/24",
            "audit-policy-file": self.dir / "audit-policy.json",
            "audit-log-path": self.dir / "audit.log",
            "audit-log-mode": "blocking",  # written before the answer: a count is never behind
            "audit-log-maxsize": 100_000,
            "shutdown-watch-termination-grace-period": "1s",  # else TERM waits for those of `manager`, for a minute
        }
        if self._coordinated:
            flags |= {
                "feature-gates": "CoordinatedLeaderElection=true",
                "runtime-config": "coordination.k8s.io/v1beta1=true",
                # The API server that elects is itself elected: a killed one's successor need not wait for long.
                "coordinated-leadership-lease-duration": "4s",
                "coordinated-leadership-renew-deadline": "3s",
                "coordinated-leadership-retry-period": "500ms",
            }
        return _command(where / "kube-apiserver", flags)

    def _manager_command(self, where: Path) -> list[str]:
        flags: dict[str, object] = {
            "kubeconfig": self.kubeconfig(),
            "controllers": "garbage-collector-controller",
            "leader-elect": "false",
            "secure-port": 0,
            "kube-api-qps": 200,  # its pace is not what is tested
            "kube-api-burst": 400,
        }
        return _command(where / MANAGER, flags)

    def _ready(self) -> bool:
        with contextlib.suppress(OSError):
            return self.api.request("GET", "/readyz", timeout=5)[0] == 200
        return False

    def _collected(self) -> bool:
        with contextlib.suppress(OSError):
            return self.api.find(path_of(ORPHAN)) is None
        return False

    def _grant_candidates(self) -> None:
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": CANDIDATES}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": CANDIDATES}
        meta = {"metadata": {"name": CANDIDATES}}
        self.api.apply({"apiVersion": RBAC, "kind": "ClusterRole", **meta, "rules": LEASE_RULES})
        binding = {"kind": "ClusterRoleBinding", **meta, "subjects": [subject], "roleRef": reference}
        self.api.apply({"apiVersion": RBAC, **binding})
        self.wait_allowed("default", LEASE_RULES[-1], groups=[CANDIDATES])


def _command(program: Path, flags: dict[str, object]) -> list[str]:
    return [str(program), *(f"--{name}={value}" for name, value in flags.items())]


def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
        return True
    return False


def given_kubeconfig() -> Path | None:
    """Return $KLEADER_TEST_KUBECONFIG: the tests then use that cluster instead of their own."""
    given = os.environ.get("KLEADER_TEST_KUBECONFIG")
    return Path(given) if given else None


def plane_for_tests() -> Plane:
    """Return the cluster that the environment asks for, not yet started: the given one, else an own coordinated one."""
    given = given_kubeconfig()
    return GivenPlane(given) if given else ControlPlane(coordinated=True)


def main(arguments: Sequence[str]) -> int:
    """Build the binaries, print where they are, or run a control plane until Ctrl-C."""
    command, *names = arguments or ["help"]
    try:
        if command in {"build", "path"}:
            print(binaries(*names) if names else build_all())  # noqa: T201 - it is for a person
        elif command == "run":
            with ControlPlane() as plane:
                print(plane.kubeconfig(), flush=True)  # noqa: T201
                ends = {signal.SIGINT, signal.SIGTERM}
                signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # only now: the servers would inherit it
                signal.sigwait(ends)
        else:
            print("usage: python -m tests.support.controlplane build [BINARY]… | path | run", file=sys.stderr)  # noqa: T201
            return 2
    except GoError as error:
        print(f"controlplane: error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
