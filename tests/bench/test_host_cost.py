"""The benchmark of a big host reads what it laid, and a later pass over its threads is a part of the first."""

from __future__ import annotations

import json

import pytest

from bench import host_cost


@pytest.fixture(autouse=True)
def smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_cost, "STRANGERS", 50)
    monkeypatch.setattr(host_cost, "INTERRUPTS", 50)
    monkeypatch.setattr(host_cost, "PASSES", 4)


def test_every_source_of_files_is_measured() -> None:
    found = host_cost.measure(320)
    assert set(found) == {
        "numa", "engine_processes", "engine_threads", "engine_pages", "host_settings", "interrupts",
        "engine_threads, real", "engine_pages, real",
    }  # fmt: skip
    first, later = found["engine_threads"]
    assert 0 < later < first


def test_prints_a_table_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert host_cost.main(["--threads", "32"]) == 0
    assert "engine_threads, real" in capsys.readouterr().out
    assert host_cost.main(["--threads", "32", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["numa"]["first_ms"] > 0
