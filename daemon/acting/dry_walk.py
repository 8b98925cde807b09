"""A dry run in the foreground, where no daemon looks after the engine: fresh readings, plans, and nothing changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from change.journal import Journal
from collectors.history import History
from daemon import assembly
from daemon.acting.playbooks import Playbooks
from daemon.cold_assembly import cold_lane
from daemon.config import Config
from daemon.modes import Modes
from daemon.notices import Notices
from rules.playbook.messages import ENDED
from store import Store
from tuner.messages import Decision
from web.run_reads import run as read_run
from web.run_shapes import RunDetail

LONGEST_SECONDS = 180.0
READ_SECONDS = 5.0
"""Between two looks at the sources."""
FIRST_LOOKS = 3
"""Rates take two readings at least."""

Seen = Callable[[RunDetail], None]


class _NoCampaign:
    """Nothing runs here that would have to give way."""

    running = False

    async def stop(
        self, reason: str, now: float, *, may_restart: bool = True, decision: Decision = "aborted"
    ) -> None:
        """Nothing."""

    def abandon(self, reason: str) -> None:
        """Nothing."""


async def dry_walk(
    config: Config, store: Store, groups: Any, name: str, labels: Mapping[str, str], seen: Seen
) -> RunDetail:
    """Walk a playbook without changing anything; `seen` is told of the run each second. It is kept in the store.

    Raises `NotFound` or `Refused`.
    """
    history, notices, clock = History(), Notices(time.time), time.time
    async with AsyncExitStack() as stack:
        control = await stack.enter_async_context(assembly.hot_engine(config))
        journal = Journal(store, config.engine.url)
        modes = Modes("observe", config.run_dir / "paused", config.kill_switch_file, ())
        cold = cold_lane(config, control, journal, history, modes, notices)
        if cold is not None:
            stack.push_async_callback(cold.finish)
        playbooks = Playbooks(
            config,
            groups,
            control=control,
            store=store,
            journal=journal,
            history=history,
            modes=modes,
            notices=notices,
            campaigns=_NoCampaign(),
            host=assembly.host_lane(config, control, journal, history),
            cold=cold,
            clock=clock,
        )
        driver = playbooks.alone()
        runner = assembly.runner(config, history, lasting=False)
        for look in range(FIRST_LOOKS):
            if look:
                await asyncio.sleep(READ_SECONDS)
            await runner.once(clock())
        begun = driver.order(name, labels, dry_run=True)
        until = clock() + LONGEST_SECONDS
        read = clock()
        while True:
            with store.reading() as session:
                run = read_run(session, begun["run"])
            assert run is not None, "the run was just written"
            seen(run)
            if run.state in ENDED or clock() >= until:
                await driver.finish()
                return run
            await asyncio.sleep(1.0)
            if clock() - read >= READ_SECONDS:
                read = clock()
                await runner.once(read)
            await driver.tick(clock())
