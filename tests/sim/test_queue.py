"""Who is served next: as they came, or by the size of the prompt."""

from __future__ import annotations

import pytest

from sim.engine import Engine
from sim.physics import Jitter
from sim.queue import Order
from sim.scenario import LAUNCH, serve
from tests.sim.laboratory import audit, engine


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fcfs", [700, 100, 3000, 90, 600]),
        ("long_first", [700, 3000, 600, 100, 90]),
        ("short_first", [700, 100, 90, 600, 3000]),
    ],
)
def test_one_at_a_time_they_finish_in_that_order(order: Order, expected: list[int]) -> None:
    physics = engine(400).physics
    one = Engine(physics, None, Jitter(physics, None), start=0.0, order=order)
    serve(one, {**LAUNCH, "max_num_seqs": 1})
    one.submit(0.0, 700, 4)
    one.run(0.0)  # the first is admitted before the others come
    for number, prompt in enumerate((100, 3000, 90, 600), 1):
        one.submit(0.001 * number, prompt, 4)
        one.run(0.001 * number)
    one.run(600.0)
    assert [row[7] for row in one.ring] == expected
    audit(one)
