"""The knob catalogue as it applies to one engine, as plain rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from change.knobs import catalogue


def knob_rows(
    engine: str,
    version: str | None,
    values: Mapping[str, float] | None,
    floors: Mapping[str, float],
    ceilings: Mapping[str, float],
) -> list[dict[str, Any]]:
    """The catalogue of an engine and version; with `values`, what is in force and the engine's own bounds.

    Raises `ValueError` for an engine or version the catalogue does not know.
    """
    rows = [asdict(row) for row in catalogue(engine, version)]
    for row in rows:
        name = row["name"]
        row["value"] = None if values is None else values.get(name)
        if row["lane"] == "hot" and values is not None and name not in values and row["state"] == "hot":
            row["state"] = "not offered by this engine"
        row["floor"], row["ceiling"] = floors.get(name), ceilings.get(name)
    return rows
