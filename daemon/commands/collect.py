"""`trimtab collect`: one pass over the sources."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import typer

from collectors.history import History
from collectors.metrics import METRICS
from collectors.sample import Distribution, Labels, Sample, SourceHealth
from daemon import assembly
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import print_json, print_table, remark
from daemon.errors import BAD, USAGE, UserError


def collect(
    source: Annotated[
        str | None, typer.Option("--source", metavar="NAME", help="Read only this source.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read every source once and print the samples; a source that fails is said and gives none."""
    runner = assembly.runner(configured(config), History(), lasting=False)
    if source is not None and source not in runner.names:
        raise UserError(
            f"no source {source!r} in this configuration: there are {', '.join(runner.names)}", USAGE
        )
    samples = asyncio.run(runner.once(time.time(), source))
    samples = _newest(samples)
    health = runner.health()
    if as_json:
        print_json(
            {"samples": [_plain(sample) for sample in samples], "sources": [_health(one) for one in health]}
        )
    else:
        rows = [
            (s.name, ", ".join(f"{k}={v}" for k, v in s.labels), _value(s), METRICS[s.name].unit)
            for s in samples
        ]
        print_table(("name", "labels", "value", "unit"), rows, "no samples")
    for one in health:
        if not one.success:
            remark(f"source {one.name}: {one.error}")
        for note in one.detail.values():
            remark(f"source {one.name}: {note}")
    if not any(one.success for one in health):
        raise typer.Exit(BAD)


def _newest(samples: list[Sample]) -> list[Sample]:
    """One reading of each series: a fast and a slow source may both have given it."""
    found: dict[tuple[str, Labels], Sample] = {}
    for sample in samples:
        key = (sample.name, sample.labels)
        if key not in found or sample.time > found[key].time:
            found[key] = sample
    return list(found.values())


def _plain(sample: Sample) -> dict[str, Any]:
    value: Any = sample.value
    if isinstance(value, Distribution):
        # The last bound is infinite, which JSON cannot say; Prometheus writes it like this too.
        bounds = ["+Inf" if bound == float("inf") else bound for bound in value.bounds]
        value = {"bounds": bounds, "counts": list(value.counts), "sum": value.sum, "count": value.count}
    return {
        "name": sample.name,
        "labels": dict(sample.labels),
        "value": value,
        "unit": METRICS[sample.name].unit,
        "time": sample.time,
    }


def _health(one: SourceHealth) -> dict[str, Any]:
    return {
        "name": one.name,
        "success": one.success,
        "duration_seconds": one.duration_seconds,
        "error": one.error,
        "notes": list(one.detail.values()),
    }


def _value(sample: Sample) -> Any:
    value = sample.value
    if not isinstance(value, Distribution):
        return float(value)
    mean = f", mean {value.sum / value.count:.6g}" if value.count else ""
    return f"{value.count:.6g} observed{mean}"
