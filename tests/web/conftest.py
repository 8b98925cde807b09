"""A seeded store, a stand-in daemon and a client that speaks to the face without a socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, sync_playwright

from store import Store, open_store
from tests.prepare import find_program
from tests.web.browsing import ARGUMENTS, Visit
from tests.web.fake_body import FakeBody
from tests.web.seeded import NOW, fill
from web.app import create_app

_shared_body = FakeBody()


@pytest.fixture
def empty_store() -> Iterator[Store]:
    """A store with nothing in it."""
    store = open_store("sqlite:///:memory:")
    yield store
    store.close()


@pytest.fixture
def store(empty_store: Store) -> Store:
    """A store of this test's own with three campaigns, the newest still confirming."""
    fill(empty_store, running=True)
    return empty_store


@pytest.fixture(scope="session")
def read_store() -> Iterator[Store]:
    """The same store for every test that only reads it."""
    store = open_store("sqlite:///:memory:")
    fill(store, running=True)
    yield store
    store.close()


@pytest.fixture(scope="session")
def _shared_client(read_store: Store) -> Iterator[TestClient]:
    app = create_app(_shared_body, read_store, None, clock=lambda: NOW)
    with TestClient(app, base_url="http://127.0.0.1:9470") as client:
        yield client


@pytest.fixture
def body() -> FakeBody:
    """A daemon in mode act that has been told nothing yet."""
    _shared_body.__init__()  # type: ignore[misc]
    return _shared_body


@pytest.fixture
def client(_shared_client: TestClient, body: FakeBody) -> TestClient:
    """The face without a token, on loopback, over `body` and a store that is only read."""
    return _shared_client


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for a file: it keeps an event loop running, in which other tests could not begin theirs."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_program("chromium"), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Any]:
    opened: list[Visit] = []

    def open_page(**options: Any) -> Visit:
        opened.append(Visit(browser, **options))
        return opened[-1]

    yield open_page
    for one in opened:
        one.close()
        assert one.complaints == []
