"""The knobs of all lanes as they apply to one engine and its host, as plain rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from change.catalogue.rows import KnobRow, catalogue
from change.host_knobs import HOST_KNOBS, HostKnob
from change.installed.engine import InstalledEngine
from change.server import Settings

SCOPES = {"engine": "the engine's own", "node": "the whole node's"}


def knob_rows(
    engine: str,
    version: str | None,
    values: Mapping[str, float] | None,
    floors: Mapping[str, float],
    ceilings: Mapping[str, float],
    *,
    settings: Settings | None = None,
    installed: InstalledEngine | None = None,
) -> list[dict[str, Any]]:
    """The catalogue of an engine and version; with `values`, what is in force hot and the engine's own bounds.

    `settings` are the launch settings in force as far as they are known; `installed` is the engine whose flags the rows
    are held against. Raises `ValueError` for an engine or version the catalogue does not know.
    """
    rows = [asdict(row) for row in catalogue(engine, version, installed)]
    for row in rows:
        name = row["name"]
        launch = None if settings is None else settings.get(name)
        row["value"] = launch if values is None else values.get(name, launch)
        if row["lane"] == "hot" and values is not None and name not in values and row["state"] == "hot":
            row["state"] = "not offered by this engine"
        row["floor"], row["ceiling"] = floors.get(name), ceilings.get(name)
    return rows


def host_rows(values: Mapping[str, str] | None, allowed: Collection[str] | None) -> list[dict[str, Any]]:
    """The host lane in the same columns; `values` are those in force as far as they are known.

    `allowed` are the knobs that may be changed here, None where no host is meant.
    """
    known = values or {}
    return [_host_row(knob, known.get(knob.name), allowed) for knob in HOST_KNOBS.values()]


def _host_row(knob: HostKnob, value: str | None, allowed: Collection[str] | None) -> dict[str, Any]:
    state = SCOPES[knob.scope]
    if allowed is not None and knob.name not in allowed:
        state += "; not allowed: host.knobs does not name it"
    row = KnobRow(
        name=knob.name,
        lane="host",
        kind="text",
        unit="",
        low=None,
        high=None,
        choices=knob.values,
        flag=None,
        attribute=None,
        state=state,
        search="free" if knob.scope == "engine" else "by_name",
        accuracy_gate=False,
        platforms=(),
        since=None,
        until=None,
        default=None,
        read_back=(knob.read_back,),
        successors=(),
        rules=(f"Taken back: {knob.undo}.",),
        help=knob.why,
    )
    return asdict(row) | {"value": value, "floor": None, "ceiling": None}
