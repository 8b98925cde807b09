"""Build the hands that a configuration gives playbooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from change.engine import EngineControl
from change.journal import Journal
from change.profiler import Capture
from collectors.history import History
from collectors.npu_smi.program import NpuSmi
from daemon import assembly
from daemon.acting.captures import Captures, Npus
from daemon.acting.condition import EngineCondition
from daemon.acting.deed import Deed
from daemon.acting.hands import ActingHands
from daemon.acting.host import HostValues
from daemon.acting.hot import ExpandBatch, HotValues
from daemon.acting.notify import NoticeSink, Notify
from daemon.acting.preempt import Campaigning, GiveWay, Preempt
from daemon.acting.quiet import QuietTimes
from daemon.acting.replicas import ScaleUp, TrafficAway, kubernetes_scale
from daemon.acting.restart import RestartEngine
from daemon.cold import Cold
from daemon.config import Config
from daemon.doctor.bundle import Redactor, known_secrets
from daemon.engine_process import EngineProcess
from daemon.host_lane import HostLane
from daemon.notices import Notices
from daemon.profile.taking import bounds_of, take
from rules.actions import ActionKind


def acting_hands(
    config: Config,
    control: EngineControl,
    journal: Journal,
    history: History,
    notices: Notices,
    *,
    campaigns: Campaigning,
    host: HostLane,
    cold: Cold | None,
    quiet: QuietTimes,
    condition: EngineCondition | None,
    sink: NoticeSink | None = None,
    give_way: GiveWay | None = None,
) -> ActingHands:
    """The hands of the running daemon; `sink` are the webhooks of `rules.webhooks`, `give_way` see `Preempt`."""
    hooks, redactor = config.playbooks.hooks, Redactor(known_secrets(config))
    hot = HotValues(control, journal, assembly.lock_dir(config))
    deeds: Mapping[ActionKind, Deed] = {
        "set_knobs": hot,
        "expand_batch": ExpandBatch(hot, journal, history),
        "set_host": HostValues(host, journal),
        "restart": RestartEngine(cold, condition, journal, quiet, engine=config.engine.kind_or_vllm),
        "scale_up": ScaleUp(
            hooks,
            config.playbooks.scale,
            redactor,
            kubernetes_scale(config.playbooks.scale, config.engine.server.kubernetes),
        ),
        "traffic_away": TrafficAway(hooks, redactor),
        "notify": Notify(notices, sink),
    }
    return ActingHands(
        deeds, _captures(config, redactor), Preempt(campaigns, control, journal, give_way=give_way)
    )


def _captures(config: Config, redactor: Redactor) -> Captures:
    logs = config.collect.logs
    read = config.deployment != "sidecar" if logs.kmsg is None else logs.kmsg

    async def profile(seconds: float) -> Capture:
        return await take(config, bounds_of(config, seconds))

    return Captures(
        config.captures,
        redactor,
        profile=profile,
        patterns=lambda: assembly.log_patterns(config),
        kmsg=Path("/dev/kmsg") if read else None,
        engine_pid=_engine_pid(config),
        npus=_npus(config),
    )


def _engine_pid(config: Config) -> Callable[[], int | None]:
    return EngineProcess(config.engine.url).pid


def _npus(config: Config) -> Npus | None:
    if not config.reads_npu_smi:
        return None
    source = config.collect.npu_smi
    program = NpuSmi((source.command,), timeout_seconds=source.timeout_seconds)

    async def read() -> str:
        return (await program.query()).said

    return read
