"""The confirmation of one candidate: fresh pairs, looks fixed beforehand, one verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from tuner import judge
from tuner.candidate import Candidate
from tuner.objective import OBJECTIVE
from tuner.results import Results

HOPELESS = 0.3
"""At a look, an estimate under this share of the smallest effect ends the confirmation."""

EARLY_SHARE = 0.5
"""Before the last look, the share of the smallest effect that the low end of the interval must reach."""

Outcome = Literal["promoted", "rejected", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a look decided, with the effect it saw as ratios - 1 (better is positive)."""

    outcome: Outcome
    text: str
    effect: dict[str, Any]
    p_value: float


class Confirmation:
    """Judges one challenger with what was known when it began: its own pairs shape nothing but the verdict."""

    def __init__(self, challenger: Candidate, results: Results) -> None:
        self.challenger = challenger
        self.scheduled = 0
        self._spoiled: set[int] = set()
        self._limits = results.limits
        self._adjustments = dict(results.adjustments)
        self._margin = results.margin
        self._reference = results.reference
        self._looks = list(judge.LOOKS)
        self._passed = False

    @property
    def full(self) -> bool:
        """Whether all pairs have been scheduled."""
        return self.scheduled - len(self._spoiled) >= judge.LOOKS[-1]

    def spoiled(self, block: int) -> None:
        """A block gave no pair: another one takes its place."""
        self._spoiled.add(block)

    def look(self) -> Verdict | None:
        """Judge at the next look whose pairs are all there; None goes on."""
        series = self.challenger.confirmation
        while self._looks and len(series) >= self._looks[0]:
            count = self._looks.pop(0)
            verdict = self._judge(count, last=count == judge.LOOKS[-1])
            if verdict is not None:
                return verdict
        return None

    def out_of_time(self) -> Verdict:
        """The verdict when the budget ends between looks: what an earlier look allowed, else nothing can be claimed."""
        count = len(self.challenger.confirmation)
        verdict = self._judge(count, last=True) if self._passed else None
        if verdict is not None and verdict.outcome != "inconclusive":
            return verdict
        effect = self._effect(count)[0] if count else {}
        return Verdict("inconclusive", f"the budget ended after {count} pairs", effect, 1.0)

    def others(self) -> dict[str, float]:
        """Ratio - 1 of every other metric over the confirmation, better is positive."""
        found = {}
        for name, adjustment in self._adjustments.items():
            gains = self.challenger.confirmation.gains(adjustment)
            if name != OBJECTIVE and gains:
                found[name] = math.expm1(median(gains))
        return found

    def _effect(self, count: int) -> tuple[dict[str, Any], judge.Estimate]:
        found = judge.estimate(self.challenger.confirmation.first(count).gains(self._adjustments[OBJECTIVE]))
        scale = self._limits.scale
        effect = {
            "median": scale.effect(found.median, self._reference),
            "low": scale.effect(found.low, self._reference),
            "high": scale.effect(found.high, self._reference),
            "pairs": count,
            "phase": "confirm",
        }
        return effect, found

    def _judge(self, count: int, last: bool) -> Verdict | None:
        effect, found = self._effect(count)
        text = f"{effect['median']:+.1%} ({effect['low']:+.1%} to {effect['high']:+.1%}) over {count} pairs"
        excess = self._limits.worst(self.challenger.confirmation.first(count), self._adjustments)
        if excess.broken:
            return Verdict("rejected", f"{excess} over {count} pairs", effect, found.p_value)
        gained = found.p_value <= judge.NOMINAL_LEVEL and found.median >= self._margin
        # Early pairs that happen to be large overstate: while there is time, even the low end must be worth it.
        convincing = gained and found.low >= EARLY_SHARE * self._margin
        self._passed = self._passed or gained
        if convincing or (last and gained):
            return Verdict("promoted", text, effect, found.p_value)
        if last and self._passed and found.median >= self._margin:
            return Verdict("promoted", f"{text}; an earlier look had passed the test", effect, found.p_value)
        if found.high < self._margin or found.median < HOPELESS * self._margin:
            return Verdict("rejected", text, effect, found.p_value)
        if last:
            return Verdict("inconclusive", text, effect, found.p_value)
        return None
