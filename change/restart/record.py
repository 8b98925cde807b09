"""What the journal keeps of a restart: enough to go back from any point of it, with nobody left who began it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from change.engine import Values
from change.journal import Journal
from change.restart import command as commands
from change.restart.hot_values import Proved
from change.server import LaunchCommand, ProcessMark, ServerError, ServerState, Settings
from store.models import JournalEntry


@dataclass(frozen=True, slots=True)
class Good:
    """The last known good: its command, what of it an order changes, and its hot values."""

    command: LaunchCommand
    settings: Settings = field(default_factory=dict)
    hot: Values = field(default_factory=dict)
    proved: Proved | None = None


def written_change(
    settings: Settings, command: LaunchCommand, identity: str | None, processes: Sequence[ProcessMark]
) -> dict[str, Any]:
    """The change of an entry; `identity` and `processes` are those of the engine that is to end."""
    return {
        "settings": dict(settings),
        "command": commands.written(command),
        "identity": identity,
        "processes": [[mark.pid, mark.started, mark.boot] for mark in processes],
    }


def written_good(good: Good) -> dict[str, Any]:
    """The undo of an entry."""
    return {
        "settings": dict(good.settings),
        "command": commands.written(good.command),
        "hot": dict(good.hot),
        "promoted": None
        if good.proved is None
        else {"values": dict(good.proved.values), "campaign_id": good.proved.campaign_id},
    }


def good_of(entry: JournalEntry, known: LaunchCommand) -> Good:
    """What an entry goes back to; `known` is a command that still has its secrets. Raises `ServerError`."""
    undo = entry.undo
    return Good(
        commands.read(undo["command"], known),
        dict(undo["settings"]),
        dict(undo.get("hot") or {}),
        proved_of(entry),
    )


def proved_of(entry: JournalEntry) -> Proved | None:
    """What served by promotion in the hot lane before an entry."""
    promoted = entry.undo.get("promoted")
    return None if promoted is None else Proved(dict(promoted["values"]), promoted["campaign_id"])


def command_of(entry: JournalEntry, known: LaunchCommand) -> LaunchCommand:
    """The command an entry wanted. Raises `ServerError`."""
    return commands.read(entry.change["command"], known)


def made(entry: JournalEntry, serves: LaunchCommand) -> bool:
    """Whether a command is the one an entry wanted."""
    return _is(entry.change["command"], serves)


def ours(entries: Sequence[JournalEntry], serves: LaunchCommand) -> bool:
    """Whether a command is one that an entry wanted or goes back to: any other is somebody else's."""
    return any(made(entry, serves) or _is(entry.undo["command"], serves) for entry in entries)


def open_trial(journal: Journal, serves: LaunchCommand, state: ServerState) -> JournalEntry | None:
    """The trial that serves, None without one. Raises `ServerError` where something else is to be ended first."""
    entries = journal.open_entries("cold")
    for entry in entries:
        if entry.kind != "trial" or entry.state != "verified":
            raise ServerError(
                f"restart {entry.id} is not brought to an end yet: that is done first, at the daemon's start"
            )
    if entries and (state.running or state.starting) and not ours(entries, serves):
        raise ServerError(
            "somebody else restarted the engine with a command of his own while a trial served: "
            f"entry {entries[-1].id} is closed first"
        )
    return entries[-1] if entries else None


def last_good(journal: Journal, known: LaunchCommand) -> LaunchCommand:
    """What settings go over: what a trial took the place of, else what serves (`known`). Raises `ServerError`."""
    trials = journal.open_entries("cold")
    return good_of(trials[-1], known).command if trials else known


def _is(kept: Mapping[str, Any], serves: LaunchCommand) -> bool:
    try:
        return commands.same(commands.read(kept, serves), serves)
    except ServerError:  # it lacks a secret that the other has
        return False


def processes_of(entry: JournalEntry) -> tuple[ProcessMark, ...]:
    """The processes of the engine that an entry was to end."""
    return tuple(
        ProcessMark(int(pid), float(started), *boot)
        for pid, started, *boot in entry.change.get("processes") or ()
    )


def proved_now(journal: Journal) -> Proved | None:
    """What serves by promotion in the hot lane."""
    promoted = journal.promoted()
    return None if promoted is None else Proved(dict(promoted.values), promoted.campaign_id)


def evidence(seconds: Mapping[Any, float], down_seconds: float, starts: int, **more: Any) -> dict[str, Any]:
    """What an entry says at its end, beside the settings in force."""
    return {
        "seconds": {str(phase): round(took, 3) for phase, took in seconds.items()},
        "down_seconds": round(down_seconds, 3),
        "starts": starts,
        **more,
    }
