"""perf's lines are read as figures, and what is not counted is told apart from zero."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collectors.host.perf import PerfStat, parse_perf_stat, perf_command, stalled_ratios

GOOD = """\
# started on a day
123400,,stalled-cycles-frontend,1000,100.00,12.34,frontend cycles idle
500000,,stalled-cycles-backend:u,1000,100.00,50.00,backend cycles idle
1000000,,cycles,1000,100.00,,
"""


def test_the_command_is_an_argument_list() -> None:
    assert perf_command("perf", [7, 8], 1.5) == (
        "perf", "stat", "-x,", "-e", "stalled-cycles-frontend,stalled-cycles-backend,cycles",
        "-p", "7,8", "--timeout", "1500",
    )  # fmt: skip


def test_shares_of_the_cycles() -> None:
    found = parse_perf_stat(GOOD)
    assert found.missing == {}
    assert stalled_ratios(found) == {"frontend": 0.1234, "backend": 0.5}


def test_not_counted_is_not_zero() -> None:
    found = parse_perf_stat(GOOD.replace("123400", "<not supported>"))
    assert found.missing == {"stalled-cycles-frontend": "not supported"}
    assert stalled_ratios(found) == {"backend": 0.5}
    assert stalled_ratios(parse_perf_stat(GOOD.replace("1000000", "<not counted>"))) == {}
    assert stalled_ratios(parse_perf_stat(GOOD.replace("1000000", "0"))) == {}


def test_figures_of_another_sort_are_told() -> None:
    assert parse_perf_stat("1.2.3,,cycles,1").missing == {"cycles": "unreadable: '1.2.3'"}
    assert parse_perf_stat("Error: no such event\n\n7,,task-clock,1\n") == PerfStat({}, {})


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    assert all(0 <= ratio <= 1 for ratio in stalled_ratios(parse_perf_stat(text + GOOD)).values())
