"""Playbooks in the living daemon: from a rule's alert to the change in the engine, with the API to ask."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from daemon import loops
from daemon.config import Config
from tests.daemon.engine_stand import LAUNCH, EngineStand
from tests.daemon.living import Running, config_for, running

pytestmark = pytest.mark.usefixtures("quick")

RULES = """
groups:
  - name: own
    interval: 1s
    rules:
      - alert: Busy
        expr: sum(trimtab_engine_requests_running) > 2
        labels: {severity: warning}
        annotations: {summary: three requests run}
        playbook: relieve
        description: The stand always says three.
"""
PLAYBOOKS = """
playbooks:
  - name: relieve
    title: Fewer at once
    description: Half the sequences, then look.
    cooldown: 2min
    steps:
      - name: busy
        check: sum(trimtab_engine_requests_running) > 2
        within: 5s
      - {name: cause, diagnose: "too many at once", cause: busy}
      - name: half
        act: {kind: set_knobs, arguments: {max_num_seqs: x0.5}}
        timeout: 20s
      - name: stands
        verify: sum(trimtab_engine_requests_running) > 2
        within: 30s
"""


def with_playbook(folder: Path, engine: EngineStand, *, rules: bool = True, **more: Any) -> Config:
    (folder / "rules.yaml").write_text(RULES)
    (folder / "playbooks.yaml").write_text(PLAYBOOKS)
    return config_for(
        folder,
        engine,
        rules={"shipped": False, "files": [str(folder / "rules.yaml")] if rules else []},
        playbooks={"shipped": False, "files": [str(folder / "playbooks.yaml")]},
        **more,
    )


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "ALERT_SECONDS", 0.05)
    monkeypatch.setattr(loops, "PLAYBOOK_SECONDS", 0.05)


async def ended(one: Running, number: int = 1) -> dict[str, Any]:
    """The run once it has ended."""
    async with asyncio.timeout(30):
        while True:
            answer = await one.http.get(f"/api/v1/runs/{number}")
            if answer.status_code == 200 and answer.json()["ended"] is not None:
                return dict(answer.json())
            await asyncio.sleep(0.05)


def test_an_alert_of_a_rule_changes_the_engine_and_leaves_its_audit(
    tmp_path: Path, engine: EngineStand
) -> None:
    async def story() -> None:
        async with running(with_playbook(tmp_path, engine)) as one:
            run = await ended(one)
            assert (run["state"], run["cause"], run["source"]) == ("succeeded", "busy", "rule"), run["reason"]
            assert [event["kind"] for event in run["events"] if event["step"] == "half"]
            (act,) = run["acts"]
            assert act["plan"]["undo"]["values"] == {"max_num_seqs": LAUNCH["max_num_seqs"]}
            assert act["outcome"]["ok"] is True
            assert engine.values["max_num_seqs"] == LAUNCH["max_num_seqs"] / 2
            listed = (await one.http.get("/api/v1/runs")).json()
            assert [row["id"] for row in listed] == [1]
            page = (await one.http.get("/metrics")).text
            assert 'trimtab_playbook_runs_total{playbook="relieve",state="succeeded"} 1.0' in page
            assert 'trimtab_playbook_acts_total{kind="set_knobs",outcome="done"} 1.0' in page
            journal = (await one.http.get("/api/v1/journal")).json()
            assert journal[0]["actor"] == "run-1 of playbook relieve"

    asyncio.run(story())


def test_a_campaign_that_runs_is_superseded_by_the_act(tmp_path: Path, engine: EngineStand) -> None:
    async def story() -> None:
        async with running(with_playbook(tmp_path, engine, rules=False)) as one:
            await one.until(lambda live: live["engine"].get("plugin") is not None)
            assert (await one.http.post("/api/v1/tune", json={"mode": "act"})).status_code == 200
            await one.until(lambda live: (live["campaign"] or {}).get("id") is not None)
            begun = await one.http.post("/api/v1/playbooks/relieve/run", json={})
            assert begun.status_code == 200, begun.text
            run = await ended(one, begun.json()["run"])
            assert run["state"] == "succeeded", run["reason"]
            live = await one.live()
            assert live["campaign"] is None
            assert live["last_campaign"]["decision"] == "superseded"
            assert engine.values["max_num_seqs"] == LAUNCH["max_num_seqs"] / 2

    asyncio.run(story())


def watching_for_ever(folder: Path) -> None:
    """The playbook's verification never holds."""
    file = folder / "playbooks.yaml"
    verify = "verify: sum(trimtab_engine_requests_running) >"
    file.write_text(file.read_text().replace(f"{verify} 2", f"{verify} 99"))


