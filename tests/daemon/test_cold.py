"""Orders of a person over a simulated hand: what needs a restart, what comes back, and who waits for whom."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from change.lock import EngineLock
from change.restart.command import plain
from change.restart.order import ColdLane, Mismatch
from change.restart.parts import different
from change.server import LaunchCommand, ServerError, Settings
from change.steps import ChangeRefused
from daemon.cold import Cold, Progress
from daemon.notices import Notices
from daemon.orders import Orders
from sim.server_arguments import render
from tests.change.restart.stand import Stand, read


class PlainCatalogue:
    """The simulated engine's flags; `--swap-space` is gone."""

    def settings(self, command: LaunchCommand) -> Settings:
        return read(command)

    async def render(self, command: LaunchCommand, settings: Settings) -> LaunchCommand:
        return render(command, settings)

    async def problems(self, settings: Settings, command: LaunchCommand) -> list[str]:
        return ["--swap-space is gone since 0.18.0"] if "swap_space" in settings else []

    def mismatches(self, requested: Settings, effective: Settings) -> list[Mismatch]:
        return different(requested, effective)

    def golden(self, settings: Settings) -> bool:
        return "kv_cache_dtype" in settings

    async def effective(self, log: Sequence[str]) -> Settings:
        return {}


class Bench:
    def __init__(self, tmp_path: Path) -> None:
        self.stand = Stand()
        self.notices = Notices(self.stand.clock.now)
        self.begun = 0
        self.cold = Cold(self.stand.parts, PlainCatalogue(), self.notices, before=self._before)
        self.lane: ColdLane = self.cold
        self.orders = Orders(self.stand.node.control, self.stand.journal, tmp_path / "locks", cold=self.cold)

    def _before(self) -> None:
        self.begun += 1

    def apply(self, restart: bool = True, **values: Any) -> dict[str, Any]:
        return self.stand.live(self.orders.apply(values, "operator", self.stand.clock.now(), restart=restart))

    def rollback(self, n: int = 1) -> dict[str, Any]:
        return self.stand.live(self.orders.rollback(n, "operator", self.stand.clock.now()))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_what_needs_a_restart_is_not_restarted_without_a_word(bench: Bench) -> None:
    with pytest.raises(ChangeRefused, match=r"block_size: needs a restart .* say --restart"):
        bench.apply(restart=False, block_size=64)
    assert bench.stand.server.stops == 0


def test_a_restart_on_order_and_its_rollback(bench: Bench) -> None:
    done = bench.apply(block_size=64)
    assert (done["lane"], done["outcome"], done["requested"]) == ("cold", "done", {"block_size": 64})
    assert done["down_seconds"] > done["own_seconds"] > 0
    assert bench.begun == 1
    back = bench.rollback()
    assert (back["lane"], back["kind"], back["outcome"]) == ("cold", "rollback", "done")
    assert back["requested"] == {"block_size": 128}
    assert back["down_seconds"] > 0
    assert bench.stand.serves(block_size=128)


def test_hot_and_cold_in_one_order_restart_first(bench: Bench) -> None:
    done = bench.apply(block_size=64, batch_max_tokens=1024)
    assert (done["lane"], done["outcome"]) == ("hot", "done")
    assert done["restart"]["outcome"] == "done"
    assert bench.stand.node.control.read_state().values["batch_max_tokens"] == 1024
    back = bench.rollback(2)
    assert [step["lane"] for step in back["rollbacks"]] == ["hot", "cold"]


def test_what_is_refused_after_the_restart_does_not_hide_the_restart(bench: Bench) -> None:
    done = bench.apply(block_size=64, batch_max_tokens=1)
    assert (done["outcome"], done["restart"]["outcome"]) == ("stopped", "done")
    assert "the engine was restarted, but batch_max_tokens could not be set" in done["reason"]
    assert bench.stand.serves(block_size=64)


