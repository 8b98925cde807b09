"""A believable memory, for the face's tests and for looking at its pages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sqlalchemy import func, select

from store import Store
from store.models import Campaign, Decision, JournalEntry, Pair, Trial, Window

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
