"""Whether two engines side by side serve the same users: what makes a difference between them say something of them.

Lengths of requests are the users' own and must agree. Of arrival rate and concurrency an engine's own speed moves one:
where users wait for their answers the faster is asked more often, where they do not it holds fewer at once. Another
share of the users moves both the same way, and that is what counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from change.engine import RequestRecord
from tuner.switchback import ScoredWindow
from tuner.workload import SIMILAR, fingerprint

LENGTHS_APART = math.log(1.25)
"""Mean of the logarithm of a length, beyond which two streams are not the same users."""
SURE = 3.0
"""Standard errors that the lengths must be apart beside that: long and short prompts mix by luck."""
LEAST_REQUESTS = 30


def unfair(canary: Sequence[ScoredWindow], base: Sequence[ScoredWindow]) -> str | None:
    """Why the traffic of the two cannot be compared, or None; too little traffic to tell is left to the score."""
    mine, theirs = _records(canary), _records(base)
    if len(mine) < LEAST_REQUESTS or len(theirs) < LEAST_REQUESTS:
        return None
    one, other = fingerprint(mine, _seconds(canary)), fingerprint(theirs, _seconds(base))
    found = [
        name
        for name, length in (
            ("prompt_tokens", lambda record: record.prompt_tokens),
            ("output_tokens", lambda record: record.output_tokens),
        )
        if _lengths_differ(mine, theirs, length)
    ]
    said = [f"{name}_p50 {one[f'{name}_p50']:.0f} and {other[f'{name}_p50']:.0f}" for name in found]
    rate = math.log(one["requests_per_second"] / other["requests_per_second"])
    held = math.log(one["concurrency"] / other["concurrency"])
    if rate * held > 0 and min(abs(rate), abs(held)) > SIMILAR:
        said += [
            f"{name} {one[name]:.3g} and {other[name]:.3g}" for name in ("requests_per_second", "concurrency")
        ]
    if not said:
        return None
    return (
        f"the canary and the engine beside it serve different traffic ({', '.join(said)}): nothing is scored; "
        "give both the same share of the same users"
    )


def _records(windows: Sequence[ScoredWindow]) -> list[RequestRecord]:
    """Whose first token came in a window: most of them outlast it, and those that do not are the short ones."""
    return [record for window in windows if window.valid for record in window.records]


def _seconds(windows: Sequence[ScoredWindow]) -> float:
    return sum(window.interval.seconds for window in windows if window.valid)


def _lengths_differ(
    mine: Sequence[RequestRecord], theirs: Sequence[RequestRecord], length: Callable[[RequestRecord], int]
) -> bool:
    one, other = ([math.log(max(1, length(record))) for record in records] for records in (mine, theirs))
    error = math.sqrt(stdev(one) ** 2 / len(one) + stdev(other) ** 2 / len(other))
    return abs(fmean(one) - fmean(other)) > max(LENGTHS_APART, SURE * error)
