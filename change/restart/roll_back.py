"""Taking restarts back: one restart to what served before the oldest of them."""

from __future__ import annotations

from collections.abc import Sequence

from change.restart.command import plain
from change.restart.order import RestartOrder
from change.restart.parts import Parts
from change.restart.record import good_of
from change.restart.restart import Restart
from change.server import ServerError
from change.steps import ChangeRefused
from change.undo import Undo
from store.models import JournalEntry


async def order_back(
    parts: Parts, entries: Sequence[JournalEntry], actor: str, campaign_id: int | None = None
) -> RestartOrder:
    """The restart to what served before the oldest of `entries`, newest first. Raises `ServerError`."""
    before = good_of(entries[-1], plain(await parts.server.command()))
    return RestartOrder(
        before.settings,
        before.command,
        actor,
        "rollback",
        campaign_id,
        hot=before.hot,
        undoes=tuple(entry.id for entry in entries),
    )


def undo_restarts(parts: Parts) -> Undo:
    """The cold lane's way of a rollback, for `change.undo.roll_back`."""

    async def undo(entries: Sequence[JournalEntry], actor: str, now: float) -> JournalEntry:
        try:
            order = await order_back(parts, entries, actor)
        except ServerError as error:
            raise ChangeRefused(str(error)) from error
        result = await Restart(parts, order).run()
        if result.entry_id is None:
            raise ChangeRefused(f"nothing was restarted: {result.reason}")
        return parts.journal.entry(result.entry_id)

    return undo
