"""What a knob is: lane and domain, where it is written, how it is read back, when it exists, what replaced it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from change.catalogue.domain import Domain
from change.server import Setting
from change.versions import Release, within

Engine = Literal["vllm", "sglang", "mindie"]
Platform = Literal["ascend", "cuda", "cpu"]
Lane = Literal["hot", "host", "cold"]


@dataclass(frozen=True, slots=True)
class Attribute:
    """Where a hot knob lives inside the engine, from version `since` to before `until`."""

    path: str
    since: str
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """An argument of the engine's command line, from version `since` to before `until`.

    `others` are its further spellings. A switch is switched off by `off`; where there is none, by its absence.
    """

    spelling: str
    others: tuple[str, ...] = ()
    off: str | None = None
    since: str | None = None
    until: str | None = None

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every way to give it."""
        return (self.spelling, *self.others)

    @property
    def text(self) -> str:
        """As people write it."""
        return self.spelling


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable of the engine; a switch in it is `on` or `off`."""

    name: str
    on: str = "1"
    off: str = "0"
    since: str | None = None
    until: str | None = None

    @property
    def text(self) -> str:
        """As people write it."""
        return f"{self.name} (environment)"


@dataclass(frozen=True, slots=True)
class JsonKey:
    """A key in the JSON object that is one flag's value, by its path; `beside` is put next to it where nothing is."""

    flag: str
    path: tuple[str, ...]
    beside: Mapping[tuple[str, ...], Setting] = field(default_factory=dict)
    since: str | None = None
    until: str | None = None

    @property
    def text(self) -> str:
        """As people write it."""
        return f"{self.flag} {'.'.join(self.path)}"


@dataclass(frozen=True, slots=True)
class FileKey:
    """A key of a section of the engine's own configuration file, which Trimtab knows of and never writes."""

    key: str
    section: str
    file: str = "config.json"
    since: str | None = None
    until: str | None = None

    @property
    def text(self) -> str:
        """As people write it."""
        return self.key


Place = Flag | Variable | JsonKey | FileKey


@dataclass(frozen=True, slots=True)
class CacheLabel:
    """Read back as a label of `vllm:cache_config_info` on the metrics page."""

    name: str

    @property
    def text(self) -> str:
        """As people write it."""
        return f"cache_config_info {self.name}"


@dataclass(frozen=True, slots=True)
class PluginCeiling:
    """Read back as the plugin's ceiling of the knob of the same name: the launch value."""

    text: str = "plugin ceiling"


@dataclass(frozen=True, slots=True)
class PluginLaunch:
    """Read back as the plugin's value of the knob of the same name, while nobody has changed it (epoch 0)."""

    text: str = "plugin value at epoch 0"


@dataclass(frozen=True, slots=True)
class StartLog:
    """Read back from a line of the start-up log: the one group of `pattern`, or `value` where there is no group."""

    pattern: str
    value: Setting | None = None

    @property
    def text(self) -> str:
        """As people write it."""
        return "start-up log"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Read back from the JSON of `/server_info`, by its path."""

    path: tuple[str, ...]

    @property
    def text(self) -> str:
        """As people write it."""
        return f"/server_info {'.'.join(self.path)}"


Reading = CacheLabel | PluginCeiling | PluginLaunch | StartLog | ServerInfo


@dataclass(frozen=True, slots=True)
class Successor:
    """What came after a flag that is gone, on some platforms; never put in its place without being asked."""

    platforms: frozenset[Platform]
    knob: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One knob of one engine.

    `places` say where it is written, by version; `attributes` where it lives while the engine runs, if the plugin
    changes it hot; `reads` how the value in force is known, the surest first. `search` says whether the tuner may try
    other values: as it likes, only when the configuration allows the knob by name, or never. With `accuracy_gate` a
    new value opens to traffic only after the golden prompts came out as expected. `unset` is the value that means
    that nothing is given; `automatic` the one that leaves the choice to the engine. `defaults` are the engine's own, as
    text, each since a version; empty is unknown. `platforms` None is all.
    """

    name: str
    help: str
    domain: Domain
    engine: Engine = "vllm"
    lane: Lane = "cold"
    unit: str = ""
    places: tuple[Place, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    reads: tuple[Reading, ...] = ()
    successors: tuple[Successor, ...] = ()
    platforms: frozenset[Platform] | None = None
    search: Literal["free", "by_name", "never"] = "never"
    accuracy_gate: bool = False
    unset: Setting | None = None
    automatic: Setting | None = None
    defaults: tuple[tuple[str, str], ...] = ()

    def place(self, version: Release | None) -> Place | None:
        """Where it is written in a version, or None if it has no place there; unknown versions take the newest."""
        if version is None:
            return self.places[-1] if self.places else None
        return next((p for p in self.places if within(version, p.since, p.until)), None)

    def attribute(self, version: Release) -> str | None:
        """Where it lives in a running engine of a version, or None if the plugin cannot reach it there."""
        return next((a.path for a in self.attributes if within(version, a.since, a.until)), None)

    def default(self, version: Release | None) -> str | None:
        """The engine's own default in a version (the newest known one for None), or None if it is not known."""
        known = [text for since, text in self.defaults if version is None or within(version, since, None)]
        return known[-1] if known else None

    def on(self, platform: Platform | None) -> bool:
        """Whether it exists on a platform; an unknown one may be any."""
        return platform is None or self.platforms is None or platform in self.platforms
