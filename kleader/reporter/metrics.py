"""The metrics, made anew from what was told last whenever they are asked for."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from kleader.link.messages import RENEWALS
from kleader.link.plan import FOR_LIFE
from kleader.reporter.answers import Answer, holds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from kleader.link.messages import Status

# client-go's own words (component-base, metrics/prometheus/clientgo/leaderelection).
_MASTER = (
    "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master."
    " 'name' is the string used to identify the lease. Please make sure to group by name."
)
_SLOW = (
    "Total number of slow path exercised in renewing leader leases."
    " 'name' is the string used to identify the lease. Please make sure to group by name."
)


def answer(told: Status, now: float, accept: str) -> Answer:
    """In the format that is asked for: OpenMetrics, or Prometheus' own."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Metrics(told, now))
    try:
        encode, content = choose_encoder(accept)
    except (TypeError, ValueError):  # it is asked for a version that is none
        encode, content = choose_encoder("")
    return Answer(200, content, encode(registry))


class _Metrics(Collector):
    """Of one Status. What a lock has not is absent: without an election all of it, without renewals theirs."""

    def __init__(self, told: Status, now: float) -> None:
        self._told, self._now = told, now

    def collect(self) -> Iterator[Metric]:
        """Each with its one sample."""
        told = self._told
        yield self._counter("kleader_command_restarts", "Restarts of the command within a term.", told.restarts)
        if not told.lock:
            return
        yield self._gauge("leader_election_master_status", _MASTER, float(holds(told, self._now)))
        yield self._counter("kleader_transitions", "Changes of the leader that were seen.", told.transitions_seen)
        yield self._counter("kleader_elector_restarts", "Electors that were started after one died.", told.electors)
        if told.lock == "file":
            return
        yield self._counter("kleader_watch_reconnects", "Watches of the lock that ended.", told.reconnects)
        if told.lock == FOR_LIFE:
            return
        yield self._counter("leader_election_slowpath", _SLOW, told.slow)
        if told.held:
            since = max(0.0, self._now - told.renewed)
            what = "Seconds since the last renewal that succeeded was sent, while leading."
            yield self._gauge("kleader_time_since_renewal_seconds", what, since)
        yield self._histogram(told)

    def _counter(self, name: str, what: str, value: float) -> Metric:
        family = CounterMetricFamily(name, what, labels=["name"])
        family.add_metric([self._told.name], value)
        return family

    def _gauge(self, name: str, what: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, what, labels=["name"])
        family.add_metric([self._told.name], value)
        return family

    def _histogram(self, told: Status) -> Metric:
        what = "How long renewals took that succeeded, from before the request to after its answer."
        family = HistogramMetricFamily("kleader_renewal_duration_seconds", what, labels=["name"])
        bounds = [*map(str, RENEWALS), "+Inf"]
        counts = accumulate(told.renewals)
        family.add_metric([told.name], list(zip(bounds, counts, strict=True)), told.renewing)
        return family
