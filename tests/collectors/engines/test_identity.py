"""What a server says of itself, in each of the shapes that servers answer in."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.engines.identity import Identity, IdentitySource, read_answer
from tests.collectors.page_server import PageServer, page_server


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ('{"version": "0.32.0"}', Identity("0.32.0")),
        (json.dumps({"vllm_config": "model='q', kv_transfer_config=None, x=1"}), Identity(role="both")),
        (
            json.dumps({"vllm_config": "kv_transfer_config=KVTransferConfig(kv_role='kv_consumer', n=2)"}),
            Identity(role="decode"),
        ),
        (
            json.dumps({"vllm_config": {"kv_transfer_config": {"kv_role": "kv_producer"}}}),
            Identity(role="prefill"),
        ),
        (
            json.dumps({"vllm_config": json.dumps({"kv_transfer_config": {"kv_role": "kv_producer"}})}),
            Identity(role="prefill"),
        ),
        ('{"version": "0.5.4", "disaggregation_mode": "decode"}', Identity("0.5.4", "decode")),
        ('{"version": "0.5.4", "disaggregation_mode": "null"}', Identity("0.5.4", "both")),
        ('{"version": 5, "disaggregation_mode": 7}', Identity()),
        ('{"version": ""}', Identity()),
        (json.dumps({"version": "x" * 65}), Identity()),
        ('{"version": "a\\nb"}', Identity()),
        ("[1, 2]", Identity()),
        ("", Identity()),
        ("<html>not here</html>", Identity()),
        ("[" * 100_000, Identity()),
    ],
)
def test_an_answer(text: str, identity: Identity) -> None:
    assert read_answer(text) == identity


@given(st.text(max_size=200))
def test_no_answer_breaks_the_reader(text: str) -> None:
    read_answer(text)


def test_a_server_without_the_routes_is_no_fault() -> None:
    with page_server(PageServer(b"", status=404)) as server:
        assert asyncio.run(IdentitySource(server.url).ask("vllm")) == Identity()
    assert [path for path, _ in server.asked] == ["/version", "/server_info"]


def test_a_server_that_fails_is_noted() -> None:
    with page_server(PageServer(b"", status=500)) as server:
        found = asyncio.run(IdentitySource(server.url).ask("sglang"))
    assert found.version is None
    assert found.notes == (f"{server.url}/server_info: HTTP 500",)
    assert len(server.asked) == 1


def test_nothing_more_is_asked_than_is_unknown() -> None:
    with page_server(PageServer(b'{"version": "0.5.4", "disaggregation_mode": "prefill"}')) as server:
        found = asyncio.run(IdentitySource(server.url, headers={"Authorization": "Bearer k"}).ask("sglang"))
    assert found == Identity("0.5.4", "prefill")
    assert [path for path, _ in server.asked] == ["/server_info"]
    assert server.asked[0][1]["authorization"] == "Bearer k"


def test_a_role_that_is_known_is_not_asked_for() -> None:
    with page_server(PageServer(b'{"version": "0.32.0"}')) as server:
        found = asyncio.run(IdentitySource(server.url).ask("vllm", "decode"))
    assert found == Identity("0.32.0", "decode")
    assert [path for path, _ in server.asked] == ["/version"]


def test_mindie_is_asked_nothing() -> None:
    assert asyncio.run(IdentitySource("http://nobody.invalid").ask("mindie")) == Identity()
