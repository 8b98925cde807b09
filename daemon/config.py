"""The configuration's keys: every one optional, unknown ones are errors."""

from __future__ import annotations

import difflib
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from change.catalogue.index import HOT_KNOBS
from change.host_knobs import HOST_KNOBS
from daemon import paths
from daemon.quiet_hours import QuietHours, minute_of_day
from daemon.sections.adaptive import AdaptiveSection
from daemon.sections.base import FilePath, RootPath, Seconds, Section, Share
from daemon.sections.canary import CANARY, CanarySection
from daemon.sections.cold import ColdSection
from daemon.sections.collect import CollectSection
from daemon.sections.engine import EngineSection
from daemon.sections.host_lane import HostSection
from daemon.sections.playbooks import PlaybooksSection
from daemon.sections.precision import PrecisionSection
from daemon.sections.restart import RestartSection
from daemon.sections.rules import AlertmanagerSection, RulesSection
from tuner.outer.settings import OuterSettings
from tuner.settings import QUANTILES, LatencyName, Limit, Objective, ObjectiveName, Slo, TuneSettings

Mode = Literal["observe", "advise", "act"]


class SloSection(Section):
    """The operator's limits; a limit that is not set does not count."""

    ttft_p50_seconds: Seconds | None = Field(default=None, description="time to first token, median")
    ttft_p90_seconds: Seconds | None = Field(default=None, description="time to first token, 90th percentile")
    ttft_p99_seconds: Seconds | None = Field(default=None, description="time to first token, 99th percentile")
    itl_p50_seconds: Seconds | None = Field(default=None, description="time between tokens, median")
    itl_p90_seconds: Seconds | None = Field(default=None, description="time between tokens, 90th percentile")
    itl_p99_seconds: Seconds | None = Field(default=None, description="time between tokens, 99th percentile")
    e2e_p50_seconds: Seconds | None = Field(default=None, description="whole request, median")
    e2e_p90_seconds: Seconds | None = Field(default=None, description="whole request, 90th percentile")
    e2e_p99_seconds: Seconds | None = Field(default=None, description="whole request, 99th percentile")
    error_ratio: Share | None = Field(default=None, description="share of requests that may fail")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for metric in ("ttft", "itl", "e2e"):
            limits = [(q, getattr(self, f"{metric}_{q}_seconds")) for q in ("p50", "p90", "p99")]
            known = [(q, limit) for q, limit in limits if limit is not None]
            for (low, a), (high, b) in pairwise(known):
                if a > b:
                    raise ValueError(
                        f"{metric}_{low}_seconds ({a:g}) is above {metric}_{high}_seconds ({b:g})"
                    )
        return self

    def limits(self) -> Slo:
        """The limits as the tuner takes them."""
        found: list[Limit] = []
        for metric in get_args(LatencyName):
            for quantile in QUANTILES:
                seconds = getattr(self, f"{metric}_p{quantile * 100:.0f}_seconds")
                if seconds is not None:
                    found.append(Limit(metric, quantile, seconds))
        return Slo(tuple(found), self.error_ratio)


def _quantile(value: float) -> float:
    if value not in QUANTILES:
        raise ValueError(f"{value:g} is not measured: one of {', '.join(f'{q:g}' for q in QUANTILES)}")
    return value


class ObjectiveSection(Section):
    """What a campaign makes better."""

    name: ObjectiveName = Field(default="goodput", description="the figure a campaign makes better")
    quantile: Annotated[float, AfterValidator(_quantile)] = Field(
        default=Objective().quantile, description="quantile of ttft, itl and e2e: 0.5, 0.9 or 0.99"
    )


