"""Whether a fresh start is good for its users, as the history tells."""

from __future__ import annotations

import asyncio

from collectors.history import History
from collectors.sample import Distribution, Sample
from daemon.slo_watch import SloWatch
from tuner.settings import Limit, Slo

START = 1_700_000_000.0
TTFT = "trimtab_engine_ttft_seconds"
SLO = Slo((Limit("ttft", 0.9, 1.0),))


class Users:
    """Requests of one latency, a page of them every two seconds."""

    def __init__(self) -> None:
        self.now = START
        self.history = History()
        self.fast = self.slow = 0.0
        self.live(10.0, slow=False)

    def live(self, seconds: float, *, slow: bool) -> None:
        for _ in range(int(seconds / 2)):
            self.now += 2.0
            if slow:
                self.slow += 10
            else:
                self.fast += 10
            whole = self.fast + self.slow
            seen = Distribution(
                (0.5, 4.0, float("inf")), (self.fast, whole, whole), 0.2 * self.fast + 3.0 * self.slow, whole
            )
            self.history.add([Sample(TTFT, seen, self.now, ())])

    def watch(self) -> SloWatch:
        return SloWatch(self.history, SLO, 40.0, lambda: self.now)


def asked(watch: SloWatch) -> str | None:
    return asyncio.run(watch())


def test_a_start_that_serves_within_the_limits_is_good() -> None:
    users = Users()
    watch = users.watch()
    watch.before()
    for _ in range(20):
        assert asked(watch) is None
        users.live(2.0, slow=False)


def test_whoever_waited_at_the_gate_is_not_held_against_it() -> None:
    users = Users()
    watch = users.watch()
    watch.before()
    asked(watch)
    users.live(18.0, slow=True)
    assert asked(watch) is None
    users.live(20.0, slow=False)
    assert asked(watch) is None


def test_a_start_that_goes_on_burning_is_named_with_its_limit() -> None:
    users = Users()
    watch = users.watch()
    watch.before()
    asked(watch)
    users.live(36.0, slow=True)
    assert asked(watch) == "ttft_p90_seconds is above 1 s"


def test_what_was_broken_before_is_not_the_starts_fault() -> None:
    users = Users()
    users.live(40.0, slow=True)
    watch = users.watch()
    watch.before()
    asked(watch)
    users.live(36.0, slow=True)
    assert asked(watch) is None


def test_no_traffic_is_no_burn() -> None:
    users = Users()
    watch = users.watch()
    asked(watch)
    users.now += 36.0
    assert asked(watch) is None
