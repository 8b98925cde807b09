"""`trimtab run`: the daemon."""

from __future__ import annotations

import asyncio
import logging

from daemon import log
from daemon.commands.options import ConfigOption, configured
from daemon.commands.output import remark
from daemon.loops import run_daemon


def run(config: ConfigOption = None) -> None:
    """Run the daemon beside the configured engine, until it is stopped."""
    settings = configured(config)
    log.to_stderr(logging.INFO)
    asyncio.run(run_daemon(settings, remark))
