"""An engine to try things on: small memory, given arrivals, and an account of what is inside."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from change.engine import Values
from sim.engine import Engine
from sim.physics import Jitter, Physics
from sim.scenario import LAUNCH, draw_physics, serve

PHYSICS = draw_physics(np.random.default_rng(5))


def engine(
    kv_blocks: int = 200, values: Values | None = None, *, start: float = 0.0, physics: Physics = PHYSICS
) -> Engine:
    """A noise-free engine without traffic of its own."""
    small = replace(physics, kv_blocks=kv_blocks)
    built = Engine(small, None, Jitter(small, None), start=start)
    serve(built, {**LAUNCH, **(values or {})})
    return built


def audit(engine: Engine) -> None:
    """Raise unless every request is somewhere and every block and token of context is accounted for."""
    running = list(engine.running.values())
    assert engine.arrived == engine.completed + len(running) + len(engine.waiting)
    assert engine.free_blocks + sum(r.blocks for r in running) == engine.physics.kv_blocks
    assert engine.free_blocks >= 0
    decoding = [r for r in running if r.start_step]
    assert engine.decoding == len(decoding)
    assert engine.context_tokens == sum(r.done - r.generated + engine.generated(r) for r in decoding)
    for request in running:
        assert 0 <= engine.generated(request) < request.output
        assert request.blocks > 0
    for request in engine.waiting:
        assert request.blocks == 0
