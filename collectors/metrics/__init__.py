"""The one table of canonical metric names; History, the rules and the exporter all read it."""

from __future__ import annotations

from collectors.metrics.derived import DERIVED_ROWS
from collectors.metrics.devices import DEVICE_ROWS
from collectors.metrics.engines import ENGINE_ROWS
from collectors.metrics.host import HOST_ROWS
from collectors.metrics.links import LINK_ROWS
from collectors.metrics.logs import LOG_ROWS
from collectors.metrics.own import FAMILIAR_ROWS, OWN_ROWS
from collectors.metrics.row import Combine, Kind, Metric

__all__ = ["METRICS", "Combine", "Kind", "Metric"]

_ROWS = (
    *DEVICE_ROWS,
    *LINK_ROWS,
    *ENGINE_ROWS,
    *HOST_ROWS,
    *DERIVED_ROWS,
    *OWN_ROWS,
    *LOG_ROWS,
    *FAMILIAR_ROWS,
)

METRICS: dict[str, Metric] = {row.name: row for row in _ROWS}
"""Every canonical name, in the order of the page and the docs."""

if len(METRICS) != len(_ROWS):
    raise ValueError("collectors.metrics: a name stands twice in the table")