def test_what_stood_open_is_put_back_though_playbooks_are_switched_off_since(
    tmp_path: Path, engine: EngineStand
) -> None:
    config = with_playbook(tmp_path, engine, rules=False)
    watching_for_ever(tmp_path)
    off = config.model_copy(update={"playbooks": config.playbooks.model_copy(update={"enabled": False})})

    async def story() -> None:
        async with running(config) as one:
            await one.until(lambda live: live["engine"].get("plugin") is not None)
            assert (await one.http.post("/api/v1/playbooks/relieve/run", json={})).status_code == 200
            await one.until(lambda live: engine.values["max_num_seqs"] == LAUNCH["max_num_seqs"] / 2)
        async with running(off) as one:
            run = await ended(one)
            assert run["state"] == "rolled_back", run["reason"]
            assert engine.values == LAUNCH
            refused = await one.http.post("/api/v1/playbooks/relieve/run", json={})
            assert refused.status_code in (404, 409)

    asyncio.run(story())


def test_no_campaign_begins_while_a_run_watches_what_it_has_changed(
    tmp_path: Path, engine: EngineStand
) -> None:
    config = with_playbook(tmp_path, engine, rules=False)
    watching_for_ever(tmp_path)

    async def story() -> None:
        async with running(config) as one:
            await one.until(lambda live: live["engine"].get("plugin") is not None)
            assert (await one.http.post("/api/v1/playbooks/relieve/run", json={})).status_code == 200
            await one.until(lambda live: engine.values["max_num_seqs"] == LAUNCH["max_num_seqs"] / 2)
            refused = await one.http.post("/api/v1/tune", json={"mode": "act"})
            assert refused.status_code == 409
            assert "a playbook has changed something" in refused.json()["detail"]

    asyncio.run(story())


def test_in_mode_advise_the_run_waits_among_the_approvals(tmp_path: Path, engine: EngineStand) -> None:
    async def story() -> None:
        async with running(with_playbook(tmp_path, engine, mode="advise")) as one:
            live = await one.until(lambda live: live["pending"] is not None)
            assert live["pending"]["id"] == "run-1-half-2"
            (asked,) = (await one.http.get("/api/v1/approvals")).json()
            assert (asked["id"], asked["kind"]) == ("run-1-half-2", "playbook")
            assert engine.changes == []
            missing = await one.http.post("/api/v1/approvals/run-1-other", json={"answer": "approve"})
            assert missing.status_code == 404
            answer = await one.http.post("/api/v1/approvals/run-1-half-2", json={"answer": "approve"})
            assert answer.status_code == 200
            run = await ended(one)
            assert run["state"] == "succeeded"
            assert engine.values["max_num_seqs"] == LAUNCH["max_num_seqs"] / 2

    asyncio.run(story())


def test_orders_that_make_no_sense_are_refused_in_words(tmp_path: Path, engine: EngineStand) -> None:
    async def story() -> None:
        async with running(with_playbook(tmp_path, engine, rules=False)) as one:
            await one.until(lambda live: live["engine"].get("plugin") is not None)
            post = one.http.post
            assert (await post("/api/v1/playbooks/none/run", json={})).status_code == 404
            assert (
                await post("/api/v1/playbooks/relieve/run", json={"labels": {"a b": "1"}})
            ).status_code == 422
            assert (await post("/api/v1/playbooks/relieve/run", json={"dry": True})).status_code == 422
            dry = await post("/api/v1/playbooks/relieve/run", json={"dry_run": True})
            assert dry.status_code == 200
            run = await ended(one, dry.json()["run"])
            assert (run["state"], run["dry_run"]) == ("skipped", True)
            assert "would have set max_num_seqs" in run["reason"]
            assert engine.changes == []
            await post("/api/v1/pause", json={})
            refused = await post("/api/v1/playbooks/relieve/run", json={})
            assert (refused.status_code, refused.json()["detail"]) == (409, "no playbook walks now: paused")
            listed = (await one.http.get("/api/v1/playbooks")).json()
            assert [(row["name"], row["changes"]) for row in listed] == [("relieve", True)]

    asyncio.run(story())
