"""`Orders.rollback` over all three lanes: the newest change first, each by its own lane's way."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from change.host import HostChange, HostError
from change.steps import ChangeRefused
from daemon.cold import Cold
from daemon.host.hand import HostHand
from daemon.host_lane import HostLane
from daemon.notices import Notices
from daemon.orders import Orders
from tests.change.plain_host import PlainHost
from tests.change.restart.stand import Stand
from tests.daemon.test_cold import PlainCatalogue


class Changeable(PlainHost):
    """A host of which everything may be changed."""

    async def refusal(self, knob: str) -> str | None:
        return None


class AllLanes:
    """A simulated engine behind a hand that restarts it, on a plain host."""

    def __init__(self, folder: Path) -> None:
        boot = folder / "root/proc/sys/kernel/random/boot_id"
        boot.parent.mkdir(parents=True)
        boot.write_text("b00t-1\n")
        self.stand, self.host = Stand(), Changeable()
        control, journal = self.stand.node.control, self.stand.journal
        self.lane = HostLane(
            cast(HostHand, self.host), control, journal, folder / "locks", lambda: None, folder / "root"
        )
        cold = Cold(self.stand.parts, PlainCatalogue(), Notices(self.stand.clock.now))
        self.orders = Orders(control, journal, folder / "locks", cold=cold, host=self.lane)

    def restart(self, **values: Any) -> None:
        now = self.stand.clock.now()
        self.stand.live(self.orders.apply(values, "operator", now, restart=True))

    def set_hot(self, **values: float) -> None:
        self.stand.live(self.orders.apply(values, "operator", self.stand.clock.now()))

    def set_host(self, knob: str, value: str) -> None:
        now = self.stand.clock.now()
        self.stand.live(self.lane.apply([HostChange(knob, value)], "operator", now))

    def rollback(self, n: int) -> dict[str, Any]:
        return self.stand.live(self.orders.rollback(n, "operator", self.stand.clock.now()))

    @property
    def tokens(self) -> float:
        return self.stand.node.control.read_state().values["batch_max_tokens"]


@pytest.fixture
def lanes(tmp_path: Path) -> AllLanes:
    lanes = AllLanes(tmp_path)
    lanes.restart(block_size=64)
    lanes.set_host("placement", "split:4")
    lanes.set_hot(batch_max_tokens=1024)
    return lanes


def test_changes_of_all_lanes_go_back_newest_first(lanes: AllLanes) -> None:
    assert lanes.stand.serves(block_size=64)
    assert (lanes.host.values["placement"], lanes.tokens) == ("split:4", 1024)
    assert lanes.rollback(1)["lane"] == "hot"
    assert (lanes.host.values["placement"], lanes.tokens) == ("split:4", 2048)
    assert lanes.rollback(1)["lane"] == "host"
    assert lanes.host.values["placement"] == "as_found"
    assert lanes.stand.serves(block_size=64)
    assert lanes.rollback(1)["lane"] == "cold"
    assert lanes.stand.serves(block_size=128)


def test_one_order_takes_back_all_of_them_in_order(lanes: AllLanes) -> None:
    back = lanes.rollback(3)
    assert [(step["lane"], step["outcome"]) for step in back["rollbacks"]] == [
        ("hot", "done"),
        ("host", "done"),
        ("cold", "done"),
    ]
    assert (lanes.host.values["placement"], lanes.tokens) == ("as_found", 2048)
    assert lanes.stand.serves(block_size=128)


def test_nothing_older_goes_back_before_what_does_not(lanes: AllLanes) -> None:
    lanes.host.broken.add("placement")
    back = lanes.rollback(3)
    assert (back["outcome"], [step["lane"] for step in back["rollbacks"]]) == ("stopped", ["hot"])
    assert "placement cannot be set" in back["reason"]
    assert lanes.tokens == 2048
    assert lanes.stand.serves(block_size=64)
    with pytest.raises(HostError, match="placement cannot be set"):
        lanes.rollback(2)


def test_a_restart_that_is_refused_does_not_hide_what_went_back_before_it(lanes: AllLanes) -> None:
    lanes.stand.ground.disk_bytes = 0
    back = lanes.rollback(3)
    assert back["outcome"] == "stopped"
    assert "nothing was restarted: the disk has" in back["reason"]
    assert [(step["lane"], step["outcome"]) for step in back["rollbacks"]] == [
        ("hot", "done"),
        ("host", "done"),
    ]
    assert (lanes.host.values["placement"], lanes.tokens) == ("as_found", 2048)
    with pytest.raises(ChangeRefused, match="the disk has"):
        lanes.rollback(1)
