"""The checked options of one ``kleader run``: the command line makes them, the processes of the run read them."""

from __future__ import annotations

import json
import math
import os
from typing import NamedTuple

from kleader import __version__
from kleader.election.timing import Timing

_READ_BYTES = 1 << 16
_VERSION = f"{__version__}/3"  # of the plan and the messages: raised whenever one of them changes
FOR_LIFE = "leader-for-life"
OTHER_VERSION = 78  # exit status (EX_CONFIG, sysexits.h) of a process whose code is not of the plan's version


class OtherVersionError(Exception):
    """The plan was written by another version of kleader, whose options and messages may mean something else."""


class Wait(NamedTuple):
    """How long a candidacy waits for the lock."""

    until: float  # on CLOCK_BOOTTIME; inf: without end
    one_try: bool  # --no-wait
    live: bool  # until the holder is seen to renew the lock


class Pod(NamedTuple):
    """A Pod, as far as the downward API tells of it: "" for what it does not tell."""

    namespace: str
    name: str
    uid: str


class Plan(NamedTuple):
    """One run. Every value is valid and final: no process that reads it checks it again. Durations are in seconds."""

    command: list[str]
    path: list[str]  # sys.path of the command line, for the processes that import its packages
    started: float  # CLOCK_BOOTTIME when kleader was started
    # the lock
    lock: str  # lease, configmap, endpoints, configmapsleases, endpointsleases, leader-for-life, file, or "": none
    namespace: str  # "": the elector finds out
    name: str
    file: str  # the lock file's path
    identity: str
    pod: Pod  # of this process; leader-for-life and pod_label need its name
    labels: dict[str, str]
    registers: bool  # makes itself known while it waits
    priority: int  # of several standbys the highest one is preferred
    force: bool  # do what the lock would refuse to do
    coordinated: bool  # take part in coordinated election, where the cluster has it
    binary_version: str
    emulation_version: str
    strategy: str  # of coordinated election
    api: dict[str, str]  # kubeconfig, context, cluster, user, server, as
    # timing
    timing: Timing
    request_timeout: float
    wait: float | None  # None: without end
    live: bool
    once: str  # the key of the run; "" without --once
    once_per: float  # 0 without --once-per
    once_after_any: bool
    once_exit_code: int
    busy_exit_code: int  # the status where another candidate held the lock until the end of the wait
    # the command
    on_loss: str  # exit or wait
    loss_exit_code: int
    restart: str  # no, on-failure or always
    until_empty: bool
    release: bool
    stop_signal: int  # 0: the signal that kleader received, or TERM
    stop_group: bool
    stop_timeout: float
    # other commands: empty lists are none
    standby: list[str]
    on_new_leader: list[str]
    on_end: list[str]
    health: list[str]
    health_period: float
    health_failures: int
    pod_label: list[str]  # key, the leader's value, and the value of the other candidates, "" for no label
    # monitoring
    http: str  # ADDR:PORT; "": no server
    http_fd: int  # the socket that listens there
    state_file: str  # "": none
    metrics_file: str  # "": none
    notify: str  # who uses NOTIFY_SOCKET: kleader or command
    # logs
    log_format: str
    log_suffix: str  # of text lines: tells candidates apart whose logs are merged; "": none
    verbosity: int

    @property
    def recommends(self) -> bool:
        """Whether a leader that ends recommends a standby: the control plane or a Pod's end decides in other locks."""
        return self.registers and self.lock != FOR_LIFE and not self.coordinated

    def wait_of(self, candidacy: int) -> Wait:
        """How long this candidacy waits: --wait is for the first one alone."""
        if candidacy > 1:
            return Wait(math.inf, one_try=False, live=False)
        return Wait(self.started + self.wait if self.wait else math.inf, self.wait == 0, self.live)


def save(plan: Plan, fd: int) -> None:
    """Write the plan into an open file, from its start, with its version."""
    data = json.dumps({"version": _VERSION, **plan._asdict()}).encode()
    offset = 0
    while offset < len(data):
        offset += os.pwrite(fd, data[offset:], offset)


def load(fd: int) -> Plan:
    """Read it back, without moving the file's offset, which all processes that hold the file share.

    OtherVersionError: kleader was upgraded under a running supervisor, and the code of this process is the new one's.
    """
    data = b""
    while piece := os.pread(fd, _READ_BYTES, len(data)):
        data += piece
    fields = json.loads(data)
    if fields.pop("version", None) != _VERSION:
        raise OtherVersionError
    return Plan(**{**fields, "pod": Pod(*fields["pod"]), "timing": Timing(*fields["timing"])})