def test_beyond_its_ceiling_a_hot_knob_is_a_flag(bench: Bench) -> None:
    bench.stand.restart(batch_max_tokens=1024)
    assert bench.apply(batch_max_tokens=512)["lane"] == "hot"
    assert bench.apply(batch_max_tokens=2048)["lane"] == "cold"
    assert bench.stand.node.control.read_state().values["batch_max_tokens"] == 2048


def test_a_flag_that_is_gone_is_refused_before_anything_stops(bench: Bench) -> None:
    with pytest.raises(ChangeRefused, match="swap-space is gone"):
        bench.apply(swap_space=4)
    assert bench.stand.server.stops == 0


def test_without_a_hand_it_says_what_to_configure(bench: Bench, tmp_path: Path) -> None:
    orders = Orders(bench.stand.node.control, bench.stand.journal, tmp_path)
    with pytest.raises(ChangeRefused, match=r"engine\.server"):
        bench.stand.live(orders.apply({"block_size": 64}, "operator", 0.0, restart=True))


def test_a_start_that_failed_is_an_order_undone_with_its_reason(bench: Bench) -> None:
    bench.stand.server.faults = ["out_of_memory"]
    done = bench.apply(block_size=64)
    assert (done["outcome"], done["phase"]) == ("undone", "load")
    assert "npu_out_of_memory" in done["reason"]
    assert not bench.notices.holds("restart failed")


def test_an_engine_that_is_down_is_an_alert_until_it_is_started_again(bench: Bench) -> None:
    bench.stand.server.faults = ["out_of_memory", "init_failure"]
    bench.apply(block_size=64)
    assert bench.notices.holds("restart failed")
    assert bench.apply(block_size=128)["outcome"] == "done"
    assert not bench.notices.holds("restart failed")
    assert not bench.notices.holds("restart")


def test_a_trials_settings_do_not_pile_up(bench: Bench) -> None:
    for settings in ({"block_size": 64}, {"max_num_seqs": 128}):
        bench.stand.live(bench.lane.restart(settings, actor="campaign 1", kind="trial", campaign_id=1))
    assert bench.stand.serves(block_size=128, max_num_seqs=128)


def test_what_a_process_before_left_half_done_is_ended_once_at_the_start(bench: Bench) -> None:
    bench.stand.live(bench.lane.restart({"block_size": 64}, actor="campaign 1", kind="trial"))
    again = Cold(bench.stand.parts, PlainCatalogue(), bench.notices)
    bench.stand.live(again.tick(0.0))
    assert bench.stand.serves(block_size=128)
    assert bench.stand.journal.open_entries("cold") == []
    starts = bench.stand.server.starts
    bench.stand.live(again.tick(0.0))
    assert bench.stand.server.starts == starts


def test_a_promotion_that_nobody_saw_through_is_taken_back_unless_somebody_else_restarted(
    bench: Bench,
) -> None:
    bench.stand.live(
        bench.lane.restart({"block_size": 64}, actor="campaign 1", kind="promotion", campaign_id=1)
    )
    his = bench.stand.somebody_starts(max_num_seqs=64)
    starts = bench.stand.server.starts
    again = Cold(bench.stand.parts, PlainCatalogue(), bench.notices)
    bench.stand.live(again.tick(0.0))
    assert (bench.stand.server.run.command, bench.stand.server.starts) == (his, starts)
    (said,) = (notice.text for notice in bench.notices.standing() if notice.key.startswith("recovered"))
    assert "left alone: somebody else restarted the engine" in said


