"""A stand-in daemon: the same capability as the real one, answered from a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from change.engine import EngineUnreachable
from collectors.sample import SourceHealth
from rules.alertmanager.webhook_body import WebhookError, parse
from tests.web.seeded import CEILINGS, ENGINE, FLOORS, LAUNCH, WINNER
from web.body import NotFound, Refused, Senseless


class FakeBody:
    """A daemon that answers from a table and remembers what it was told to do."""

    def __init__(self, **changes: Any) -> None:
        self.orders: list[tuple[Any, ...]] = []
        self.changes = changes
        self.broken: Exception | None = None
        self.rows: list[dict[str, Any]] = []
        self._beats = 0
        self._rng = np.random.default_rng(3)

    def live(self, now: float) -> dict[str, Any]:
        """Answer for a busy node in mode act."""
        if self.broken is not None:
            raise self.broken
        self._beats += 1
        wave = math.sin(self._beats / 9) + float(self._rng.normal(0, 0.25))
        live: dict[str, Any] = {
            "now": now,
            "mode": "act",
            "paused": False,
            "engine": {
                "url": ENGINE, "reachable": True, "name": "vllm-ascend", "version": "0.18.0",
                "model": "Qwen3-32B", "plugin": "0.1.0", "boot_id": "b7f0", "epoch": 57, "values": WINNER,
                "effective": WINNER, "launch": LAUNCH, "ceilings": CEILINGS, "floors": FLOORS,
                "lease_remaining_seconds": 24.0, "gate": "open",
            },
            "devices": [self._device(npu, chip, wave) for npu in range(4) for chip in range(2)],
            "queue": {"running": round(41 + 6 * wave), "waiting": max(0, round(3 * wave)), "kv_usage": 0.62},
            "latency": {
                "ttft_p50": 0.223 + 0.02 * wave, "ttft_p90": 0.71, "ttft_p99": 1.27 + 0.2 * wave,
                "itl_p50": 0.0312 + 0.001 * wave, "itl_p90": 0.048, "itl_p99": 0.0624 + 0.006 * wave,
                "e2e_p50": 2.41 + 0.1 * wave, "e2e_p90": 6.2, "e2e_p99": 9.12 + 0.5 * wave,
            },
            "throughput": {
                "requests_per_second": 6.2, "prompt_tokens_per_second": 2310.0,
                "output_tokens_per_second": 402 + 30 * wave, "preemptions_per_second": 0.0,
            },
            "signs": [
                {"name": "queue_share_ratio", "value": 0.041}, {"name": "kv_free_ratio", "value": 0.38},
                {"name": "skew_ratio", "value": 0.31, "warn": True, "npu": "2", "chip": "0", "of": "temperature"},
            ],
            "slo": {"ttft_p99_seconds": 2.0, "itl_p99_seconds": 0.08},
            "sources": [
                SourceHealth("vllm", True, 0.0041, now - 1),
                SourceHealth("npu_smi", True, 0.82, now - 4),
                SourceHealth("host", False, 0.01, now - 320, "cannot read /proc/pressure: permission denied"),
            ],
            "campaign": {
                "id": 3, "phase": "confirm", "trials": 8, "started": now - 7_400, "minutes": 240.0,
                "in_force": {"trial": 4, "values": WINNER},
            },
            "pending": {
                "id": "promotion-3-4", "kind": "promotion", "text": "Promote trial 4 of campaign 3?",
                "values": WINNER, "since": now - 90,
            },
            "notices": [
                {"level": "warning", "text": "The host cannot be read: see doctor.", "since": now - 320}
            ],
        }  # fmt: skip
        return live | self.changes

    def _device(self, npu: int, chip: int, wave: float) -> dict[str, Any]:
        if (npu, chip) == (3, 1):
            return {"npu": npu, "chip": chip, "name": "910B4", "health_ok": None}
        return {
            "npu": npu,
            "chip": chip,
            "name": "910B4",
            "health_ok": (npu, chip) != (2, 0),
            "aicore_usage_ratio": min(1.0, max(0.0, 0.78 + 0.05 * wave - 0.03 * npu)),
            "hbm_used_bytes": (24.1 + npu) * 2**30,
            "hbm_total_bytes": 32 * 2**30,
            "temperature_celsius": 61 + 3 * npu + (18 if (npu, chip) == (2, 0) else 0),
            "power_watts": 268.0 + 4 * wave,
        }

    def alerts(self) -> dict[str, Any]:
        """Answer with one alert that fires, and its rule beside one that cannot be evaluated."""
        if self.broken is not None:
            raise self.broken
        hot = {
            "name": "CardHot",
            "severity": "critical",
            "playbook": "thermal_throttling",
            "group": "devices",
        }
        labels = {"alertname": "CardHot", "npu": "2", "severity": "critical"}
        rule = {"name": "CardHot", "expr": "npu_temperature_celsius > 85", "for_seconds": 60.0}
        alert = hot | {
            "state": "firing",
            "labels": labels,
            "value": math.nan,
            "active_at": 1.0,
            "fired_at": 61.0,
        }
        broken = {
            "name": "Skew",
            "expr": "x / y > 1",
            "health": "err",
            "last_error": "many to many",
            "failures": 3,
        }
        group = {
            "name": "devices",
            "interval_seconds": 15.0,
            "last_evaluation": 90.0,
            "duration_seconds": 0.002,
        }
        return {
            "alerts": [alert],
            "groups": [group | {"rules": [rule | {"state": "firing", "health": "ok"}, broken]}],
        }

    def playbooks(self) -> list[dict[str, Any]]:
        """Answer with one playbook of one step."""
        if self.broken is not None:
            raise self.broken
        step = {"name": "hot", "check": 'npu_temperature_celsius{npu="${npu}"} > 85'}
        return [
            {
                "name": "thermal_throttling",
                "title": "Thermal throttling",
                "description": "A card is too hot.",
                "target": "npu",
                "cooldown_seconds": 1800.0,
                "changes": False,
                "steps": [step],
            }
        ]

    async def run_playbook(self, name: str, labels: Mapping[str, str], *, dry_run: bool) -> dict[str, Any]:
        """Begin a run, unless there is no such playbook."""
        if name != "thermal_throttling":
            raise NotFound(f"there is no playbook {name!r}")
        begun = {"run": 7, "state": "running", "reason": None, "dry_run": dry_run}
        return self._ordered("run_playbook", name, dict(labels), dry_run) | begun

    async def knobs(self) -> list[dict[str, Any]]:
        """Answer with the four hot knobs and a cold one."""
        if self.broken is not None:
            raise self.broken
        if self.rows:
            return self.rows
        units = {"max_num_seqs": "sequences"}
        rows = [
            {
                "name": name, "lane": "hot", "kind": "int", "unit": units.get(name, "tokens"),
                "low": FLOORS[name], "high": CEILINGS[name], "flag": f"--{name.replace('_', '-')}",
                "state": "available", "help": "Read by the scheduler before every step.",
            }
            for name in LAUNCH
        ]  # fmt: skip
        cold = {"name": "block_size", "lane": "cold", "unit": "tokens", "low": None, "high": None}
        return [*rows, cold | {"flag": "--block-size", "state": "needs a restart", "help": None}]

    async def apply(
        self, values: Mapping[str, int | float | str | bool], *, restart: bool = False
    ) -> dict[str, Any]:
        """Refuse the unknown, remember the rest."""
        if unknown := set(values) - set(LAUNCH):
            raise Refused(f"unknown knob {sorted(unknown)[0]!r}")
        return self._ordered("apply", dict(values), *(["restart"] if restart else []))

    async def rollback(self, n: int) -> dict[str, Any]:
        """Have three entries to undo."""
        if n > 3:
            raise NotFound(f"the journal has 3 entries, not {n}")
        return self._ordered("rollback", n)

    async def host_apply(self, changes: Mapping[str, str]) -> dict[str, Any]:
        """Know one knob of the host."""
        if unknown := set(changes) - {"placement"}:
            raise Refused(f"the host lane has no {sorted(unknown)[0]}")
        return self._ordered("host_apply", dict(changes))

    async def host_rollback(self, n: int) -> dict[str, Any]:
        """Have one change of the host to undo."""
        if n > 1:
            raise Refused(f"1 changes of the host lane stand: there are not {n} to take back")
        return self._ordered("host_rollback", n)

    async def pause(self) -> dict[str, Any]:
        """Pause."""
        self.changes["paused"] = True
        return self._ordered("pause")

    async def resume(self) -> dict[str, Any]:
        """Go on."""
        self.changes["paused"] = False
        return self._ordered("resume")

    async def detach(self) -> dict[str, Any]:
        """Find the engine gone."""
        raise EngineUnreachable(f"nobody answers at {ENGINE}")

    async def tune(
        self, mode: Literal["advise", "act"], minutes: float | None, restarts: int | None = None
    ) -> dict[str, Any]:
        """Start."""
        return self._ordered("tune", mode, minutes, *(() if restarts is None else (restarts,)))

    async def approve(self, id: str) -> dict[str, Any]:
        """Know one approval."""
        return self._answered("approve", id)

    async def decline(self, id: str) -> dict[str, Any]:
        """Know one approval."""
        return self._answered("decline", id)

    async def alertmanager(self, body: bytes) -> dict[str, Any]:
        """Read a post as the daemon does, and store nothing."""
        if self.broken is not None:
            raise self.broken
        try:
            delivery = parse(body)
        except WebhookError as error:
            raise Senseless(str(error)) from error
        self.orders.append(("alertmanager", len(delivery.alerts)))
        taken = len(delivery.alerts)
        return {"taken": taken, "new": taken, "resolved": 0, "own": 0, "left_out": delivery.left_out}

    def _answered(self, what: str, id: str) -> dict[str, Any]:
        if id != "promotion-3-4":
            raise NotFound(f"nothing waits under {id!r}")
        self.changes["pending"] = None
        return self._ordered(what, id)

    def _ordered(self, *order: Any) -> dict[str, Any]:
        self.orders.append(order)
        return {"done": True}
