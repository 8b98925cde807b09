"""The simulated hand: the plugin's contract over an engine model, in virtual time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
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
MAX_LEASE_SECONDS = 3600.0
MAX_MARK = 64
PAGE_RECORDS = 1000
MIN_CHUNK_TOKENS = 16
_OFF_AT_ZERO = frozenset({"max_prefill_tokens", "long_prefill_tokens"})
_INTEGERS = frozenset(HOT_KNOBS) - {"watermark"}


class ValueRefused(EngineError):
    """An unknown knob, or a value that cannot serve (HTTP 422)."""


class CallRefused(EngineError):
    """A call whose shape is wrong (HTTP 400)."""


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
        self._revert: dict[str, float] = dict(self._requested)
        self._mark = self._revert_mark = ""
        self._closed_gaps: dict[int, Mapping[int, int]] = {}
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
        self._revert = dict(launch)
        self._mark = self._revert_mark = ""
        self._closed_gaps.clear()
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
        mark: str | None = None,
    ) -> KnobAnswer:
        """Apply `values` from the next step on."""
        return self.apply(
            values, if_epoch=if_epoch, lease_seconds=lease_seconds, revert_to=revert_to, mark=mark
        )

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
            floors=self._floors(self._values),
            lease_remaining_seconds=None if math.isinf(lease) else max(0.0, lease),
            gate=self.gate_state,
            dp_ranks=1,
            api_servers=1,
            scheduler="sim.engine.Engine",
            scheduler_known=True,
            mark=self._mark,
            requests_inside=len(engine.running) + len(engine.waiting),
        )

    def apply(
        self,
        values: Values,
        *,
        if_epoch: int,
        lease_seconds: float | None,
        revert_to: Values | None = None,
        mark: str | None = None,
    ) -> KnobAnswer:
        """See `set_knobs`."""
        engine = self._reachable()
        self._due()
        if lease_seconds is not None and not 0 < lease_seconds <= MAX_LEASE_SECONDS:
            raise CallRefused(f"lease_seconds must be above 0 and at most 3600 seconds, not {lease_seconds}")
        if mark is not None and not (len(mark) <= MAX_MARK and mark.isprintable()):
            raise CallRefused(f"mark must be printable text of at most {MAX_MARK} characters")
        asked = self._parsed(values, "")
        back = self._parsed(revert_to or {}, "revert_to: ")
        if if_epoch != engine.epoch:
            raise StaleEpoch(
                f"epoch {if_epoch} is stale: the engine is at {engine.epoch}; read the state again",
                engine.epoch,
            )
        leased = not math.isinf(engine.deadline)
        # A change for good during a lease stands on what the lease would go back to.
        requested = {**(self._revert if leased and lease_seconds is None else self._requested), **asked}
        back = {**(self._revert if leased else self._requested), **back}
        if mark is None:
            mark = self._revert_mark if leased and lease_seconds is None else self._mark
        problems = self._problems(requested) + [f"revert_to: {text}" for text in self._problems(back)]
        if problems:
            raise ValueRefused("; ".join(problems))
        if lease_seconds is None:
            engine.deadline = math.inf
            self._revert = dict(requested)
            self._revert_mark = mark
        else:
            if not leased:
                self._revert_mark = self._mark
            engine.deadline = engine.clock + lease_seconds
            self._revert = back
        if requested != self._requested or mark != self._mark:
            self._begin(requested, mark)
        draining = len(engine.running) > self._values["max_num_seqs"]
        return KnobAnswer(
            epoch=engine.epoch,
            requested=dict(asked),
            effective={name: self._values[name] for name in asked},
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
        since = min(since, latest)
        start = max(0, since - first)
        rows = list(islice(ring, start, start + PAGE_RECORDS))
        if base:
            rows = [(row[0] - base, *row[1:]) for row in rows]
        return RequestPage(
            now=engine.clock,
            next_since=rows[-1][0] if rows else latest,
            lost=max(0, first - since),
            records=tuple(RequestRecord(*row) for row in rows),
            gaps=self._gap_pages(),
        )

    def set_gate(self, state: Literal["open", "closed"], *, lease_seconds: float, retry_after: float) -> None:
        """See `gate`."""
        engine = self._reachable()
        if state == "open":
            engine.gate_reopens = -math.inf
            return
        if not 0 < lease_seconds <= MAX_GATE_LEASE_SECONDS:
            raise CallRefused(f"lease_seconds must be above 0 and at most 120 seconds, not {lease_seconds}")
        if not 0 < retry_after <= MAX_LEASE_SECONDS:
            raise CallRefused(f"retry_after must be above 0 and at most 3600 seconds, not {retry_after}")
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
        # Unlike a call, an expiry is a new epoch even where nothing changes, as in the plugin.
        self._begin(self._revert, self._revert_mark)

    def _begin(self, requested: dict[str, float], mark: str) -> None:
        self._mark = mark
        self._requested = dict(requested)
        self._values = dict(self._scenario.effective(requested))
        self._serve()
        self._engine.begin_epoch(self._engine.epoch + 1)

    def _serve(self) -> None:
        serve(self._engine, self._scenario.served(self._values))

    def _parsed(self, values: Values, where: str) -> dict[str, float]:
        parsed: dict[str, float] = {}
        for name, value in values.items():
            if name not in self._values:
                raise ValueRefused(f"{where}unknown knob {name!r}: this engine has {', '.join(self._values)}")
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueRefused(f"{where}{name} must be a number, not {value!r}")
            if name in _INTEGERS and value != int(value):
                raise ValueRefused(f"{where}{name} must be a whole number, not {value}")
            parsed[name] = int(value) if name in _INTEGERS else float(value)
        return parsed

    def _problems(self, values: Values) -> list[str]:
        floors = self._floors(values)
        found = []
        for name, value in values.items():
            low, high = floors[name], self._ceilings[name]
            off = name in _OFF_AT_ZERO
            if not (low <= value <= high or (off and value == 0)):
                found.append(
                    f"{name} must be from {low:g} to {high:g}{', or 0 for off' * off}, not {value:g}"
                )
        return found

    def _floors(self, values: Values) -> dict[str, float]:
        # The tail decodes of a full batch must fit into one step.
        return {
            **self._scenario.floors,
            "batch_max_tokens": max(MIN_CHUNK_TOKENS, int(values["max_num_seqs"])),
        }

    def _gap_pages(self) -> dict[int, Mapping[int, int]]:
        engine, closed = self._engine, self._closed_gaps
        pages: dict[int, Mapping[int, int]] = {}
        for epoch, counts in engine.gaps.items():
            page = closed.get(epoch)
            if page is None:
                page = {bucket: n for bucket, n in enumerate(counts) if n}
                if epoch != engine.epoch:
                    closed[epoch] = page
            pages[epoch] = page
        if len(closed) > 2 * len(pages):
            self._closed_gaps = {epoch: page for epoch, page in closed.items() if epoch in pages}
        return pages
