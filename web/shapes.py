"""The shapes of the JSON API. Times are Unix seconds, durations seconds, shares 0 to 1; null is unknown."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt

Figures = dict[str, Any]
Finite = Annotated[float, Field(allow_inf_nan=False)]
ShortText = Annotated[str, Field(strict=True, max_length=4096)]


def _no_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("true and false are no numbers")
    return value


class Open(BaseModel):
    """A shape the daemon may add keys to."""

    model_config = ConfigDict(extra="allow")


class Engine(Open):
    """The engine as it is now. `values` were asked for, `effective` is what the engine answered."""

    url: str | None = None
    reachable: bool | None = None
    name: str | None = Field(default=None, description="vllm, vllm-ascend, sglang")
    version: str | None = None
    model: str | None = None
    plugin: str | None = Field(default=None, description="Version of the plugin; null: none, or unknown")
    boot_id: str | None = None
    epoch: int | None = None
    values: dict[str, float] | None = None
    effective: dict[str, float] | None = None
    launch: dict[str, float] | None = None
    ceilings: dict[str, float] | None = None
    floors: dict[str, float] | None = None
    lease_remaining_seconds: float | None = Field(default=None, description="null: no lease, the values stay")
    gate: Literal["open", "closed"] | None = None


class Device(Open):
    """One NPU chip."""

    npu: str | int | None = None
    chip: str | int | None = None
    name: str | None = None
    health_ok: bool | None = None
    aicore_usage_ratio: float | None = None
    hbm_used_bytes: float | None = None
    hbm_total_bytes: float | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None


class Queue(Open):
    """The engine's queue."""

    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = Field(default=None, description="Share of KV blocks in use, 0 to 1")


class Latency(Open):
    """Recent latency quantiles in seconds."""

    ttft_p50: float | None = None
    ttft_p90: float | None = None
    ttft_p99: float | None = None
    itl_p50: float | None = None
    itl_p90: float | None = None
    itl_p99: float | None = None
    e2e_p50: float | None = None
    e2e_p90: float | None = None
    e2e_p99: float | None = None


class Throughput(Open):
    """Recent rates per second."""

    requests_per_second: float | None = None
    prompt_tokens_per_second: float | None = None
    output_tokens_per_second: float | None = None
    preemptions_per_second: float | None = None


class Sign(Open):
    """A figure derived from other readings; `warn`: it is there because it tells of trouble."""

    name: str = Field(description="The figure, with its unit: queue_share_ratio, stalled_seconds")
    value: float | None = None
    warn: bool = False
    npu: str | None = Field(default=None, description="Of the card it is about, the worst one")
    chip: str | None = None
    of: str | None = Field(default=None, description="What is skewed: utilisation, clock or temperature")


class Source(Open):
    """How one source of samples did last."""

    name: str
    success: bool | None = None
    duration_seconds: float | None = None
    last_success: float | None = None
    error: str | None = None


class Status(Open):
    """A campaign in progress."""

    id: int | None = None
    phase: str | None = None
    trials: int | None = None
    in_force: dict[str, Any] | None = Field(default=None, description="{trial (null: the incumbent), values}")
    started: float | None = None
    minutes: float | None = None
    inner: int | None = Field(default=None, description="The hot campaign that runs inside it")
    cold: dict[str, Any] | None = Field(
        default=None,
        description="With restarts: {trial (null: the incumbent), settings, restarting, restarts, lost_minutes}",
    )


class HostValues(Open):
    """What is known of the host's knobs that may be changed, as texts."""

    values: dict[str, str] = {}
    seen: float | None = Field(default=None, description="When they were seen; null: unknown")


class Restart(Open):
    """A restart of the engine under way."""

    actor: str | None = None
    kind: str | None = Field(default=None, description="trial, adaptive, promotion, manual, rollback")
    settings: dict[str, bool | float | str] = Field(default={}, description="Start-up settings asked for")
    phase: str | None = Field(
        default=None, description="preflight, gate, drain, stop, release, start, load, ..."
    )
    seconds: float | None = Field(default=None, description="Since it began")
    phase_seconds: float | None = Field(default=None, description="Since its phase began")
    line: str | None = Field(default=None, description="What was said last")


class Approval(Open):
    """Something that waits for a person's yes or no."""

    id: str
    kind: str | None = Field(default=None, description="campaign, promotion, playbook")
    text: str | None = None
    values: dict[str, float] | None = None
    since: float | None = None


class Notice(Open):
    """Something the operator should know."""

    level: Literal["info", "warning", "error"] = "info"
    text: str
    since: float | None = None


