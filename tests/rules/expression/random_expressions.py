"""Random traces in promtool's notation and random expressions over them, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from rules.expression.parse import AGGREGATIONS

RANGE_FUNCTIONS = (
    "rate",
    "increase",
    "changes",
    "deriv",
    "avg_over_time",
    "min_over_time",
    "max_over_time",
    "sum_over_time",
    "count_over_time",
    "last_over_time",
    "quantile_over_time",
)
ARITHMETIC = ("+", "-", "*", "/", "%", "^")
COMPARISONS = ("==", "!=", ">", "<", ">=", "<=")
INTERVALS = (5, 15, 60)
LENGTH = 40
"""Readings of a series, less those that are missing."""
BOUNDS = ("0.1", "0.25", "0.5", "1", "2.5", "+Inf")


@dataclass(frozen=True)
class Trace:
    """`input_series` of a promtool unit test, and the seconds between values."""

    series: tuple[tuple[str, str], ...]
    interval: int


class Draw:
    """Draws traces and expressions."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def trace(self) -> Trace:
        """Gauges with numbers of every kind, counters that begin again, a histogram; all with gaps and ends."""
        series: list[tuple[str, str]] = []
        for npu in ("0", "1", "2"):
            for node in ("a", "b"):
                series.append((f'g{{node="{node}", npu="{npu}"}}', self._gauge(odd=False)))
                if self.random.random() < 0.7:
                    series.append((f'c_total{{node="{node}", npu="{npu}"}}', self._counter()))
            series.append((f'odd{{npu="{npu}"}}', self._gauge(odd=True)))
            steps = [self.random.choice((0, 0, 1, 2, 5)) for _ in BOUNDS]
            for place, bound in enumerate(BOUNDS):
                grown = sum(steps[: place + 1])
                gap = " _ " if self.random.random() < 0.1 else " "
                values = f"0+{grown}x{LENGTH // 2}{gap}{grown * LENGTH}+{grown}x{LENGTH // 2}"
                series.append((f'lat_bucket{{le="{bound}", npu="{npu}"}}', values))
        series.append(
            ("huge", " ".join(self.random.choice(("1e308", "-1e308", "0.1", "3")) for _ in range(LENGTH)))
        )
        series.append(("one", f"3x{LENGTH}"))
        return Trace(tuple(series), self.random.choice(INTERVALS))

    def _gauge(self, *, odd: bool) -> str:
        words: list[str] = []
        for _ in range(LENGTH):
            chance = self.random.random()
            if chance < 0.06:
                words.append("_")
            elif chance < 0.09:
                words.append("stale")
            elif chance < 0.11:
                words.append(f"_x{self.random.randint(2, 12)}")
            elif odd and chance < 0.3:
                words.append(self.random.choice(("NaN", "Inf", "-Inf", "-0", "0")))
            else:
                words.append(self.random.choice((str(self.random.randint(-800, 800) / 8), "7", "-2.5")))
        return " ".join(words)

    def _counter(self) -> str:
        words: list[str] = []
        value = self.random.choice((0.0, 3.0, 1000.0))
        for _ in range(LENGTH):
            chance = self.random.random()
            if chance < 0.05:
                value = self.random.choice((0.0, 1.0))
            value += self.random.choice((0, 0, 1, 2.5, 10, 33.3))
            words.append("_" if chance > 0.93 else f"{value:.2f}")
        return " ".join(words)

    def time(self, trace: Trace) -> float:
        """A time within the trace or soon after it, on the grid of its readings or beside it."""
        steps = self.random.randint(0, LENGTH + 25)
        return steps * trace.interval + self.random.choice((0.0, 0.0, 0.25, 1.0, trace.interval / 2))

    def selector(self) -> str:
        """An instant selector."""
        name = self.random.choice(("g", "g", "c_total", "odd", "one", "lat_bucket", "gone"))
        matchers = self.random.choice(
            (
                "",
                "",
                "",
                '{npu="0"}',
                '{npu!="1"}',
                '{npu=~"0|2"}',
                '{node!~"a.*"}',
                '{node=""}',
                '{npu=~"[01]",x=""}',
            )
        )
        return name + matchers + self._offset()

    def _offset(self) -> str:
        return self.random.choice(("", "", "", "", " offset 30s", " offset 1m30s"))

    def range_call(self, function: str, inner: str = "") -> str:
        """A call of a function over a range of `inner`, by default of any series."""
        inner = inner or self.random.choice(("g", "c_total", "odd", "lat_bucket", 'c_total{npu="0"}', "one"))
        length = self.random.choice(("20s", "1m", "2m30s", "5m", "17m"))
        parameter = f"{self.random.choice(('0.9', '0', '1', '0.333', '-1', '1.5', 'NaN'))}, "
        first = parameter if function == "quantile_over_time" else ""
        return f"{function}({first}{inner}[{length}]{self._offset()})"

    def quantile(self) -> str:
        """A quantile of histograms."""
        q = self.random.choice(("0.5", "0.9", "0.99", "0", "1", "-1", "2", "0.25 + 0.2", "NaN"))
        inner = self.random.choice(
            (
                "lat_bucket",
                "rate(lat_bucket[2m])",
                "rate(lat_bucket[17s])",
                "sum by (le) (rate(lat_bucket[5m]))",
                "sum without (npu) (increase(lat_bucket[1m]))",
                'lat_bucket{le!="+Inf"}',
                'lat_bucket{le=~"1|[+]Inf"}',
                "g",
            )
        )
        return f"histogram_quantile({q}, {inner})"

    def scalar(self, depth: int) -> str:
        """An expression that is one number."""
        if depth <= 0 or self.random.random() < 0.5:
            return self.random.choice(
                ("0", "1", "2", "-3", "0.1", "50", "1e3", "Inf", "-7.5", "0x10", "time()")
            )
        if self.random.random() < 0.2:
            return f"{self.scalar(depth - 1)} {self.random.choice(COMPARISONS)} bool {self.scalar(depth - 1)}"
        return f"({self.scalar(depth - 1)} {self.random.choice(ARITHMETIC)} {self.scalar(depth - 1)})"

    def aggregate(self, op: str, inner: str) -> str:
        """An aggregation of `inner`."""
        grouping = self.random.choice(
            (
                "",
                "by (npu) ",
                "by (node) ",
                "without (npu) ",
                "by () ",
                "by (le) ",
                "without (node, npu) ",
                "by (npu, zz) ",
            )
        )
        return f"{op} {grouping}({inner})"

    def vector(self, depth: int) -> str:
        """An expression that is a vector."""
        if depth <= 0:
            return self.selector()
        inner = depth - 1
        kind = self.random.randrange(10)
        if kind == 0:
            return self.selector()
        if kind <= 2:
            return self.range_call(self.random.choice(RANGE_FUNCTIONS))
        if kind <= 4:
            return self.aggregate(self.random.choice(AGGREGATIONS), self.vector(inner))
        if kind == 5:
            return self.quantile()
        if kind == 6:
            return self.with_scalar(self.vector(inner), self.scalar(1))
        if kind == 7:
            return self.of_two(self.vector(inner), self.vector(inner))
        if kind == 8:
            return self.random.choice(
                (f"absent({self.vector(inner)})", f"-({self.vector(inner)})", f"vector({self.scalar(2)})")
            )
        op = self.random.choice(("and", "or", "unless"))
        return f"({self.vector(inner)}) {op}{self._matching()} ({self.vector(inner)})"

    def with_scalar(self, vector: str, scalar: str) -> str:
        """A vector and a number, in one order or the other."""
        left, right = (f"({vector})", scalar) if self.random.random() < 0.6 else (scalar, f"({vector})")
        return f"{left} {self._operator()} {right}"

    def of_two(self, left: str, right: str) -> str:
        """Two vectors with an operator and a way to match them."""
        matching = self._matching()
        if matching and self.random.random() < 0.4:
            side = self.random.choice(("group_left", "group_right"))
            include = self.random.choice(
                ("()", " (le)", " (zz)") if "on (npu, node)" in matching else ("()", " (node)")
            )
            matching += f" {side}{include}"
        return f"({left}) {self._operator()}{matching} ({right})"

    def _operator(self) -> str:
        if self.random.random() < 0.5:
            return self.random.choice(ARITHMETIC)
        return self.random.choice(COMPARISONS) + self.random.choice(("", " bool"))

    def _matching(self) -> str:
        return self.random.choice(
            ("", "", " on (npu)", " on (npu, node)", " ignoring (node)", " ignoring (le)", " on ()")
        )
