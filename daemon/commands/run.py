"""`trimtab run`: the daemon."""

from __future__ import annotations

import asyncio
import gc
import logging

from daemon import log
from daemon.commands.options import ConfigOption, configured
from daemon.commands.output import remark


def run(config: ConfigOption = None) -> None:
    """Run the daemon beside the configured engine, until it is stopped."""
    # Here and not above: the tuner's libraries take a second to load, which other commands need not wait for.
    from daemon.loops import run_daemon

    settings = configured(config)
    log.to_stderr(logging.INFO)
    # What is loaded by now stays: to look through it again at each full collection would hold up a pass for 100 ms.
    gc.freeze()
    asyncio.run(run_daemon(settings, remark))
