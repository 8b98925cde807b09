"""A replica that may fall ill: the simulated node with what faults act on, and what can be done about them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from sim.device import FULL_WATTS, IDLE_WATTS
from sim.faults import cards, host, memory, serving
from sim.faults.ailment import Ailment
from sim.faults.draws import Fault, FaultName
from sim.faults.host import TroubledHost
from sim.faults.replica import FEW_USERS, REPLICA, Users
from sim.host_hand import SimulatedHost
from sim.node import Node
from sim.physics import Physics
from sim.scenario import Scenario, stream

LOAD_SECONDS: Final = 60.0
"""From an engine's start until it serves."""
REPLICA_SECONDS: Final = 90.0
"""What a new replica takes until it serves."""
FAILS_AFTER_SECONDS: Final = 30.0
"""From a start until it breaks for want of memory."""
MEMORY_BOUND_SHARE, COMPUTE_BOUND_SHARE = 0.6, 0.32
"""Share of a card's part of a step in which its AI cores are busy: with little to compute, and more with it."""
FULL_TOKENS_PER_SECOND = 4000.0
"""Computed tokens at which a card draws its most."""
CORE_POWER_SHARE = 0.15
"""Of the power above idle: what busy cores take whatever they compute; the rest goes with the tokens."""
AICORE_NOISE, HBM_NOISE_MIB, AIR_NOISE_CELSIUS = 0.03, 4.0, 0.03
AIR_LASTS_SECONDS = 1800.0
USUAL_SHARE = 0.92
MAKERS: Mapping[FaultName, type[Ailment]] = {
    "thermal": cards.Thermal,
    "slow_card": cards.SlowCard,
    "leak": memory.Leak,
    "fragmentation": memory.Fragmentation,
    "oom_at_load": memory.OutOfMemory,
    "stall": serving.Stall,
    "dead_engine": serving.DeadEngine,
    "queue_surge": serving.QueueSurge,
    "irq_storm": host.IrqStorm,
    "governor": host.Governor,
    "numa": host.Numa,
}


