"""Where the log goes: to stderr, as lines for people on a terminal and as JSON elsewhere; never to stdout."""

from __future__ import annotations

import logging
import sys

import structlog


def to_stderr(level: int) -> None:
    """Log what is at least as bad as `level`."""
    terminal = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=not terminal),
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def quiet() -> None:
    """Log nothing: a command says itself what went wrong."""
    to_stderr(logging.CRITICAL)
