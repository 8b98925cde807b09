"""Alerts, playbooks and runs, as a node with a hot card has them."""

from __future__ import annotations

from typing import Any

from store import Store
from store.alert_models import PlaybookRun, RunAct, RunEvent
from tests.web.seeded import ENGINE, NOW

HOT = {"alertname": "NpuTemperatureHigh", "severity": "warning", "npu": "2", "chip": "0", "name": "910B4"}
BUSY = {"alertname": "NpuBusy", "severity": "info"}

ALERTS: dict[str, Any] = {
    "enabled": True,
    "trouble": None,
    "alerts": [
        {
            "name": "NpuTemperatureHigh", "severity": "warning", "state": "firing", "labels": HOT,
            "annotations": {"summary": "NPU 2 is at 91 degrees", "description": "It lowers its clock by itself soon."},
            "value": 91.25, "active_at": NOW - 400, "fired_at": NOW - 340, "resolved_at": None,
            "keep_firing_since": None, "playbook": "thermal_throttling", "group": "devices",
            "fingerprint": "8f0c2b1d55aa0110",
        },
        {
            "name": "NpuBusy", "severity": "info", "state": "resolved", "labels": BUSY,
            "annotations": {"summary": "<b>busy</b>"}, "value": None, "active_at": NOW - 4000,
            "fired_at": NOW - 3700, "resolved_at": NOW - 300, "keep_firing_since": None, "playbook": None,
            "group": "devices", "fingerprint": "8f0c2b1d55aa0111",
        },
    ],
    "groups": [
        {
            "name": "devices", "interval_seconds": 15.0, "last_evaluation": NOW - 3, "duration_seconds": 0.004,
            "missed": 0,
            "rules": [
                {
                    "name": "NpuTemperatureHigh", "expr": "npu_temperature_celsius > 85", "for_seconds": 60.0,
                    "keep_firing_for_seconds": 120.0, "severity": "warning", "playbook": "thermal_throttling",
                    "description": "A card is hotter than 85 degrees.", "source": "devices.yaml:3",
                    "state": "firing", "health": "ok", "last_error": None, "last_evaluation": NOW - 3, "failures": 0,
                },
                {
                    "name": "NpuBusy", "expr": "avg(npu_aicore_usage_ratio) > 0.85", "for_seconds": 300.0,
                    "keep_firing_for_seconds": 0.0, "severity": "info", "playbook": None, "description": None,
                    "source": "devices.yaml:9", "state": "inactive", "health": "err",
                    "last_error": "many-to-many matching", "last_evaluation": NOW - 3, "failures": 4,
                },
            ],
        }
    ],
}  # fmt: skip

PLAYBOOKS: list[dict[str, Any]] = [
    {
        "name": "thermal_throttling", "title": "Thermal throttling", "description": "It is given less.",
        "guide": "85 degrees, as the field's guides have it.", "target": "npu", "cooldown_seconds": 1800.0,
        "variables": {"limit": "85"}, "changes": True,
        "steps": [
            {"name": "hot", "check": "npu_temperature_celsius > 85"},
            {"name": "relieve", "act": {"kind": "set_knobs", "arguments": {"max_num_seqs": "x0.5"}}},
            {"name": "cooler", "verify": "npu_temperature_celsius < 82"},
        ],
    },
]  # fmt: skip


def fill_runs(store: Store) -> None:
    """Add a run that succeeded and one that waits for an answer."""
    with store.session() as session:
        session.add(_run(1, "succeeded", "the card is cool again", NOW - 90_000, NOW - 89_400))
        session.add(_run(2, "waiting_approval", None, NOW - 330, None))
        session.flush()
        for number, (kind, step, text, figures) in enumerate(
            (
                ("state", None, "queued by the rule NpuTemperatureHigh", {}),
                ("check", "hot", "holds", {"npu_temperature_celsius": 91.25}),
                ("diagnose", "cause", "card 2 is over its limit", {}),
                ("act", "relieve", "max_num_seqs 256 -> 128", {"max_num_seqs": 128}),
                ("verify", "cooler", "held for 30 s", {"npu_temperature_celsius": 79.5}),
            )
        ):
            at = NOW - 90_000 + 10 * number
            session.add(RunEvent(run_id=1, time=at, step=step, kind=kind, text=text, figures=figures))
        session.add(
            RunAct(
                run_id=1,
                step="relieve",
                action={"kind": "set_knobs", "arguments": {"max_num_seqs": "x0.5"}, "timeout_seconds": 60.0},
                plan={
                    "text": "max_num_seqs 256 -> 128",
                    "blast": "engine",
                    "reversible": True,
                    "undo": {"max_num_seqs": 256},
                },
                state="kept",
                intended=NOW - 89_970,
                ended=NOW - 89_968,
                outcome={"ok": True, "text": "done", "figures": {"own_seconds": 0.004}},
            )
        )


def _run(id: int, state: str, reason: str | None, queued: float, ended: float | None) -> PlaybookRun:
    return PlaybookRun(
        id=id,
        engine=ENGINE,
        playbook="thermal_throttling",
        source="rule",
        fingerprint="8f0c2b1d55aa0110",
        alert_started=queued,
        labels=HOT,
        target="npu 2",
        dry_run=False,
        state=state,
        step=None if ended else "relieve",
        reason=reason,
        cause="thermal",
        queued=queued,
        started=queued,
        ended=ended,
        memory={},
    )
