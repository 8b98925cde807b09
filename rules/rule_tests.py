"""Tests of rules, in the files of `promtool test rules`: which alerts must fire at which time of a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rules.alert import Alert
from rules.replay import Step, replay
from rules.rule import ALERT_NAME, RuleError, RuleGroup
from rules.rule_fields import Fields, Page, shown
from rules.rule_file import file_text
from rules.trace import TraceError, TraceReadings
from rules.yaml_reading import YamlMistake, parse

DEFAULT_INTERVAL_SECONDS = 60.0
"""Of evaluations, as promtool has it."""
_YEAR_SECONDS = 366 * 86400.0

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Expected:
    """The alerts of one rule that must fire at a time: labels (with `alertname`) and annotations of each."""

    at: float
    rule: str
    alerts: tuple[tuple[Pairs, Pairs], ...]
    source: str


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace with what is expected of it."""

    name: str
    readings: TraceReadings
    expected: tuple[Expected, ...]
    source: str


@dataclass(frozen=True, slots=True)
class RuleTests:
    """The tests of one file and the rules they are about; `rule_files` is empty where it names none."""

    name: str
    rule_files: tuple[Path, ...]
    evaluation_interval: float
    traces: tuple[Trace, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One expectation that was not met, in words."""

    source: str
    trace: str
    at: float
    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Passage:
    """When an alert entered a state."""

    trace: str
    at: float
    rule: str
    state: str
    labels: Pairs
    value: float


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of the tests of a file: what differed, and when each alert fired and was resolved."""

    name: str
    traces: int
    expectations: int
    differences: tuple[Difference, ...]
    passages: tuple[Passage, ...]


def read_tests(path: Path) -> RuleTests:
    """Read a test file. Raises `RuleError` with one line for each mistake."""
    text, name = file_text(path), str(path)
    try:
        document = parse(text)
    except YamlMistake as error:
        raise RuleError(f"{name}:{error.line}: {error}" if error.line else f"{name}: {error}") from error
    page = Page(name, document)
    top = Fields(page, (), document.values, "test file")
    files = [path.parent / one for one in top.items("rule_files") if isinstance(one, str)]
    interval = top.duration("evaluation_interval", DEFAULT_INTERVAL_SECONDS, 0.001, _YEAR_SECONDS)
    top.items("group_eval_order")
    traces = [
        _trace(Fields(page, ("tests", index), given, f"test {index + 1}"))
        for index, given in enumerate(top.items("tests"))
    ]
    top.done()
    if page.mistakes:
        raise RuleError("\n".join(page.mistakes))
    return RuleTests(name, tuple(files), interval, tuple(one for one in traces if one is not None))


def judge(tests: RuleTests, rules: Callable[[Sequence[Path]], Sequence[RuleGroup]]) -> Judged:
    """Replay every trace of a file and compare; `rules` gives the rules of the files it names, which may be none.

    Raises `RuleError` for rules that cannot be used, and for traces of too many steps.
    """
    groups = rules(tests.rule_files)
    known = {rule.name for group in groups for rule in group.rules}
    differences: list[Difference] = []
    passages: list[Passage] = []
    for trace in tests.traces:
        steps = _steps(groups, trace, tests.evaluation_interval)
        passages += _passages(trace.name, steps)
        for step in steps:
            for rule, error in step.errors:
                text = f"cannot be evaluated: {error}"
                differences.append(Difference(trace.source, trace.name, step.at, rule, text))
        for one in trace.expected:
            differs = _difference(one, steps) if one.rule in known else f"there is no rule {one.rule}"
            if differs is not None:
                differences.append(Difference(one.source, trace.name, one.at, one.rule, differs))
    expectations = sum(len(trace.expected) for trace in tests.traces)
    return Judged(tests.name, len(tests.traces), expectations, tuple(differences), tuple(passages))


def _steps(groups: Sequence[RuleGroup], trace: Trace, interval: float) -> list[Step]:
    until = max([trace.readings.end, *(one.at for one in trace.expected)])
    try:
        return list(replay(groups, trace.readings, until, interval))
    except ValueError as error:
        raise RuleError(f"{trace.source}: {trace.name}: {error}") from error


def _passages(trace: str, steps: Iterable[Step]) -> list[Passage]:
    return [
        Passage(trace, step.at, alert.rule, alert.state, alert.labels, alert.value)
        for step in steps
        for alert in step.changes
        if alert.state != "pending"
    ]


def _difference(expected: Expected, steps: Sequence[Step]) -> str | None:
    """What differs at the last evaluation up to the time, None if nothing does."""
    before = [step for step in steps if step.at <= expected.at]
    got = sorted(_pairs(alert) for alert in before[-1].firing(expected.rule)) if before else []
    wanted = sorted(expected.alerts)
    if got == wanted:
        return None
    missing = [one for one in wanted if one not in got]
    surplus = [one for one in got if one not in wanted]
    parts = [f"{_written(*one)} must fire and does not" for one in missing]
    parts += [f"{_written(*one)} fires and must not" for one in surplus]
    return "; ".join(parts) or "the same alert is expected twice"


def _pairs(alert: Alert) -> tuple[Pairs, Pairs]:
    return alert.labels, tuple(sorted(alert.annotations.items()))


def _written(labels: Pairs, annotations: Pairs) -> str:
    own = ", ".join(f"{name}={value!r}" for name, value in labels if name != ALERT_NAME)
    said = ", ".join(f"{name}={value!r}" for name, value in annotations)
    return f"{{{own}}}" + (f" with {said}" if said else "")


def _trace(fields: Fields) -> Trace | None:
    name = fields.text("name") or fields.what
    interval = fields.duration("interval", DEFAULT_INTERVAL_SECONDS, 0.001, _YEAR_SECONDS)
    series = fields.items("input_series")
    for key in ("external_labels", "external_url"):
        fields.take(key)
    if fields.items("promql_expr_test"):
        fields.wrong("promql_expr_test", "only alerts are tested here: leave it to promtool")
    expected = [
        _expected(
            Fields(fields.page, (*fields.path, "alert_rule_test", index), given, f"{name}, alert {index + 1}")
        )
        for index, given in enumerate(fields.items("alert_rule_test"))
    ]
    fields.done()
    given = [one for one in series if isinstance(one, dict)]
    if len(given) < len(series):
        fields.wrong("input_series", "each must be `series` and `values`")
    try:
        readings = TraceReadings.from_input_series(given, interval)
    except TraceError as error:
        fields.wrong("input_series", str(error))
        return None
    made = tuple(one for one in expected if one is not None)
    return Trace(name, readings, made, fields.page.source(fields.path))


def _expected(fields: Fields) -> Expected | None:
    at = fields.duration("eval_time", 0.0, 0.0, _YEAR_SECONDS)
    rule = fields.text("alertname", needed=True)
    alerts = []
    for index, given in enumerate(fields.items("exp_alerts")):
        inner = Fields(fields.page, (*fields.path, "exp_alerts", index), given or {}, fields.what)
        labels = _texts(inner, "exp_labels")
        if rule is not None:
            labels[ALERT_NAME] = rule
        # An empty label is none at all.
        kept = {name: value for name, value in labels.items() if value}
        annotations = _texts(inner, "exp_annotations")
        alerts.append((tuple(sorted(kept.items())), tuple(sorted(annotations.items()))))
        inner.done()
    fields.done()
    return None if rule is None else Expected(at, rule, tuple(alerts), fields.page.source(fields.path))


def _texts(fields: Fields, key: str) -> dict[str, str]:
    value = fields.take(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        fields.wrong(key, f"must be keys and values, not {shown(value)}")
        return {}
    return {name: str(given) for name, given in value.items()}
