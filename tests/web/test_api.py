"""The JSON API."""

from __future__ import annotations

import math

import pytest
from fastapi.testclient import TestClient

from change.engine import EngineError, EngineUnreachable
from store import Store
from store.models import Campaign, JournalEntry
from tests.web.fake_body import FakeBody
from tests.web.seeded import NOW, WINNER
from tests.web.seeded_cold import fill_cold
from web import alert_shapes, reads, shapes
from web.app import create_app


def test_live_is_what_the_daemon_says_with_the_unknown_as_null(client: TestClient, body: FakeBody) -> None:
    body.changes = {"latency": {"ttft_p50": math.nan, "ttft_p99": math.inf}}
    live = client.get("/api/v1/live").json()
    assert live["latency"] == {"ttft_p50": None, "ttft_p99": None}
    assert live["sources"][2]["error"].startswith("cannot read")
    shapes.Live.model_validate(live)


def test_health_says_when_something_is_wrong(client: TestClient, body: FakeBody) -> None:
    assert client.get("/api/v1/health").json() == {
        "status": "degraded",
        "engine_reachable": True,
        "sources_failed": 1,
    }
    body.changes = {"sources": []}
    assert client.get("/api/v1/health").json()["status"] == "ok"
    body.changes = {"sources": [], "engine": {"reachable": None}}
    assert client.get("/api/v1/health").json()["status"] == "degraded"


def test_campaigns_come_newest_first(client: TestClient) -> None:
    listed = client.get("/api/v1/campaigns").json()
    assert [(item["id"], item["decision"]) for item in listed] == [(3, None), (2, "kept"), (1, "too_thin")]
    assert len(client.get("/api/v1/campaigns?limit=1").json()) == 1


def test_a_campaign_comes_with_all_it_measured(client: TestClient) -> None:
    campaign = client.get("/api/v1/campaigns/3").json()
    assert [trial["number"] for trial in campaign["trials"]] == list(range(1, 9))
    assert {pair["phase"] for pair in campaign["pairs"]} == {"calibrate", "race", "confirm"}
    assert any(not window["valid"] for window in campaign["windows"])
    assert campaign["decisions"][0]["kind"] == "calibrated"
    positions = [(window["block"], window["position"]) for window in campaign["windows"]]
    assert positions == sorted(positions)


def test_a_campaign_that_is_not_there_is_said_so(client: TestClient) -> None:
    answer = client.get("/api/v1/campaigns/99")
    assert (answer.status_code, answer.json()["detail"]) == (404, "there is no campaign 99")


def test_figures_that_are_no_numbers_come_as_null(body: FakeBody, store: Store) -> None:
    client = TestClient(create_app(body, store, None), base_url="http://127.0.0.1")
    with store.session() as session:
        session.get_one(Campaign, 3).calibration = {"paired_sd": math.nan}
    assert client.get("/api/v1/campaigns/3").json()["calibration"] == {"paired_sd": None}
    assert client.get("/trials").status_code == 200


def test_the_journal_can_be_paged(client: TestClient) -> None:
    first = client.get("/api/v1/journal?limit=2").json()
    assert [entry["id"] for entry in first] == [3, 2]
    assert first[0]["state"] == "applied"
    rest = client.get("/api/v1/journal?before=2").json()
    assert [entry["id"] for entry in rest] == [1]


def test_of_a_host_change_the_journal_tells_what_was_there(body: FakeBody, store: Store) -> None:
    client = TestClient(create_app(body, store, None), base_url="http://127.0.0.1")
    with store.session() as session:
        session.add(
            JournalEntry(
                engine="http://127.0.0.1:8000", boot_id="b00t", lane="host", kind="manual", state="closed",
                outcome="done", intended=1.0, closed=2.0, actor="cli", change={"placement": "split:4"},
                undo={"placement": {"was": "as_found", "with": {"threads": [["0-191", [[1, 1, 7]]]]}}},
            )
        )  # fmt: skip
    newest = client.get("/api/v1/journal?limit=1").json()[0]
    assert (newest["lane"], newest["undo"]) == ("host", {"placement": "as_found"})


def test_alerts_and_the_health_of_rules_are_told_with_the_unknown_as_null(client: TestClient) -> None:
    told = client.get("/api/v1/alerts").json()
    assert [(one["name"], one["state"], one["value"]) for one in told["alerts"]] == [
        ("CardHot", "firing", None)
    ]
    rules = alert_shapes.Alerts.model_validate(told).groups[0].rules
    assert [one.last_error for one in rules] == [None, "many to many"]


def test_knobs_are_listed(client: TestClient) -> None:
    rows = client.get("/api/v1/knobs").json()
    assert {row["lane"] for row in rows} == {"hot", "cold"}


@pytest.mark.parametrize(
    ("error", "status"), [(EngineUnreachable("nobody answers"), 503), (EngineError("it refused"), 502)]
)
def test_an_engine_that_fails_is_told_with_its_words(
    client: TestClient, body: FakeBody, error: EngineError, status: int
) -> None:
    body.broken = error
    answer = client.get("/api/v1/knobs")
    assert (answer.status_code, answer.json()["detail"]) == (status, str(error))


