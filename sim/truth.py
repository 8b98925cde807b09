"""What a config truly does: a steady run at mean load, the same arrivals for every config, no noise if so wished."""

from __future__ import annotations

from dataclasses import replace

from change.engine import RequestPage, RequestRecord, Values
from change.server import Settings
from sim.engine import Engine
from sim.hand import SimulatedControl
from sim.host_hand import put_beside
from sim.physics import Jitter
from sim.scenario import SCENARIOS, Scenario, stream
from sim.traffic import Traffic

WARM_UP_SECONDS = 20.0


def simulate(
    scenario: Scenario | str,
    seed: int,
    values: Values,
    seconds: float,
    noise: bool = False,
    settings: Settings | None = None,
) -> RequestPage:
    """Serve `values` alone for `seconds` after a warm-up of 20 s, at the mean rate, from time 0.

    A value of a host knob is its place in the story's list.

    Records are those whose first token came after the warm-up (epoch 1), gaps those of that epoch. The arrivals depend
    on the seed only. `settings` are start-up settings over those of the launch.
    """
    chosen = SCENARIOS[scenario] if isinstance(scenario, str) else scenario
    drawn = chosen.drawn(seed)
    steady = replace(drawn.arrivals, amplitude=0.0, shift_seconds=None)
    cold = None if chosen.cold is None else chosen.cold.effective({**chosen.cold.launch, **(settings or {})})
    engine = Engine(
        drawn.physics if cold is None else drawn.started(cold),
        Traffic(steady, stream(seed, "truth"), 0.0),
        Jitter(drawn.physics, stream(seed, "truth jitter") if noise else None),
        start=0.0,
    )
    control = SimulatedControl(chosen, engine, f"truth-{seed}")
    if cold is not None and chosen.cold is not None:
        control.reboot(f"truth-{seed}", chosen.launch, chosen.cold.ceilings(cold, chosen.ceilings))
    options = {} if drawn.host is None else drawn.host.options
    hot = {name: value for name, value in values.items() if name not in options}
    control.apply({**chosen.launch, **hot}, if_epoch=0, lease_seconds=None)
    if drawn.host is not None:
        chosen_texts = {name: texts[int(values.get(name, 0))] for name, texts in options.items()}
        put_beside(engine, drawn.host, drawn.physics, chosen_texts)
    engine.begin_epoch(0)
    engine.run(WARM_UP_SECONDS)
    engine.begin_epoch(1)
    engine.run(WARM_UP_SECONDS + seconds)
    rows = [row for row in engine.finished if row[5] == 1]
    return RequestPage(
        now=engine.clock,
        next_since=engine.completed,
        lost=0,
        records=tuple(RequestRecord(*row) for row in rows),
        gaps={1: {i: n for i, n in enumerate(engine.gaps[1]) if n}},
    )
