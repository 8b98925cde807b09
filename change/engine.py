"""The port to an engine's hot lane: what the plugin answers, as types, and the capability to ask it.

The wire contract is the plugin's HTTP API under `/trimtab/v1`; hands: `daemon.engine.hot`, `sim.hand`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

Values = Mapping[str, float]
"""Knob name to value, in the knob's unit (tokens, sequences, share)."""

GAP_BASE_SECONDS = 1e-4
GAP_RATIO = 1.05
"""Token-gap bucket i holds gaps in [GAP_BASE_SECONDS * GAP_RATIO**i, GAP_BASE_SECONDS * GAP_RATIO**(i+1));
shorter gaps are in bucket 0, and the last bucket (GAP_BUCKETS - 1) is open above."""
GAP_BUCKETS = 320


@dataclass(frozen=True, slots=True)
class EngineState:
    """`GET /trimtab/v1/state`; at epoch 0 nobody has changed the engine yet: its values are its flags'."""

    plugin: str
    engine: str
    engine_version: str
    boot_id: str
    epoch: int
    values: Values
    ceilings: Values
    floors: Values
    lease_remaining_seconds: float | None
    gate: Literal["open", "closed"]
    dp_ranks: int
    api_servers: int
    scheduler: str
    scheduler_known: bool
    mark: str | None = None
    """What the last change said is different outside the engine, "" for nothing; None if the plugin knows no marks."""
    requests_inside: int | None = None
    """Requests that the server let in and has not answered to their end, those that it still tokenises among them;
    None if the plugin does not count them, or counts those of one API server of several."""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Knobs whose value stands for a text: the value is the place in this list, 0 what was found. Not of the plugin:
    `daemon.lanes` adds them for the host's knobs."""

    def own(self, values: Values) -> dict[str, float]:
        """Of `values`, those of the engine itself: not the host's."""
        return {name: value for name, value in values.items() if name not in self.options}


@dataclass(frozen=True, slots=True)
class KnobAnswer:
    """The answer to `POST /trimtab/v1/knobs`."""

    epoch: int
    requested: Values
    effective: Values
    status: Literal["applied", "draining", "refused"]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One finished request: times are Unix seconds of the engine's clock, durations seconds; no text."""

    seq: int
    arrival: float
    first_token: float | None
    finish: float
    epoch_arrival: int
    epoch_first_token: int | None
    epoch_finish: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    queued_seconds: float
    prefill_seconds: float
    decode_seconds: float
    preemptions: int
    reason: str


@dataclass(frozen=True, slots=True)
class RequestPage:
    """`GET /trimtab/v1/requests?since=SEQ`: records with seq > since, oldest first.

    `gaps` maps an epoch to its token-gap counts by bucket index, cumulative since that epoch began (sparse).
    `lost` counts records that left the ring before they were read. `now` is the engine's clock.
    """

    now: float
    next_since: int
    lost: int
    records: tuple[RequestRecord, ...]
    gaps: Mapping[int, Mapping[int, int]] = field(default_factory=dict)


class EngineError(Exception):
    """The engine or its plugin did not do what was asked; the text says what, where and what to do."""


class EngineUnreachable(EngineError):
    """Nobody answers at the engine's address."""


class PluginAbsent(EngineError):
    """The engine answers but has no Trimtab plugin (or refuses the token): no hot lane."""


class StaleEpoch(EngineError):
    """Somebody else changed the engine since the epoch was read (HTTP 409)."""

    def __init__(self, message: str, epoch: int) -> None:
        super().__init__(message)
        self.epoch = epoch


class EngineControl(Protocol):
    """The hot lane of one engine."""

    async def state(self) -> EngineState:
        """Read the plugin's state; expires leases as a side effect."""
        ...

    async def set_knobs(
        self,
        values: Values,
        *,
        if_epoch: int,
        lease_seconds: float | None,
        revert_to: Values | None = None,
        mark: str | None = None,
    ) -> KnobAnswer:
        """Apply `values` between two engine steps.

        With a lease, the engine goes back to `revert_to` by itself when the lease is not renewed (the same
        call again with the same values renews it without a new epoch). `mark` (at most 64 printable characters)
        names what is different outside the engine: another mark than the one in force begins a new epoch even
        where no value changes, None leaves it, and a lease that runs out puts the mark from before back. Raises
        `StaleEpoch` if `if_epoch` is not the current one, `EngineError` for values out of bounds.
        """
        ...

    async def requests(self, since: int) -> RequestPage:
        """Read finished requests after `since` and the token-gap histograms of recent epochs."""
        ...

    async def gate(
        self, state: Literal["open", "closed"], *, lease_seconds: float, retry_after: float
    ) -> None:
        """Open or close the engine to new requests, at most `lease_seconds` (<= 120) long."""
        ...
