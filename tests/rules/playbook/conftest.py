"""A store in memory for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from store import Store, open_store
from tests.rules.playbook.stand import Stand


@pytest.fixture
def store() -> Iterator[Store]:
    opened = open_store("sqlite:///:memory:")
    yield opened
    opened.close()


@pytest.fixture
def stand(store: Store) -> Stand:
    return Stand(store)
