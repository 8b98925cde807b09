"""The simulated server answers `/trimtab/v1` as the real plugin does, wrong calls included."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.sim.served import TOKEN, served

PACKAGE = Path(__file__).resolve().parent.parent.parent / "engine_plugin"
if str(PACKAGE) not in sys.path:
    sys.path.insert(0, str(PACKAGE))  # the plugin is a distribution of its own

HEADERS = {"X-Trimtab-Token": TOKEN}
KNOBS: dict[str, Any] = {"values": {"batch_max_tokens": 1024}, "if_epoch": 0, "lease_seconds": None}
GATE: dict[str, Any] = {"state": "closed", "lease_seconds": 60, "retry_after": 2}

Call = tuple[str, str, dict[str, str], bytes]


def post(path: str, body: Any, headers: dict[str, str] | None = None) -> Call:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ("POST", f"/trimtab/v1/{path}", HEADERS if headers is None else headers, content)


CALLS: dict[str, Call] = {
    "state": ("GET", "/trimtab/v1/state", {}, b""),
    "requests": ("GET", "/trimtab/v1/requests", {}, b""),
    "bad since": ("GET", "/trimtab/v1/requests?since=-1", {}, b""),
    "long since": ("GET", "/trimtab/v1/requests?since=99999999999999999999", {}, b""),
    "no path": ("GET", "/trimtab/v1/other", {}, b""),
    "no path at all": ("GET", "/trimtab", {}, b""),
    "method": ("GET", "/trimtab/v1/knobs", {}, b""),
    "method of a read": ("DELETE", "/trimtab/v1/state", {}, b""),
    "no token": post("knobs", KNOBS, {}),
    "wrong token": post("gate", GATE, {"X-Trimtab-Token": "guess"}),
    "bearer": post("gate", {"state": "open"}, {"Authorization": f"Bearer {TOKEN}"}),
    "not json": post("knobs", b"{"),
    "nan": post("knobs", b'{"values": {"batch_max_tokens": NaN}, "if_epoch": 0}'),
    "list": post("knobs", []),
    "deep": post("knobs", b"[" * 50_000),
    "too long": post("knobs", b" " * 10_000_000),
    "unknown key": post("knobs", {**KNOBS, "extra": 1}),
    "no values": post("knobs", {**KNOBS, "values": {}}),
    "values list": post("knobs", {**KNOBS, "values": []}),
    "revert list": post("knobs", {**KNOBS, "revert_to": []}),
    "string value": post("knobs", {**KNOBS, "values": {"batch_max_tokens": "1"}}),
    "true value": post("knobs", {**KNOBS, "values": {"batch_max_tokens": True}}),
    "huge value": post("knobs", {**KNOBS, "values": {"batch_max_tokens": 1e300}}),
    "unknown knob": post("knobs", {**KNOBS, "values": {"no_such_knob": 1}}),
    "fraction": post("knobs", {**KNOBS, "values": {"batch_max_tokens": 512.5}}),
    "too high": post("knobs", {**KNOBS, "values": {"batch_max_tokens": 2**40}}),
    "no epoch": post("knobs", {"values": {"batch_max_tokens": 1024}}),
    "epoch text": post("knobs", {**KNOBS, "if_epoch": "0"}),
    "stale epoch": post("knobs", {**KNOBS, "if_epoch": 5}),
    "mark that is no text": post("knobs", {**KNOBS, "mark": 6}),
    "mark too long": post("knobs", {**KNOBS, "mark": "x" * 65}),
    "mark of two lines": post("knobs", {**KNOBS, "mark": "a\nb"}),
    "lease too long": post("knobs", {**KNOBS, "lease_seconds": 3601}),
    "lease of nothing": post("knobs", {**KNOBS, "lease_seconds": 0}),
    "gate state": post("gate", {"state": "ajar"}),
    "gate lease": post("gate", {**GATE, "lease_seconds": 121}),
    "gate without lease": post("gate", {"state": "closed"}),
    "gate retry": post("gate", {**GATE, "retry_after": -1}),
    "gate key": post("gate", {**GATE, "for": 1}),
    "knobs": post("knobs", {**KNOBS, "mark": "placement=split:6"}),
    "gate": post("gate", GATE),
}
VARYING = {"error", "values", "ceilings", "floors", "lease_remaining_seconds"}
"""What two engines may say differently: figures, and the names of knobs within a text."""
SAME_TEXT = set(CALLS) - {"unknown knob", "fraction", "too high", "no path at all"}


def answers(monkeypatch: pytest.MonkeyPatch, token_file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Each call's answer, of the simulated server and of the real plugin in front of a scheduler of vLLM's shape."""
    from tests.engine_plugin.served import Engine

    monkeypatch.setattr("trimtab_plugin.http.engine_version", lambda: "0.32.0")
    plugin = Engine(str(token_file)).server

    async def ask(client: httpx2.AsyncClient) -> dict[str, Any]:
        found = {}
        for name, (method, path, headers, content) in CALLS.items():
            found[name] = await client.request(method, path, headers=headers, content=content)
        return found

    async def both() -> tuple[dict[str, Any], dict[str, Any]]:
        async with served() as at, httpx2.AsyncClient(base_url=at.url, trust_env=False) as client:
            simulated = await ask(client)
        async with plugin.client() as client:
            return simulated, await ask(client)

    return asyncio.run(both())


def test_every_call_gets_the_real_plugins_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    simulated, real = answers(monkeypatch, tmp_path / "token")
    for name in CALLS:
        ours, theirs = simulated[name], real[name]
        assert ours.status_code == theirs.status_code, name
        assert ours.json().keys() == theirs.json().keys(), name
        for header in ("allow", "www-authenticate", "cache-control", "content-type"):
            assert ours.headers.get(header) == theirs.headers.get(header), (name, header)
        if name in SAME_TEXT and "error" in ours.json():
            assert ours.json()["error"] == theirs.json()["error"], name
    assert {name for name in CALLS if simulated[name].status_code == 200} == {
        "state", "requests", "bearer", "knobs", "gate",
    }  # fmt: skip
    for name in ("engine", "engine_version", "epoch", "gate", "dp_ranks", "api_servers", "scheduler_known"):
        assert simulated["state"].json()[name] == real["state"].json()[name], name
    assert simulated["knobs"].json() == real["knobs"].json()


def test_a_record_has_the_real_plugins_fields() -> None:
    from trimtab_plugin.ring import Ring

    from tests.engine_plugin.test_ring import finished, output

    ring = Ring()
    ring.record(output(100.0, first=[0.25], gaps=[0.02]))
    ring.record(output(101.0, gaps=[0.02], done=[finished(1.2, 0.9)]))
    ring.flush(float("inf"))

    async def ask() -> Any:
        async with served() as at, httpx2.AsyncClient(base_url=at.url, trust_env=False) as client:
            at.advance(20.0)
            return (await client.get("/trimtab/v1/requests")).json()

    page = asyncio.run(ask())
    [real] = ring.page(0)["records"]
    assert page["records"]
    assert page["records"][0].keys() == real.keys()
    assert page.keys() == {"now", *ring.page(0)}


def test_without_a_token_nothing_can_be_changed() -> None:
    async def ask() -> None:
        async with served(token=None) as at, httpx2.AsyncClient(base_url=at.url, trust_env=False) as client:
            refused = await client.post("/trimtab/v1/knobs", json=KNOBS, headers=HEADERS)
            assert refused.status_code == 403
            assert "TRIMTAB_TOKEN_FILE" in refused.json()["error"]
            assert (await client.get("/trimtab/v1/state")).json()["epoch"] == 0

    asyncio.run(ask())
