"""The plugin's cost a step and a record stays under its limits."""

from __future__ import annotations

import json

import pytest

from bench import plugin_overhead


def test_no_limit_is_broken() -> None:
    # The least disturbed of several short runs: other work on the machine must not fail this.
    over = [cost for cost in plugin_overhead.measure(calls=1000, repeats=25) if not cost.within]
    assert not over


def test_the_benchmark_prints_a_table_and_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = [
        plugin_overhead.Cost("a step", 0.05, 0.35, 0.3, 1.5),
        plugin_overhead.Cost("more", 0.0, 9.0, 9.0, 1.5),
    ]
    monkeypatch.setattr(plugin_overhead, "measure", lambda: costs)
    assert plugin_overhead.main([]) == 1
    assert "OVER" in capsys.readouterr().out
    assert plugin_overhead.main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out)["within"] is False
