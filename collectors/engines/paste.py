"""What is made of a pasted metrics page, for `trimtab parse`."""

from __future__ import annotations

from collections.abc import Collection

from collectors.engines.kinds import KINDS, read_page
from collectors.metrics import METRICS
from collectors.prometheus_text import PageError
from collectors.sample import Distribution, Sample

LISTED_NAMES = 20
"""More names that are not read are only counted."""
_PARTS = ("_bucket", "_sum", "_count", "_created")


def describe_page(text: str) -> dict[str, object]:
    """A metrics page as plain values: `kind`, `role`, `samples` (each `name, labels, value, unit`), `notes`, `error`.

    Values are in base units; a histogram's is `{bounds, counts, sum, count}` with "+Inf" for the open bound. Names on
    the page that are not read are listed in the notes.
    """
    notes: list[str] = []
    if text and not text.endswith("\n"):
        notes.append("the last line has no line feed, as in a paste: it was taken as whole")
        text += "\n"
    try:
        page = read_page(text, 0.0)
    except PageError as failure:
        return {"kind": None, "role": None, "samples": [], "notes": notes, "error": str(failure)}
    notes += _not_read(text, KINDS[page.kind].wanted().keys())
    samples = [_plain(sample) for sample in page.samples]
    return {"kind": page.kind, "role": page.role, "samples": samples, "notes": notes, "error": None}


def _plain(sample: Sample) -> dict[str, object]:
    value: object = sample.value
    if isinstance(sample.value, Distribution):
        found = sample.value
        bounds = ["+Inf" if bound == float("inf") else bound for bound in found.bounds]
        value = {"bounds": bounds, "counts": list(found.counts), "sum": found.sum, "count": found.count}
    unit = METRICS[sample.name].unit
    return {"name": sample.name, "labels": dict(sample.labels), "value": value, "unit": unit}


def _not_read(text: str, wanted: Collection[str]) -> list[str]:
    """The families of the page that are not read, in the order of the page."""
    names: dict[str, None] = {}
    for line in text.splitlines():
        words = line.partition("{")[0].split(None, 1)
        if words and not line.startswith("#"):
            names[_family(words[0], wanted)] = None
    unread = [name for name in names if name not in wanted]
    if not unread:
        return []
    rest = f" and {len(unread) - LISTED_NAMES} more" if len(unread) > LISTED_NAMES else ""
    return [f"not read: {', '.join(name[:120] for name in unread[:LISTED_NAMES])}{rest}"]


def _family(name: str, wanted: Collection[str]) -> str:
    """A line's family: the name itself, or a histogram's without its parts."""
    if name in wanted:
        return name
    return next((name.removesuffix(part) for part in _PARTS if name.endswith(part)), name)
