"""A pasted /metrics page of an engine, as canonical samples laid out for people and programs."""

from __future__ import annotations

import re

from collectors.metrics import METRICS
from collectors.notes import bounded
from collectors.prometheus_text import PageError
from collectors.sample import Distribution, Sample
from collectors.vllm import parse_vllm, wanted_families

_TYPE = re.compile(r"^# TYPE (\S+) ", re.MULTILINE)


def parse_metrics_paste(text: str) -> dict[str, object]:
    """What the page says: `samples` (name, labels, value, unit), `notes` and `error`.

    Histograms are `bounds`, cumulative `counts`, `sum` and `count`. Families that nothing here is made of are noted.
    """
    try:
        # A paste has no time of its own.
        samples = parse_vllm(text, 0.0)
    except PageError as failure:
        return {"samples": [], "notes": [], "error": str(failure)}
    wanted = wanted_families()
    # The client libraries' `_created` is when a series began, not a reading.
    families = (name for name in _TYPE.findall(text) if not name.endswith("_created"))
    left = [name for name in families if name not in wanted and f"{name}_total" not in wanted]
    notes = [f"family {name} is not read" for name in left]
    return {"samples": [_row(sample) for sample in samples], "notes": bounded(notes), "error": None}


def _row(sample: Sample) -> dict[str, object]:
    value: object = sample.value
    if isinstance(sample.value, Distribution):
        value = {
            # The last bound is infinite, which JSON cannot say; Prometheus writes it like this too.
            "bounds": ["+Inf" if bound == float("inf") else bound for bound in sample.value.bounds],
            "counts": list(sample.value.counts),
            "sum": sample.value.sum,
            "count": sample.value.count,
        }
    return {
        "name": sample.name,
        "labels": dict(sample.labels),
        "value": value,
        "unit": METRICS[sample.name].unit,
    }
