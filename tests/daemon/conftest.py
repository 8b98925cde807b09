"""Nothing of the person who runs the tests is read or written: state, configuration and secrets are the test's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config-home"))
    for name in list(os.environ):
        if name.startswith("TRIMTAB_") and name not in ("TRIMTAB_NO_SKIP", "TRIMTAB_CORPUS"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """A command sets the log up for its whole process; the next test begins anew."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
