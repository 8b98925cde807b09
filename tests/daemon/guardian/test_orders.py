"""Which requests to the guardian count as looking after an unfinished change."""

from __future__ import annotations

from typing import Any, cast

import pytest

from daemon.guardian.attendance import TAKEOVER_SECONDS
from daemon.guardian.orders import Orders
from daemon.guardian.wire import Attend, Look, Request, Stay, read_request, written
from tests.daemon.guardian.virtual_run import DAEMON, NEXT_DAEMON, World


@pytest.mark.parametrize(
    ("request_", "counts"), [(Attend(), True), (Look(), False), (Stay(seconds=20), False)]
)
def test_a_daemon_that_attends_is_waited_for_one_that_only_looks_is_not(
    request_: Request, counts: bool
) -> None:
    world = World()
    world.changed()
    world.alive.discard(DAEMON)
    world.alive.add(NEXT_DAEMON)
    orders = Orders(world.guard, cast(Any, None), cast(Any, None), world.attendance)
    for _ in range(3):
        world.pass_time(TAKEOVER_SECONDS / 2)
        assert orders.answer(read_request(written(request_).strip()), NEXT_DAEMON, world.now).error is None
    assert (world.living == [world.runs[1]]) == counts
