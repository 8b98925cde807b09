"""What a row of the table of canonical metric names is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from collectors.sample import SERVER

Kind = Literal["gauge", "counter", "histogram"]
Combine = Literal["sum", "mean", "max", "min"]

DEVICE = ("npu", "chip", "name")
ENGINE = ("engine", "model", SERVER)
PLACE = ("namespace", "pod", "container")
"""Who uses a device, in Kubernetes."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One canonical name.

    `unit` is the base unit of the value; `labels` are the label names a sample may carry; `combine` says how
    the series of several devices or engine ranks make one figure when a reader asks for no particular one.
    `detail` marks a figure of one link, lane or port: there are many, so each is kept coarse and briefly.
    """

    name: str
    help: str
    unit: str
    kind: Kind = "gauge"
    labels: tuple[str, ...] = ()
    combine: Combine = "sum"
    detail: bool = False

    def __post_init__(self) -> None:
        if (self.kind == "counter") != self.name.endswith("_total"):
            raise ValueError(f"{self.name}: counters, and only they, end in _total; got kind {self.kind}")


def device_metric(
    name: str,
    help: str,
    unit: str,
    kind: Kind = "gauge",
    combine: Combine = "sum",
    more: tuple[str, ...] = (),
    *,
    detail: bool = False,
) -> Metric:
    """A row about a device, with the labels that tell which."""
    return Metric(f"npu_{name}", help, unit, kind, DEVICE + more, combine, detail)


def engine_metric(
    name: str,
    help: str,
    unit: str,
    kind: Kind = "gauge",
    combine: Combine = "sum",
    more: tuple[str, ...] = (),
) -> Metric:
    """A row about an engine, with the labels that tell which."""
    return Metric(f"trimtab_engine_{name}", help, unit, kind, ENGINE + more, combine)
