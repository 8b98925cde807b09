"""A pasted page of an engine becomes its canonical samples; the rest is listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from collectors.metrics_paste import parse_metrics_paste

PAGE = (Path(__file__).parent / "fixtures" / "vllm" / "vllm_0.32.prom").read_text()


def parsed(text: str) -> dict[str, Any]:
    return parse_metrics_paste(text)


def test_samples_with_their_units() -> None:
    found = parsed(PAGE)
    assert found["error"] is None
    by_name = {one["name"]: one for one in found["samples"]}
    running = by_name["trimtab_engine_requests_running"]
    assert (running["unit"], set(running["labels"])) == ("requests", {"engine", "model"})
    first = by_name["trimtab_engine_ttft_seconds"]["value"]
    assert first["bounds"][-1] == "+Inf" and len(first["counts"]) == len(first["bounds"])


def test_families_that_are_not_read_are_listed() -> None:
    found = parsed("# TYPE my_own gauge\nmy_own 1\n# TYPE my_own_created gauge\nmy_own_created 1\n" + PAGE)
    assert "family my_own is not read" in found["notes"]
    assert not [note for note in found["notes"] if "_created" in note or "num_requests_running" in note]


def test_a_page_that_is_none_has_a_reason() -> None:
    for text in ("", "hello\n", PAGE[: len(PAGE) // 2].rstrip("\n")[:-3]):
        found = parsed(text)
        assert found["error"] and found["samples"] == []
