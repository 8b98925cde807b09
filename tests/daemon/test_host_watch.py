"""What was promoted of the host comes back on an engine that started again, once it serves and on all of it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from change.host import HostChange
from change.host_steps import change_host
from change.journal import Journal
from daemon.config import Config
from daemon.host_lane import HostLane
from daemon.host_watch import TRIES, HostWatch
from daemon.loops import Daemon
from daemon.modes import Modes
from daemon.notices import Notices
from store import open_store
from tests.change.plain_engine import PlainEngine
from tests.daemon.host.laid import CORE, MAIN, OTHER_WORKER, WORKER, LaidHost

SPLIT = HostChange("placement", "split:4")
ANYWHERE = frozenset(range(192))


class Stand:
    """A laid host and its engine, a promoted placement, and the watch over both."""

    def __init__(self, folder: Path, mode: str = "act", busy: Callable[[], bool] = lambda: False) -> None:
        self.laid = LaidHost(folder / "root")
        self.engine = PlainEngine()
        self.store = open_store("sqlite:///:memory:")
        self.journal = Journal(self.store, "http://127.0.0.1:8000")
        self.lane = HostLane(
            self.laid.hand(),
            self.engine,
            self.journal,
            folder / "locks",
            lambda: MAIN,
            root=self.laid.tree.root,
        )
        self.notices = Notices(lambda: 0.0)
        modes = Modes(mode, folder / "paused", folder / "stop", ())  # type: ignore[arg-type]
        self.watch = HostWatch(self.lane, modes, self.notices, busy)
        self._now = 1.0

    async def promote(self) -> None:
        await change_host(
            self.laid.hand(), self.journal, [SPLIT], boot_id="b00t-1", kind="promotion", actor="tune", now=1.0
        )

    async def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self._now += 10.0
            await self.watch.tick(self._now)

    def main_alone(self) -> None:
        """The engine has begun again, and has only its main process yet."""
        self.engine.restart()
        for pid in (MAIN, CORE, WORKER, OTHER_WORKER):
            shutil.rmtree(self.laid.tree.root / f"proc/{pid}")
        self.laid.tree.process(MAIN, "vllm", title="python3\0/usr/bin/vllm\0serve\0", start_ticks=700)

    def whole(self) -> None:
        """Its core and its workers are there too."""
        self.laid.tree.process(CORE, "VLLM::EngineCore", MAIN, title="VLLM::EngineCore\0", start_ticks=701)
        self.laid.tree.process(WORKER, "VLLM::Worker_TP", CORE, title="VLLM::Worker_TP0\0", start_ticks=702)

    async def placed(self) -> bool:
        return (await self.laid.hand().look("placement")).value == "split:4"

    def untouched(self) -> bool:
        return set(self.laid.affinities().values()) == {ANYWHERE}


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    one = Stand(tmp_path)
    yield one
    one.store.close()


@pytest.mark.parametrize("mode", ["act", "observe"])
def test_a_promoted_placement_comes_back_on_an_engine_that_started_again(tmp_path: Path, mode: str) -> None:
    async def scene() -> bool:
        stand = Stand(tmp_path, mode)
        await stand.promote()
        await stand.tick(3)
        stand.main_alone()
        stand.whole()
        await stand.tick()
        return await stand.placed()

    assert asyncio.run(scene()) == (mode == "act")


def test_a_half_started_engine_is_left_alone_until_its_plugin_answers(stand: Stand) -> None:
    async def scene() -> None:
        await stand.promote()
        await stand.tick(3)
        stand.main_alone()
        stand.engine.down = True
        await stand.tick(3)
        assert stand.untouched()
        stand.whole()
        stand.engine.down = False
        await stand.tick()
        assert await stand.placed()

    asyncio.run(scene())


def test_processes_that_come_after_the_placement_get_it_too(stand: Stand) -> None:
    async def scene() -> None:
        await stand.promote()
        stand.main_alone()
        await stand.tick(3)
        stand.whole()
        await stand.tick()
        assert await stand.placed()

    asyncio.run(scene())


def test_an_engine_whose_placement_holds_is_looked_at_no_more(stand: Stand) -> None:
    async def scene() -> None:
        await stand.promote()
        await stand.tick(3)
        for tid in stand.laid.affinities():
            stand.laid.kernel.set_affinity(tid, ANYWHERE)
        await stand.tick(3)
        assert stand.untouched()  # somebody meant it: it is no restart

    asyncio.run(scene())


def test_nothing_is_set_while_the_engine_is_being_restarted(tmp_path: Path) -> None:
    async def scene() -> None:
        restarting = True
        stand = Stand(tmp_path, busy=lambda: restarting)
        await stand.promote()
        stand.main_alone()
        stand.whole()
        await stand.tick(2)
        assert stand.untouched()
        restarting = False
        await stand.tick()
        assert await stand.placed()

    asyncio.run(scene())


def test_a_placement_that_does_not_hold_is_given_up_after_some_tries_and_said(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        await stand.promote()
        stand.main_alone()
        stand.whole()
        monkeypatch.setattr(stand.laid.kernel, "set_affinity", lambda tid, cpus: None)
        await stand.tick(2 * TRIES)
        kinds = [entry.kind for entry in stand.journal.last(50)]
        assert kinds.count("reapply") == TRIES
        assert stand.notices.holds("host promotion")

    asyncio.run(scene())


def test_a_restart_of_ours_keeps_the_daemons_watch_away(tmp_path: Path) -> None:
    cold: Any = SimpleNamespace(running=True, undo=None)
    config = Config.model_validate(
        {"store": {"url": "sqlite:///:memory:"}, "engine": {"run_dir": str(tmp_path)}}
    )
    probe: Any = None
    daemon = Daemon(config, PlainEngine(), probe, cold=lambda *_: cold)
    assert daemon._host_watch._busy()
    cold.running = False
    assert not daemon._host_watch._busy()
