"""A campaign in the foreground with no daemon: this process runs it alone."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from daemon import assembly, credentials
from daemon.canary import canary_control
from daemon.cold_assembly import cold_lane
from daemon.config import Config
from daemon.engine_probe import EngineProbe
from daemon.errors import BAD, UserError
from daemon.foreground import BEAT_SECONDS, Ask, Display, Mode
from daemon.loops import Daemon
from web.body import NotFound


async def alone(
    config: Config,
    mode: Mode,
    minutes: float | None,
    display: Display,
    ask: Ask,
    restarts: int | None = None,
) -> dict[str, Any]:
    """Run a campaign in this process; returns its report.

    SIGINT and SIGTERM end it with the incumbent restored. Raises `web.body.Refused` or `EngineError` if it does
    not begin, `UserError` if it ended with no report.
    """
    async with _daemon(config) as daemon:
        await daemon.first_look()
        await daemon.campaigns.start(mode, minutes, time.time(), restarts)
        living = asyncio.create_task(daemon.run(None))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, daemon.stop.set)
        try:
            while daemon.campaigns.running and not daemon.stop.is_set():
                display.show(daemon.campaigns.status(), daemon.body.live(time.time()))
                await _answer(daemon, ask)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(daemon.stop.wait(), BEAT_SECONDS)
        finally:
            daemon.stop.set()
            await living
        report = daemon.campaigns.last_report
        if report is None:
            raise UserError("the campaign ended without a report: see the log", BAD)
        return report


async def _answer(daemon: Daemon, ask: Ask) -> None:
    """Put a pending question to the person, while the campaign goes on."""
    pending = daemon.campaigns.pending()
    if pending is None:
        return
    yes = await asyncio.to_thread(ask, pending["text"])
    # While the person thought, the campaign may have ended.
    with contextlib.suppress(NotFound):
        if yes:
            await daemon.campaigns.approve(pending["id"])
        else:
            await daemon.campaigns.decline(pending["id"], time.time())


@contextlib.asynccontextmanager
async def _daemon(config: Config) -> AsyncIterator[Daemon]:
    async with assembly.hot_engine(config) as control, canary_control(config) as canary:
        probe = EngineProbe(config, credentials.engine_api_key(config))
        try:
            yield Daemon(config, control, probe, cold=partial(cold_lane, config), canary=canary)
        finally:
            await probe.close()
