"""How several series make one figure."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.metrics import Combine
from collectors.sample import Distribution


def combine_values(values: Sequence[float], how: Combine) -> float:
    """Make one value of at least one."""
    if how == "sum":
        return sum(values)
    if how == "mean":
        return sum(values) / len(values)
    return max(values) if how == "max" else min(values)


def combine_distributions(parts: Sequence[Distribution]) -> Distribution:
    """Add histograms up, on the bounds that all of them have (exact, since counts are cumulative)."""
    first = parts[0]
    if len(parts) == 1:
        return first
    total, count = sum(part.sum for part in parts), sum(part.count for part in parts)
    if all(part.bounds == first.bounds for part in parts):
        counts = tuple(sum(column) for column in zip(*(part.counts for part in parts), strict=True))
        return Distribution(first.bounds, counts, total, count)
    common = sorted(set(first.bounds).intersection(*(part.bounds for part in parts)))
    tables = [dict(zip(part.bounds, part.counts, strict=True)) for part in parts]
    return Distribution(tuple(common), tuple(sum(t[bound] for t in tables) for bound in common), total, count)


def quantile(distribution: Distribution, q: float) -> float | None:
    """Interpolate a quantile within its bucket, as Prometheus does; None without observations.

    A rank above the last finite bound gives that bound: the histogram knows no more.
    """
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"a quantile is between 0 and 1, got {q}")
    if distribution.count <= 0 or not distribution.bounds:
        return None
    rank = q * distribution.count
    below_bound, below_count = 0.0, 0.0
    finite = None
    for bound, count in zip(distribution.bounds, distribution.counts, strict=True):
        if bound == float("inf"):
            break
        finite = bound
        count = max(count, below_count)  # a scrape between two increments may look a little uneven
        if count >= rank and count > below_count:
            if bound <= 0.0:
                return bound
            return below_bound + (bound - below_bound) * (rank - below_count) / (count - below_count)
        below_bound, below_count = bound, count
    return finite