def test_a_restart_that_could_not_be_kept_is_completed_at_the_next_look(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, cold = bench.stand.server, bench.cold
    bench.stand.live(cold.tick(0.0))
    keep = server.keep

    async def fail(command: LaunchCommand) -> None:
        monkeypatch.setattr(server, "keep", keep)
        raise ServerError("launch.json: cannot be kept: disk full")

    monkeypatch.setattr(server, "keep", fail)
    bench.apply(block_size=64)
    assert [entry.state for entry in bench.stand.entries()] == ["verified"]
    bench.stand.live(cold.tick(0.0))
    assert [entry.outcome for entry in bench.stand.entries()] == ["done"]
    assert (server.kept, server.starts) == (plain(server.run.command), 1)
    assert bench.apply(block_size=32)["outcome"] == "done"


def test_a_trial_that_serves_is_left_to_its_campaign(bench: Bench) -> None:
    bench.stand.live(bench.cold.tick(0.0))
    bench.stand.live(bench.lane.restart({"block_size": 64}, actor="campaign 1", kind="trial", campaign_id=1))
    bench.stand.live(bench.cold.tick(0.0))
    assert bench.stand.serves(block_size=64)


def test_a_restart_goes_on_to_its_end_when_who_ordered_it_goes_away(bench: Bench) -> None:
    async def leave() -> None:
        order = asyncio.create_task(bench.lane.restart({"block_size": 64}, actor="operator", kind="manual"))
        await bench.stand.clock.sleep(20.0)
        order.cancel()
        assert bench.cold.running
        await bench.cold.finish()

    bench.stand.live(leave())
    assert bench.stand.serves(block_size=64)
    assert bench.stand.journal.open_entries("cold") == []


def test_it_tells_how_far_a_restart_is_and_nothing_once_it_is_over(bench: Bench) -> None:
    async def watch() -> tuple[Progress | None, float]:
        begun = bench.stand.clock.now()
        order = asyncio.create_task(bench.lane.restart({"block_size": 64}, actor="campaign 1", kind="trial"))
        while bench.cold.progress is None or "weights loaded" not in bench.cold.progress.line:
            await bench.stand.clock.sleep(1.0)
        found = replace(bench.cold.progress)
        await order
        return found, begun

    before = bench.cold.progress
    seen, begun = bench.stand.live(watch())
    assert before is None
    assert seen is not None
    assert (seen.actor, seen.kind, seen.settings, seen.phase) == (
        "campaign 1",
        "trial",
        {"block_size": 64},
        "load",
    )
    assert seen.begun - begun <= 1.0 < seen.phase_begun - begun
    assert bench.cold.progress is None


def test_it_tells_when_a_restart_was_last_under_way(bench: Bench) -> None:
    clock, cold = bench.stand.clock, bench.cold
    bench.stand.live(cold.tick(clock.now()))

    def told_now() -> float | None:
        return cold.restart_time

    assert told_now() is None, "to look for what was left open is no restart"

    async def halfway() -> tuple[float | None, float]:
        order = asyncio.create_task(bench.lane.restart({"block_size": 64}, actor="operator", kind="manual"))
        await clock.sleep(5.0)
        seen = cold.restart_time, clock.now()
        await order
        return seen

    told, at = bench.stand.live(halfway())
    assert told == at
    ended = told_now()
    assert ended is not None and ended > at
    bench.stand.live(clock.sleep(60.0))
    assert told_now() == ended


def test_two_processes_never_restart_one_engine_at_once(bench: Bench, tmp_path: Path) -> None:
    parts = replace(bench.stand.parts, lock=lambda name: EngineLock(tmp_path, name, "a restart"))
    one, other = (Cold(parts, PlainCatalogue(), bench.notices) for _ in range(2))

    async def both() -> None:
        first = asyncio.create_task(one.restart({"block_size": 64}, actor="a", kind="manual"))
        await bench.stand.clock.sleep(20.0)
        second = await other.restart({"block_size": 32}, actor="b", kind="manual")
        assert (second.outcome, second.phase) == ("refused", "preflight")
        assert "is being changed by a restart" in second.reason
        assert other.restart_time is None, "one that was refused was never under way"
        assert (await first).outcome == "served"

    bench.stand.live(both())
    assert bench.stand.serves(block_size=64)
    assert list(tmp_path.glob("*.lock")) == []


def test_the_settings_in_force_are_what_the_engine_says(bench: Bench) -> None:
    assert bench.stand.live(bench.lane.settings())["block_size"] == 128
    assert bench.stand.live(bench.lane.problems({"swap_space": 1})) == ["--swap-space is gone since 0.18.0"]
