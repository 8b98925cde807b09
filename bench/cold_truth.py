"""The best there is over start-up settings and hot values together: noise-free, over a grid of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from bench.truth import Truth
from change.engine import Values
from change.server import Setting, Settings
from sim.cold import CARDS
from sim.cold_story import GUIDE, GUIDE_HOT

BLOCKS = (16, 32, 64, 128, 256)
STAGES = (1, 2, 4)
CAPS = (0, 256, 320, 384, 448, 512, 576, 640, 768, 1024)
OTHERS: Mapping[str, tuple[float, ...]] = {
    "long_prefill_tokens": (256, 384),
    "max_num_seqs": (32, 40),
    "watermark": (0.02, 0.05),
    "batch_max_tokens": (512, 1024),
}
ROOM: Settings = {"batch_max_tokens": 8192}
TIE = 0.005
"""A knob is moved for a gain above this share only: what a truth over some thousands of requests is worth."""
LONG_SECONDS = 3000.0
"""Simulated seconds behind the figures that are compared in the end."""


@dataclass(frozen=True, slots=True)
class ColdBest:
    """The best start-up settings (over those of the launch) and hot values."""

    settings: Mapping[str, Setting]
    values: Values


def exact(truth: Truth) -> Truth:
    """The same truth over a longer run."""
    return replace(truth, seconds=LONG_SECONDS)


def shapes() -> Iterator[dict[str, Setting]]:
    """The start-up settings of the grid: all cards are used, and the hot values have room."""
    for block in BLOCKS:
        for stages in STAGES:
            parallel = {"pipeline_parallel_size": stages, "tensor_parallel_size": CARDS // stages}
            yield {**ROOM, "block_size": block, **parallel}


def best(truth: Truth, incumbent: Values) -> ColdBest:
    """The best admissible of all, `incumbent` being the hot values at the launch settings.

    Start-up settings are ranked under the guide's hot values, and the best two of them get the grid of hot values.
    """
    roomy = {**incumbent, **GUIDE_HOT}
    ranked = sorted(shapes(), key=lambda settings: truth.under(settings).score(roomy), reverse=True)
    found = [(settings, _hot(truth.under(settings), roomy, incumbent)) for settings in ranked[:2]]
    settings, values = max(found, key=lambda one: exact(truth.under(one[0])).score(one[1]))
    return ColdBest(settings, values)


def guide(truth: Truth, incumbent: Values) -> float:
    """What the guide's own values gain, as a ratio - 1."""
    there = exact(truth.under(GUIDE)).value({**incumbent, **GUIDE_HOT})
    return there / exact(truth).value(incumbent) - 1.0


def _hot(truth: Truth, start: Values, incumbent: Values) -> dict[str, float]:
    """The best admissible hot values: the prefill cap first, then the other knobs one by one."""
    capped = [{**start, "max_prefill_tokens": cap} for cap in CAPS]
    allowed = [values for values in capped if truth.admissible(values, incumbent)] or [dict(start)]
    found = max(allowed, key=truth.score)
    for name, places in OTHERS.items():
        for place in places:
            moved = {**found, name: place}
            if truth.score(moved) > truth.score(found) + TIE and truth.admissible(moved, incumbent):
                found = moved
    return found
