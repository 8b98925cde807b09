"""A store in memory, its journal and an engine without traffic."""

from __future__ import annotations

import pytest

from change.journal import Journal
from store import Store, open_store
from tests.change.plain_engine import PlainEngine


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Store:
    opened = open_store("sqlite:///:memory:")
    request.addfinalizer(opened.close)
    return opened


@pytest.fixture
def journal(store: Store) -> Journal:
    return Journal(store, "http://127.0.0.1:8000")


@pytest.fixture
def engine() -> PlainEngine:
    return PlainEngine()