def test_orders_reach_the_daemon(client: TestClient, body: FakeBody) -> None:
    orders = [
        ("apply", {"values": WINNER}),
        ("rollback", {"n": 2}),
        ("rollback", {}),
        ("host/apply", {"changes": {"placement": "split:4"}}),
        ("host/rollback", {}),
        ("pause", {}),
        ("resume", {}),
        ("tune", {"mode": "advise", "minutes": 30}),
        ("tune", {"mode": "act", "restarts": 4}),
        ("approvals/promotion-3-4", {"answer": "approve"}),
        ("approvals/promotion-3-4", {"answer": "decline"}),
    ]
    for path, order in orders:
        assert client.post(f"/api/v1/{path}", json=order).json() == {"done": True}
    assert body.orders == [
        ("apply", WINNER),
        ("rollback", 2),
        ("rollback", 1),
        ("host_apply", {"placement": "split:4"}),
        ("host_rollback", 1),
        ("pause",),
        ("resume",),
        ("tune", "advise", 30.0),
        ("tune", "act", None, 4),
        ("approve", "promotion-3-4"),
        ("decline", "promotion-3-4"),
    ]


@pytest.mark.parametrize(
    ("path", "order"),
    [
        ("apply", {}),
        ("apply", {"values": {}}),
        ("apply", {"values": {"batch_max_tokens": ["many"]}}),
        ("apply", {"values": {"block_size": 64}, "restart": "yes"}),
        ("apply", {"values": {"batch_max_tokens": None}}),
        ("apply", {"values": {"batch_max_tokens": 1}, "force": True}),
        ("rollback", {"n": 0}),
        ("host/apply", {"changes": {}}),
        ("host/apply", {"changes": {"placement": 4}}),
        ("host/rollback", {"n": 0}),
        ("tune", {"mode": "observe"}),
        ("tune", {"mode": "act", "minutes": -1}),
        ("approvals/promotion-3-4", {"answer": "maybe"}),
        ("pause", {"for": 5}),
        ("pause", []),
    ],
)
def test_an_order_that_makes_no_sense_changes_nothing(
    client: TestClient, body: FakeBody, path: str, order: object
) -> None:
    assert client.post(f"/api/v1/{path}", json=order).status_code == 422
    assert body.orders == []


@pytest.mark.parametrize("text", ["", "{", "[[[[", '{"values": {"x": NaN}}', "\x00"])
def test_text_that_is_not_json_changes_nothing(client: TestClient, body: FakeBody, text: str) -> None:
    headers = {"content-type": "application/json"}
    assert client.post("/api/v1/apply", content=text, headers=headers).status_code == 422
    assert body.orders == []


def test_refusals_keep_their_words(client: TestClient) -> None:
    refused = client.post("/api/v1/apply", json={"values": {"nonsense": 1}})
    assert (refused.status_code, refused.json()["detail"]) == (409, "unknown knob 'nonsense'")
    assert client.post("/api/v1/rollback", json={"n": 9}).status_code == 404
    assert client.post("/api/v1/approvals/other", json={"answer": "approve"}).status_code == 404
    gone = client.post("/api/v1/detach", json={})
    assert (gone.status_code, gone.json()["detail"]) == (503, "nobody answers at http://127.0.0.1:8000")


def test_pending_approvals_are_listed(client: TestClient, body: FakeBody) -> None:
    assert [item["id"] for item in client.get("/api/v1/approvals").json()] == ["promotion-3-4"]
    body.changes = {"pending": None}
    assert client.get("/api/v1/approvals").json() == []


def test_a_store_that_cannot_be_read_is_told(
    body: FakeBody, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.session.BUSY_SECONDS", 0.01)
    client = TestClient(create_app(body, store, None), base_url="http://127.0.0.1")
    with store.session():
        answer = client.get("/api/v1/campaigns")
    assert answer.status_code == 503
    assert ":memory:" in answer.json()["detail"]


def test_openapi_is_published_and_loads_nothing_from_elsewhere(client: TestClient) -> None:
    schema = client.get("/api/openapi.json").json()
    assert {"/api/v1/live", "/api/v1/events", "/api/v1/apply"} <= set(schema["paths"])
    assert client.get("/docs").status_code == 404


def test_a_cold_campaign_names_the_hot_ones_inside_it_and_is_the_newest(body: FakeBody, store: Store) -> None:
    cold = fill_cold(store)
    client = TestClient(create_app(body, store, None, clock=lambda: NOW), base_url="http://127.0.0.1:9470")
    found = client.get(f"/api/v1/campaigns/{cold}").json()
    assert (found["lane"], found["parent"]) == ("cold", None)
    assert [(one["id"], one["trial"], one["decision"]) for one in found["inner"]] == [
        (cold + 1, None, "kept"),
        (cold + 2, 2, "promoted"),
    ]
    rows = {row["id"]: row for row in client.get("/api/v1/campaigns").json()}
    assert (rows[cold + 2]["lane"], rows[cold + 2]["parent"]) == ("hot", cold)
    with store.reading() as session:
        assert reads.newest_campaign(session) == cold
