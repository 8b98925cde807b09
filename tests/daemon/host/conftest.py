"""The laid host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.host.laid import LaidHost


@pytest.fixture
def laid(tmp_path: Path) -> LaidHost:
    return LaidHost(tmp_path)
