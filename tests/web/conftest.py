"""A seeded store, a stand-in daemon and a client that speaks to the face without a socket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from store import Store, open_store
from tests.web.seeded import NOW, FakeBody, fill
from web.app import create_app


@pytest.fixture
def empty_store() -> Iterator[Store]:
    """A store with nothing in it."""
    store = open_store("sqlite:///:memory:")
    yield store
    store.close()


@pytest.fixture
def store(empty_store: Store) -> Store:
    """A store with three campaigns, the newest still confirming."""
    fill(empty_store, running=True)
    return empty_store


@pytest.fixture
def body() -> FakeBody:
    """A daemon in mode act."""
    return FakeBody()


@pytest.fixture
def client(body: FakeBody, store: Store) -> Iterator[TestClient]:
    """The face without a token, on loopback."""
    with TestClient(
        create_app(body, store, None, clock=lambda: NOW), base_url="http://127.0.0.1:9470"
    ) as client:
        yield client
