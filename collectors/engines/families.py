"""How an engine's metrics page becomes canonical samples: one table of families for each kind of engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from collectors.combine import combine_distributions, combine_values
from collectors.legacy import legacy_samples
from collectors.metrics import METRICS
from collectors.prometheus_text import PageError, PageParser, Point, Shape
from collectors.sample import Distribution, Labels, Sample

KindName = Literal["vllm", "sglang", "mindie"]
Role = Literal["prefill", "decode", "both", "headless"]
"""What an engine does of a request: one half of a disaggregated pair, all of it, or work for another node's server."""

START_TIME = "process_start_time_seconds"


@dataclass(frozen=True, slots=True)
class Family:
    """A canonical name and what an engine called it, the newest name first, without the prefix.

    `fixed` are labels that the engine's name itself says, such as the reason in `request_failed_total`.
    """

    canonical: str
    names: tuple[str, ...]
    fixed: Labels = ()


ByFamily = Mapping[str, Sequence[Point]]


class Found(NamedTuple):
    """What a page says beyond its families."""

    samples: list[Sample]
    role: Role | None = None


def nothing_more(by_family: ByFamily, now: float) -> Found:
    """For a kind whose page is told in full by its table."""
    return Found([])


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of engine.

    `prefixes` stand before every name of `families`; `markers` begin a line on its page and on no other kind's;
    `labels` turns the page's labels into ours, others are dropped. Series that differ only in `copies` (the
    ranks that all report the same) count once, that of the lowest rank. `totals` are labels whose empty value,
    where it is there, stands for all the others and counts alone. `extra` are whole names of single values, read
    by `more` for what no row can say. `absent` says what to check when the page has none of the names.
    """

    name: KindName
    title: str
    prefixes: tuple[str, ...]
    markers: tuple[str, ...]
    families: tuple[Family, ...]
    labels: Mapping[str, str]
    absent: str
    extra: tuple[str, ...] = ()
    more: Callable[[ByFamily, float], Found] = nothing_more
    copies: tuple[str, ...] = ()
    totals: tuple[str, ...] = ()

    def wanted(self) -> dict[str, Shape]:
        """Every name that is read, in every spelling and version, with its shape."""
        wanted: dict[str, Shape] = dict.fromkeys((START_TIME, *self.extra), "scalar")
        for prefix in self.prefixes:
            for family in self.families:
                shape: Shape = "histogram" if METRICS[family.canonical].kind == "histogram" else "scalar"
                wanted.update(dict.fromkeys((prefix + name for name in family.names), shape))
        return wanted

    def is_on(self, text: str) -> bool:
        """Whether a page is one of this kind's."""
        return any(text.startswith(marker) or f"\n{marker}" in text for marker in self.markers)


@dataclass(frozen=True, slots=True)
class EnginePage:
    """What one page says: its samples, whose page it is, and the engine's role where the page tells it."""

    kind: KindName
    samples: list[Sample]
    role: Role | None = None

    def ranks(self) -> list[Labels]:
        """The label pairs `engine` and `model` that stand on the page."""
        found = {
            tuple(pair for pair in sample.labels if pair[0] in ("engine", "model"))
            for sample in self.samples
            if sample.name.startswith("trimtab_engine_")
        }
        return sorted(pairs for pairs in found if dict(pairs).keys() == {"engine", "model"})


