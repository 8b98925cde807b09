"""The race: randomised blocks of the incumbent and a few candidates; losers leave early. It ranks, no more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from change.engine import Values
from tuner.candidate import Candidate
from tuner.proposer import Proposer
from tuner.results import Results

ACTIVE = 3
"""Candidates that share a block with one incumbent window."""
FIRST_CUT_PAIRS = 2
ENOUGH_PAIRS = 6
FINAL_BLOCKS = 5
"""Blocks at the end that go to the best few, so that the choice is not one lucky window's."""
FINAL_PAIRS = 9
MOST_FINAL_PAIRS = 24
FINAL_ERROR = 0.25
"""Where time is left, the best few are measured until the error is this share of the smallest effect."""
ENOUGH_CANDIDATES = 24
ENOUGH_IMPROVEMENT = 0.05
"""The search ends early once the sampler expects less than this share of the smallest effect from one more."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A candidate's smoothed gain, its standard deviation, and what the gain is worth: less where a limit may break."""

    candidate: Candidate
    gain: float
    sd: float
    worth: float


class Race:
    """Chooses who runs in the next block."""

    def __init__(self, results: Results, proposer: Proposer) -> None:
        self.final = False
        self._results = results
        self._proposer = proposer
        self._leader = 0.0
        self._last = 0.0
        self._simpler: Candidate | None = None

    def hold(self, name: str, incumbent: Values, tried: float) -> None:
        """Search without a knob that the engine does not honour; of one with texts, without the text that was tried."""
        if name in self._proposer.space.options:
            self._proposer.avoid(name, tried)
        else:
            self._proposer.hold(name, incumbent[name])

    def next_block(self, now: float, blocks_left: float) -> list[Candidate] | Literal["over"]:
        """Who runs next beside the incumbent; `blocks_left` is how many full blocks the budget still holds."""
        results = self._results
        results.refit()
        if blocks_left < 0.5:
            return "over"
        if not results.candidates:
            # A short race keeps most of its blocks for the search.
            self._last = min(FINAL_BLOCKS, blocks_left / 3)
        ending = blocks_left <= self._last or self._searched()
        if ending and not self.final and self._proposer.pairs_each is None:
            self.final = True
            self._simplify(now)
        if self.final:
            few = [c for c in self._finalists() if len(c.race) < self._final_pairs]
            for candidate in few:
                candidate.state, candidate.reason, candidate.ended = "racing", None, None
            return few or "over"
        running = self._cut(now)
        while len(running) < ACTIVE:
            proposal = self._proposer.propose(results.evidence())
            if proposal is None:
                break
            running.append(results.start(now, proposal))
        if not running:
            self.final = True
            self._simplify(now)
            return self.next_block(now, blocks_left)
        return running

    @property
    def _final_pairs(self) -> int:
        wanted = (self._results.adjustment.sd / (FINAL_ERROR * self._results.margin)) ** 2
        return max(FINAL_PAIRS, min(MOST_FINAL_PAIRS, math.ceil(wanted)))

    def choice(self) -> Standing | None:
        """Who is worth a confirmation: of those next to the best, the one that moves the fewest knobs."""
        ranked = [standing for standing in self.ranked() if len(standing.candidate.race) >= FIRST_CUT_PAIRS]
        if not ranked:
            return None
        best, margin = ranked[0], self._results.margin
        if best.gain < margin:
            return best
        least = best.worth * (1.0 - margin / 2 / best.gain)
        equal = [standing for standing in ranked if standing.worth >= least and standing.gain >= margin]
        return min(equal, key=lambda standing: (self._moved(standing.candidate), -standing.worth))

    def dismiss(self, now: float) -> None:
        """Nobody of those left is worth a confirmation."""
        for candidate in self._results.candidates:
            if not candidate.done:
                excess = self._results.excess(candidate) if candidate.race else None
                reason = "not clearly better in the race"
                if excess is not None and excess.surely:
                    reason = f"{excess} over {len(candidate.race)} pairs"
                self._results.close(now, candidate, "rejected", reason)

    def _moved(self, candidate: Candidate) -> int:
        return sum(value != self._results.incumbent.get(name) for name, value in candidate.values.items())

    def _finalists(self) -> list[Candidate]:
        best = [standing.candidate for standing in self.ranked()[:ACTIVE]]
        fresh = self._simpler if self._simpler is not None and not self._simpler.done else None
        return best if fresh is None or fresh in best else [*best[: ACTIVE - 1], fresh]

    def _simplify(self, now: float) -> None:
        """Once: give the leader without its idle knobs a place among the best few."""
        ranked = self.ranked()
        if not ranked:
            return
        tolerance = self._results.margin / 2
        proposal = self._proposer.simpler(ranked[0].candidate.values, self._results.evidence(), tolerance)
        if proposal is not None:
            self._simpler = self._results.start(now, proposal)

    def ranked(self) -> list[Standing]:
        """Candidates by what their smoothed gain is worth, best first."""
        results = self._results
        tried = [c for c in results.candidates if c.race]
        raced = {id(c) for c in tried}
        listed = [c for c in results.candidates if id(c) in raced or c.state == "aborted"]
        smoothed = self._proposer.smoothed(results.evidence())[1:]
        rows = []
        for candidate, (gain, sd) in zip(listed, smoothed, strict=True):
            if candidate.state not in ("racing", "rejected") or candidate.confirmation:
                continue
            excess = results.excess(candidate)
            if not excess.surely:
                rows.append(Standing(candidate, gain, sd, gain * excess.chance if gain > 0 else gain))
        return sorted(rows, key=lambda standing: -standing.worth)

    def _cut(self, now: float) -> list[Candidate]:
        running = []
        leader = max([standing.worth for standing in self.ranked()], default=0.0)
        leader = max(leader, 0.0)
        for candidate in self._results.candidates:
            if candidate.state != "racing":
                continue
            reason = self._loses(candidate, leader)
            if reason is None:
                running.append(candidate)
            else:
                self._proposer.learn(better=leader > self._leader + self._results.margin / 4)
                self._leader = max(self._leader, leader)
                self._results.close(now, candidate, "rejected", reason)
        return running

    def _loses(self, candidate: Candidate, leader: float) -> str | None:
        pairs = len(candidate.race)
        if self._proposer.pairs_each is not None:
            return "measured" if pairs >= self._proposer.pairs_each else None
        if pairs < FIRST_CUT_PAIRS:
            return None
        error = self._results.error(candidate)
        excess = self._results.excess(candidate)
        if excess.surely:
            return f"{excess} over {pairs} pairs"
        if self._results.gain(candidate) + error < leader:
            return f"behind after {pairs} pairs"
        return "measured enough for the race" if pairs >= ENOUGH_PAIRS else None

    def _searched(self) -> bool:
        enough = len(self._results.candidates) >= ENOUGH_CANDIDATES
        return enough and self._proposer.expected_improvement < ENOUGH_IMPROVEMENT * self._results.margin
