"""promtool judges our evaluator: it computes the same expressions over the same traces and must find the same values.

promtool compares values bit by bit. It adds series up in no order that is known, and has a power function of its own:
where those are in an expression its values are read from what it prints, and compared to nine digits.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from rules.expression import EvaluationError, parse
from rules.expression.parse import AGGREGATIONS
from rules.readings import Point
from rules.trace import TraceReadings
from tests.prepare import find_program
from tests.rules.expression.random_expressions import (
    ARITHMETIC,
    COMPARISONS,
    INTERVALS,
    LENGTH,
    RANGE_FUNCTIONS,
    Draw,
    Trace,
)

TRACES = 16


@dataclass(frozen=True)
class Case:
    """An expression at a time, and what we say it is; None where we say that it cannot be evaluated."""

    expression: str
    time: float
    found: list[Point] | None


def expressions(draw: Draw) -> Iterator[str]:
    """Some of every function and operator, and some of everything nested."""
    for function in RANGE_FUNCTIONS:
        yield draw.range_call(function)
        yield draw.range_call(function)
        yield draw.range_call(function, "huge")
    for op in AGGREGATIONS:
        yield draw.aggregate(op, draw.vector(1))
    for _ in range(6):
        yield draw.quantile()
    for op in (*ARITHMETIC, *COMPARISONS, *(f"{op} bool" for op in COMPARISONS)):
        yield f"g {op} {draw.scalar(1)}"
        yield f"g {op} c_total"
    for op in ("and", "or", "unless"):
        yield f"{draw.selector()} {op} on (npu) {draw.selector()}"
    for _ in range(4):
        yield f"absent({draw.selector()})"
        yield draw.selector()
        yield f"vector({draw.scalar(3)})"
        yield draw.scalar(3)
        yield f"-{draw.selector()}"
    for _ in range(60):
        yield draw.vector(3)


LAST_DIGITS = re.compile(r"\b(?:avg|sum) |\^")
"""What makes the last digits a matter of the order of series, or of the library."""
JUMPS = re.compile(r"[%]|[!=]=")
"""What makes more of the last digits than last digits."""


def cases(draw: Draw, trace: Trace) -> list[Case]:
    readings = TraceReadings.from_input_series(
        [{"series": series, "values": values} for series, values in trace.series], trace.interval
    )
    found: list[Case] = []
    for text in expressions(draw):
        if LAST_DIGITS.search(text) and JUMPS.search(text):
            continue
        time = draw.time(trace)
        try:
            points = parse(text).named(readings, time)
        except EvaluationError:
            found.append(Case(text, time, None))
            continue
        found.extend(without_nan(Case(text, time, points)))
    return found


def without_nan(case: Case) -> list[Case]:
    """The same case in two that are compared: to promtool what is no number is not equal to itself."""
    points = case.found or []
    if not any(math.isnan(point.value) for point in points):
        return [case]
    bare = [tuple(pair for pair in point.labels if pair[0] != "__name__") for point in points]
    if len(set(bare)) < len(bare):
        return []
    is_nan = [
        Point(labels, float(math.isnan(point.value))) for labels, point in zip(bare, points, strict=True)
    ]
    made = [Case(f"({case.expression}) != bool ({case.expression})", case.time, is_nan)]
    if any(point.labels for point in points):
        numbers = [point for point in points if not math.isnan(point.value)]
        made.append(Case(f"({case.expression}) == ({case.expression})", case.time, numbers))
    return made


LAST = Case("vector(1)", 2.0 * LENGTH * max(INTERVALS), [Point((), 1.0)])
"""promtool takes no readings in after the last of its own rounds before the last time that is asked for."""


def written(trace: Trace, of_trace: list[Case]) -> dict[str, Any]:
    """A unit test as promtool reads it."""
    return {
        "interval": f"{trace.interval}s",
        "input_series": [{"series": series, "values": values} for series, values in trace.series],
        "promql_expr_test": [
            {
                "expr": case.expression,
                "eval_time": f"{round(case.time * 1000)}ms",
                "exp_samples": [
                    {
                        "labels": "{" + ", ".join(f'{name}="{value}"' for name, value in point.labels) + "}",
                        "value": point.value,
                    }
                    for point in case.found or ()
                ],
            }
            for case in (*of_trace, LAST)
        ],
    }


def judged(folder: Path, tests: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    """What promtool says of the tests."""
    program = find_program("promtool")
    assert program is not None
    file = folder / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [], "tests": tests}, sort_keys=False, width=10_000))
    return subprocess.run([program, "test", "rules", str(file)], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def drawn() -> list[tuple[Trace, list[Case]]]:
    """The traces with their cases."""
    return [(trace, cases(draw, trace)) for draw in map(Draw, range(TRACES)) for trace in [draw.trace()]]


def some(
    drawn: list[tuple[Trace, list[Case]]], wanted: Callable[[Case], bool]
) -> list[tuple[Trace, list[Case]]]:
    return [(trace, [case for case in found if wanted(case)]) for trace, found in drawn]


def counted(chosen: list[tuple[Trace, list[Case]]]) -> int:
    return sum(len(found) for _, found in chosen)


@pytest.mark.debian("promtool")
def test_every_value_is_the_one_that_promtool_computes(
    drawn: list[tuple[Trace, list[Case]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exact = some(drawn, lambda case: case.found is not None and not LAST_DIGITS.search(case.expression))
    filled = counted(some(exact, lambda case: bool(case.found)))
    done = judged(tmp_path, [written(trace, found) for trace, found in exact])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    with capsys.disabled():
        told = f"promtool agrees bit by bit on {counted(exact)} expressions over {TRACES} traces"
        sys.stdout.write(f"\n{told}, {filled} of them with elements\n")
    assert counted(exact) >= 1000 and filled > counted(exact) / 2


GOT = re.compile(r"expr: (\".*\"), time: .*,\n\s+exp: (.*)\n\s+got: (.*)\n")


def read(printed: str) -> dict[str, float]:
    """Values by labels, as promtool prints a vector."""
    pairs = re.findall(r"(\{[^}]*\}) ([^,]+)", printed)
    return {labels: float(value) for labels, value in pairs}


@pytest.mark.debian("promtool")
def test_sums_means_and_powers_are_those_of_promtool_to_nine_digits(
    drawn: list[tuple[Trace, list[Case]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    near = some(drawn, lambda case: case.found is not None and bool(LAST_DIGITS.search(case.expression)))
    done = judged(tmp_path, [written(trace, found) for trace, found in near])
    differing = GOT.findall(done.stderr)
    assert len(differing) == done.stderr.count("expr: ")
    for expression, ours, theirs in differing:
        assert read(theirs) == pytest.approx(read(ours), rel=1e-9), expression
    with capsys.disabled():
        told = f"and on {counted(near)} with sums, means and powers to nine digits"
        sys.stdout.write(f"\n{told}, {counted(near) - len(differing)} of them bit by bit\n")
    assert counted(near) >= 200


@pytest.mark.debian("promtool")
def test_what_cannot_be_evaluated_is_what_promtool_cannot_evaluate(
    drawn: list[tuple[Trace, list[Case]]], tmp_path: Path
) -> None:
    refused = some(drawn, lambda case: case.found is None)
    done = judged(tmp_path, [written(trace, found) for trace, found in refused])
    assert done.stderr.count("err: ") == counted(refused) >= 20, done.stderr[-6000:]
