"""Taking restarts back: one restart to what served before the oldest of them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from change.restart.command import plain, written
from change.restart.order import RestartOrder
from change.restart.parts import Parts
from change.restart.record import good_of, last_good, made
from change.restart.restart import Restart
from change.server import LaunchCommand, ServerError
from change.steps import ChangeRefused
from change.undo import Undo
from store.models import JournalEntry


async def order_back(
    parts: Parts, entries: Sequence[JournalEntry], actor: str, campaign_id: int | None = None
) -> RestartOrder:
    """The restart to what served before the oldest of `entries`, newest first.

    Raises `ServerError`, and `ChangeRefused` if somebody else restarted with a command of his own since one of them.
    """
    known = last_good(parts.journal, plain(await parts.server.command()))
    if (why := differs(entries, known)) is not None:
        raise ChangeRefused(why)
    before = good_of(entries[-1], known)
    return RestartOrder(
        before.settings,
        before.command,
        actor,
        "rollback",
        campaign_id,
        hot=before.hot,
        undoes=tuple(entry.id for entry in entries),
    )


def differs(entries: Sequence[JournalEntry], serves: LaunchCommand) -> str | None:
    """Why `entries`, newest first, did not lead to what serves one after the other; None if they did.

    A way back restores a whole command: what somebody else started since would be lost.
    """
    newest = entries[0]
    if not made(newest, serves):
        return _words(newest, "the engine was started with", written(serves))
    for newer, older in pairwise(entries):
        if newer.undo["command"] != older.change["command"]:
            return _words(older, f"change {newer.id} found", newer.undo["command"])
    return None


def _words(entry: JournalEntry, found: str, command: Mapping[str, Any]) -> str:
    return (
        f"somebody else restarted the engine since change {entry.id}: that made `{_shown(entry.change['command'])}`, "
        f"and {found} `{_shown(command)}`; set what you want over that with `trimtab apply --restart`"
    )


def _shown(kept: Mapping[str, Any]) -> str:
    return shlex.join([*(f"{name}={value}" for name, value in kept["environ"].items()), *kept["argv"]])


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