def _objective(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


def _clock(value: str) -> str:
    minute = minute_of_day(value)
    return f"{minute // 60:02d}:{minute % 60:02d}"


def _span(value: str) -> str:
    return str(QuietHours.parse(value))


Clock = Annotated[str, AfterValidator(_clock)]
Span = Annotated[str, AfterValidator(_span)]


class TuneSection(Section):
    """What a campaign may do, and when."""

    objective: Annotated[ObjectiveSection, BeforeValidator(_objective)] = Field(
        default=ObjectiveSection(), description="a name, or {name, quantile}"
    )
    knobs: list[str] | None = Field(
        default=None,
        description="knobs a campaign may move, of the engine and of its host; unset: every hot one and, in mode act, "
        "where the engine's threads and pages are, as far as host.knobs allows",
    )
    min_effect: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.03, description="least gain worth a promotion, ratio"
    )
    max_regression: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.10, description="what another metric without a limit may lose, ratio; 1: all of it"
    )
    minutes: Annotated[float, Field(gt=0, le=7 * 24 * 60)] = Field(
        default=240, description="length of a campaign"
    )
    restarts: Annotated[int, Field(ge=0, le=20)] = Field(
        default=0,
        description="restarts a campaign may spend: 0, or 3 and more; not together with `tune.knobs` of the host",
    )
    cold: ColdSection = ColdSection()
    canary: CanarySection = CanarySection()
    adaptive: AdaptiveSection = AdaptiveSection()
    lease_seconds: Annotated[float, Field(ge=2, le=120)] = Field(
        default=30, description="an engine left alone in a trial goes back by itself after this long"
    )
    max_temperature_celsius: Annotated[float, Field(gt=0, le=150)] = Field(
        default=85, description="a hotter NPU aborts the trial"
    )
    schedule: list[Clock] = Field(default=[], description="times of day at which a campaign begins by itself")
    quiet_hours: list[Span] = Field(
        default=[],
        description="spans of the day in which nothing is tried",
    )

    @field_validator("knobs")
    @classmethod
    def _known_knobs(cls, names: list[str] | None) -> list[str] | None:
        for name in names or ():
            known = (*HOT_KNOBS, *HOST_KNOBS)
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                mend = f"did you mean {near[0]}?" if near else f"they are {', '.join(known)}"
                raise ValueError(f"{name!r} is no knob of the hot or the host lane; {mend}")
        return names

    @field_validator("restarts")
    @classmethod
    def _enough_restarts(cls, restarts: int) -> int:
        OuterSettings(restarts)
        return restarts

    def outer(self, restart: RestartSection, restarts: int | None = None) -> OuterSettings:
        """What the outer loop takes; `restarts`, if given, is this one campaign's. Raises `ValueError`."""
        restarts = self.restarts if restarts is None else restarts
        of_host = sorted(HOST_KNOBS.keys() & {*(self.knobs or ())})
        if restarts and of_host:
            raise ValueError(
                f"tune.knobs names {', '.join(of_host)} and tune.restarts is {restarts}: a campaign with "
                "restarts does not try the host's knobs; set tune.restarts to 0, or name knobs of the engine only"
            )
        return self.cold.settings(
            restarts,
            lost_minutes=restart.lost_minutes_per_day,
            gated=bool(restart.golden),
        )

    def settings(self, minutes: float | None = None) -> TuneSettings:
        """What the tuner takes; `minutes`, if given, is this one campaign's length."""
        return TuneSettings(
            knobs=tuple(self.knobs or ()),
            objective=Objective(self.objective.name, self.objective.quantile),
            min_effect=self.min_effect,
            max_regression=self.max_regression,
            minutes=self.minutes if minutes is None else minutes,
            max_temperature_celsius=self.max_temperature_celsius,
            lease_seconds=self.lease_seconds,
        )


class CaptureSection(Section):
    """Recording what the engine does (`trimtab capture`)."""

    folder: FilePath | None = Field(
        default=None, description="where recordings go; unset: state folder/captures"
    )
    engine_folder: FilePath | None = Field(
        default=None, description="the folder the engine writes its own profiles to, as it is seen from here"
    )
    msprof: Annotated[str, Field(min_length=1)] = Field(
        default="msprof", description="Huawei's profiler: a name or a path"
    )
    seconds: Annotated[float, Field(ge=1, le=300)] = Field(default=10, description="how long it records")
    finish_seconds: Seconds = Field(default=600, description="longest wait for the results to be written")
    quota_mib: Annotated[int, Field(ge=1)] = Field(
        default=2048, description="disk a recording may take; a larger one is ended and removed"
    )
    keep: Annotated[int, Field(ge=1)] = Field(
        default=5, description="recordings kept; older ones are removed"
    )


class WebSection(Section):
    """The page, the JSON API and /metrics."""

    host: Annotated[str, Field(min_length=1)] = Field(
        default="127.0.0.1", description="address to listen on; another than loopback needs a token"
    )
    port: Annotated[int, Field(ge=0, le=65535)] = Field(
        default=9470, description="port to listen on; 0 takes a free one"
    )
    token_file: FilePath | None = Field(
        default=None, description="file with the API's token; else $TRIMTAB_WEB_TOKEN"
    )
    root_path: RootPath = Field(default="", description="path prefix when a proxy serves it below one")
    allowed_hosts: list[str] = Field(default=[], description="further host names the page answers to")


def _sqlite(value: str) -> str:
    if not value.startswith(("sqlite://", "sqlite+pysqlite://")):
        raise ValueError("must be an SQLite address, as in sqlite:////var/lib/trimtab/trimtab.db")
    return value


class StoreSection(Section):
    """What Trimtab remembers."""

    url: Annotated[str, AfterValidator(_sqlite)] | None = Field(
        default=None, description="SQLAlchemy address; unset is SQLite in the state folder"
    )
    retention_days: Annotated[float, Field(gt=0)] = Field(
        default=90,
        description="older ended campaigns and closed changes are dropped; what can still be taken back stays",
    )


