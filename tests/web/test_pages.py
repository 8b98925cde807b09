"""The pages: they are there, they hold their data, and every link is relative."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from fastapi.testclient import TestClient

from change.engine import EngineUnreachable
from store import Store
from tests.web.fake_body import FakeBody
from tests.web.seeded import NOW
from web.app import create_app

PAGES = ["/", "/trials", "/trials/2", "/alerts", "/journal", "/knobs"]


def data_of(text: str) -> Any:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(unescape(found[1]))


@pytest.mark.parametrize("path", PAGES)
def test_every_address_in_a_page_is_relative_and_exists(client: TestClient, path: str) -> None:
    page = client.get(path)
    assert page.status_code == 200
    addresses = re.findall(r'(?:href|src)="([^"#]+)"', page.text)
    assert addresses
    for address in addresses:
        assert re.match(r"\.\.?/", address), address
        assert client.get(str(page.url.join(address))).status_code == 200, address


@pytest.mark.parametrize("path", PAGES)
def test_no_page_needs_what_its_policy_forbids(client: TestClient, path: str) -> None:
    text = client.get(path).text
    assert not re.search(r"<script(?![^>]*(src=|application/json))", text)
    assert not re.search(r"<style|\sstyle=|\son\w+=", text)


def test_scripts_load_one_another_by_relative_addresses_and_nothing_from_elsewhere(
    client: TestClient,
) -> None:
    seen, waiting = (
        set(),
        {f"/static/js/{name}.js" for name in ("live", "trials", "alerts", "run", "journal", "knobs")},
    )
    while waiting:
        path = waiting.pop()
        seen.add(path)
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["content-type"].startswith("text/javascript")
        assert not re.search(r"https?://(?!www\.w3\.org)", answer.text), path
        waiting |= {f"/static/js/{name}" for name in re.findall(r'from "\./([\w.]+)"', answer.text)} - seen


def test_the_newest_campaign_is_shown_first(client: TestClient) -> None:
    data = data_of(client.get("/trials").text)
    assert (data["campaign"]["id"], data["follow"]) == (3, True)
    data = data_of(client.get("/trials/2").text)
    assert (data["campaign"]["id"], data["follow"]) == (2, False)


def test_an_empty_store_has_its_pages_too(body: FakeBody, empty_store: Store) -> None:
    client = TestClient(create_app(body, empty_store, None, clock=lambda: NOW), base_url="http://localhost")
    trials = client.get("/trials")
    assert data_of(trials.text)["campaign"] is None
    assert "trimtab tune" in trials.text
    assert data_of(client.get("/journal").text)["journal"] == []


def test_a_daemon_that_knows_nothing_has_its_pages_too(client: TestClient, body: FakeBody) -> None:
    body.broken = EngineUnreachable("nobody answers")
    assert data_of(client.get("/").text)["live"] == {"now": NOW}
    assert data_of(client.get("/knobs").text)["problem"] == "nobody answers"


def test_stored_text_cannot_leave_its_script_element(client: TestClient, body: FakeBody) -> None:
    hostile = "</script><script>alert(1)</script>"
    body.changes = {"notices": [{"level": "info", "text": hostile}]}
    page = client.get("/").text
    assert hostile not in page
    assert data_of(page)["live"]["notices"][0]["text"] == hostile


@pytest.mark.parametrize("path", ["/nothing", "/trials/99", "/trials/x", "/trials/"])
def test_what_is_not_there_is_said_on_a_page_to_people_and_as_json_to_programs(
    client: TestClient, path: str
) -> None:
    page = client.get(path, headers={"accept": "text/html"})
    assert page.status_code == 404
    assert "Nothing is here" in page.text
    assert client.get(path, headers={"accept": "application/json"}).json()["detail"]
