"""What a campaign has found: windows joined to pairs, pairs to gains, gains to the evidence that proposals rest on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from change.engine import Values
from tuner.adjust import Adjustment, Contrast, contrast, enough, fit, unadjusted
from tuner.candidate import Candidate
from tuner.limits import Excess, Limits, other_gains
from tuner.messages import Decided, Event, PairPhase, PairScored, TrialState, WindowClosed
from tuner.objective import OBJECTIVE, OTHERS, Scale
from tuner.proposer import Evidence, Proposal
from tuner.switchback import ScoredWindow


class Results:
    """Windows, pairs and candidates of one campaign; `events` is where new rows go.

    `reference` is the incumbent's mean score and `margin` the smallest effect as a gain, both known once calibrated.
    """

    def __init__(self, events: list[Event], incumbent: Values, limits: Limits) -> None:
        self.incumbent = incumbent
        self.limits = limits
        self.candidates: list[Candidate] = []
        self.blocks = 0
        self.pairs = 0
        self.adjustments: dict[str, Adjustment] = {
            name: unadjusted(name, 0.2) for name in (OBJECTIVE, *OTHERS)
        }
        self.reference = 0.0
        self.margin = 0.0
        self._prior_sd: dict[str, float] = {}
        self._calibrated = 0
        self._events = events
        self._contrasts: list[Contrast] = []
        self._open: dict[int, list[ScoredWindow]] = {}

    @property
    def adjustment(self) -> Adjustment:
        """The objective's own adjustment."""
        return self.adjustments[OBJECTIVE]

    @property
    def scale(self) -> Scale:
        """The objective's scale."""
        return self.limits.scale

    def candidate(self, number: int) -> Candidate:
        """The candidate of a trial number."""
        return self.candidates[number - 1]

    def calibrate(self, windows: Sequence[ScoredWindow], min_effect: float) -> float:
        """Pair the incumbent with itself; returns the noise of a pair at this window length, before adjustment."""
        scores = [score for w in windows if (score := self.scale.score(w.metrics)) is not None]
        for one, other in pairwise(windows):
            self._pair(one.block, 0, "calibrate", other, one)
        raw = float(np.sqrt(np.mean(np.diff(np.array(scores)) ** 2)))
        self.adjustments = {name: fit(self._contrasts, name, raw) for name in self.adjustments}
        self.reference = float(np.mean(scores))
        self.margin = self.scale.margin(min_effect, self.reference)
        return raw

    def lengthen(self, sd: float) -> None:
        """Windows get longer: from here on the noise of the objective is `sd`, and the others' falls alike."""
        ratio = sd / self.adjustment.sd if self.adjustment.sd > 0 else 1.0
        self.adjustments = {
            name: Adjustment(name, found.coefficients, found.sd * ratio)
            for name, found in self.adjustments.items()
        }
        self._prior_sd = {name: found.sd for name, found in self.adjustments.items()}
        self._calibrated = len(self._contrasts)

    def close_window(self, window: ScoredWindow) -> None:
        """Store a window."""
        interval = window.interval
        self._events.append(
            WindowClosed(
                window.block,
                window.position,
                window.arm.trial,
                interval.epoch,
                interval.applied,
                interval.start,
                interval.end,
                window.valid,
                window.reason,
                window.metrics,
                window.covariates,
            )
        )

    def join(self, window: ScoredWindow, confirming: int | None) -> None:
        """Pair a window with the other side of its block once both are there and valid."""
        block = self._open.setdefault(window.block, [])
        block.append(window)
        if not window.valid:
            return
        incumbent = next((w for w in block if w.arm.trial is None and w.valid), None)
        if incumbent is None:
            return
        others = (
            [w for w in block if w.valid and w.arm.trial is not None] if window is incumbent else [window]
        )
        for other in others:
            trial = other.arm.trial
            if trial is not None and not self.candidate(trial).done:
                self._pair(
                    window.block, trial, "confirm" if trial == confirming else "race", other, incumbent
                )

    def refit(self) -> None:
        """Learn the traffic's share of the noise anew from all pairs so far."""
        raced = self._contrasts[self._calibrated :]
        # Until the race has pairs of its own, the calibration's coefficients are the better guess.
        self.adjustments |= {
            name: fit(raced, name, self._prior_sd[name]) for name in self.adjustments if enough(raced, name)
        }

    def gain(self, candidate: Candidate) -> float:
        """Mean adjusted gain of the race's pairs."""
        gains = candidate.race.gains(self.adjustment)
        return sum(gains) / len(gains)

    def error(self, candidate: Candidate) -> float:
        """Standard error of that mean."""
        return self.adjustment.sd / math.sqrt(len(candidate.race))

    def excess(self, candidate: Candidate) -> Excess:
        """The tightest soft limit of a racing candidate."""
        return self.limits.worst(candidate.race, self.adjustments)

    def start(self, now: float, proposal: Proposal) -> Candidate:
        """A new trial."""
        candidate = Candidate(len(self.candidates) + 1, proposal, now)
        self.candidates.append(candidate)
        self._events.append(candidate.row())
        return candidate

    def close(self, now: float, candidate: Candidate, state: TrialState, reason: str) -> None:
        """A trial ends; one that was never confirmed keeps what the race saw of it."""
        candidate.state, candidate.reason, candidate.ended = state, reason, now
        if candidate.race and not candidate.confirmation:
            candidate.effect = self.race_effect(candidate)
        self._events.append(candidate.row())

    def note(
        self,
        kind: str,
        text: str,
        candidate: Candidate | None = None,
        figures: Mapping[str, object] | None = None,
    ) -> None:
        """A decision with the figures it saw."""
        self._events.append(Decided(kind, text, candidate.number if candidate else None, figures or {}))

    def race_effect(self, candidate: Candidate) -> dict[str, float | int | str]:
        """What the race saw of a candidate, as ratios - 1; the interval is one standard error, no claim."""
        gain, error = self.gain(candidate), self.error(candidate)
        return {
            "median": self.scale.effect(gain, self.reference),
            "low": self.scale.effect(gain - error, self.reference),
            "high": self.scale.effect(gain + error, self.reference),
            "pairs": len(candidate.race),
            "phase": "race",
        }

    def evidence(self) -> list[Evidence]:
        """The incumbent (gain 0 by definition) and every candidate that has a pair or broke a guard."""
        sd = self.adjustment.sd
        found = [Evidence(self.incumbent, 0.0, sd**2 / 200, -0.1)]
        for candidate in self.candidates:
            if candidate.race:
                limit = max(-1.0, min(1.0, self.excess(candidate).size))
                found.append(
                    Evidence(candidate.values, self.gain(candidate), self.error(candidate) ** 2, limit)
                )
            elif candidate.state == "aborted":
                # It broke a guard before it had a pair: bad for certain, how bad is unknown.
                found.append(Evidence(candidate.values, -4 * sd, sd**2, 0.5))
        return found

    def _pair(
        self, block: int, trial: int, phase: PairPhase, mine: ScoredWindow, theirs: ScoredWindow
    ) -> None:
        one, other = self.scale.score(mine.metrics), self.scale.score(theirs.metrics)
        if one is None or other is None:
            return
        others = other_gains(mine.metrics, theirs.metrics)
        gains = {OBJECTIVE: one - other, **others}
        pair = contrast(trial, gains, mine.covariates, theirs.covariates, saturated=self.limits.saturated)
        if phase != "confirm":
            # A confirmation's own pairs never shape the coefficients they are judged with.
            self._contrasts.append(pair)
        self.pairs += 1
        if trial:
            candidate = self.candidate(trial)
            series = candidate.confirmation if phase == "confirm" else candidate.race
            series.contrasts.append(pair)
            series.mine.append(mine)
            series.incumbent.append(theirs)
        adjusted = self.adjustment.gain(pair)
        self._events.append(PairScored(block, trial, phase, one - other, adjusted, others))