class Live(Open):
    """What is true now (`Body.live`)."""

    now: float | None = Field(
        default=None, description="The daemon's clock; the demo's runs faster than the wall's"
    )
    mode: Literal["observe", "advise", "act"] | None = None
    paused: bool | None = None
    stopped: str | None = Field(default=None, description="Why nothing is tried now")
    engine: Engine = Engine()
    host: HostValues | None = Field(default=None, description="null: not looked at yet")
    restart: Restart | None = Field(default=None, description="null: none is under way")
    devices: list[Device] = []
    queue: Queue = Queue()
    latency: Latency = Latency()
    throughput: Throughput = Throughput()
    signs: list[Sign] = []
    slo: dict[str, float] | None = Field(default=None, description="{ttft,itl,e2e}_{p50,p90,p99}_seconds")
    sources: list[Source] = []
    campaign: Status | None = None
    adaptive: dict[str, Any] | None = Field(default=None, description="null: this mode is not enabled")
    alerts_firing: int | None = Field(default=None, description="those above info; null: no rules")
    last_campaign: dict[str, Any] | None = Field(default=None, description="{campaign, decision, reasons}")
    pending: Approval | None = Field(default=None, description="the first of what waits for an answer")
    approvals: list[Approval] = Field(default=[], description="all of it: of the campaign, then of runs")
    notices: list[Notice] = []


class Trend(BaseModel):
    """Recent values of the figures on the live page, oldest first; null means unknown at that time."""

    times: list[float]
    series: dict[str, list[float | None]]


class Health(BaseModel):
    """Whether the daemon works; open to probes without a token, so it holds no names or addresses."""

    status: Literal["ok", "degraded"]
    engine_reachable: bool | None
    sources_failed: int


class Knob(Open):
    """One row of the knob catalogue as it applies to this engine."""

    name: str
    lane: str | None = None
    kind: str | None = None
    unit: str | None = None
    low: float | None = None
    high: float | None = None
    choices: list[str] = []
    value: float | str | bool | None = None
    flag: str | None = None
    state: str | None = None
    search: str | None = None
    accuracy_gate: bool | None = None
    platforms: list[str] = []
    default: str | None = None
    read_back: list[str] = []
    successors: list[str] = []
    rules: list[str] = []
    help: str | None = None


class Row(BaseModel):
    """A row of the store."""

    model_config = ConfigDict(from_attributes=True)


class CampaignSummary(Row):
    """One campaign without its trials."""

    id: int
    engine: str
    lane: str
    parent: int | None
    started: float
    ended: float | None
    phase: str
    decision: str | None
    objective: Figures
    settings: Figures
    incumbent: Figures
    fingerprint: Figures
    calibration: Figures
    report: Figures | None


class Trial(Row):
    """One candidate. `effect` is ratio - 1 of the objective, better is positive."""

    number: int
    source: str
    values: Figures
    effective: Figures | None
    state: str
    reason: str | None
    started: float | None
    ended: float | None
    effect: Figures | None


class Pair(Row):
    """One paired gain: log ratio of the objective, better is positive."""

    block: int
    trial: int
    phase: str
    gain: float
    adjusted: float
    others: Figures


class Window(Row):
    """One measured interval; `trial` null is the incumbent."""

    block: int
    position: int
    trial: int | None
    epoch: int
    applied: float
    start: float
    end: float
    valid: bool
    reason: str | None
    metrics: Figures
    covariates: Figures


class Decision(Row):
    """One decision with the figures it saw."""

    id: int
    trial: int | None
    time: float
    kind: str
    text: str
    figures: Figures


class Inner(BaseModel):
    """A hot campaign inside a cold one; `trial` null ran on the incumbent."""

    id: int
    trial: int | None
    started: float
    ended: float | None
    phase: str
    decision: str | None
    effect: Figures | None


class CampaignDetail(CampaignSummary):
    """One campaign with all it measured and decided; `inner` are the hot ones inside a cold one."""

    inner: list[Inner]
    trials: list[Trial]
    pairs: list[Pair]
    windows: list[Window]
    decisions: list[Decision]


class JournalEntry(Row):
    """One journaled change with its undo."""

    id: int
    engine: str
    boot_id: str
    lane: str
    kind: str
    state: str
    outcome: str | None
    intended: float
    closed: float | None
    actor: str
    change: Figures
    undo: Figures
    effective: Figures | None
    reason: str | None


class Order(BaseModel):
    """The body of a write; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid")


class Nothing(Order):
    """A write that needs no figures: `{}`."""


class Apply(Order):
    """Knob values to apply by hand."""

    values: dict[str, StrictBool | StrictInt | Finite | ShortText] = Field(min_length=1, max_length=64)
    restart: StrictBool = Field(
        default=False, description="The engine may be restarted for it, while its users wait"
    )


class HostApply(Order):
    """Values of the host lane's knobs to set by hand, in this order, as `{"placement": "split:6"}`."""

    changes: dict[str, str] = Field(min_length=1, max_length=32)


class Rollback(Order):
    """How many journal entries to undo."""

    n: Annotated[int, BeforeValidator(_no_truth)] = Field(default=1, ge=1, le=1000)


class Tune(Order):
    """A campaign to start."""

    mode: Literal["advise", "act"]
    minutes: Annotated[Finite | None, BeforeValidator(_no_truth)] = Field(default=None, gt=0, le=7 * 24 * 60)
    restarts: Annotated[int | None, BeforeValidator(_no_truth)] = Field(default=None, ge=0, le=20)


class Answer(Order):
    """A person's answer to a pending approval."""

    answer: Literal["approve", "decline"]


class Problem(BaseModel):
    """Why a request was not served."""

    detail: str
