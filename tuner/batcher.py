"""The adaptive mode: batch and prefill limits that follow predicted lengths and arrivals, from memory that is free.

It moves `max_num_seqs`, `batch_max_tokens` and `max_prefill_tokens` around the values that are promoted (or were
launched with), never beyond half or twice of them, and goes back to them whenever it does not know enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from change.engine import RequestRecord, Values
from change.knobs import problems
from tuner.prediction import Forecast, Predictor

SEQS, BATCH, PREFILL = "max_num_seqs", "batch_max_tokens", "max_prefill_tokens"
MOVED = (SEQS, BATCH, PREFILL)
LOW, HIGH = 0.5, 2.0
"""The rails, as shares of the promoted value."""
HYSTERESIS = 0.1
"""A step below this share of the value in force is not made; so near the promoted value, that one is taken."""
MOST_DEVIATIONS = 6.0
STEP_DEVIATIONS = 1.0
EASE = 0.1
"""Deviations of which the margin comes back for every minute without preemptions."""
BACK_OFF_SECONDS = 5.0
"""Least time between two steps down that preemptions ask for: these do not wait for `change_seconds`."""
THRASH_SECONDS = 60.0
"""Time over which preemptions are held against requests that finish."""
THRASHING = 0.15
"""Preemptions per finished request at which it is as careful as it gets."""
CALM_SECONDS = 200.0
"""Time in which that carefulness falls to a third, without preemptions."""
MOST_PACE = 0.5
"""By how much of its own the prefill limit goes down then."""
MOST_SPECULATED = 16
"""Tokens a decode may take in a step with speculation."""
NEARLY_ALL = 0.9
"""Share of the promoted sequences that must run before more of them are thought to help."""
FEWER = 0.9
"""Carefulness from which on what does not fit into memory on average is kept out."""


@dataclass(frozen=True, slots=True)
class BatcherSettings:
    """How quick and how careful it is."""

    change_seconds: float = 30.0
    """At most one change in so many seconds, going back apart."""
    deviations: float = 1.0
    """Margin for what was not predicted, in standard deviations."""
    hold_seconds: float = 300.0
    """After a return because of the SLO nothing is tried for so long."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at the engine; None is unknown."""

    base: Values
    """What is promoted, or was launched with: what it goes back to."""
    values: Values
    """What is in effect."""
    ceilings: Values
    floors: Values
    running: float | None
    waiting: float | None
    kv_free_tokens: float | None
    kv_tokens: float | None
    """Tokens for which the KV cache has room in all."""
    preemptions: float | None
    """Counted since the engine started."""
    records: tuple[RequestRecord, ...] | None = ()
    """Requests that finished since the last look."""
    burning: str | None = None
    """Which limit of the SLO is being broken."""
    off: str | None = None
    """Why nothing may be changed now."""


@dataclass(frozen=True, slots=True)
class Set:
    """Serve these values, under a lease."""

    values: Values
    reason: str


@dataclass(frozen=True, slots=True)
class GoBack:
    """Serve the promoted values."""

    reason: str


Command = Set | GoBack


@dataclass(slots=True)
class _Known:
    """An observation in which everything needed is there."""

    running: float
    waiting: float
    free: float
    total: float
    preemptions: float
    limit: int = 0
    needed: float = 0.0


@dataclass(slots=True)
class _Preempted:
    """The engine's counter of preemptions as it was read last."""

    counted: float | None = None

    def new(self, count: float) -> float:
        """Those since the last look; a counter that fell began anew."""
        before, self.counted = self.counted, count
        return 0.0 if before is None else count - before if count >= before else count


@dataclass(slots=True)
class _Care:
    """How careful preemptions have made it: 0 for not at all, 1 for as careful as it gets."""

    now: float | None = None
    preempted: float = 0.0
    finished: float = 0.0
    level: float = 0.0

    def note(self, now: float, preempted: float, finished: float) -> None:
        """Take in what was counted since the last look: up at once, down slowly."""
        since = 0.0 if self.now is None else max(now - self.now, 0.0)
        self.now = now
        fade = math.exp(-since / THRASH_SECONDS)
        self.preempted = fade * self.preempted + preempted
        self.finished = fade * self.finished + finished
        ratio = self.preempted / (self.finished + 1.0)
        self.level = max(self.level * math.exp(-since / CALM_SECONDS), min(ratio / THRASHING, 1.0))


