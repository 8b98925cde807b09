"""The catalogue as it applies to one engine and version, as plain rows."""

from __future__ import annotations

from dataclasses import dataclass

from change.catalogue.domain import Choices, Numbers, Switch
from change.catalogue.index import engine_named, knobs_of
from change.catalogue.knob import FileKey, Flag, Knob, Platform
from change.gates import rules_about
from change.installed.engine import InstalledEngine
from change.versions import Release, release, within

RESTART = "restart"
NOT_WRITTEN = "not changed by Trimtab: in the engine's own file"


@dataclass(frozen=True, slots=True)
class KnobRow:
    """One row of the catalogue as it applies to one engine version.

    `low` and `high` bound the search, or `choices` are the values it takes; `flag` is where the launch value is
    written, `attribute` where it lives in the running engine. `read_back` are the ways to the value in force, the
    surest first; `successors` say what came after a flag that is gone, `rules` what holds between it and others.
    """

    name: str
    lane: str
    kind: str
    unit: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    flag: str | None
    attribute: str | None
    state: str
    search: str
    accuracy_gate: bool
    platforms: tuple[str, ...]
    since: str | None
    until: str | None
    default: str | None
    read_back: tuple[str, ...]
    successors: tuple[str, ...]
    rules: tuple[str, ...]
    help: str


def catalogue(engine: str, version: str | None, installed: InstalledEngine | None = None) -> list[KnobRow]:
    """List every known knob as it applies to an engine (`vllm`, `vllm-ascend`, `sglang`, `mindie`) and version.

    Without a version each row says since when it exists. With the `installed` engine, flags are held against its own.
    Raises `ValueError` for an engine or version not known.
    """
    family, platform = engine_named(engine)
    at = None if version is None else release(version)
    return [_row(knob, at, platform, installed) for knob in knobs_of(family).values() if knob.on(platform)]


def _row(
    knob: Knob, at: Release | None, platform: Platform | None, installed: InstalledEngine | None
) -> KnobRow:
    domain = knob.domain
    low = high = None
    choices: tuple[str, ...] = ()
    if isinstance(domain, Numbers):
        low, high = domain.low, domain.high
        choices = tuple(f"{value:g}" for value in domain.tried)
    elif isinstance(domain, Choices):
        choices = domain.words
    elif isinstance(domain, Switch):
        choices = ("on", "off")
    place = knob.place(at) or (knob.places[-1] if knob.places else None)
    newest = knob.attributes[-1].path if knob.attributes else None
    return KnobRow(
        name=knob.name,
        lane=knob.lane,
        kind=domain.kind,
        unit=knob.unit,
        low=low,
        high=high,
        choices=choices,
        flag=None if place is None else place.text,
        attribute=newest if at is None else knob.attribute(at),
        state=_state(knob, at, installed),
        search=knob.search,
        accuracy_gate=knob.accuracy_gate,
        platforms=tuple(sorted(knob.platforms or ())),
        since=_since(knob),
        until=_until(knob),
        default=knob.default(at),
        read_back=tuple(reading.text for reading in knob.reads),
        successors=tuple(
            f"{s.knob} on {' and '.join(sorted(s.platforms))}: {s.says}"
            for s in knob.successors
            if platform is None or platform in s.platforms
        ),
        rules=rules_about(knob),
        help=knob.help,
    )


def _state(knob: Knob, at: Release | None, installed: InstalledEngine | None) -> str:
    until = _until(knob)
    if until is not None and (at is None or not within(at, None, until)):
        return f"gone since {until}"
    if knob.attributes and (at is None or knob.attribute(at) is not None):
        return "hot" if at is not None else f"hot since {knob.attributes[0].since}"
    since = _since(knob)
    place = knob.place(at)
    if place is None:
        return f"not in this version: since {since}"
    if isinstance(place, FileKey):
        return NOT_WRITTEN
    if installed is not None and isinstance(place, Flag) and not installed.has(*place.spellings):
        return "not in the installed engine"
    return RESTART if at is not None or since is None else f"{RESTART}, since {since}"


def _since(knob: Knob) -> str | None:
    """The first version with the knob; None if it was there before all known ones."""
    first = [place.since for place in knob.places[:1]]
    if knob.attributes and (not first or first[0] is None):
        return knob.attributes[0].since
    return first[0] if first else None


def _until(knob: Knob) -> str | None:
    return None if knob.attributes or not knob.places else knob.places[-1].until
