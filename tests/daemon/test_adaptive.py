"""The adaptive mode against a simulated engine: leased, journaled, locked, and out of everybody's way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from change.apply import change, recover
from change.engine import EngineState, EngineUnreachable
from change.journal import Journal, JournalUnwritable
from change.lock import EngineLock, LockHeld
from collectors.history import History
from collectors.sample import Sample
from daemon.adaptive import TICK_SECONDS, Adaptive, burning
from daemon.headless import START
from daemon.modes import Modes
from daemon.notices import Notices
from daemon.sections.adaptive import AdaptiveSection
from sim.node import Node
from sim.scenario import SCENARIOS
from store import open_store
from tests.tuner.records import record
from tuner.batcher import SEQS
from tuner.settings import Limit, Slo

LEASE = 30.0


class Stand:
    """A node whose sequences are few for its load, and the adaptive mode beside it."""

    def __init__(
        self, folder: Path, *, enabled: bool = True, mode: Any = "act", slo: Slo | None = None
    ) -> None:
        self.node = Node(SCENARIOS["default"], 131, START)
        self.journal = Journal(open_store("sqlite:///:memory:"), "simulated")
        self.history = History()
        self.folder = folder
        self.busy = False
        self.left_open = 0
        self.silent = False
        self.notices = Notices(lambda: self.node.now)
        self.modes = Modes(mode, folder / "paused", folder / "stop", ())
        self.adaptive = Adaptive(
            control=self.node.control,
            journal=self.journal,
            history=self.history,
            modes=self.modes,
            notices=self.notices,
            lock_dir=folder / "locks",
            section=AdaptiveSection(enabled=enabled),
            slo=slo or Slo(),
            lease_seconds=LEASE,
            busy=lambda: self.busy,
            ended=self._ended,
        )

    def _ended(self) -> None:
        self.left_open += 1

    async def begin(self, seqs: float = 12.0) -> None:
        """Promote a config with few sequences, so that the queue that comes is one for sequences."""
        state = await self.node.control.state()
        self.journal.note_launch(state, self.node.now)
        await change(
            self.node.control,
            self.journal,
            {SEQS: seqs, "max_prefill_tokens": 256},
            kind="promotion",
            actor="the test",
            now=self.node.now,
        )

    async def live(self, seconds: float) -> None:
        last = self.node.now + seconds
        while self.node.now < last:
            self.node.advance(self.node.now + TICK_SECONDS)
            if not self.silent:
                self.scrape()
            await self.adaptive.tick(self.node.now)

    def scrape(self) -> None:
        engine, now = self.node.engine, self.node.now
        block = engine.physics.block_tokens
        figures = {
            "requests_running": len(engine.running),
            "requests_waiting": len(engine.waiting),
            "kv_free_tokens": engine.free_blocks * block,
            "kv_cache_blocks": engine.physics.kv_blocks,
            "kv_cache_block_tokens": block,
            "preemptions_total": engine.preemptions,
        }
        self.history.add(
            [Sample(f"trimtab_engine_{name}", float(value), now) for name, value in figures.items()], "vllm"
        )

    async def until_active(self) -> None:
        for _ in range(200):
            await self.live(TICK_SECONDS)
            if self.adaptive.active:
                return
        raise AssertionError(f"it never changed anything: {self.adaptive.status()}")

    async def seqs(self) -> float:
        return (await self.node.control.state()).values[SEQS]

    def mine(self) -> list[Any]:
        return [entry for entry in self.journal.last(500) if entry.kind == "adaptive"]

    def lock_is_free(self) -> bool:
        try:
            with EngineLock(self.folder / "locks", self.node.control.boot_id, "the test"):
                return True
        except LockHeld:
            return False


def test_a_change_is_leased_journaled_and_holds_the_lock(tmp_path: Path) -> None:
    async def run() -> None:
        stand = Stand(tmp_path)
        await stand.begin()
        await stand.until_active()
        state = await stand.node.control.state()
        assert 12 < state.values[SEQS] <= 24
        assert state.lease_remaining_seconds == pytest.approx(LEASE, abs=TICK_SECONDS + 1)
        (entry,) = stand.journal.open_entries()
        assert (entry.kind, entry.state, entry.undo[SEQS]) == ("adaptive", "verified", 12)
        assert not stand.lock_is_free()
        told = stand.adaptive.status()
        assert told is not None and told["active"] and told["base"][SEQS] == 12
        await stand.live(300.0)
        assert (
            await stand.node.control.state()
        ).lease_remaining_seconds is not None or not stand.adaptive.active

    asyncio.run(run())


def test_left_alone_the_engine_goes_back_by_itself_and_the_next_start_closes_the_entry(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        stand = Stand(tmp_path)
        await stand.begin()
        await stand.until_active()
        stand.node.advance(stand.node.now + LEASE + 1.0)
        state = await stand.node.control.state()
        assert (state.values[SEQS], state.lease_remaining_seconds) == (12, None)
        (closed,) = await recover(stand.node.control, stand.journal, stand.node.now)
        assert (closed.kind, closed.outcome) == ("adaptive", "recovered")

    asyncio.run(run())


def test_a_crash_in_the_middle_of_the_lease_is_taken_back_at_the_next_start(tmp_path: Path) -> None:
    async def run() -> None:
        stand = Stand(tmp_path)
        await stand.begin()
        await stand.until_active()
        await recover(stand.node.control, stand.journal, stand.node.now)
        state = await stand.node.control.state()
        assert (state.values[SEQS], state.lease_remaining_seconds) == (12, None)

    asyncio.run(run())


async def busy(stand: Stand) -> None:
    stand.busy = True


async def paused(stand: Stand) -> None:
    stand.modes.pause()


async def kill_switch(stand: Stand) -> None:
    (stand.folder / "stop").touch()


async def silence(stand: Stand) -> None:
    stand.silent = True


async def closed_gate(stand: Stand) -> None:
    await stand.node.control.gate("closed", lease_seconds=60.0, retry_after=1.0)


@pytest.mark.parametrize("reason", [busy, paused, kill_switch, silence, closed_gate])
def test_it_goes_back_when_it_may_not_or_does_not_know(
    tmp_path: Path, reason: Callable[[Stand], Awaitable[None]]
) -> None:
    async def run() -> None:
        stand = Stand(tmp_path)
        await stand.begin()
        await stand.until_active()
        await reason(stand)
        await stand.live(25.0)
        state = await stand.node.control.state()
        assert (state.values[SEQS], state.lease_remaining_seconds) == (12, None)
        assert stand.journal.open_entries() == [] and stand.lock_is_free()
        assert {entry.outcome for entry in stand.mine()} == {"undone"}

    asyncio.run(run())


def test_giving_way_is_at_once_and_a_change_by_hand_keeps_it_off(tmp_path: Path) -> None:
    async def run() -> None:
        stand = Stand(tmp_path)
        await stand.begin()
        await stand.until_active()
        await stand.adaptive.give_way("a change by hand", stand.node.now)
        assert await stand.seqs() == 12 and stand.lock_is_free()
        await change(
            stand.node.control, stand.journal, {SEQS: 10}, kind="manual", actor="cli", now=stand.node.now
        )
        await stand.live(900.0)
        assert await stand.seqs() == 10 and not stand.adaptive.active
        told = stand.adaptive.status()
        assert told is not None and "by hand" in told["off"]

    asyncio.run(run())


def test_cut_off_while_it_gives_way_it_holds_nothing_and_the_lease_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        stand = Stand(tmp_path)
        await stand.begin()
        await stand.until_active()
        with monkeypatch.context() as patch:

            async def hangs(*_: Any, **__: Any) -> Any:
                await asyncio.Event().wait()

            patch.setattr(stand.node.control, "set_knobs", hangs)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await stand.adaptive.give_way("run-1 acts", stand.node.now)
        assert not stand.adaptive.active and stand.lock_is_free()
        assert stand.left_open == 1 and len(stand.journal.open_entries()) == 1
        stand.node.advance(stand.node.now + LEASE + 1.0)
        assert await stand.seqs() == 12

    asyncio.run(run())


def test_with_several_data_parallel_ranks_it_is_off_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        stand = Stand(tmp_path)
        await stand.begin()
        await stand.until_active()
        state = stand.node.control.state

        async def two_ranks() -> EngineState:
            return replace(await state(), dp_ranks=2)

        monkeypatch.setattr(stand.node.control, "state", two_ranks)
        await stand.live(900.0)
        assert await stand.seqs() == 12 and not stand.adaptive.active
        told = stand.adaptive.status()
        assert told is not None and "2 data-parallel ranks" in told["off"]

    asyncio.run(run())


def test_somebody_elses_change_is_not_fought(tmp_path: Path) -> None:
    async def run() -> None:
        stand = Stand(tmp_path)
        await stand.begin()
        await stand.until_active()
        state = await stand.node.control.state()
        await stand.node.control.set_knobs({SEQS: 9}, if_epoch=state.epoch, lease_seconds=None)
        await stand.live(TICK_SECONDS)
        assert await stand.seqs() == 9
        assert stand.journal.open_entries() == [] and stand.lock_is_free()

    asyncio.run(run())


def test_without_a_journal_nothing_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        stand = Stand(tmp_path)
        await stand.begin()

        def unwritable(*_: Any, **__: Any) -> int:
            raise JournalUnwritable("the disk is full")

        monkeypatch.setattr(stand.journal, "open", unwritable)
        await stand.live(900.0)
        assert await stand.seqs() == 12 and not stand.adaptive.active and stand.lock_is_free()
        assert "the disk is full" in stand.notices.standing()[0].text

    asyncio.run(run())


def test_another_holder_of_the_lock_is_respected(tmp_path: Path) -> None:
    async def run() -> None:
        stand = Stand(tmp_path)
        await stand.begin()
        with EngineLock(tmp_path / "locks", stand.node.control.boot_id, "somebody"):
            await stand.live(900.0)
            assert await stand.seqs() == 12 and stand.mine() == []

    asyncio.run(run())


def test_an_engine_out_of_reach_goes_back_by_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        stand = Stand(tmp_path)
        await stand.begin()
        await stand.until_active()
        with monkeypatch.context() as patch:

            async def gone(*_: Any, **__: Any) -> Any:
                raise EngineUnreachable("nobody answers")

            patch.setattr(stand.node.control, "state", gone)
            await stand.live(LEASE + 10.0)
        await stand.live(TICK_SECONDS)
        assert await stand.seqs() == 12 and not stand.adaptive.active
        assert stand.journal.open_entries() == [] and stand.lock_is_free()

    asyncio.run(run())


@pytest.mark.parametrize(("enabled", "mode"), [(False, "act"), (True, "observe"), (True, "advise")])
def test_it_does_nothing_unless_it_is_enabled_and_may_act(tmp_path: Path, enabled: bool, mode: Any) -> None:
    async def run() -> None:
        stand = Stand(tmp_path, enabled=enabled, mode=mode)
        await stand.begin()
        await stand.live(900.0)
        assert await stand.seqs() == 12 and stand.mine() == []
        assert (stand.adaptive.status() is None) is not enabled

    asyncio.run(run())


def test_a_limit_burns_when_far_more_than_its_share_are_beyond_it() -> None:
    slo = Slo((Limit("ttft", 0.9, 1.0), Limit("itl", 0.9, 0.1), Limit("e2e", 0.9, 60.0)))
    good, late = [record(0.0, ttft=0.2)] * 90, [record(0.0, ttft=1.5)] * 10
    assert burning(slo, good + late) is None
    text = burning(slo, good + late * 3)
    assert text is not None and text.startswith("ttft_p90_seconds is broken by 30 of 120")
    assert burning(slo, [record(0.0, ttft=1.5)] * 4) is None
    assert "itl" in (burning(slo, [record(0.0, gap=0.2)] * 10) or "")
    assert "e2e" in (burning(slo, [record(0.0, gap=0.09, tokens=1000)] * 10) or "")
