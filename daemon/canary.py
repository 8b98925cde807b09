"""Build the canary that a configuration asks for, and end what a process before this one left open on it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from change.apply import ChangeRefused
from change.engine import EngineControl, EngineError
from change.journal import Journal
from change.lock import EngineLock, LockError
from change.recovery import recover
from collectors.history import History
from collectors.sample import SERVER, labels
from daemon import assembly
from daemon.cold import Cold
from daemon.cold_assembly import cold_lane
from daemon.config import Config, SloSection
from daemon.errors import ConfigError
from daemon.gauges import Gauges, one_engine_gauges
from daemon.modes import Modes
from daemon.notices import Notices
from daemon.replica import Replica
from daemon.sections.canary import CANARY
from store import Store, StoreError
from web.body import Refused


class Canary:
    """The second replica between campaigns and in them."""

    def __init__(
        self,
        control: EngineControl,
        lane: Cold,
        journal: Journal,
        gauges: Callable[[float], Gauges],
        lock_dir: Path,
        notices: Notices,
        *,
        roll_out: bool,
    ) -> None:
        self.roll_out = roll_out
        self._control = control
        self._lane = lane
        self._journal = journal
        self._gauges = gauges
        self._lock_dir = lock_dir
        self._notices = notices
        self._lock: EngineLock | None = None
        self._unfinished = True

    async def replica(self, now: float) -> Replica:
        """Take its lock and give what a campaign drives.

        Raises `Refused` where another has it or its last change is not ended, `EngineError` where it does not answer.
        """
        await self.tick(now)
        state = await self._control.state()
        if not state.scheduler_known:
            raise Refused(f"the canary's scheduler {state.scheduler} is not a build that is known")
        if self._journal.open_entries("cold") or self._journal.open_entries():
            raise Refused("a change of the canary is not brought to an end yet: try again once it is")
        if (trouble := self._take(state.boot_id)) is not None:
            raise Refused(f"the canary: {trouble}")
        return Replica(
            self._control,
            self._lane,
            self._journal,
            self._gauges,
            moving=self.release,
            moved=self._take,
        )

    def release(self) -> None:
        """Give its lock back; nothing happens where it is not held."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def look_again(self) -> None:
        """Have open changes ended at the next tick."""
        self._unfinished = True
        self._lane.look_again()

    async def tick(self, now: float) -> None:
        """End what was left half done: restarts first, then hot values. A campaign that runs here is left alone."""
        if self._lock is not None:
            return
        await self._lane.tick(now)
        if not self._unfinished:
            return
        try:
            if self._journal.open_entries():
                state = await self._control.state()
                lock = EngineLock(self._lock_dir, state.boot_id, "recovery of the canary")
                await recover(self._control, self._journal, now, lock=lock)
        except (EngineError, StoreError, LockError, ChangeRefused) as error:
            self._notices.say("canary", f"the canary is left as it is: {error}")
            return
        self._unfinished = False
        self._notices.over("canary", "the canary can be looked after again")

    async def finish(self) -> None:
        """Wait for the restart that is under way."""
        await self._lane.finish()

    def _take(self, boot_id: str) -> str | None:
        lock = EngineLock(self._lock_dir, boot_id, "a campaign on the canary")
        try:
            lock.acquire()
        except LockError as error:
            return str(error)
        self.release()
        self._lock = lock
        return None


def canary_config(config: Config) -> Config:
    """The configuration as the canary's own parts take it.

    Readings of this node's cards and the history's limits are about the engine: they say nothing of its canary.
    """
    collect = config.collect.model_copy(
        update={"npu_smi": config.collect.npu_smi.model_copy(update={"enabled": False})}
    )
    engine = config.tune.canary.as_engine(config.engine)
    return config.model_copy(update={"engine": engine, "collect": collect, "slo": SloSection()})


@contextlib.contextmanager
def read_as_an_engine() -> Iterator[None]:
    """Say of a mistake that `engine` in it means the canary."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"tune.canary, read as an engine: {error}") from error


@contextlib.asynccontextmanager
async def canary_control(config: Config) -> AsyncIterator[EngineControl | None]:
    """The canary's hot lane, None where none is configured; raises `ConfigError` as `hot_engine` does."""
    if config.tune.canary.url is None:
        yield None
        return
    with read_as_an_engine():
        control = assembly.hot_engine(canary_config(config))
    async with control:
        yield control


def canary(
    config: Config,
    control: EngineControl,
    store: Store,
    history: History,
    modes: Modes,
    notices: Notices,
) -> Canary:
    """The canary over its control; raises `ConfigError` for a hand or a secret that cannot be used."""
    own = canary_config(config)
    journal = Journal(store, own.engine.url)
    with read_as_an_engine():
        lane = cold_lane(own, control, journal, history, modes, notices)
    assert lane is not None, "a canary without a hand is no valid configuration"
    gauges = one_engine_gauges(history, labels(**{SERVER: CANARY}))
    return Canary(
        control,
        lane,
        journal,
        gauges,
        assembly.lock_dir(config),
        notices,
        roll_out=config.tune.canary.roll_out,
    )
