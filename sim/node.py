"""One simulated node: engine, traffic, cards and hand on one virtual clock."""

from __future__ import annotations

import math
from collections.abc import Mapping

from change.engine import Values
from change.server import Settings
from sim.device import BUSY_SHARE, Card
from sim.engine import Engine
from sim.hand import SimulatedControl
from sim.host_hand import SimulatedHost
from sim.metrics_page import MetricsPage
from sim.npu_smi import info
from sim.npu_smi_types import TYPES, details, watch
from sim.physics import Jitter, Physics
from sim.request import Request
from sim.scenario import SCENARIOS, Scenario, stream
from sim.traffic import Traffic

TICK_SECONDS = 1.0
CARDS = 4
STARTED_CLOSED_RETRY_SECONDS = 5.0


class Node:
    """A node that lives only while somebody advances it."""

    def __init__(self, scenario: Scenario | str, seed: int, start: float, *, noise: bool = True) -> None:
        """Boot at `start` (Unix seconds); `noise=False` switches the jitter of steps off."""
        self.scenario = SCENARIOS[scenario] if isinstance(scenario, str) else scenario
        self.seed = seed
        self.start = start
        self._noise = noise
        self.drawn = self.scenario.drawn(seed)
        self._boots = 1
        self.cold: Settings = {}
        """The start-up settings in effect; empty where the scenario has none."""
        if self.scenario.cold is not None:
            self.cold = self.scenario.cold.effective(self.scenario.cold.launch)
        self.engine = Engine(
            self._physics(),
            self._traffic(),
            Jitter(self.drawn.physics, stream(seed, "jitter") if noise else None),
            start=start,
        )
        self._flags: dict[str, float] = dict(self.scenario.launch)
        self.control = SimulatedControl(self.scenario, self.engine, self._boot_id())
        story = self.drawn.host
        self.host = (
            None
            if story is None
            else SimulatedHost(
                story, self.engine, self.drawn.physics, f"sim-host-{self.scenario.name}-{seed}"
            )
        )
        self.page = MetricsPage(self.engine, start)
        spread = stream(seed, "cards").uniform(0.97, 1.03, CARDS)
        self.cards = [Card(float(s)) for s in spread]
        self.failed_requests = 0
        self._down_until = -math.inf
        self._patient = False
        self._ticks = 0
        self._busy = 0.0
        self._computed = 0

    def _traffic(self) -> Traffic:
        return Traffic(self.drawn.arrivals, stream(self.seed, "traffic"), self.start)

    def _physics(self) -> Physics:
        return self.drawn.started(
            self.cold, stream(self.seed, f"start {self._boots}") if self._noise else None
        )

    def _boot_id(self) -> str:
        return f"sim-{self.scenario.name}-{self.seed}-{self._boots}"

    @property
    def now(self) -> float:
        """Unix seconds on the node's clock."""
        return self.engine.clock

    def advance(self, until: float) -> None:
        """Live up to `until`; any slicing of the way gives the same life."""
        while True:
            tick = self.start + (self._ticks + 1) * TICK_SECONDS
            target = min(tick, until)
            self._live(target)
            if tick > until:
                return
            self._tick()

    def _live(self, until: float) -> None:
        if self.control.down:
            refused_until = min(until, self._down_until)
            if self._patient:
                # Nobody knows when an engine that has only ended comes back: its users try each second.
                again = self._down_until if math.isfinite(self._down_until) else until
                self.engine.put_off(refused_until, again + 1.0)
            else:
                # A server that is down refuses its users.
                self.failed_requests += self.engine.drop_arrivals(refused_until)
            if until < self._down_until:
                self.engine.clock = until
                return
            self.engine.clock = self._down_until
            self.control.down = False
        self.engine.run(until)

    def _tick(self) -> None:
        self._ticks += 1
        engine = self.engine
        busy = engine.busy_seconds - self._busy
        computed = (engine.computed_tokens - self._computed) * engine.physics.token_seconds
        self._busy += busy
        self._computed = engine.computed_tokens
        if self.host is not None:
            # Where the host is the story, it alone says how much of a step the cards compute.
            computed = busy * (self.host.computing - BUSY_SHARE) / (1.0 - BUSY_SHARE)
        for card in self.cards:
            card.tick(TICK_SECONDS, min(1.0, busy / TICK_SECONDS), min(1.0, computed / TICK_SECONDS))

    def submit(self, prompt_tokens: int, output_tokens: int) -> Request:
        """Put a client's request beside the in-process traffic, now."""
        self.engine.accept(self.now)
        return self.engine.submit(self.now, prompt_tokens, output_tokens)

    def restart(
        self,
        flags: Mapping[str, float] | None = None,
        *,
        down_seconds: float = 60.0,
        cold: Settings | None = None,
        patient: bool = False,
    ) -> None:
        """Kill the engine; it comes back after `down_seconds` with `flags` over its launch values.

        Requests inside fail, and so do those that arrive meanwhile, unless their users are `patient` and try again.
        `cold` are its effective start-up settings from now on.
        """
        self.end(patient=patient)
        self.begin(self.now + down_seconds, flags, cold)

    def end(self, *, patient: bool) -> None:
        """The engine ends; requests inside fail. It stays down until it is begun again."""
        self.engine.accept(self.now)
        self.failed_requests += self.engine.drop_all(self.now)
        self._patient = patient
        self.control.down = True
        self._down_until = math.inf

    def begin(
        self,
        serves_at: float,
        flags: Mapping[str, float] | None = None,
        cold: Settings | None = None,
        *,
        gate_closed_seconds: float | None = None,
    ) -> None:
        """Start the ended engine; it serves from `serves_at` (Unix seconds), with `flags` over its launch values.

        `cold` are its effective start-up settings; `gate_closed_seconds` the lease of a gate that starts closed.
        """
        self._flags.update(flags or {})
        self._boots += 1
        ceilings: Values = {
            **self.scenario.ceilings,
            **{k: v for k, v in (flags or {}).items() if k in ("batch_max_tokens", "max_num_seqs")},
        }
        if cold is not None:
            self.cold = dict(cold)
            if self.scenario.cold is not None:
                ceilings = self.scenario.cold.ceilings(cold, ceilings)
        self.engine.rebuild(self._physics())
        self.control.reboot(self._boot_id(), self._flags, ceilings)
        if self.host is not None:
            self.host.engine_restarted()
        if gate_closed_seconds is not None:
            self.engine.gate_reopens = serves_at + gate_closed_seconds
            self.engine.gate_retry_after = STARTED_CLOSED_RETRY_SECONDS
        self._down_until = serves_at
        self.page.restart(serves_at)

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self.engine.waiting)

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self.engine.running)

    @property
    def kv_usage(self) -> float:
        """Share of the KV blocks in use."""
        return 1.0 - self.engine.free_blocks / self.engine.physics.kv_blocks

    @property
    def temperature_celsius(self) -> float:
        """The hottest card."""
        return max(card.celsius for card in self.cards)

    @property
    def completed(self) -> int:
        """Requests that finished."""
        return self.engine.completed

    def extra_mib(self, index: int) -> int:
        """HBM that a card holds beyond what its engine took when it started (MiB)."""
        return 0

    def metrics_text(self) -> str:
        """The engine's `/metrics` page."""
        return self.page.text()

    def npu_smi_info(self) -> str:
        """What `npu-smi info` prints now."""
        return info(self)

    def npu_smi_watch(self) -> str:
        """What a new `npu-smi info watch` prints first."""
        return watch(self)

    def npu_smi_details(self, npu: int) -> list[str]:
        """What `npu-smi info -t TYPE` prints of a card, for each type there is."""
        return [details(self, kind, npu, 0) for kind in TYPES]
