"""The knob catalogue as it applies to one engine, as plain rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from change.catalogue.rows import catalogue
from change.installed.engine import InstalledEngine
from change.server import Settings


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