class Batcher:
    """The mind of the adaptive mode; ask `step` every few seconds and do what it says."""

    def __init__(self, settings: BatcherSettings | None = None) -> None:
        self._settings = settings or BatcherSettings()
        self._predictor = Predictor()
        self._margin = self._settings.deviations
        self._care = _Care()
        self._preempted = _Preempted()
        self._target: dict[str, float] | None = None
        self._changed = -math.inf
        self._moved: float | None = None
        self._held_until = -math.inf
        self._known: _Known | None = None
        self._says = "nothing is known yet"

    @property
    def target(self) -> Values | None:
        """What it asked for, None while the promoted values serve."""
        return self._target

    def status(self) -> Mapping[str, Any]:
        """What it expects and why it does what it does, for a page."""
        forecast, known = self._predictor.forecast, self._known
        return {
            "says": self._says,
            "margin_deviations": round(self._margin, 2),
            "held_tokens": None if forecast is None else round(forecast.held, 1),
            "held_tokens_sd": None if forecast is None else round(forecast.held_sd, 1),
            "arrivals_per_second": None if forecast is None else round(forecast.rate, 3),
            "memory_limit": None if known is None or not known.limit else known.limit,
            "needed": None if known is None or not known.limit else round(known.needed, 1),
        }

    def dropped(self, now: float, reason: str) -> None:
        """Hear that the engine does not serve what was asked for; nothing is tried for a while."""
        self._target = None
        self._says = reason
        self._held_until = now + self._settings.hold_seconds

    def step(self, now: float, seen: Observation) -> Command | None:
        """Decide once; None leaves everything as it is."""
        self._known = known = _known(seen)
        if seen.records and known is not None:
            self._predictor.note(now, seen.records, known.running + known.waiting)
        elif known is not None:
            self._predictor.note(now, (), known.running + known.waiting)
        fresh = 0.0 if known is None else self._preempted.new(known.preemptions)
        if seen.off is not None:
            return self._back(now, seen.off)
        if known is None or seen.records is None:
            return self._back(now, f"not known: {', '.join(_missing(seen))}")
        if SEQS not in seen.base:
            return self._back(now, f"this engine has no {SEQS}")
        forecast = self._predictor.forecast
        if forecast is None:
            return self._back(now, "too few requests were seen to predict the next ones")
        if seen.burning is not None:
            if self._target is not None:
                self._held_until = now + self._settings.hold_seconds
            return self._back(now, seen.burning)
        if now < self._held_until:
            return None
        return self._decide(now, seen, known, forecast, fresh)

    def _decide(
        self, now: float, seen: Observation, known: _Known, forecast: Forecast, fresh: float
    ) -> Command | None:
        above = any(
            value > seen.base[name]
            for name, value in seen.values.items()
            if name in MOVED and name in seen.base
        )
        back_off = fresh > 0 and above
        self._move(now, seen, fresh, back_off)
        if back_off:
            return self._back(now, "requests were preempted")
        wanted = wanted_values(seen, known, forecast, self._margin, self._care.level)
        return self._go(now, seen, wanted, _reason(known, forecast), fresh > 0)

    def _move(self, now: float, seen: Observation, fresh: float, back_off: bool) -> None:
        """Let margin and care follow the preemptions: up at once, back slowly."""
        since = 0.0 if self._moved is None else max(now - self._moved, 0.0)
        self._moved = now
        if back_off:
            self._margin = min(self._margin + STEP_DEVIATIONS, MOST_DEVIATIONS)
        else:
            self._margin = max(self._margin - EASE * since / 60.0, self._settings.deviations)
        self._care.note(now, fresh, len(seen.records or ()))

    def _go(
        self, now: float, seen: Observation, wanted: dict[str, float], reason: str, preempted: bool
    ) -> Command | None:
        current = {name: seen.values.get(name, seen.base[name]) for name in wanted}
        down = preempted and all(wanted[name] <= current[name] for name in wanted)
        if now - self._changed < (BACK_OFF_SECONDS if down else self._settings.change_seconds):
            return None
        if not any(_apart(wanted[name], current[name]) for name in wanted):
            return None
        if wanted == {name: float(seen.base[name]) for name in wanted}:
            return self._back(now, reason)
        if problems(wanted, seen.ceilings, _lowest(seen, wanted)):
            return None
        self._target, self._changed, self._says = dict(wanted), now, reason
        return Set(dict(wanted), reason)

    def _back(self, now: float, reason: str) -> GoBack | None:
        """Going back is never put off."""
        self._says = reason
        if self._target is None:
            return None
        self._target, self._changed = None, now
        return GoBack(reason)


def memory_limit(budget: float, held: float, deviation: float, margin: float) -> int:
    """Most requests whose KV tokens fit into `budget`, but for a chance of `margin` standard deviations.

    n requests hold n x held on average, with a standard deviation of sqrt(n) x deviation.
    """
    if budget <= 0 or held <= 0:
        return 0
    spread = margin * deviation
    root = (-spread + math.sqrt(spread * spread + 4 * held * budget)) / (2 * held)
    return math.floor(root * root)


