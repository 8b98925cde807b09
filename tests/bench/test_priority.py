"""The bench of priority by size tells each order's share by class."""

from __future__ import annotations

from bench.priority import CLASSES, Result, table
from sim.queue import ORDERS, Order


def result(order: Order, late: float) -> Result:
    return Result("guide's mix", 0.9, 1, order, late, {"medium": 0.5, "short": late}, 4.0, 7.0)


def test_the_table_has_a_line_an_order_and_a_dash_for_a_class_that_is_not_there() -> None:
    text = table([result(order, 0.1 * (place + 1)) for place, order in enumerate(ORDERS)])
    lines = text.splitlines()
    assert all(name in lines[0] for name in CLASSES)
    assert [line.split()[3] for line in lines[1:]] == [*ORDERS]
    assert "10.0%        -    50.0%    10.0%" in lines[1]
