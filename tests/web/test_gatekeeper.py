"""Who may ask: Host, Origin, content type, size, token, sub-path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from store import Store
from tests.web.fake_body import FakeBody
from tests.web.seeded import NOW
from web.app import create_app
from web.gatekeeper import MAX_BODY_BYTES
from web.sessions import COOKIE, FAILURES_ALLOWED

TOKEN = "correct horse battery staple"
JSON = {"content-type": "application/json"}


def face(body: FakeBody, store: Store, base_url: str = "http://127.0.0.1:9470", **options: Any) -> TestClient:
    options = {"token": None, "clock": lambda: NOW} | options
    return TestClient(create_app(body, store, **options), base_url=base_url, follow_redirects=False)


@pytest.fixture
def guarded(body: FakeBody, read_store: Store) -> Iterator[TestClient]:
    with face(body, read_store, token=TOKEN) as client:
        yield client


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:9470", "127.0.0.1:1", "[::1]:9470", "[::1]", "LocalHost"]
)
def test_loopback_names_are_served(client: TestClient, host: str) -> None:
    assert client.get("/api/v1/live", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::2]"]
)
def test_other_hosts_are_refused(client: TestClient, host: str) -> None:
    answer = client.get("/api/v1/live", headers={"host": host})
    assert answer.status_code == 400
    assert "web.allowed_hosts" in answer.json()["detail"]


def test_configured_hosts_replace_the_default(body: FakeBody, read_store: Store) -> None:
    with face(body, read_store, "https://trimtab.example", allowed_hosts=["trimtab.example"]) as client:
        assert client.get("/api/v1/live").status_code == 200
        assert client.get("/api/v1/live", headers={"host": "localhost"}).status_code == 400


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "http://127.0.0.1:3000", "null", "file://", "http://localhost:9470", "junk"],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_foreign_origins_are_refused(client: TestClient, body: FakeBody, origin: str, method: str) -> None:
    answer = client.request(method, "/api/v1/pause", headers=JSON | {"origin": origin}, json={})
    assert answer.status_code == 403
    assert body.orders == []


def test_its_own_origin_may_write(client: TestClient, body: FakeBody) -> None:
    answer = client.post("/api/v1/pause", json={}, headers={"origin": "http://127.0.0.1:9470"})
    assert answer.status_code == 200
    assert body.orders == [("pause",)]


def test_a_public_name_behind_a_proxy_may_write(body: FakeBody, read_store: Store) -> None:
    with face(body, read_store, allowed_hosts=["127.0.0.1", "ops.example"]) as client:
        own = client.post("/api/v1/pause", json={}, headers={"origin": "https://ops.example"})
        other = client.post("/api/v1/pause", json={}, headers={"origin": "https://ops.example:8443"})
    assert (own.status_code, other.status_code) == (200, 403)


def test_a_write_that_a_browser_marks_as_cross_site_is_refused(client: TestClient, body: FakeBody) -> None:
    assert client.post("/api/v1/pause", json={}, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert body.orders == []


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"]
)
def test_a_write_that_is_not_json_is_refused(client: TestClient, body: FakeBody, media_type: str) -> None:
    answer = client.post("/api/v1/pause", content=b"{}", headers={"content-type": media_type})
    assert answer.status_code == 415
    assert body.orders == []


def test_a_large_body_is_refused_whether_or_not_it_says_so(client: TestClient, body: FakeBody) -> None:
    large = b'{"values": {"' + b"x" * MAX_BODY_BYTES + b'": 1}}'
    said = client.post("/api/v1/apply", content=large, headers=JSON)
    unsaid = client.post("/api/v1/apply", content=iter([large[:9], large[9:]]), headers=JSON)
    assert (said.status_code, unsaid.status_code) == (413, 413)
    assert body.orders == []


def test_every_answer_carries_the_policy(client: TestClient) -> None:
    for path in ("/", "/api/v1/live", "/static/theme.js", "/nothing"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] in ("no-store", "no-cache")


def test_without_the_token_there_is_nothing_but_health(guarded: TestClient, body: FakeBody) -> None:
    assert guarded.get("/api/v1/live").status_code == 401
    assert guarded.get("/api/v1/live").headers["www-authenticate"] == "Bearer"
    assert guarded.get("/api/openapi.json").status_code == 401
    assert guarded.post("/api/v1/pause", json={}).status_code == 401
    assert guarded.get("/metrics").status_code == 401
    assert guarded.get("/api/v1/health").status_code == 200
    assert body.orders == []


@pytest.mark.parametrize("given", ["Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer", f"Bearer {TOKEN}x"])
def test_a_wrong_token_is_refused(guarded: TestClient, given: str) -> None:
    assert guarded.get("/api/v1/live", headers={"authorization": given}).status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_the_token_opens_the_api(guarded: TestClient, scheme: str) -> None:
    answer = guarded.get("/api/v1/live", headers={"authorization": f"{scheme} {TOKEN}"})
    assert answer.status_code == 200


def test_a_page_leads_to_the_form_and_the_form_back_to_the_page(guarded: TestClient) -> None:
    asked = guarded.get("/trials/2")
    assert (asked.status_code, asked.headers["location"]) == (303, "../login?next=trials%2F2")
    form = guarded.get("/login?next=trials%2F2")
    assert 'name="next" value="trials/2"' in form.text
    signed = guarded.post("/login", data={"token": TOKEN, "next": "trials/2"})
    assert (signed.status_code, signed.headers["location"]) == (303, "./trials/2")
    cookie = signed.headers["set-cookie"]
    assert all(part in cookie for part in (COOKIE, "HttpOnly", "SameSite=strict", "Path=/"))
    assert TOKEN not in cookie
    assert guarded.get("/trials/2").status_code == 200
    assert guarded.post("/api/v1/pause", json={}).status_code == 200


@pytest.mark.parametrize(
    "following", ["//evil.example", "https://evil.example", "../x", "trials/2?x", "\\evil"]
)
def test_the_form_leads_nowhere_else(guarded: TestClient, following: str) -> None:
    answer = guarded.post("/login", data={"token": TOKEN, "next": following})
    assert answer.headers["location"] == "./"


def test_the_form_refuses_a_wrong_token_and_then_closes_for_a_while(guarded: TestClient) -> None:
    for _ in range(FAILURES_ALLOWED):
        answer = guarded.post("/login", data={"token": "wrong"})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
    assert guarded.post("/login", data={"token": TOKEN}).status_code == 429


def test_the_form_is_not_open_to_other_sites(guarded: TestClient) -> None:
    answer = guarded.post("/login", data={"token": TOKEN}, headers={"origin": "http://evil.example"})
    assert answer.status_code == 403


def test_without_a_token_there_is_no_form(client: TestClient) -> None:
    assert client.get("/login").status_code == 404


@pytest.mark.parametrize("stripped", [True, False])
def test_a_sub_path_works_whether_or_not_the_proxy_strips_it(
    body: FakeBody, read_store: Store, stripped: bool
) -> None:
    prefix = "" if stripped else "/npu/trimtab"
    with face(body, read_store, root_path="/npu/trimtab", token=TOKEN) as client:
        assert client.get(f"{prefix}/trials/2").headers["location"] == "../login?next=trials%2F2"
        signed = client.post(f"{prefix}/login", data={"token": TOKEN})
        assert "Path=/npu/trimtab" in signed.headers["set-cookie"]
        bearer = {"authorization": f"Bearer {TOKEN}"}
        for path in ("/", "/trials/2", "/api/v1/live", "/static/theme.js", "/static/js/live.js"):
            assert client.get(prefix + path, headers=bearer).status_code == 200


def test_a_sub_path_without_its_last_slash_gets_it(body: FakeBody, read_store: Store) -> None:
    with face(body, read_store, root_path="/npu/trimtab") as client:
        answer = client.get("/npu/trimtab")
    assert (answer.status_code, answer.headers["location"]) == (303, "trimtab/")
