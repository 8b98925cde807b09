"""`trimtab trials` and `report`: what was tried, decided and why, out of the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from store import open_store
from store.models import Campaign, Decision, Trial
from tests.daemon.trimtab_command import Trimtab, one_line


def remember(config: str, report: dict[str, Any] | None) -> None:
    settings = yaml.safe_load(Path(config).read_text())
    store = open_store(settings["store"]["url"])
    with store.session() as session:
        campaign = Campaign(
            engine=settings["engine"]["url"],
            boot_id="b",
            started=1_800_000_000.0,
            ended=None,
            phase="race",
            decision=None if report is None else report["decision"],
            objective={"name": "itl", "unit": "seconds", "direction": "lower", "quantile": 0.99},
            settings={},
            incumbent={"batch_max_tokens": 2048.0},
            fingerprint={},
            calibration={},
            report=report,
        )
        session.add(campaign)
        session.flush()
        session.add(
            Trial(
                campaign_id=campaign.id,
                number=1,
                source="prior",
                values={"batch_max_tokens": 512.0},
                state="promoted",
                effect={"median": 0.25, "low": 0.2, "high": 0.3, "pairs": 12, "phase": "confirm"},
            )
        )
        session.add(
            Decision(
                campaign_id=campaign.id,
                trial=1,
                time=1_800_000_100.0,
                kind="promote",
                text="it gained 25%",
                figures={},
            )
        )
    store.close()


def test_before_the_first_campaign_there_is_nothing_to_report(trimtab: Trimtab, config: str) -> None:
    for command in ("trials", "report"):
        told = trimtab(command, "-c", config)
        assert told.code == 1
        one_line(told)


def test_trials_and_report_show_what_was_decided_and_why(trimtab: Trimtab, config: str) -> None:
    remember(
        config,
        {
            "decision": "promoted",
            "incumbent": {"batch_max_tokens": 2048.0},
            "winner": {"batch_max_tokens": 512.0},
            "objective": {"name": "itl", "quantile": 0.99, "unit": "seconds", "direction": "lower is better"},
            "effect": {"median": 0.25, "low": 0.2, "high": 0.3},
            "reasons": ["it gained 25%"],
        },
    )
    told = trimtab("trials", "-c", config)
    assert "batch_max_tokens=512" in told.out
    assert "+25.0%" in told.out
    assert trimtab("trials", "--json", "-c", config).json["trials"][0]["state"] == "promoted"
    told = trimtab("report", "-c", config)
    assert "promoted" in told.out
    assert "because it gained 25%" in told.out
    assert trimtab("report", "1", "--json", "-c", config).json["winner"] == {"batch_max_tokens": 512.0}
    assert trimtab("report", "7", "-c", config).code == 1


def test_a_campaign_without_a_report_is_said(trimtab: Trimtab, config: str) -> None:
    remember(config, None)
    told = trimtab("report", "-c", config)
    assert told.code == 1
    assert "has no report yet" in told.err


COLD: dict[str, Any] = {
    "decision": "kept",
    "label": None,
    "incumbent": {"block_size": 128, "pipeline_parallel_size": 1},
    "winner": None,
    "effect": None,
    "restarts": 3,
    "restarts_allowed": 4,
    "lost_minutes": 27.25,
    "own_minutes": 0.5,
    "trials": [
        {
            "number": 1,
            "requested": {"block_size": 64, "pipeline_parallel_size": 1},
            "state": "rejected",
            "effect": {"median": 0.04},
            "hot_decision": "kept",
            "reason": "looked like +4.0%, too little",
        }
    ],
}


def test_the_part_of_the_restarts_is_told_in_words(trimtab: Trimtab, config: str) -> None:
    remember(config, {"decision": "kept", "winner": None, "restarts": 3, "cold": COLD})
    out = trimtab("report", "-c", config).out
    assert "3 of 4, 27.2 minutes of lost capacity" in out
    assert "block_size=64, rejected, +4.0%, hot values inside it kept: looked like +4.0%, too little" in out
    assert "they stay (kept)" in out
    effect = {"median": 0.675, "low": 0.6, "high": 0.75, "between_restart_sd": 0.019, "alternations": 2}
    won = {"decision": "promoted", "winner": {"block_size": 64}, "label": "not error-controlled"}
    remember(config, {"decision": "promoted", "winner": {}, "cold": COLD | won | {"effect": effect}})
    out = trimtab("report", "-c", config).out
    assert "block_size=64, not error-controlled" in out
    assert "+67.5% (+60.0% to +75.0%) over 2 alternations; restarts of one config differ by 1.9%" in out


def test_of_cold_trials_the_change_is_shown_and_what_ran_inside(trimtab: Trimtab, config: str) -> None:
    remember(config, {"decision": "kept", "cold": COLD})
    settings = yaml.safe_load(Path(config).read_text())
    store = open_store(settings["store"]["url"])
    with store.session() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.lane, campaign.settings = "cold", {"cold": COLD["incumbent"]}
        campaign.trials[0].values = {"block_size": 64, "pipeline_parallel_size": 1}
    store.close()
    remember(config, None)
    store = open_store(settings["store"]["url"])
    with store.session() as session:
        session.get_one(Campaign, 2).parent = 1
    store.close()
    told = trimtab("trials", "-c", config)
    assert "block_size=64 " in told.out
    assert "pipeline_parallel_size" not in told.out
    assert "not error-controlled" in told.out
    assert "hot campaigns inside it: 2" in told.out
    as_json = trimtab("trials", "--json", "-c", config).json
    assert (as_json["lane"], as_json["inner"]) == ("cold", [2])
    assert "inside campaign 1" in trimtab("trials", "2", "-c", config).out
