"""A believable memory and a stand-in daemon, for the face's tests and for looking at its pages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from sqlalchemy import func, select

from change.engine import EngineUnreachable
from collectors.sample import SourceHealth
from store import Store
from store.models import Campaign, Decision, JournalEntry, Pair, Trial, Window
from web.body import NotFound, Refused

ENGINE = "http://127.0.0.1:8000"
NOW = 1_790_000_000.0
LAUNCH = {
    "batch_max_tokens": 2048,
    "max_prefill_tokens": 0,
    "long_prefill_tokens": 0,
    "max_num_seqs": 256,
    "watermark": 0.0,
}
CEILINGS = LAUNCH | {
    "batch_max_tokens": 8192,
    "max_prefill_tokens": 8192,
    "long_prefill_tokens": 8192,
    "watermark": 0.5,
}
FLOORS = LAUNCH | {"batch_max_tokens": 256, "max_num_seqs": 1}
WINNER = LAUNCH | {"batch_max_tokens": 5632, "max_prefill_tokens": 1024}
CANDIDATES: list[tuple[dict[str, float], str, float, str, str | None]] = [
    ({"batch_max_tokens": 4096}, "prior", 0.07, "rejected", "dropped after 8 blocks: behind trial 4"),
    ({"max_prefill_tokens": 512}, "prior", 0.04, "rejected", "dropped after 6 blocks: behind trial 4"),
    ({"max_num_seqs": 64}, "prior", -0.21, "aborted", "guard: 6 of 71 requests over ttft_p99 2 s (allowed 1 %)"),
    ({"batch_max_tokens": 5632, "max_prefill_tokens": 1024}, "sampler", 0.175, "promoted",
     "+18.1% (+12.2% to +24.6%) over 18 pairs"),
    ({"batch_max_tokens": 7168, "max_prefill_tokens": 2048}, "sampler", 0.10, "inconclusive",
     "confirmation ended with the interval across the smallest effect worth having"),
    ({"long_prefill_tokens": 1024}, "sampler", 0.0, "rejected", "dropped after 5 blocks: no gain in sight"),
    ({"batch_max_tokens": 1024}, "sampler", -0.11, "rejected", "dropped after 4 blocks: no gain in sight"),
    ({"batch_max_tokens": 9000}, "past", 0.0, "invalid", "batch_max_tokens 9000 is over the ceiling of 8192"),
]  # fmt: skip
OBJECTIVE = {
    "name": "goodput",
    "quantile": 0.9,
    "unit": "output tokens per second within the SLO",
    "direction": "max",
    "metrics": ["good_tokens_per_second"],
}
SLO = {
    "limits": [
        {"metric": "ttft", "quantile": 0.99, "seconds": 2.0},
        {"metric": "itl", "quantile": 0.99, "seconds": 0.08},
    ],
    "error_ratio": None,
}
SETTINGS = {"knobs": [], "min_effect": 0.03, "max_regression": 0.10, "minutes": 240, "slo": SLO}
FINGERPRINT = {
    "requests_per_second": 6.2,
    "prompt_tokens_p50": 311.0,
    "prompt_tokens_p90": 1024.0,
    "output_tokens_p50": 64.0,
    "output_tokens_p90": 201.0,
    "prefix_hit_ratio": 0.12,
    "concurrency": 41.3,
}
CALIBRATION = {
    "paired_sd": 0.094,
    "paired_sd_expected": 0.081,
    "washout_seconds": 9.0,
    "window_seconds": 40.0,
    "settle_seconds": 12.9,
    "detectable_effect": 0.041,
    "incumbent": 334.0,
}


def fill(store: Store, *, running: bool = False, seed: int = 7) -> None:
    """Write three campaigns, the newest promoted or still racing, and their journal."""
    rng = np.random.default_rng(seed)
    _old(store, 1, NOW - 3 * 86400, "too_thin", "0.4 requests/s: 31 h would be needed to see 3 %", rng)
    _old(store, 2, NOW - 86400, "kept", "no candidate gained at least 3 %", rng)
    _newest(store, running, rng)


def _campaign(id: int, started: float, **changes: Any) -> Campaign:
    fields: dict[str, Any] = {
        "id": id,
        "engine": ENGINE,
        "boot_id": "b7f0",
        "started": started,
        "ended": None,
        "phase": "ended",
        "decision": None,
        "objective": OBJECTIVE,
        "settings": SETTINGS,
        "incumbent": LAUNCH,
        "fingerprint": FINGERPRINT,
        "calibration": CALIBRATION,
        "report": None,
    }
    return Campaign(**fields | changes)


def _old(store: Store, id: int, started: float, decision: str, reason: str, rng: np.random.Generator) -> None:
    with store.session() as session:
        ended = started + (1500 if decision == "too_thin" else 9000)
        session.add(_campaign(id, started, ended=ended, decision=decision, report={"reasons": [reason]}))
        session.flush()
        for block in range(1, 9):
            gain = float(rng.normal(0, 0.09))
            session.add(_pair(id, block, 0, "calibrate", gain))
        if decision == "kept":
            for number, (values, source, gain, _, _) in enumerate(CANDIDATES[:3], 1):
                effect = {"median": gain / 8, "low": gain / 8 - 0.05, "high": gain / 8 + 0.05, "pairs": 8}
                session.add(
                    Trial(
                        campaign_id=id, number=number, source=source, values=LAUNCH | values,
                        effective=LAUNCH | values, state="rejected", reason="no gain in sight",
                        started=started, ended=ended, effect=effect,
                    )
                )  # fmt: skip
                for block in range(9, 17):
                    session.add(_pair(id, block, number, "race", float(rng.normal(gain / 8, 0.09))))
        session.add(_decision(id, None, ended, "end", reason, {}))


def _newest(store: Store, running: bool, rng: np.random.Generator) -> None:
    started = NOW - 10_500
    races = {1: (0, 8), 2: (0, 6), 3: (0, 2), 7: (0, 4), 4: (4, 14), 6: (6, 11), 5: (8, 14)}
    plan: list[tuple[str, list[int]]] = [("calibrate", [])]
    plan += [
        ("race", [number for number, (first, last) in races.items() if first <= block < last])
        for block in range(14)
    ]
    plan += [("confirm", [4, 5])] * 12 + [("confirm", [4])] * 6
    if running:
        plan = plan[:22]
    confirming = {number for phase, numbers in plan if phase == "confirm" for number in numbers}
    with store.session() as session:
        row = _campaign(3, started, phase="confirm" if running else "probation")
        if not running:
            row.phase, row.decision, row.ended = "ended", "promoted", NOW - 600
        session.add(row)
        session.flush()
        clock, epoch = started + 60, 1
        gains: dict[int, dict[str, list[float]]] = {}
        for block, (phase, numbers) in enumerate(plan, 1):
            order: list[int | None] = [None, *numbers] if numbers else [None] * 12
            rng.shuffle(order)
            valid = block != 8
            for position, trial in enumerate(order):
                epoch += 1
                reason = None if valid else "load jumped to 2.1 times its range"
                session.add(_window(3, block, position, trial, epoch, clock, valid, reason, rng))
                clock += 52
            if not numbers:
                gains_of_noise = rng.normal(0.0, 0.094, 11)
                session.add_all(_pair(3, block, 0, phase, float(gain)) for gain in gains_of_noise)
            for number in numbers if valid else ():
                truth = CANDIDATES[number - 1][2]
                gain = float(rng.normal(truth, 0.094))
                gains.setdefault(number, {}).setdefault(phase, []).append(gain)
                session.add(_pair(3, block, number, phase, gain))
        for number, (values, source, _, state, why) in enumerate(CANDIDATES, 1):
            live = running and state in ("promoted", "inconclusive")
            mine = gains.get(number, {})
            session.add(
                Trial(
                    campaign_id=3, number=number, source=source, values=LAUNCH | values,
                    effective=None if state == "invalid" else LAUNCH | values,
                    state="confirming" if live and number in confirming else state,
                    reason=None if live else why, started=started + 400, ended=None if live else clock,
                    effect=_effect(mine),
                )
            )  # fmt: skip
        if not running:
            row.report = _report(_effect(gains[4]) or {})
        _decide(session, started, running)
    _journal(store, running)


def _report(effect: dict[str, Any]) -> dict[str, Any]:
    return {
        "decision": "promoted",
        "effect": effect,
        "reasons": [
            f"confirmed over {effect['pairs']} fresh pairs; at least 3 % was asked for",
            "no limit of the SLO was broken; the largest loss elsewhere is itl_p50_seconds 3.9 %",
        ],
    }


def _effect(gains: Mapping[str, list[float]]) -> dict[str, Any] | None:
    phase = "confirm" if "confirm" in gains else "race"
    mine = gains.get(phase, [])
    if not mine:
        return None
    middle, half = float(np.median(mine)), 2.3 * float(np.std(mine)) / math.sqrt(len(mine))
    if len(mine) < 3:
        return {"median": math.expm1(middle), "low": None, "high": None, "pairs": len(mine), "phase": phase}
    if phase == "race":
        half /= 2.3
    return {
        "median": math.expm1(middle),
        "low": math.expm1(middle - half),
        "high": math.expm1(middle + half),
        "pairs": len(mine),
        "phase": phase,
    }


def _pair(campaign: int, block: int, trial: int, phase: str, gain: float) -> Pair:
    others = {
        "ttft_p50_seconds": gain * 1.4,
        "itl_p50_seconds": -gain / 5,
        "output_tokens_per_second": gain / 2,
    }
    return Pair(
        campaign_id=campaign,
        block=block,
        trial=trial,
        phase=phase,
        gain=gain,
        adjusted=gain * 0.96,
        others=others,
    )


def _window(
    campaign: int, block: int, position: int, trial: int | None, epoch: int, applied: float, valid: bool,
    reason: str | None, rng: np.random.Generator,
) -> Window:  # fmt: skip
    gain = CANDIDATES[trial - 1][2] if trial else 0.0
    speed = 342 * math.exp(gain + rng.normal(0, 0.07))
    metrics = {
        "ttft_p50_seconds": 0.245 / math.exp(gain),
        "ttft_p99_seconds": 1.21,
        "itl_p50_seconds": 0.031,
        "itl_p99_seconds": 0.062,
        "output_tokens_per_second": speed,
        "good_tokens_per_second": speed * 0.97,
        "requests": 240,
        "failed_requests": 0,
    }
    return Window(
        campaign_id=campaign, block=block, position=position, trial=trial, epoch=epoch, applied=applied,
        start=applied + 9, end=applied + 49, valid=valid, reason=reason, metrics=metrics,
        covariates={"arrived_prompt_tokens": 98_000.0, "temperature_celsius": 61.0},
    )  # fmt: skip


def _decision(
    campaign: int, trial: int | None, time: float, kind: str, text: str, figures: dict[str, Any]
) -> Decision:
    return Decision(campaign_id=campaign, trial=trial, time=time, kind=kind, text=text, figures=figures)


def _decide(session: Any, started: float, running: bool) -> None:
    told: list[tuple[int | None, float, str, str, dict[str, Any]]] = [
        (None, 700, "calibrated", "noise 9.4 % per pair; 4.1 % can be seen within the budget", CALIBRATION),
        (8, 720, "dropped", "invalid: batch_max_tokens 9000 is over the ceiling of 8192", {}),
        (3, 1310, "abort", "guard: 6 of 71 requests over ttft_p99 2 s", {"tail": 0.0007}),
        (7, 2420, "dropped", "no gain in sight", {}),
        (6, 2900, "dropped", "no gain in sight", {}),
        (4, 5200, "confirm", "looked like +17.1% in the race", {"gain": 0.158, "sd": 0.027}),
    ]
    if not running:
        told += [
            (
                5,
                8100,
                "reject",
                "interval across 3 % at the last look it could afford",
                {"p_value": 0.021},
            ),
            (
                4,
                9800,
                "promote",
                "trial 4 promoted at look 2: p 0.0002 under 0.011",
                {"p": 0.0002, "pairs": 18},
            ),
            (None, 9900, "end", "promoted: held through probation", {}),
        ]
    for trial, after, kind, text, figures in told:
        session.add(_decision(3, trial, started + after, kind, text, figures))


def _journal(store: Store, running: bool) -> None:
    with store.session() as session:
        entries = [
            ("manual", NOW - 90_000, "cli", LAUNCH | {"batch_max_tokens": 4096}, "undone", "rolled back"),
            ("trial", NOW - 9_100, "campaign 3", LAUNCH | {"max_num_seqs": 64}, "undone", "guard"),
            ("trial", NOW - 7_000, "campaign 3", WINNER, None if running else "done", None),
        ]
        if not running:
            entries.append(("promotion", NOW - 700, "campaign 3", WINNER, "done", None))
        for kind, time, actor, change, outcome, reason in entries:
            session.add(
                JournalEntry(
                    engine=ENGINE, boot_id="b7f0", kind=kind, state="closed" if outcome else "applied",
                    outcome=outcome, intended=time, closed=time + 42 if outcome else None, actor=actor,
                    change=change, undo=LAUNCH, effective=change, reason=reason,
                )
            )  # fmt: skip


def add_pair(store: Store, *, trial: int = 4, gain: float = 0.2) -> int:
    """Store one more confirmation block of the newest campaign and return its number."""
    rng = np.random.default_rng(1)
    with store.session() as session:
        last = session.scalar(select(func.max(Window.block)).where(Window.campaign_id == 3)) or 0
        block = last + 1
        for position, number in enumerate((trial, None)):
            session.add(_window(3, block, position, number, 900 + block, NOW, True, None, rng))
        session.add(_pair(3, block, trial, "confirm", gain))
    return block


class FakeBody:
    """A daemon that answers from a table and remembers what it was told to do."""

    def __init__(self, **changes: Any) -> None:
        self.orders: list[tuple[Any, ...]] = []
        self.changes = changes
        self.broken: Exception | None = None
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

    async def knobs(self) -> list[dict[str, Any]]:
        """Answer with the four hot knobs and a cold one."""
        if self.broken is not None:
            raise self.broken
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

    async def apply(self, values: Mapping[str, float]) -> dict[str, Any]:
        """Refuse the unknown, remember the rest."""
        if unknown := set(values) - set(LAUNCH):
            raise Refused(f"unknown knob {sorted(unknown)[0]!r}")
        return self._ordered("apply", dict(values))

    async def rollback(self, n: int) -> dict[str, Any]:
        """Have three entries to undo."""
        if n > 3:
            raise NotFound(f"the journal has 3 entries, not {n}")
        return self._ordered("rollback", n)

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

    async def tune(self, mode: Literal["advise", "act"], minutes: float | None) -> dict[str, Any]:
        """Start."""
        return self._ordered("tune", mode, minutes)

    async def approve(self, id: str) -> dict[str, Any]:
        """Know one approval."""
        return self._answered("approve", id)

    async def decline(self, id: str) -> dict[str, Any]:
        """Know one approval."""
        return self._answered("decline", id)

    def _answered(self, what: str, id: str) -> dict[str, Any]:
        if id != "promotion-3-4":
            raise NotFound(f"nothing waits under {id!r}")
        self.changes["pending"] = None
        return self._ordered(what, id)

    def _ordered(self, *order: Any) -> dict[str, Any]:
        self.orders.append(order)
        return {"done": True}
