"""A campaign over start-up settings with the hot campaigns inside it, to test and look at the pages."""

from __future__ import annotations

from typing import Any

from store import Store
from store.models import Campaign, Decision, JournalEntry, Trial
from tests.web.seeded import CALIBRATION, ENGINE, FINGERPRINT, LAUNCH, NOW, OBJECTIVE, SETTINGS

INCUMBENT: dict[str, Any] = {
    "block_size": 128,
    "tensor_parallel_size": 4,
    "pipeline_parallel_size": 1,
    "enable_prefix_caching": False,
}
BEST = INCUMBENT | {"block_size": 64, "tensor_parallel_size": 1, "pipeline_parallel_size": 4}
EFFECT = {
    "median": 0.41,
    "low": 0.33,
    "high": 0.49,
    "between_restart_sd": 0.021,
    "alternations": 2,
    "pairs": 2,
    "phase": "alternation",
}
OUTER = {"restarts": 4, "lost_minutes": 60.0, "min_effect": 0.10, "stint_minutes": 15.0}


def fill_cold(store: Store, *, running: bool = False, first: int = 4) -> int:
    """Write the cold campaign `first` with three trials and the hot ones inside it; return its number."""
    begun = NOW - 14_000.0
    with store.session() as session:
        row = _campaign(
            first, begun, lane="cold", settings={**SETTINGS, "outer": OUTER, "cold": INCUMBENT}, phase="look"
        )
        if not running:
            row.phase, row.decision, row.ended, row.report = "ended", "promoted", NOW - 300, _report()
        session.add(row)
        session.flush()
        for id, after, decision in ((first + 1, 60, "kept"), (first + 2, 5_000, "promoted")):
            report = {"decision": decision, "effect": {"median": 0.052, "low": 0.03, "high": 0.08}}
            inner = _campaign(id, begun + after, parent=first, phase="ended", decision=decision)
            inner.ended, inner.report = begun + after + 1_800, report
            session.add(inner)
        for number, values, state, reason, started in (
            (1, INCUMBENT | {"block_size": 48}, "invalid", "cannot start here: no multiple of 16", None),
            (2, BEST, "serving" if running else "promoted", "held through probation", begun + 4_000),
            (3, INCUMBENT | {"enable_prefix_caching": True}, "rejected", "looked like +2.1%", begun + 9_000),
        ):
            session.add(
                Trial(
                    campaign_id=first, number=number, source="prior" if number == 2 else "step", values=values,
                    effective=None if started is None else values, state=state, reason=reason, started=started,
                    ended=None if state == "serving" else NOW - 300,
                    effect=EFFECT if number == 2 else None,
                )
            )  # fmt: skip
        session.add(
            Decision(
                campaign_id=first, trial=2, time=begun + 7_000, kind="stint", text="looked like +41.0%",
                figures={"median": 0.41},
            )
        )  # fmt: skip
        session.add(
            JournalEntry(
                engine=ENGINE, boot_id="b7f1", lane="cold", kind="promotion", state="closed", outcome="done",
                intended=NOW - 2_300, closed=NOW - 1_700, actor=f"campaign {first}", campaign_id=first,
                change={"settings": BEST, "command": {}}, undo={"settings": INCUMBENT, "command": {}},
                effective={"settings": BEST}, reason=None,
            )
        )  # fmt: skip
    return first


def _campaign(id: int, started: float, **changes: Any) -> Campaign:
    fields: dict[str, Any] = {
        "id": id, "engine": ENGINE, "boot_id": "b7f1", "started": started, "objective": OBJECTIVE,
        "settings": SETTINGS, "incumbent": LAUNCH, "fingerprint": FINGERPRINT, "calibration": CALIBRATION,
    }  # fmt: skip
    return Campaign(**fields | changes)


def _report() -> dict[str, Any]:
    seconds = {"preflight": 0.4, "drain": 21.0, "stop": 4.0, "release": 7.0, "load": 540.0, "probe": 1.2}
    served = {"outcome": "served", "phase": "open", "reason": "it serves", "seconds": seconds}
    each = [{"trial": trial, **served, "down_seconds": 575.0, "own_seconds": 3.1} for trial in (2, 3, 0, 2)]
    return {
        "decision": "promoted",
        "effect": {"median": 0.41, "low": 0.33, "high": 0.49},
        "reasons": ["held through probation"],
        "hot": {"decision": "kept", "effect": None},
        "cold": {
            "decision": "promoted", "label": "not error-controlled", "incumbent": INCUMBENT, "winner": BEST,
            "effect": EFFECT, "restarts": 4, "restarts_allowed": 4, "lost_minutes": 38.3, "own_minutes": 0.2,
            "each": each, "trials": [],
        },
    }  # fmt: skip