class PageReader:
    """Reads the pages of one kind of engine."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._parser = PageParser(kind.wanted())

    def read(self, text: str, now: float) -> EnginePage:
        """Canonical samples of a whole page, timed `now` (Unix seconds).

        Raises PageError if the page is cut off, has no metric of this kind, or is malformed where it matters.
        """
        kind = self.kind
        by_family: dict[str, list[Point]] = {}
        for point in self._parser.parse(text):
            by_family.setdefault(point.family, []).append(point)
        samples: list[Sample] = []
        ranks = names_ranks(kind, by_family)
        for family in kind.families:
            points = newest(by_family, kind.prefixes, family.names)
            samples.extend(_canonical(kind, family, points, ranks, now))
        if not samples:
            raise PageError(f"the page has none of {kind.title}'s metrics: {kind.absent}")
        more = kind.more(by_family, now)
        samples.extend(more.samples)
        samples.extend(
            Sample("trimtab_engine_start_time_seconds", point.value, now)
            for point in by_family.get(START_TIME, [])[:1]
            if isinstance(point.value, float)
        )
        return EnginePage(kind.name, samples + legacy_samples(samples), more.role)


def newest(by_family: ByFamily, prefixes: Iterable[str], names: Iterable[str]) -> Sequence[Point]:
    """The series of the newest name that is on the page."""
    for name in names:
        for prefix in prefixes:
            if found := by_family.get(prefix + name):
                return found
    return ()


def names_ranks(kind: Kind, by_family: ByFamily) -> bool:
    """Whether the page tells its data-parallel ranks apart."""
    told = {label for label, name in kind.labels.items() if name == "engine"}
    return bool(told) and any(
        label in told for points in by_family.values() for point in points for label, _ in point.labels
    )


def canonical_labels(
    kind: Kind, pairs: Labels, allowed: Iterable[str], fixed: Labels = (), *, ranks: bool = False
) -> Labels:
    """Our labels of a series.

    Without a rank it is engine 0's, or, where the page tells `ranks` apart, all of theirs together, and has no number.
    """
    found = {**({} if ranks else {"engine": "0"}), **dict(fixed)}
    for key, value in pairs:
        name = kind.labels.get(key)
        if name is not None and name in allowed:
            found[name] = value
    return tuple(sorted(found.items()))


def server_errors(points: Sequence[Point], route_label: str, status_label: str, now: float) -> list[Sample]:
    """The server's own count of answers of 500 and above under /v1/; absent until it has answered anything there."""
    answered = [(dict(point.labels), point.value) for point in points if isinstance(point.value, float)]
    inference = [(pairs, value) for pairs, value in answered if pairs.get(route_label, "").startswith("/v1/")]
    errors = sum(value for pairs, value in inference if pairs.get(status_label, "").startswith("5"))
    return [Sample("trimtab_engine_http_errors_total", errors, now)] if inference else []


def _canonical(kind: Kind, family: Family, points: Sequence[Point], ranks: bool, now: float) -> list[Sample]:
    metric = METRICS[family.canonical]
    values: dict[Labels, list[float | Distribution]] = {}
    for point in _once(kind, points):
        if point.value == point.value:  # a value that is not a number is no reading
            own = canonical_labels(kind, point.labels, metric.labels, family.fixed, ranks=ranks)
            values.setdefault(own, []).append(point.value)
    samples: list[Sample] = []
    for pairs, found in values.items():
        distributions = [value for value in found if isinstance(value, Distribution)]
        numbers = [value for value in found if not isinstance(value, Distribution)]
        value = (
            combine_distributions(distributions) if distributions else combine_values(numbers, metric.combine)
        )
        samples.append(Sample(family.canonical, value, now, pairs))
    return samples


def _once(kind: Kind, points: Sequence[Point]) -> Sequence[Point]:
    """The series less those that repeat another."""
    if not kind.copies and not kind.totals:
        return points
    alike: dict[Labels, list[tuple[bool, tuple[int, ...], Point]]] = {}
    for point in points:
        pairs = dict(point.labels)
        shares = [pairs.pop(label, "") for label in kind.totals]
        rank = tuple(_number(pairs.pop(label, "")) for label in kind.copies)
        alike.setdefault(tuple(sorted(pairs.items())), []).append((any(shares), rank, point))
    kept: list[Point] = []
    for series in alike.values():
        # The first is a total before a part, and of the lowest rank.
        best = min((part, rank) for part, rank, _ in series)
        kept.extend(point for part, rank, point in series if (part, rank) == best)
    return kept


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0
