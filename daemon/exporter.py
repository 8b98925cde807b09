"""The daemon's own /metrics page: the last samples, turned into metric families by the METRICS table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from collectors.history import History
from collectors.metrics import METRICS, Metric
from collectors.sample import Distribution, Sample, bound_text, labels

MODES = ("observe", "advise", "act")


@dataclass(frozen=True, slots=True)
class SelfState:
    """What Trimtab says of itself.

    `switches` counts the hot changes made since it started, `restart_time` is when a restart of its own was last under
    way (Unix seconds), None if there was none.
    """

    version: str
    mode: str
    paused: bool = False
    campaign_active: bool = False
    switches: int = 0
    restart_active: bool = False
    restart_time: float | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode is one of {', '.join(MODES)}, got {self.mode!r}")


class Exporter:
    """Serves the page; `state` and `clock` (Unix seconds) are asked at each scrape.

    A series that is no longer live in the history is not on the page. Samples carry no time stamp: the age of
    each source's newest sample is a metric of its own.
    """

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(
        self,
        history: History,
        state: Callable[[], SelfState],
        *,
        clock: Callable[[], float] = time.time,
        more: Callable[[float], Iterable[Sample]] = lambda now: (),
    ) -> None:
        """`more` gives what else of Trimtab's own is on the page, at a Unix time."""
        self._history = history
        self._more = more
        self._state = state
        self._clock = clock

    def samples(self) -> list[Sample]:
        """What is on the page now; to be asked on the thread that fills the history."""
        now = self._clock()
        return [*self._history.last_samples(now), *self.own(now)]

    def page(self) -> bytes:
        """The whole page in text format 0.0.4."""
        return render(self.samples())

    def own(self, now: float) -> Iterator[Sample]:
        """What is on the page and stands in no history."""
        yield from self._own(now)
        yield from self._more(now)

    def _own(self, now: float) -> Iterator[Sample]:
        state = self._state()
        yield Sample("trimtab_build_info", 1.0, now, labels(version=state.version))
        for mode in MODES:
            yield Sample("trimtab_mode", float(mode == state.mode), now, labels(mode=mode))
        yield Sample("trimtab_paused", float(state.paused), now)
        yield Sample("trimtab_campaign_active", float(state.campaign_active), now)
        yield Sample("trimtab_restart_active", float(state.restart_active), now)
        if state.restart_time is not None:
            yield Sample("trimtab_restart_time_seconds", state.restart_time, now)
        yield Sample("trimtab_switches_total", float(state.switches), now)
        yield Sample("trimtab_history_series", float(len(self._history)), now)
        yield Sample("trimtab_history_refused_samples_total", float(self._history.refused), now)
        for source, newest in sorted(self._history.source_times().items()):
            yield Sample("trimtab_sample_age_seconds", max(0.0, now - newest), now, labels(collector=source))


def render(samples: Iterable[Sample]) -> bytes:
    """The page of these samples, made on any thread: some 5 ms for each thousand of them."""
    registry = CollectorRegistry()
    registry.register(_Families(samples))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def describe(self) -> Iterable[Family]:
        """None beforehand: the registry would otherwise collect to find out."""
        return []

    def collect(self) -> Iterator[Family]:
        by_name: dict[str, list[Sample]] = {}
        for sample in self._samples:
            by_name.setdefault(sample.name, []).append(sample)
        for name, metric in METRICS.items():
            if name in by_name:
                yield family(metric, by_name[name])


def family(metric: Metric, samples: Iterable[Sample]) -> Family:
    """The one place where samples become a metric family."""
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help)
        for sample in samples:
            if isinstance(sample.value, Distribution):
                _add_histogram(histogram, metric.name, dict(sample.labels), sample.value)
        return histogram
    made: Family
    if metric.kind == "counter":
        made = CounterMetricFamily(metric.name.removesuffix("_total"), metric.help)
    else:
        made = GaugeMetricFamily(metric.name, metric.help)
    for sample in samples:
        if not isinstance(sample.value, Distribution):
            made.add_sample(metric.name, dict(sample.labels), sample.value)
    return made


def _add_histogram(made: Family, name: str, pairs: dict[str, str], value: Distribution) -> None:
    for bound, count in zip(value.bounds, value.counts, strict=True):
        made.add_sample(f"{name}_bucket", {**pairs, "le": bound_text(bound)}, count)
    if not value.bounds or value.bounds[-1] != float("inf"):
        made.add_sample(f"{name}_bucket", {**pairs, "le": "+Inf"}, value.count)
    made.add_sample(f"{name}_sum", pairs, value.sum)
    made.add_sample(f"{name}_count", pairs, value.count)
