"""The HTTP contract under `/trimtab/v1`, read by the daemon's own client."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import httpx2
import pytest
from trimtab_plugin.control import Controller
from trimtab_plugin.http import Middleware

from change.engine import EngineError, EngineUnreachable, PluginAbsent, StaleEpoch
from daemon.engine.hot import HotEngine
from tests.engine_plugin.fake_engine import FakeClient, FakeScheduler, Server, knobs
from tests.engine_plugin.served import GOOD, HEADERS, TOKEN, Engine, with_client
from tests.engine_plugin.test_ring import finished, output


def test_the_daemons_client_reads_changes_and_reads_back(
    token_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab_plugin.http.engine_version", lambda: "0.32.0")

    async def talk(hot: HotEngine) -> None:
        state = await hot.state()
        assert (state.engine, state.engine_version, state.epoch, state.gate) == ("vllm", "0.32.0", 0, "open")
        assert (state.dp_ranks, state.api_servers, state.scheduler_known) == (1, 1, True)
        answer = await hot.set_knobs({"batch_max_tokens": 256}, if_epoch=0, lease_seconds=30)
        assert (answer.epoch, answer.status, answer.reason) == (1, "applied", None)
        assert answer.requested == answer.effective == {"batch_max_tokens": 256}
        with pytest.raises(StaleEpoch) as stale:
            await hot.set_knobs({"batch_max_tokens": 512}, if_epoch=0, lease_seconds=30)
        assert stale.value.epoch == 1
        state = await hot.state()
        assert state.values["batch_max_tokens"] == 256
        assert state.lease_remaining_seconds is not None
        assert 29 < state.lease_remaining_seconds <= 30
        with pytest.raises(EngineError, match="from 64 to 2048"):
            await hot.set_knobs({"batch_max_tokens": 1}, if_epoch=1, lease_seconds=None)

    with_client(Engine(token_file), talk)


def test_the_daemons_client_reads_finished_requests(token_file: str) -> None:
    engine = Engine(token_file)

    async def talk(hot: HotEngine) -> None:
        begin = (await hot.requests(0)).now
        engine.server.ring.record(output(begin - 0.5, first=[0.25], gaps=[0.02]))
        engine.server.ring.record(output(begin - 0.1, gaps=[0.02], done=[finished(0.65, 0.4)]))
        page = await hot.requests(0)
        [record] = page.records
        assert (record.seq, record.first_token, page.next_since, page.lost) == (1, begin - 0.5, 1, 0)
        assert page.gaps == {0: {108: 2}}
        assert (await hot.requests(1)).records == ()

    with_client(engine, talk)


def test_a_lease_that_runs_out_in_an_idle_engine_is_seen_without_anybody_asking(token_file: str) -> None:
    engine = Engine(token_file)

    async def talk(hot: HotEngine) -> None:
        await hot.set_knobs({"batch_max_tokens": 256}, if_epoch=0, lease_seconds=0.05)
        # The engine goes back first and the ring hears of it a moment later.
        for _ in range(2000):
            if engine.server.ring.epochs.at(float("inf")) == 2:
                break
            await asyncio.sleep(0.005)
        assert engine.server.ring.epochs.at(float("inf")) == 2
        assert engine.scheduler.max_num_scheduled_tokens == 2048

    with_client(engine, talk)


def test_a_closed_gate_turns_new_requests_away_and_only_those(token_file: str) -> None:
    engine = Engine(token_file)

    async def talk(hot: HotEngine) -> None:
        await hot.gate("closed", lease_seconds=60, retry_after=7)
        async with engine.server.client() as client:
            for path in ("/v1/completions", "/v1/models", "/inference/v1/generate", "/pooling"):
                refused = await client.post(path, json={})
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "7")
                assert refused.json()["error"]["code"] == 503
                assert refused.headers["connection"] == "close"
            for path in ("/health", "/metrics", "/version", "/v1x"):
                assert (await client.get(path)).status_code == 200
            wrong = await client.post("/v1/completions", json={}, headers={"X-Trimtab-Token": "no"})
            assert wrong.status_code == 503
            assert (await client.post("/v1/completions", json={}, headers=HEADERS)).status_code == 200
        await hot.gate("open", lease_seconds=60, retry_after=7)
        async with engine.server.client() as client:
            assert (await client.post("/v1/completions", json={})).status_code == 200

    with_client(engine, talk)


def test_the_gate_reopens_by_itself(token_file: str) -> None:
    engine = Engine(token_file)

    async def talk(hot: HotEngine) -> None:
        await hot.gate("closed", lease_seconds=0.05, retry_after=1)
        async with engine.server.client() as client:
            assert (await client.get("/v1/models")).status_code == 503
            for _ in range(1000):
                if (answer := await client.get("/v1/models")).status_code == 200:
                    break
                await asyncio.sleep(0.005)
            assert answer.status_code == 200

    with_client(engine, talk)


def test_an_engine_can_start_with_its_gate_closed(token_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_GATE", "closed")
    engine = Engine(token_file)
    assert engine.ask("GET", "/v1/models", headers={}).status_code == 503
    assert engine.ask("GET", "/v1/models").status_code == 200


def test_the_lease_of_a_gate_that_starts_closed_counts_from_the_first_event_not_from_the_load(
    token_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_GATE", "closed")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        pass

    async def nothing(*_: Any) -> Any:
        return {"type": "lifespan.startup"}

    middleware = Middleware(app)
    seen = [middleware._gate.lease_remaining_seconds]  # while the model loads
    asyncio.run(middleware({"type": "lifespan"}, nothing, nothing))
    seen.append(middleware._gate.lease_remaining_seconds)
    middleware._gate.open()
    asyncio.run(middleware({"type": "lifespan"}, nothing, nothing))
    seen.append(middleware._gate.lease_remaining_seconds)
    assert [remaining is not None for remaining in seen] == [False, True, False]


def test_a_gate_that_could_not_be_opened_again_does_not_start_closed(
    token_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_GATE", "closed")
    engine = Engine(token_file, api_servers=2)
    assert engine.ask("GET", "/v1/models", headers={}).status_code == 200


def test_a_request_counts_as_inside_from_its_arrival_to_the_end_of_its_answer(token_file: str) -> None:
    seen: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(middleware._inside)  # as it is while the server tokenises
        if scope["path"] == "/v1/broken":
            raise RuntimeError("the handler failed")

    async def nothing(*_: Any) -> Any:
        return {"type": "http.request"}

    middleware = Middleware(app)
    for path in ("/v1/completions", "/health", "/metrics", "/v1/broken", "/v1/models"):
        with contextlib.suppress(RuntimeError):
            asyncio.run(middleware({"type": "http", "path": path}, nothing, nothing))
    assert seen == [1, 0, 0, 1, 1]
    assert middleware._inside == 0


def test_several_api_servers_do_not_say_how_many_are_inside(
    token_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab_plugin.http.engine_version", lambda: "0.32.0")
    counts = [
        Engine(token_file, api_servers=servers).ask("GET", "/trimtab/v1/state").json()["requests_inside"]
        for servers in (1, 2)
    ]
    assert counts == [0, None]


def test_a_websocket_is_turned_away_too(token_file: str) -> None:
    engine = Engine(token_file)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def talk(hot: HotEngine) -> None:
        await hot.gate("closed", lease_seconds=60, retry_after=1)
        scope = {"type": "websocket", "path": "/v1/realtime", "headers": []}
        await engine.server.app(scope, receive, send)

    with_client(engine, talk)
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_the_bearer_form_of_the_token_is_taken(token_file: str) -> None:
    response = Engine(token_file).ask(
        "POST", "/trimtab/v1/knobs", headers={"Authorization": f"Bearer {TOKEN}"}, json=GOOD
    )
    assert response.json()["status"] == "applied"


@pytest.mark.parametrize(
    ("host", "open_to_read"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        (None, False),
        ("node-7", False),
    ],
)
def test_reads_need_the_token_unless_only_loopback_is_served(
    host: str | None, open_to_read: bool, token_file: str
) -> None:
    engine = Engine(token_file, host=host)
    for headers, status in (({}, 200 if open_to_read else 401), (HEADERS, 200)):
        assert engine.ask("GET", "/trimtab/v1/requests", headers=headers).status_code == status


def test_without_a_token_file_changes_are_refused_with_the_mend() -> None:
    engine = Engine(None)
    response = engine.ask("POST", "/trimtab/v1/knobs", json=GOOD)
    assert response.status_code == 403
    assert "TRIMTAB_TOKEN_FILE" in response.json()["error"]
    assert engine.ask("GET", "/trimtab/v1/requests").status_code == 200
    assert engine.untouched
    with pytest.raises(PluginAbsent):
        with_client(
            engine, lambda hot: hot.set_knobs({"batch_max_tokens": 256}, if_epoch=0, lease_seconds=None)
        )


def test_several_api_servers_mean_no_hot_lane_and_it_is_said(token_file: str) -> None:
    engine = Engine(token_file, api_servers=4)
    answer = engine.ask("POST", "/trimtab/v1/knobs", json=GOOD).json()
    assert (answer["status"], answer["epoch"]) == ("refused", 0)
    assert answer["effective"] == {"batch_max_tokens": 2048}
    assert "--api-server-count 1" in answer["reason"]
    closed = engine.ask("POST", "/trimtab/v1/gate", json={"state": "closed", "lease_seconds": 5})
    assert closed.status_code == 503
    assert engine.ask("GET", "/trimtab/v1/requests").status_code == 503
    assert engine.untouched


def test_ranks_that_come_apart_during_a_change_go_back_and_the_change_is_refused(token_file: str) -> None:
    first, second = Controller(FakeScheduler()), Controller(FakeScheduler())
    client = FakeClient(first, second)

    def interfere(engine: int, message: dict[str, Any]) -> None:
        if engine == 1 and message["op"] == "knobs":
            second.call(knobs({"batch_max_tokens": 512}, 0))

    client.before = interfere
    engine = Engine(token_file)
    engine.server = Server(client, token_file)
    answer = engine.ask("POST", "/trimtab/v1/knobs", json=GOOD).json()
    assert (answer["status"], answer["epoch"], answer["effective"]) == (
        "refused",
        2,
        {"batch_max_tokens": 2048},
    )
    states = [rank.call({"op": "state"}) for rank in (first, second)]
    assert [(state["epoch"], state["values"]["batch_max_tokens"]) for state in states] == [(2, 2048)] * 2


def test_a_dead_engine_is_unreachable_and_says_why(token_file: str) -> None:
    engine = Engine(token_file)
    engine.client.fault = RuntimeError("EngineCore encountered an issue")
    with pytest.raises(EngineUnreachable, match="EngineCore encountered an issue"):
        with_client(engine, lambda hot: hot.state())


def test_without_statistics_there_are_no_timings_and_it_is_said(token_file: str) -> None:
    engine = Engine(token_file)
    engine.server.ring.attached = False
    assert "--disable-log-stats" in engine.ask("GET", "/trimtab/v1/requests").json()["error"]
    engine.server.ring.attached, engine.server.ring.problem = True, "not understood"
    assert engine.ask("GET", "/trimtab/v1/requests").json() == {"error": "not understood"}


def test_switched_off_the_server_is_as_without_the_plugin(
    token_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_DISABLE", "1")
    monkeypatch.setenv("TRIMTAB_GATE", "closed")
    engine = Engine(token_file)
    assert engine.ask("GET", "/v1/models", headers={}).text == "served"
    assert engine.ask("GET", "/trimtab/v1/state").text == "served"


def test_a_root_path_is_honoured(token_file: str) -> None:
    engine = Engine(token_file)

    async def go() -> httpx2.Response:
        async with engine.server.client(HEADERS, root_path="/llm") as client:
            return await client.get("/llm/trimtab/v1/requests")

    assert asyncio.run(go()).status_code == 200


def test_every_answer_is_json_that_nobody_stores(token_file: str) -> None:
    response = Engine(token_file).ask("GET", "/trimtab/v1/requests")
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    assert set(json.loads(response.content)) == {"now", "next_since", "lost", "records", "gaps"}
