"""The analysis as text, JSON and one page of HTML that needs and runs nothing."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

from collectors.profile.findings import examine
from collectors.profile.read import plan, read
from collectors.profile.report import Analysis, as_dict, as_text, size
from collectors.profile.report_html import as_html
from tests.collectors.profile import captures
from tests.collectors.profile.captures import Run, run_after_run

HOSTILE = "<img src=x onerror=alert(1)>"


def analysis(folder: Path, name: str = "MatMulV2") -> Analysis:
    out = folder / "rank0"
    captures.kernels(
        out / "kernel_details.csv", run_after_run([Run(name, 0, 80.0, name=name)] * 4, gap_us=90.0)
    )
    captures.steps(out / "step_trace_time.csv", 320.0, 0.0, 270.0)
    captures.table(
        out / "memory_record.csv",
        ("Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)"),
        [(name, captures.stamp(1), 1.0, 2.0)],
    )
    reading = read(plan([folder]))
    return Analysis(reading.profiles, tuple(examine(reading.profiles)), (f"{HOSTILE}: was cut",))


def test_text_has_the_figures_the_threshold_and_what_to_try(tmp_path: Path) -> None:
    page = as_text(analysis(tmp_path))
    assert "rank 0: text form, computing 320.0 us over 4 tasks, step 7 computing 320.0 us" in page
    assert re.search(r"\[high\] The device is idle for much of the time  \(idle_share\)", page)
    assert "    idle: 45.8%" in page
    assert "  held to: 15% of the time" in page
    assert "  try: graph mode" in page
    assert page.rstrip().endswith(f"{HOSTILE}: was cut")


def test_a_name_cannot_move_the_cursor_of_a_terminal(tmp_path: Path) -> None:
    page = as_text(analysis(tmp_path, "\x1b[2JMatMul"))
    assert "\x1b" not in page
    assert "[2JMatMul" in page


def test_json_has_base_units_and_no_spans(tmp_path: Path) -> None:
    found = json.loads(json.dumps(as_dict(analysis(tmp_path)), allow_nan=False))
    (profile,) = found["profiles"]
    assert (profile["rank"], profile["compute_tasks"]) == (0, 4)
    assert abs(profile["computing_seconds"] - 320e-6) < 1e-12
    assert profile["memory"][0]["peak_reserved_bytes"] == 2 * 1024**2
    assert "spans" not in profile["memory"][0]
    idle = next(f for f in found["findings"] if f["id"] == "idle_share")
    assert idle["figures"][0]["unit"] == "share"
    assert found["vllm_ascend"] is None


class Seen(HTMLParser):
    """The tags of a page, and its attributes that lead elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.outside += [name for name, _ in attributes if name in ("src", "href") or name.startswith("on")]


def test_html_runs_nothing_loads_nothing_and_shows_hostile_names_as_text(tmp_path: Path) -> None:
    page = as_html(analysis(tmp_path, HOSTILE))
    seen = Seen()
    seen.feed(page)
    assert not seen.tags & {"script", "img", "link", "iframe", "object"}
    assert seen.outside == []
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    assert {"svg", "table", "section"} <= seen.tags


def test_sizes_are_read_easily() -> None:
    assert [size(value) for value in (0, 1023, 1024, 3 * 1024**3, 5 * 1024**5)] == [
        "0 bytes",
        "1,023 bytes",
        "1.0 KiB",
        "3.0 GiB",
        "5,120.0 TiB",
    ]
