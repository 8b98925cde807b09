"""A real program that stands for the engine's process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.daemon.host.real_program import Program


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    """The engine's process, as `trimtab serve` would tell."""
    running = Program()
    monkeypatch.setenv("TRIMTAB_ENGINE_PID", str(running.process.pid))
    yield running
    running.end()
