"""A series of incidents, reconstructed from the log, the Events, the metrics and `status`."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
import urllib.request
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.asking import asker
from tests.cluster.fleet import Fleet, elector, epoch, instant, now
from tests.process.test_exporter import HTTP, port_of
from tests.support.api import path
from tests.support.processes import PATIENCE, wait_until

if TYPE_CHECKING:
    from tests.conftest import Trials
    from tests.support.controlplane import ControlPlane
    from tests.support.processes import Process, Processes

MASTER = "leader_election_master_status"
OPTIONS = ("--on-loss=wait", "--log-format=json")
ROOMY = ("--lease-duration=10s", "--renew-deadline=8s", "--retry-period=1s")  # a new elector takes its time to start
SLACK = 0.002  # seconds; the log tells milliseconds
LAG = 10.0  # seconds for which a process may have to wait for a processor, between two things that it does: a lease


class Led(NamedTuple):
    """A term, on the witness's clock."""

    begin: float
    end: float
    identity: str


class Scrape(NamedTuple):
    """One look at a candidate's metrics, somewhere between the two instants."""

    before: float
    after: float
    identity: str
    master: bool


class Prometheus(threading.Thread):
    """Asks every candidate again and again."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.targets: dict[str, int] = {}
        self.scrapes: list[Scrape] = []
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.02):
            for identity, port in list(self.targets.items()):
                before = now()
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
                        said = answer.read().decode()
                except (OSError, http.client.HTTPException):  # not yet, or no more
                    continue
                families = text_string_to_metric_families(said)
                (value,) = [each.value for family in families for each in family.samples if each.name == MASTER]
                self.scrapes.append(Scrape(before, now(), identity, bool(value)))

    def end(self) -> None:
        self._over.set()
        self.join()


class Night:
    """The candidates, and who watches them."""

    def __init__(self, fleet: Fleet, plane: ControlPlane, processes: Processes) -> None:
        self.fleet, self.plane = fleet, plane
        self.ask = asker(plane, fleet.namespace, processes)
        self.candidates: dict[str, Process] = {}
        self.prometheus = Prometheus()
        self.prometheus.start()
        self.led = 0

    def starts(self, identity: str) -> Process:
        """A candidate that is watched."""
        self.candidates[identity] = self.fleet.start(identity, *OPTIONS, HTTP, timings=ROOMY)
        self.prometheus.targets[identity] = port_of(self.candidates[identity])
        return self.candidates[identity]

    def leads(self, but: str = "") -> str:
        """Who does by now, another one than `but`; `status` says the same, and Prometheus has seen it."""
        self.led += 1
        identity = self.fleet.witness.wait_start(self.led).identity
        assert identity != but, self.fleet.witness.story()
        (shown,) = json.loads(self.status().out)["items"]
        assert (shown["holder"], shown["transitions"]) == (identity, self.led - 1), shown
        announced_by_now = Counter(term.identity for term in self.fleet.witness.terms())
        wait_until(lambda: announced(self.plane, self.fleet.namespace) >= announced_by_now, "the Event of this term")
        since = now()
        self.fleet.witness.wait(
            lambda: any(each.master and each.identity == identity and each.before > since for each in self.scrapes),
            f"a scrape of {identity} as master",
        )
        return identity

    def status(self) -> Process:
        shown = self.ask("status", "-o", "json")
        assert shown.wait() == 0, shown.err
        return shown

    @property
    def scrapes(self) -> list[Scrape]:
        return list(self.prometheus.scrapes)


def logged(candidates: dict[str, Process]) -> list[Led]:
    """The terms that the logs tell of, in their order."""
    offset, found = epoch(), []
    for identity, process in candidates.items():
        lines: list[dict[str, Any]] = [json.loads(line) for line in process.err.splitlines() if line.startswith("{")]
        begins = [line for line in lines if "token" in line]
        ends = [line for line in lines if "led" in line]
        assert len(begins) == len(ends), f"each term of {identity} has a begin and an end"
        for begin, end in zip(begins, ends, strict=True):
            assert begin["identity"] == end["identity"] == identity
            found.append(Led(instant(begin["time"]) - offset, instant(end["time"]) - offset, identity))
            assert end["led"] == pytest.approx(found[-1].end - found[-1].begin, abs=LAG)
    return sorted(found)


def announced(plane: ControlPlane, namespace: str) -> Counter[str]:
    """How often each became leader, by the Events."""
    told: Counter[str] = Counter()
    for event in plane.api.list(path("v1", "Event", namespace, "").rstrip("/")):
        if event["message"].endswith(" became leader"):
            told[event["message"].split()[0]] += event.get("count", 1)
    return told


@pytest.mark.timeout(720)
def test_logs_events_metrics_and_status_agree_about_each_term(
    fleet: Fleet, own_plane: ControlPlane, processes: Processes, trials: Trials
) -> None:
    """After an elector that hung, an API that was away, a transfer and a rolling deployment, they agree with what was.

    Who led is what the witness saw.
    """
    night = Night(fleet, own_plane, processes)
    night.starts("a")
    first = night.leads()
    for identity in ("b", "c"):
        night.starts(identity).wait_err(r'"leader": "a"')

    hung = elector(night.candidates[first])
    os.kill(hung, signal.SIGSTOP)
    night.candidates[first].wait_log("elector_replaced", "[0-9]+; the command goes on")
    fleet.wait_renewals(2)
    assert len(fleet.witness.terms()) == night.led, "that changed nothing"

    own_plane.apiserver.stop()
    night.candidates[first].wait_log("lost")
    own_plane.apiserver.start()
    second = night.leads()

    third = "abc".replace(second, "")[0]
    assert night.ask("transfer", "--force", "--to", third).wait() == 0
    assert night.leads(but=second) == third

    rolled = list(night.candidates)
    for old, new in zip(rolled, "def", strict=True):
        leads = fleet.witness.terms()[-1].identity
        night.starts(new).wait_err(r'"leader": "')
        night.prometheus.targets.pop(old)
        night.candidates[old].signal(signal.SIGTERM)
        night.candidates[old].wait()
        if old == leads:
            night.leads(but=old)
    night.prometheus.end()
    last = fleet.witness.terms()[-1].identity
    for identity in sorted(night.candidates, key=last.__eq__):
        night.candidates[identity].signal(signal.SIGTERM)
        night.candidates[identity].wait()

    seen = fleet.witness.terms()
    told = logged(night.candidates)
    assert [each.identity for each in told] == [term.identity for term in seen]
    for led, term in zip(told, seen, strict=True):
        assert led.begin - SLACK <= term.born / 1e9 <= term.last / 1e9 <= led.end + SLACK, (led, term)
    for each in night.scrapes:
        if each.master:
            assert any(
                led.identity == each.identity and led.begin - SLACK <= each.after and each.before <= led.end + LAG
                for led in told
            ), f"{each} is of no term in the logs"
    assert announced(own_plane, fleet.namespace) == Counter(term.identity for term in seen)
    fleet.witness.check(terms=night.led)
    trials.count(night.led, "terms told alike by logs, Events, metrics and status")
