"""The metrics, computed from the last status at each request."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from kleader.exporter.health import HttpResponse, holds_lock
from kleader.ipc.messages import RENEWALS
from kleader.ipc.plan import FOR_LIFE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from kleader.ipc.messages import Status

# client-go's own words (component-base, metrics/prometheus/clientgo/leaderelection).
_MASTER = (
    "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master."
    " 'name' is the string used to identify the lease. Please make sure to group by name."
)
_SLOW = (
    "Total number of slow path exercised in renewing leader leases."
    " 'name' is the string used to identify the lease. Please make sure to group by name."
)


def response(status: Status, now: float, accept: str) -> HttpResponse:
    """The metrics in the format of the Accept header: OpenMetrics or Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_StatusCollector(status, now))
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # the header names a version that cannot be parsed
        encode, content_type = choose_encoder("")
    return HttpResponse(200, content_type, encode(registry))


class _StatusCollector(Collector):
    """The metrics of one status, without those that its lock does not have."""

    def __init__(self, status: Status, now: float) -> None:
        self._status, self._now = status, now

    def collect(self) -> Iterator[Metric]:
        """Each metric with its one sample, labelled with the lock's name."""
        status = self._status
        yield self._counter("kleader_command_restarts", "Restarts of the command within a term.", status.restarts)
        if not status.lock:
            return
        yield self._gauge("leader_election_master_status", _MASTER, float(holds_lock(status, self._now)))
        yield self._counter("kleader_transitions", "Changes of the leader that were seen.", status.transitions_seen)
        yield self._counter("kleader_elector_restarts", "Electors that were started after one died.", status.electors)
        if status.lock == "file":
            return
        yield self._counter("kleader_watch_reconnects", "Watches of the lock that ended.", status.reconnects)
        if status.lock == FOR_LIFE:
            return
        yield self._counter("leader_election_slowpath", _SLOW, status.slow)
        if status.held:
            since = max(0.0, self._now - status.renewed)
            what = "Seconds since the last renewal that succeeded was sent, while leading."
            yield self._gauge("kleader_time_since_renewal_seconds", what, since)
        what = "How long renewals took that succeeded, from before the request to after its answer."
        family = HistogramMetricFamily("kleader_renewal_duration_seconds", what, labels=["name"])
        buckets = zip([*map(str, RENEWALS), "+Inf"], accumulate(status.renewals), strict=True)
        family.add_metric([status.name], list(buckets), status.renewing)
        yield family

    def _counter(self, name: str, what: str, value: float) -> Metric:
        family = CounterMetricFamily(name, what, labels=["name"])
        family.add_metric([self._status.name], value)
        return family

    def _gauge(self, name: str, what: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, what, labels=["name"])
        family.add_metric([self._status.name], value)
        return family
