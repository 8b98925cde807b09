"""Changes as the tests make them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from change.apply import change
from change.journal import Journal
from change.lock import EngineLock
from store.models import JournalEntry
from tests.change.plain_engine import PlainEngine

T = TypeVar("T")
NOW = 1_700_000_000.0


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def manual(
    engine: PlainEngine, journal: Journal, lock: EngineLock | None = None, **values: float
) -> JournalEntry:
    return run(change(engine, journal, values, kind="manual", actor="cli", now=NOW, lock=lock))


def promote(engine: PlainEngine, journal: Journal, campaign_id: int, **values: float) -> JournalEntry:
    return run(
        change(
            engine,
            journal,
            values,
            kind="promotion",
            actor=f"campaign {campaign_id}",
            now=NOW,
            campaign_id=campaign_id,
        )
    )