class TroubledNode(Node):
    """A replica with at most one fault. `second_replica` says whether another one could take its users."""

    troubled: TroubledHost
    tended: SimulatedHost

    def __init__(
        self,
        fault: Fault | None,
        seed: int,
        start: float,
        *,
        second_replica: bool = True,
        scenario: Scenario = REPLICA,
    ) -> None:
        """Boot at `start` (Unix seconds); without a fault, or with a slow one, its users have days and nights."""
        self._days = fault is None or fault.slow
        self._few = fault is not None and fault.slow
        super().__init__(scenario, seed, start)
        self.second_replica = second_replica
        self.replicas = 1
        self.away = False
        self._ordered: tuple[float, int] | None = None
        self._rng = stream(seed, "readings")
        self.slowness = [1.0] * len(self.cards)
        """How much longer each card takes for its part of a step, whatever its clock."""
        self.leaked_hbm_mib = [0.0] * len(self.cards)
        self.leaked_rss_mib = 0.0
        self.fragmented = memory.USUAL_FRAGMENTED
        self.memory_share = USUAL_SHARE
        self.log: list[str] = []
        """Lines of the engine's log that nobody took yet."""
        self._frozen: str | None = None
        self._prefill_delay = 0.0
        self._cost: tuple[float, float] = (1.0, 0.0)
        self._fails_at = math.inf
        self._last_words: tuple[str, ...] = ()
        self._air = [0.0] * len(self.cards)
        self._jitter_mib = [0.0] * len(self.cards)
        self._users = self.engine.users
        self.troubled = TroubledHost()
        self.tended = self.host = SimulatedHost(
            self.troubled, self.engine, self.drawn.physics, f"sim-host-replica-{seed}"
        )
        self.fault = fault
        self.ailment = None if fault is None else MAKERS[fault.name](fault, self)
        self.begun = False

    # ------------------------------------------------------------------ what faults do

    def recost(self) -> None:
        """Let the engine feel what cards and host are like now."""
        slowest = max(own / card.clock for own, card in zip(self.slowness, self.cards, strict=True))
        self._cost = (slowest, self._prefill_delay)
        self.tended.rebase(_costlier(self.drawn.physics, *self._cost))

    def set_prefill_delay(self, seconds: float) -> None:
        """Let each step with prefill take so much longer."""
        if abs(seconds - self._prefill_delay) > 5e-4 or seconds == 0.0:
            self._prefill_delay = seconds
            self.recost()

    def die(self, *, patient: bool) -> None:
        """The engine's processes end."""
        self._fails_at = math.inf
        if not self.control.down or math.isfinite(self._down_until):
            self.end(patient=patient)

    def freeze_page(self) -> None:
        """The engine no longer tells its server anything: the page stays as it is."""
        self._frozen = self.page.text()

    def thaw_page(self) -> None:
        """The page is a new process'."""
        self._frozen = None

    @property
    def page_frozen(self) -> bool:
        """Whether the page tells of a moment long ago."""
        return self._frozen is not None

    def write_log(self, *lines: str) -> None:
        """The engine says something."""
        self.log += lines

    def users_ask(self, prompts: Sequence[tuple[int, float]]) -> None:
        """From their next chunk of requests on users send prompts of these lengths and shares."""
        self._here.ask(prompts)
        self.engine.forget_lengths()

    # ------------------------------------------------------------------ what can be done

    def set_users(self, count: int) -> None:
        """So many users from now on, over all replicas."""
        self._users = count
        here = 0 if self.away else round(self._users / self.replicas)
        self.engine.set_users(here, self.now)

    def order(self, replicas: int) -> None:
        """So many replicas are to share the users, once the new ones serve."""
        self._ordered = (self.now + REPLICA_SECONDS, replicas)

    def scale(self, replicas: int) -> None:
        """So many replicas share the users from now on."""
        self._ordered = None
        self.replicas = replicas
        self.set_users(self._users)

    def send_away(self, away: bool) -> None:
        """New requests go to the other replica, or come here again."""
        self.away = away
        self.set_users(self._users)

    @property
    def batch_max_tokens(self) -> float:
        """The token budget of a step that the engine is set up with, whether it runs or not."""
        values = self._flags if self.control.down else self.control.read_state().values
        return values["batch_max_tokens"]

    def launch_values(self) -> dict[str, float]:
        """What a start gives the engine."""
        return {**self._flags, "gpu_memory_utilization": self.memory_share}

    def start_engine(self, settings: Mapping[str, float] | Sequence[tuple[str, float]]) -> None:
        """Start the ended engine with these over its launch values; it serves a minute later, or breaks."""
        asked = dict(settings)
        self.memory_share = asked.pop("gpu_memory_utilization", self.memory_share)
        self._flags.update(asked)
        if self.ailment is not None and self.begun:
            self.ailment.restarted()
            self._last_words = self.ailment.start_breaks()
            if self._last_words:
                self._fails_at = self.now + FAILS_AFTER_SECONDS
                return
        self.begin(self.now + LOAD_SECONDS, asked)
        self.recost()

    @property
    def starting(self) -> bool:
        """Whether a start is under way."""
        return self.control.down and (math.isfinite(self._down_until) or math.isfinite(self._fails_at))

    # ------------------------------------------------------------------ living

    def _traffic(self) -> Users:
        arrivals = self.drawn.arrivals
        if self._few:
            arrivals = replace(arrivals, clients=FEW_USERS)
        self._here = Users(arrivals, stream(self.seed, "traffic"), self.start, days=self._days)
        return self._here

    def _tick(self) -> None:
        engine = self.engine
        busy = engine.busy_seconds - self._busy
        tokens = engine.computed_tokens - self._computed
        self._ticks += 1
        self._busy = engine.busy_seconds
        self._computed = engine.computed_tokens
        fault = self.fault
        if fault is not None and not self.begun and self.now >= self.start + fault.onset_seconds:
            self.begun = True
            assert self.ailment is not None
            self.ailment.begin()
        if self._ordered is not None and self.now >= self._ordered[0]:
            self.scale(self._ordered[1])
        if self.now >= self._fails_at:
            self._fails_at = math.inf
            self.write_log(*self._last_words)
        if self.begun and self.ailment is not None:
            self.ailment.live(1.0)
        self._live_cards(min(1.0, busy), tokens)

    def _live_cards(self, busy: float, tokens: int) -> None:
        own = [slow / card.clock for slow, card in zip(self.slowness, self.cards, strict=True)]
        work = min(1.0, tokens / FULL_TOKENS_PER_SECOND)
        computing = self._computing() * busy * (MEMORY_BOUND_SHARE + COMPUTE_BOUND_SHARE * work)
        noise = self._rng.normal(size=(3, len(self.cards))).tolist()
        for index, card in enumerate(self.cards):
            # Who is faster than the slowest waits for it.
            share = computing * own[index] / max(own)
            card.aicore = min(
                1.0, max(0.0, share * card.spread + (AICORE_NOISE * noise[0][index] if busy else 0.0))
            )
            card.bandwidth = min(1.0, 0.8 * card.aicore)
            card.link_bytes += 6e9 * busy
            power = CORE_POWER_SHARE * card.aicore + (1.0 - CORE_POWER_SHARE) * work
            card.watts = IDLE_WATTS + (FULL_WATTS - IDLE_WATTS) * power * card.clock
            # The air comes and goes by a degree or two within the hour.
            air = AIR_NOISE_CELSIUS * noise[1][index] - self._air[index] / AIR_LASTS_SECONDS
            self._air[index] += air
            card.ambient += air
            self._jitter_mib[index] = HBM_NOISE_MIB * noise[2][index]
            card.warm(1.0)

    def _computing(self) -> float:
        """Share of a step of usual size in which the cards compute, and do not wait for the host."""
        physics = self.engine.physics
        device = self.drawn.physics.weight_read_seconds * self._cost[0]
        return device / (device + physics.overhead_seconds)

    def extra_mib(self, index: int) -> int:
        """See `Node`."""
        return round(self.leaked_hbm_mib[index] + self._jitter_mib[index])

    def metrics_text(self) -> str:
        """See `Node`; that of an engine which hangs stands still."""
        return super().metrics_text() if self._frozen is None else self._frozen


def _costlier(physics: Physics, factor: float, prefill_delay: float) -> Physics:
    """The same engine with cards that take `factor` times as long, and `prefill_delay` seconds a step with prefill."""
    return replace(
        physics,
        weight_read_seconds=physics.weight_read_seconds * factor,
        token_seconds=physics.token_seconds * factor,
        kv_read_seconds=physics.kv_read_seconds * factor,
        attention_seconds=physics.attention_seconds * factor,
        sequence_seconds=physics.sequence_seconds * factor,
        crowd_seconds=physics.crowd_seconds * factor,
        eager_seconds=physics.eager_seconds + prefill_delay,
    )
