"""The simulated hand: the plugin's contract over an engine model, in virtual time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from change.engine import (
    EngineError,
    EngineState,
    EngineUnreachable,
    KnobAnswer,
    RequestPage,
    RequestRecord,
    StaleEpoch,
    Values,
)
from sim.engine import Engine
from sim.scenario import HOT_KNOBS, Scenario, serve

PLUGIN_VERSION = "0.1.0"
ENGINE_VERSION = "0.32.0"
MAX_GATE_LEASE_SECONDS = 120.0
_INTEGERS = frozenset(HOT_KNOBS) - {"watermark"}


class ValueRefused(EngineError):
    """An unknown knob, or a value out of bounds (HTTP 400)."""


class SimulatedControl:
    """`EngineControl` over an `Engine`: answers at once, at the engine's clock."""

    def __init__(self, scenario: Scenario, engine: Engine, boot_id: str) -> None:
        """Begin with the scenario's launch values in effect, at epoch 0."""
        self._scenario = scenario
        self._engine = engine
        self.boot_id = boot_id
        self.down = False
        self._values: dict[str, float] = dict(scenario.effective(scenario.launch))
        self._requested: dict[str, float] = dict(scenario.launch)
        self._revert: dict[str, float] | None = None
        self._old_gaps: dict[int, Mapping[int, int]] = {}
        self._ceilings: Values = scenario.ceilings
        self._seq_base = 0
        engine.on_deadline = self._lease_ran_out
        self._serve()

    def reboot(self, boot_id: str, launch: Values, ceilings: Values) -> None:
        """Come back as a fresh engine: new boot id, epoch 0, launch values, no lease, open gate."""
        engine = self._engine
        self.boot_id = boot_id
        self._ceilings = dict(ceilings)
        self._values = dict(self._scenario.effective(launch))
        self._requested = dict(launch)
        self._revert = None
        self._old_gaps.clear()
        engine.deadline = math.inf
        engine.gate_reopens = -math.inf
        engine.gaps.clear()
        engine.ring.clear()
        self._seq_base = engine.completed
        engine.begin_epoch(0)
        self._serve()

    # ------------------------------------------------------------------ the port

    async def state(self) -> EngineState:
        """Read the plugin's state; expires a lease that is due."""
        return self.read_state()

    async def set_knobs(
        self,
        values: Values,
        *,
        if_epoch: int,
        lease_seconds: float | None,
        revert_to: Values | None = None,
    ) -> KnobAnswer:
        """Apply `values` from the next step on."""
        return self.apply(values, if_epoch=if_epoch, lease_seconds=lease_seconds, revert_to=revert_to)

    async def requests(self, since: int) -> RequestPage:
        """Read finished requests after `since`."""
        return self.page(since)

    async def gate(
        self, state: Literal["open", "closed"], *, lease_seconds: float, retry_after: float
    ) -> None:
        """Open or close the engine to new requests."""
        self.set_gate(state, lease_seconds=lease_seconds, retry_after=retry_after)

    # ------------------------------------------------------------------ the same, for callers without a loop

    def read_state(self) -> EngineState:
        """See `state`."""
        engine = self._reachable()
        self._due()
        lease = engine.deadline - engine.clock
        return EngineState(
            plugin=PLUGIN_VERSION,
            engine="vllm",
            engine_version=ENGINE_VERSION,
            boot_id=self.boot_id,
            epoch=engine.epoch,
            values=dict(self._values),
            ceilings=dict(self._ceilings),
            floors=dict(self._scenario.floors),
            lease_remaining_seconds=None if math.isinf(lease) else max(0.0, lease),
            gate=self.gate_state,
            dp_ranks=1,
            api_servers=1,
            scheduler="sim.engine.Engine",
            scheduler_known=True,
        )

    def apply(
        self,
        values: Values,
        *,
        if_epoch: int,
        lease_seconds: float | None,
        revert_to: Values | None = None,
    ) -> KnobAnswer:
        """See `set_knobs`."""
        engine = self._reachable()
        self._due()
        if if_epoch != engine.epoch:
            raise StaleEpoch(f"if_epoch is {if_epoch}, the engine is at epoch {engine.epoch}", engine.epoch)
        if lease_seconds is not None and not 0 < lease_seconds < math.inf:
            raise ValueRefused(f"lease_seconds is {lease_seconds}; give a positive number of seconds or null")
        asked = self._checked(values)
        back = self._checked(revert_to or {})
        requested = {**self._requested, **asked}
        effective = dict(self._scenario.effective(requested))
        if effective != self._values or requested != self._requested:
            # Under a lease the way back stays the one it began with.
            before = dict(self._requested) if self._revert is None else self._revert
            self._requested, self._values = requested, effective
            self._serve()
            engine.begin_epoch(engine.epoch + 1)
            self._revert = {**before, **back}
        elif self._revert is None or back:
            self._revert = {**self._requested, **back}
        if lease_seconds is None:
            engine.deadline = math.inf
            self._revert = None
        else:
            engine.deadline = engine.clock + lease_seconds
        draining = len(engine.running) > self._values["max_num_seqs"]
        return KnobAnswer(
            epoch=engine.epoch,
            requested=dict(asked),
            effective={name: self._values[name] for name in (asked or self._values)},
            status="draining" if draining else "applied",
            reason=(
                f"{len(engine.running)} requests run; they finish before max_num_seqs "
                f"{self._values['max_num_seqs']:.0f} holds"
                if draining
                else None
            ),
        )

    def page(self, since: int) -> RequestPage:
        """See `requests`."""
        engine = self._reachable()
        base = self._seq_base
        latest = engine.completed - base
        ring = engine.ring
        first = latest - len(ring)  # the ring holds first + 1 .. latest
        wanted = max(0, latest - max(since, first))
        rows = [ring[i] for i in range(len(ring) - wanted, len(ring))] if wanted else []
        if base:
            rows = [(row[0] - base, *row[1:]) for row in rows]
        return RequestPage(
            now=engine.clock,
            next_since=latest,
            lost=max(0, first - max(since, 0)),
            records=tuple(RequestRecord(*row) for row in rows),
            gaps=self._gap_pages(),
        )

    def set_gate(self, state: Literal["open", "closed"], *, lease_seconds: float, retry_after: float) -> None:
        """See `gate`."""
        engine = self._reachable()
        if state not in ("open", "closed"):
            raise ValueRefused(f"state is {state!r}; give 'open' or 'closed'")
        if not 0 < lease_seconds <= MAX_GATE_LEASE_SECONDS:
            raise ValueRefused(f"lease_seconds is {lease_seconds}; give more than 0 and at most 120")
        if not 0 <= retry_after <= 3600:
            raise ValueRefused(f"retry_after is {retry_after}; give 0 to 3600 seconds")
        if state == "open":
            engine.gate_reopens = -math.inf
        else:
            engine.gate_reopens = engine.clock + lease_seconds
            engine.gate_retry_after = retry_after

    @property
    def gate_state(self) -> Literal["open", "closed"]:
        """Whether new requests are let in now."""
        return "closed" if self._engine.clock < self._engine.gate_reopens else "open"

    # ------------------------------------------------------------------ inside

    def _reachable(self) -> Engine:
        if self.down:
            raise EngineUnreachable("the simulated engine is down")
        return self._engine

    def _due(self) -> None:
        engine = self._engine
        if engine.clock >= engine.deadline:
            engine.deadline = math.inf
            self._lease_ran_out(engine.clock)

    def _lease_ran_out(self, now: float) -> None:
        if self._revert is None:
            return
        back, self._revert = self._revert, None
        if back != self._requested:
            self._requested = back
            self._values = dict(self._scenario.effective(back))
            self._serve()
            self._engine.begin_epoch(self._engine.epoch + 1)

    def _serve(self) -> None:
        serve(self._engine, self._scenario.served(self._values))

    def _checked(self, values: Values) -> dict[str, float]:
        checked: dict[str, float] = {}
        for name, value in values.items():
            if name not in self._values:
                raise ValueRefused(f"unknown knob {name!r}; this engine has {', '.join(self._values)}")
            low, high = self._scenario.floors[name], self._ceilings[name]
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueRefused(f"{name} is {value!r}; give a number from {low} to {high}")
            if name in _INTEGERS and value != int(value):
                raise ValueRefused(f"{name} is {value}; give a whole number")
            if not low <= value <= high:
                raise ValueRefused(f"{name} is {value}; the engine allows {low} to {high}")
            checked[name] = int(value) if name in _INTEGERS else float(value)
        return checked

    def _gap_pages(self) -> dict[int, Mapping[int, int]]:
        gaps = self._engine.gaps
        pages: dict[int, Mapping[int, int]] = {}
        old = self._old_gaps
        for epoch, counts in gaps.items():
            # The step in flight still counts in the epoch before: an epoch is closed once it is two old.
            if epoch < self._engine.epoch - 1:
                known = old.get(epoch)
                if known is None:
                    known = old[epoch] = {i: n for i, n in enumerate(counts) if n}
                pages[epoch] = known
            else:
                pages[epoch] = {i: n for i, n in enumerate(counts) if n}
        if len(old) > 2 * len(gaps):
            self._old_gaps = {epoch: page for epoch, page in old.items() if epoch in gaps}
        return pages
