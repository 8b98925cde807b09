"""An alert as Alertmanager's API v2 takes it (PostableAlert), with labels that no version of it refuses."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from collectors.sample import Labels
from rules.alert import Alert, fingerprint

MOST_LABELS = 64
MOST_ANNOTATIONS = 32
LONGEST_NAME = 128
LONGEST_LABEL = 1024
LONGEST_ANNOTATION = 4096
"""Characters; far above what an alert of ours has, and far below what makes a batch too large for a proxy."""

_BAD_IN_NAME = re.compile(r"[^a-zA-Z0-9_]")
_UNSHOWABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_UNSHOWABLE_IN_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_LAST_SECOND = 253402300799.0
REPLACED = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class Posted:
    """One alert as it is sent; times are Unix seconds. A firing one is over at `ends_at` unless it is sent again.

    `fingerprint` is the one that Alertmanager gives it.
    """

    labels: Labels
    annotations: tuple[tuple[str, str], ...]
    starts_at: float
    ends_at: float
    firing: bool
    generator_url: str = ""
    fingerprint: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        # Once: every target asks for it often, and it is no cheap sum.
        object.__setattr__(self, "fingerprint", fingerprint(self.labels))

    def body(self) -> dict[str, Any]:
        """The JSON of it."""
        found: dict[str, Any] = {
            "labels": dict(self.labels),
            "annotations": dict(self.annotations),
            "startsAt": rfc3339(self.starts_at),
            "endsAt": rfc3339(self.ends_at),
        }
        if self.generator_url:
            found["generatorURL"] = self.generator_url
        return found


def posted(alert: Alert, valid_until: float, external: Mapping[str, str], generator_url: str) -> Posted:
    """Turn an alert that fires or is resolved into what is sent; `valid_until` is when a firing one ends unrenewed.

    Raises `ValueError` for an alert that is pending: Alertmanager never hears of those.
    """
    if alert.state == "pending":
        raise ValueError(f"{alert.rule}: a pending alert is not sent")
    started = alert.fired_at if alert.fired_at is not None else alert.active_at
    firing = alert.state == "firing"
    ended = valid_until if firing or alert.resolved_at is None else alert.resolved_at
    return Posted(
        sent_labels(alert.labels, external),
        tuple(sorted(_cleaned(alert.annotations.items(), MOST_ANNOTATIONS, LONGEST_ANNOTATION, lines=True))),
        started,
        max(ended, started),
        firing,
        generator_url,
    )


def sent_labels(own: Labels, external: Mapping[str, str] | None = None) -> Labels:
    """The labels under which Alertmanager knows an alert: made valid, external ones added where it has none such.

    So Prometheus does it: the alert's own label wins, unless it is empty. Names that were not valid give way to those
    that were.
    """
    labels = dict(_cleaned(own, MOST_LABELS, LONGEST_LABEL))
    for name, value in _cleaned((external or {}).items(), MOST_LABELS, LONGEST_LABEL):
        if len(labels) < MOST_LABELS:
            labels.setdefault(name, value)
    return tuple(sorted(labels.items()))


def plain_text(text: str, *, lines: bool = False) -> str:
    """The text with what is no character for people replaced: control characters (save for line ends and tabs where
    `lines`), halves of surrogate pairs, line and paragraph separators."""
    return (_UNSHOWABLE_IN_LINES if lines else _UNSHOWABLE).sub(REPLACED, text)


def rfc3339(time: float) -> str:
    """A Unix time in UTC, to the microsecond; one outside of the calendar is the nearest that is in it."""
    moment = datetime.fromtimestamp(min(max(time, 0.0), _LAST_SECOND), UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z"


def _cleaned(
    pairs: Iterable[tuple[str, str]], most: int, longest: int, *, lines: bool = False
) -> list[tuple[str, str]]:
    """Pairs with valid names and values, none empty, none twice; `alertname` is kept before all others."""
    found: dict[str, str] = {}
    for name, value in sorted(
        pairs, key=lambda pair: (pair[0] != "alertname", _name(pair[0]) != pair[0], pair[0])
    ):
        valid = _name(name)
        text = _short(plain_text(value, lines=lines), longest)
        if valid and text and valid not in found and len(found) < most:
            found[valid] = text
    return list(found.items())


def _name(name: str) -> str:
    text = _BAD_IN_NAME.sub("_", name)[:LONGEST_NAME]
    return f"_{text}"[:LONGEST_NAME] if text[:1].isdigit() else text


def _short(text: str, longest: int) -> str:
    """Cut, with a digest of the whole, so that two long values stay two."""
    if len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{text[: longest - 13]}…{digest}"
