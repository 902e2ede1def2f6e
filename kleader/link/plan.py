"""The checked options of one ``kleader run``: made by the command line, read by the supervisor and the elector."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

READ = 1 << 16
FOR_LIFE = "leader-for-life"


class Plan(NamedTuple):
    """Everything is decided here already: whoever reads it does not check again. Durations in seconds."""

    command: list[str]
    path: list[str]  # sys.path of the command line, for whoever needs its packages
    started: float  # boot clock, when kleader was started
    # the lock
    lock: str  # lease, configmap, endpoints, configmapsleases, endpointsleases, leader-for-life, file, or "": none
    namespace: str  # "" : the elector finds out
    name: str
    file: str  # the file lock's path
    identity: str
    pod: str  # where we run; leader-for-life alone
    pod_uid: str  # "": whatever Pod has that name
    labels: dict[str, str]
    force: bool  # do what a lock would refuse to do
    coordinated: bool  # the control plane names the leader, where it can
    binary_version: str
    emulation_version: str
    api: dict[str, str]  # kubeconfig, context, cluster, user, server, as
    # timing
    lease_duration: int
    renew_deadline: float
    retry_period: float
    grace: float
    kill: float
    skew: float
    request_timeout: float
    wait: float | None
    live: bool
    # the command
    on_loss: str  # exit or wait
    loss_exit_code: int
    restart: str  # no, on-failure or always
    until_empty: bool
    release: bool
    stop_signal: int  # 0: the one that was received, or TERM
    stop_group: bool
    stop_timeout: float
    # beside the command
    standby: list[str]  # a command; empty: none
    on_new_leader: list[str]  # likewise
    health: list[str]  # likewise
    health_period: float
    health_failures: int
    pod_label: list[str]  # its key, the leader's value, and that of the others, "" for none; empty: no label
    labelled: list[str]  # the Pod that has it: its namespace, "" for the lock's, its name, its uid if that is known
    # whom it tells
    http: str  # ADDR:PORT; "": nobody
    http_fd: int  # where that is listened at already
    state_file: str  # "": none
    # logs
    log_format: str
    verbosity: int


def save(plan: Plan, fd: int) -> None:
    """Write the plan into an open file, from its start."""
    data = json.dumps(plan._asdict(), ensure_ascii=True).encode()
    offset = 0
    while offset < len(data):
        offset += os.pwrite(fd, data[offset:], offset)


def load(fd: int) -> Plan:
    """Read it back, without moving the file's offset, which all who hold the file share."""
    data = b""
    while piece := os.pread(fd, READ, len(data)):
        data += piece
    return Plan(**json.loads(data))
