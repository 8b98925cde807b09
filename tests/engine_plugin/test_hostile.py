"""Requests that are wrong, hostile or endless: a clear answer each, and the engine as it was."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from daemon.engine.hot import HotEngine
from tests.engine_plugin.served import GOOD, HEADERS, TOKEN, Engine, with_client

HOSTILE: dict[str, tuple[int, dict[str, Any]]] = {
    "wrong token": (401, {"headers": {"X-Trimtab-Token": "guess"}, "json": GOOD}),
    "no token": (401, {"headers": {}, "json": GOOD}),
    "wrong bearer": (401, {"headers": {"Authorization": "Bearer guess"}, "json": GOOD}),
    "unknown knob": (422, {"json": {**GOOD, "values": {"nonsense": 1}}}),
    "too high": (422, {"json": {**GOOD, "values": {"batch_max_tokens": 4096}}}),
    "too low": (422, {"json": {**GOOD, "values": {"batch_max_tokens": 1}}}),
    "not whole": (422, {"json": {**GOOD, "values": {"batch_max_tokens": 256.5}}}),
    "text": (422, {"json": {**GOOD, "values": {"batch_max_tokens": "256"}}}),
    "huge": (422, {"content": b'{"values":{"batch_max_tokens":1e308},"if_epoch":0}'}),
    "bool": (422, {"json": {**GOOD, "values": {"max_num_seqs": True}}}),
    "nothing": (400, {"json": {**GOOD, "values": {}}}),
    "list": (400, {"json": {**GOOD, "values": []}}),
    "unknown key": (400, {"json": {**GOOD, "forse": True}}),
    "no epoch": (400, {"json": {"values": {"batch_max_tokens": 256}}}),
    "epoch as text": (400, {"json": {**GOOD, "if_epoch": "0"}}),
    "stale epoch": (409, {"json": {**GOOD, "if_epoch": 7}}),
    "lease of nothing": (400, {"json": {**GOOD, "lease_seconds": 0}}),
    "endless lease": (400, {"json": {**GOOD, "lease_seconds": 1e9}}),
    "bad way back": (422, {"json": {**GOOD, "lease_seconds": 5, "revert_to": {"max_num_seqs": 0}}}),
    "not JSON": (400, {"content": b"{values: 1}"}),
    "NaN": (400, {"content": b'{"values":{"batch_max_tokens":NaN},"if_epoch":0}'}),
    "not UTF-8": (400, {"content": b"\xff\xfe{}"}),
    "empty": (400, {"content": b""}),
    "an array": (400, {"content": b"[]"}),
    "deep": (400, {"content": b"[" * 60_000}),
    "endless number": (
        400,
        {"content": b'{"values":{"batch_max_tokens":' + b"9" * 5000 + b'},"if_epoch":0}'},
    ),
    "too long": (413, {"content": b" " * 10_000_000}),
    "length is no number": (413, {"content": b"{}", "headers": {**HEADERS, "Content-Length": "-5"}}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_change_gets_a_clear_answer_and_the_engine_stays_as_it_was(
    name: str, token_file: str
) -> None:
    status, request = HOSTILE[name]
    engine = Engine(token_file)
    response = engine.ask("POST", "/trimtab/v1/knobs", **request)
    assert response.status_code == status, response.text
    assert len(response.json()["error"]) > 10
    assert TOKEN not in response.text
    assert response.json().get("epoch") == (0 if status == 409 else response.json().get("epoch"))
    assert engine.untouched


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/trimtab/v1/knobs", 405),
        ("DELETE", "/trimtab/v1/knobs", 405),
        ("POST", "/trimtab/v1/state", 405),
        ("GET", "/trimtab/v1/nothing", 404),
        ("GET", "/trimtab", 404),
        ("GET", "/trimtab/v1/requests?since=-1", 400),
        ("GET", "/trimtab/v1/requests?since=all", 400),
        ("GET", "/trimtab/v1/requests?since=" + "9" * 40, 400),
    ],
)
def test_a_wrong_path_method_or_query_is_refused(
    method: str, path: str, status: int, token_file: str
) -> None:
    engine = Engine(token_file)
    response = engine.ask(method, path)
    assert response.status_code == status
    assert response.json()["error"]
    assert engine.server.served == []
    if status == 405:
        assert response.headers["allow"] in ("GET", "POST")


@pytest.mark.parametrize(
    "body",
    [
        {"state": "ajar", "lease_seconds": 5},
        {"state": "closed"},
        {"state": "closed", "lease_seconds": 121},
        {"state": "closed", "lease_seconds": True},
        {"state": "closed", "lease_seconds": 5, "retry_after": -1},
        {"state": "closed", "lease_seconds": 5, "why": "because"},
    ],
)
def test_a_bad_gate_request_leaves_the_gate_open(body: dict[str, Any], token_file: str) -> None:
    engine = Engine(token_file)
    assert engine.ask("POST", "/trimtab/v1/gate", json=body).status_code == 400
    assert engine.ask("POST", "/v1/completions", json={}, headers={}).status_code == 200


def test_an_endless_body_is_cut_off(token_file: str) -> None:
    engine = Engine(token_file)
    sent = 0

    async def endless() -> Any:
        nonlocal sent
        for _ in range(100_000):
            sent += 8192
            yield b" " * 8192

    async def talk(hot: HotEngine) -> httpx2.Response:
        async with engine.server.client(HEADERS) as client:
            return await client.post("/trimtab/v1/knobs", content=endless())

    assert with_client(engine, talk).status_code == 413
    assert sent < 20_000_000