def wanted_values(
    seen: Observation, known: _Known, forecast: Forecast, margin: float, care: float
) -> dict[str, float]:
    """What should serve, inside the rails; the promoted values where there is no reason for others.

    `care` is how careful preemptions have made it, from 0 to 1.
    """
    base = seen.base
    low, high = _rails(SEQS, seen)
    held, spread = _held(known, forecast)
    used = known.total - known.free
    reserved = float(seen.values.get("watermark", 0.0)) * known.total
    # What others hold (a cache that is pinned, requests whose KV is on its way) does not come back to those who wait.
    ours = min(used, known.running * (held + margin * spread))
    budget = known.free + ours - reserved
    known.limit = memory_limit(budget, held, spread, margin)
    # Whoever waits while there are sequences left waits for memory or for a step's tokens, not for a sequence.
    short = known.waiting > 0 and known.running >= NEARLY_ALL * base[SEQS]
    known.needed = math.inf if short else forecast.at_once(margin)
    # The margin is for going up. Going down costs the users a queue for certain, where a preemption costs one of them a
    # second prefill: only what does not fit on average is kept out.
    fits = float(memory_limit(budget, held, spread, 0.0))
    seqs = float(base[SEQS])
    if fits < seqs and care >= FEWER:
        seqs = fits
    elif known.needed > seqs:
        seqs = max(seqs, float(math.floor(min(known.needed, known.limit))))
    wanted = {SEQS: _snapped(min(max(seqs, low), high), base[SEQS])}
    # What a step prefills is KV that stays until its answer ends: where memory is short, prompts come in more slowly.
    pace = 1.0 - MOST_PACE * care
    cap = float(base.get(PREFILL, 0.0))
    if cap:
        wanted[PREFILL] = _within(PREFILL, cap * pace, seen)
    if BATCH in base:
        # Every running request takes a token of the step, and what is left is for prompts.
        prompts = base[BATCH] - base[SEQS]
        tokens = wanted[SEQS] + (prompts if cap else prompts * pace)
        wanted[BATCH] = _within(BATCH, tokens, seen, least=_tokens_for(wanted[SEQS], seen))
        if cap:
            wanted[BATCH] = max(wanted[BATCH], float(base[BATCH]))
    return wanted


def _held(known: _Known, forecast: Forecast) -> tuple[float, float]:
    """KV tokens of a request and their deviation: what was predicted, or what runs now if it holds more."""
    now = (known.total - known.free) / known.running if known.running >= 4 else 0.0
    return max(forecast.held, now, 1.0), forecast.held_sd


def _rails(name: str, seen: Observation) -> tuple[float, float]:
    base = seen.base[name]
    low = max(math.ceil(base * LOW), seen.floors.get(name, 0.0))
    high = min(math.floor(base * HIGH), seen.ceilings.get(name, math.inf))
    return float(min(low, base)), float(max(high, base))


def _within(name: str, value: float, seen: Observation, least: float = 0.0) -> float:
    low, high = _rails(name, seen)
    return _snapped(float(math.floor(min(max(value, low, least), high))), seen.base[name])


def _snapped(value: float, base: float) -> float:
    return float(base) if not _apart(value, base) else value


def _apart(one: float, other: float) -> bool:
    return abs(one - other) > HYSTERESIS * abs(other)


def _tokens_for(seqs: float, seen: Observation) -> float:
    """Tokens that a step must hold for so many decodes: of each one, and those it speculates with."""
    now, floor = seen.values.get(SEQS, seen.base[SEQS]), seen.floors.get(BATCH, 0.0)
    each = floor / now if now > 0 else 1.0
    # The engine's floor is that of its decodes, or of something else that has nothing to do with their number.
    return max(floor, seqs) if each != int(each) or not 1 <= each <= MOST_SPECULATED else each * seqs


def _lowest(seen: Observation, wanted: Values) -> Values:
    """The floors as they will be: that of the token budget follows the sequences."""
    return {**seen.floors, BATCH: min(_tokens_for(wanted[SEQS], seen), seen.ceilings.get(BATCH, math.inf))}


def _known(seen: Observation) -> _Known | None:
    figures = (seen.running, seen.waiting, seen.kv_free_tokens, seen.kv_tokens, seen.preemptions)
    known = [figure for figure in figures if figure is not None and math.isfinite(figure) and figure >= 0]
    if len(known) < len(figures) or known[3] <= 0:
        return None
    return _Known(known[0], known[1], min(known[2], known[3]), known[3], known[4])


def _missing(seen: Observation) -> list[str]:
    named = {
        "requests that run": seen.running,
        "requests that wait": seen.waiting,
        "free KV memory": seen.kv_free_tokens,
        "size of the KV cache": seen.kv_tokens,
        "preemptions": seen.preemptions,
        "request timings": seen.records,
    }
    return [name for name, value in named.items() if value is None] or ["figures that make sense"]


def _reason(known: _Known, forecast: Forecast) -> str:
    return (
        f"{forecast.rate:.3g} requests/s of {forecast.held:.0f} tokens expected; memory has room for "
        f"{known.limit} at once, {known.waiting:g} wait"
    )
