"""Playbooks and runs in the JSON API."""

from __future__ import annotations

from fastapi.testclient import TestClient

from store import Store
from store.alert_models import PlaybookRun, RunAct, RunEvent
from tests.web.fake_body import FakeBody
from tests.web.seeded import ENGINE, NOW
from web import run_reads, run_shapes
from web.app import create_app


def fill_runs(store: Store) -> None:
    """Two runs: one that walked with an act, one that was skipped."""
    with store.session() as session:
        common = {
            "engine": ENGINE,
            "fingerprint": "f",
            "alert_started": NOW,
            "labels": {"npu": "3"},
            "memory": {},
        }
        session.add(
            PlaybookRun(
                **common,
                playbook="thermal_throttling",
                source="rule",
                target="npu 3",
                dry_run=False,
                state="succeeded",
                step="cooler",
                reason=None,
                cause="thermal",
                queued=NOW,
                started=NOW,
                ended=NOW + 60,
            )
        )
        session.add(
            PlaybookRun(
                **common,
                playbook="slow_card",
                source="alertmanager",
                target="npu 3",
                dry_run=False,
                state="skipped",
                step=None,
                reason="silenced",
                cause=None,
                queued=NOW,
                started=None,
                ended=NOW,
            )
        )
        session.flush()
        for number, kind in enumerate(("check", "diagnose", "act")):
            session.add(
                RunEvent(
                    run_id=1, time=NOW + number, step="hot", kind=kind, text=kind, figures={"celsius": 91.0}
                )
            )
        session.add(
            RunAct(
                run_id=1,
                step="relieve",
                action={"kind": "set_knobs", "arguments": {}, "timeout_seconds": 60.0},
                plan={"text": "t", "blast": "engine", "reversible": True, "undo": {}},
                state="kept",
                intended=NOW,
                ended=NOW + 1,
                outcome={"ok": True, "text": "in force", "figures": {}},
            )
        )


def test_runs_come_newest_first_and_one_with_all_it_did(store: Store) -> None:
    fill_runs(store)
    client = TestClient(
        create_app(FakeBody(), store, None, clock=lambda: NOW), base_url="http://127.0.0.1:9470"
    )
    listed = client.get("/api/v1/runs").json()
    assert [(run["id"], run["state"]) for run in listed] == [(2, "skipped"), (1, "succeeded")]
    assert [run["id"] for run in client.get("/api/v1/runs?limit=1").json()] == [2]
    assert [run["id"] for run in client.get("/api/v1/runs?before=2").json()] == [1]
    run = run_shapes.RunDetail.model_validate(client.get("/api/v1/runs/1").json())
    assert [event.kind for event in run.events] == ["check", "diagnose", "act"]
    assert run.events[0].figures == {"celsius": 91.0}
    assert run.acts[0].outcome == {"ok": True, "text": "in force", "figures": {}}


def test_of_a_very_long_audit_the_end_is_given(store: Store) -> None:
    fill_runs(store)
    with store.session() as session:
        for number in range(run_reads.MOST_EVENTS + 5):
            session.add(
                RunEvent(run_id=2, time=NOW + number, step=None, kind="check", text=f"{number}", figures={})
            )
    with store.reading() as session:
        run = run_reads.run(session, 2)
    assert run is not None
    assert len(run.events) == run_reads.MOST_EVENTS
    assert run.events[-1].text == f"{run_reads.MOST_EVENTS + 4}"


def test_one_that_is_not_there_is_said_so(client: TestClient) -> None:
    answer = client.get("/api/v1/runs/99")
    assert (answer.status_code, answer.json()["detail"]) == (404, "there is no run 99")


def test_a_walk_is_ordered_with_its_labels(client: TestClient, body: FakeBody) -> None:
    order = {"dry_run": True, "labels": {"npu": "3"}}
    answer = client.post("/api/v1/playbooks/thermal_throttling/run", json=order)
    assert answer.status_code == 200
    assert body.orders[-1] == ("run_playbook", "thermal_throttling", {"npu": "3"}, True)
    assert client.post("/api/v1/playbooks/other/run", json={}).status_code == 404
    assert client.post("/api/v1/playbooks/Not%20a%20name/run", json={}).status_code == 422
    assert [one["name"] for one in client.get("/api/v1/playbooks").json()] == ["thermal_throttling"]


def test_every_question_that_stands_is_among_the_approvals(client: TestClient, body: FakeBody) -> None:
    asked = [{"id": "promotion-3-4"}, {"id": "run-12-relieve", "kind": "playbook"}]
    body.changes = {"approvals": asked}
    assert [one["id"] for one in client.get("/api/v1/approvals").json()] == [
        "promotion-3-4",
        "run-12-relieve",
    ]