class Config(Section):
    """The whole file."""

    deployment: Literal["wrap", "sidecar", "node"] = Field(
        default="node", description="how it is put beside the engine"
    )
    mode: Mode = Field(default="observe", description="observe changes nothing, advise asks, act does")
    kill_switch: FilePath | None = Field(
        default=None, description="while this file exists nothing is tried; unset is run_dir/stop"
    )
    engine: EngineSection = EngineSection()
    slo: SloSection = SloSection()
    tune: TuneSection = TuneSection()
    host: HostSection = HostSection()
    precision: PrecisionSection = PrecisionSection()
    collect: CollectSection = CollectSection()
    capture: CaptureSection = CaptureSection()
    rules: RulesSection = RulesSection()
    playbooks: PlaybooksSection = PlaybooksSection()
    alertmanagers: list[AlertmanagerSection] = Field(
        default=[], description="Alertmanagers that get every alert, and may post to /api/v1/alertmanager"
    )
    web: WebSection = WebSection()
    store: StoreSection = StoreSection()

    @field_validator("tune")
    @classmethod
    def _canary_is_another(cls, tune: TuneSection, known: ValidationInfo) -> TuneSection:
        engine = known.data.get("engine")
        if engine is not None and (reason := tune.canary.against(engine)) is not None:
            raise ValueError(reason.removeprefix("tune."))
        return tune

    @field_validator("tune")
    @classmethod
    def _adaptive_can_work(cls, tune: TuneSection, known: ValidationInfo) -> TuneSection:
        engine, mode = known.data.get("engine"), known.data.get("mode")
        if engine is not None and mode is not None:
            reason = tune.adaptive.against(mode, engine.kind, tune.lease_seconds)
            if reason is not None:
                raise ValueError(reason)
        return tune

    @field_validator("collect")
    @classmethod
    def _one_canary(cls, collect: CollectSection, known: ValidationInfo) -> CollectSection:
        tune = known.data.get("tune")
        if tune is not None and tune.canary.url and any(one.name == CANARY for one in collect.engines):
            raise ValueError(
                f"engines: {CANARY} is the name of tune.canary, which is watched by itself: leave it out"
            )
        return collect

    @field_validator("collect")
    @classmethod
    def _devices_read_once(cls, collect: CollectSection, known: ValidationInfo) -> CollectSection:
        shape = known.data.get("deployment", "sidecar")
        if shape == "sidecar" and collect.npu_smi.enabled:
            # An NPU belongs to the first container that opens it: the engine could not have it any more.
            raise ValueError("npu_smi.enabled: a sidecar never runs npu-smi; give npu_exporter.url instead")
        if collect.npu_exporter.url is not None and collect.reads_npu_smi(shape):
            # They name and number devices differently: each would be there twice, and its memory and power too.
            raise ValueError(
                "npu-smi and npu-exporter would count each device twice; "
                "set npu_smi.enabled to false or leave npu_exporter.url out"
            )
        return collect

    @property
    def run_dir(self) -> Path:
        """The folder shared with the plugin."""
        return self.engine.run_dir or paths.run_dir()

    @property
    def kill_switch_file(self) -> Path:
        """The file that stops the mind while it exists."""
        return self.kill_switch or self.run_dir / "stop"

    @property
    def captures(self) -> Path:
        """Where recordings are kept."""
        return self.capture.folder or paths.state_dir() / "captures"

    @property
    def store_url(self) -> str:
        """SQLAlchemy address of the store."""
        return self.store.url or f"sqlite:///{paths.state_dir() / 'trimtab.db'}"

    def own_card(self, npu: str) -> bool | None:
        """Whether a card is the tuned engine's; None where others are watched and no list says it."""
        engines = self.collect.derived.engines
        if engines:
            return npu in engines[0]
        return None if self.collect.engines or self.tune.canary.url else True

    @property
    def reads_npu_smi(self) -> bool:
        """Whether npu-smi is run."""
        return self.collect.reads_npu_smi(self.deployment)


def section_of(annotation: Any) -> type[Section] | None:
    """The section a field's type holds, or None for a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    for inner in get_args(annotation):
        found = section_of(inner)
        if found is not None:
            return found
    return None


def known_keys(model: type[Section] = Config, prefix: str = "") -> list[str]:
    """Every key of the file as a dotted path; sections themselves are not listed."""
    keys: list[str] = []
    for name, field in model.model_fields.items():
        section = section_of(field.annotation)
        keys += known_keys(section, f"{prefix}{name}.") if section else [prefix + name]
    return keys


def shown(config: Config) -> dict[str, Any]:
    """The configuration in effect as plain values, with nothing secret in it."""
    values = config.model_dump(mode="json")
    values["kill_switch"] = str(config.kill_switch_file)
    values["engine"]["run_dir"] = str(config.run_dir)
    values["store"]["url"] = without_password(config.store_url)
    return values


def without_password(url: str) -> str:
    """An address whose password, if it has one, is stars."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:***@{host}"))
