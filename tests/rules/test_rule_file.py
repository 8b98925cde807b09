"""Rule files: both forms, mistakes with their line and the mend, and nothing that takes long or much."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.rule import RuleError
from rules.rule_file import load, read

BOTH = """\
alert_rules:
  - name: high_temperature
    metric: npu_temperature_celsius
    threshold: "> 85"
    duration: 5min
    action: thermal_throttling
    severity: critical
    description: The card is hot.
groups:
  - name: engine
    interval: 30s
    rules:
      - alert: Queue
        expr: x > 100
        for: 30s
        keep_firing_for: 1m
        labels: {team: serving}
        annotations: {summary: "{{ $value }} wait"}
        playbook: queue_over_100
"""


def mistakes(text: str) -> list[str]:
    with pytest.raises(RuleError) as caught:
        read(text, "r.yaml")
    return str(caught.value).splitlines()


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def grouped(rules: str) -> str:
    return f"groups: [{{name: g, rules: [{rules}]}}]"


def test_both_forms_may_be_in_one_file() -> None:
    short, engine = read(BOTH, "r.yaml", 20.0)
    assert (short.name, short.interval_seconds, engine.name, engine.interval_seconds) == (
        "r",
        20.0,
        "engine",
        30.0,
    )
    (hot,), (queue,) = short.rules, engine.rules
    assert (hot.name, hot.expression.text, hot.for_seconds) == (
        "high_temperature",
        "npu_temperature_celsius > 85",
        300.0,
    )
    assert (hot.severity, hot.playbook, hot.description) == (
        "critical",
        "thermal_throttling",
        "The card is hot.",
    )
    assert (queue.for_seconds, queue.keep_firing_for_seconds, queue.severity) == (30.0, 60.0, "warning")
    assert queue.labels["team"].text == "serving"
    assert queue.annotations["playbook"].text == queue.playbook == "queue_over_100"
    assert (hot.source, queue.source) == ("r.yaml:2", "r.yaml:13")


def test_what_an_exported_file_says_in_annotations_is_the_rules_own() -> None:
    (group,) = read(grouped("{alert: A, expr: x > 1, annotations: {playbook: p, description: d}}"), "r.yaml")
    assert (group.rules[0].playbook, group.rules[0].description) == ("p", "d")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("3", "r.yaml: rule file: must be keys and values, not '3'"),
        ("zebra: []", "r.yaml:1: rule file: unknown key 'zebra'; known here: alert_rules, groups"),
        ("alert_rule: []", "r.yaml:1: rule file: unknown key 'alert_rule'; did you mean alert_rules?"),
        ("true: 4", "r.yaml:1: the key true is no text: write it in quotes"),
        ("groups:\n  - {name: g, 5: x}", "r.yaml:2: the key 5 is no text: write it in quotes"),
        (grouped("{alert: A, expr: x > 1, labels: {1: x}}"), "r.yaml:1: the key 1 is no text"),
        (grouped("{alert: A, expr: x > 1, labels: {~: x}}"), "r.yaml:1: the key ~ is no text"),
        ("groups: {}", "r.yaml:1: rule file: groups: must be a list, not '{}'"),
        ("groups: [3]", "r.yaml:1: group 1: must be keys and values, not '3'"),
        (grouped("{alert: A}"), "r.yaml:1: rule A: has no expr"),
        (grouped("{expr: x > 1}"), "r.yaml:1: rule 1 of group g: has no alert"),
        (
            grouped("{alert: A, expr: x > 1, fro: 5m}"),
            "r.yaml:1: rule A: unknown key 'fro'; did you mean for?",
        ),
        (grouped("{alert: A, expr: x > 1, for: soon}"), "'soon' is no duration: write 30s, 5min or 1h"),
        (grouped("{alert: A, expr: x > 1, for: 400d}"), "for: '400d' is out of range"),
        (grouped("{record: a, expr: x}"), "rules that record are not evaluated here: leave it to Prometheus"),
        (grouped("{metric: x, threshold: 1}"), "this is the short form, which belongs under `alert_rules`"),
        (grouped("{alert: A, expr: x > 1, labels: {severity: warn}}"), "severity is info, warning, critical"),
        (grouped("{alert: A, expr: x > 1, labels: {alertname: B}}"), "alertname is set by the engine"),
        (
            grouped("{alert: A, expr: x > 1, labels: {v: '{{ $value }}'}}"),
            "every change it would be another alert",
        ),
        (grouped("{alert: A, expr: x > 1, labels: {v: [1]}}"), "labels: v: must be a text, not '[1]'"),
        (grouped("{alert: A, expr: x > 1, labels: {v-w: a}}"), "'v-w' is no name of a label"),
        (grouped('{alert: A, expr: x > 1, labels: {v: "a\\u001b[2J"}}'), "v holds control characters"),
        (grouped('{alert: A, expr: x > 1, labels: {v: "\\ud800"}}'), "half a character"),
        (grouped('{alert: "A\\u0007", expr: x > 1}'), "'A\\x07' holds control characters"),
        (
            grouped("{alert: A, expr: x > 1, annotations: {s: '{{ humanize $value }}'}}"),
            "only {{ $labels.NAME }}",
        ),
        (
            grouped("{alert: A, expr: x > 1, playbook: p, annotations: {playbook: q}}"),
            "leave one of them out",
        ),
        (grouped("{alert: A, expr: '('}"), "r.yaml:1: rule A: expr: "),
        ("groups: [{name: g, interval: 0s}]", "group g: interval: '0s' is out of range: from 1 s to 3600 s"),
        ("groups: [{name: g}, {name: g}]", "group g is at r.yaml:1 too: rename one"),
        ("groups: [", "r.yaml:1: "),
    ],
)
def test_a_mistake_is_said_with_its_place_and_the_mend(text: str, mistake: str) -> None:
    assert any(mistake in line for line in mistakes(text)), mistakes(text)


def test_every_mistake_of_a_file_is_said_at_once_each_with_its_line() -> None:
    text = BOTH.replace("metric: npu_temperature_celsius", "metric: npu_temp").replace("for: 30s", "for: x")
    assert [line.split(": ")[0] for line in mistakes(text)] == ["r.yaml:3", "r.yaml:15"]


def test_two_rules_of_one_name_are_refused_wherever_they_stand(tmp_path: Path) -> None:
    one = write(tmp_path, "a.yaml", grouped("{alert: A, expr: x > 1}"))
    two = write(tmp_path, "b.yaml", grouped("{alert: A, expr: x > 2}"))
    with pytest.raises(RuleError, match=r"b.yaml:1: rule A is at .*a.yaml:1 too: give one another name"):
        load([one, two])


def test_groups_of_two_files_may_share_a_name_and_are_told_apart(tmp_path: Path) -> None:
    one = write(tmp_path, "a.yaml", grouped("{alert: A, expr: x > 1}"))
    two = write(tmp_path, "b.yaml", grouped("{alert: B, expr: x > 1}"))
    assert [group.name for group in load([one, two])] == ["g", "g (2)"]


def test_a_disabled_rule_is_left_out_with_its_empty_group_and_one_that_is_none_is_said(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, "a.yaml", BOTH)
    assert [group.name for group in load([path], disabled={"Queue"})] == ["a"]
    with pytest.raises(RuleError, match=r"rules\.disabled: there is no rule 'queue'; did you mean Queue\?"):
        load([path], disabled={"queue"})


def test_a_file_that_cannot_be_read_is_said_beside_the_mistakes_of_the_others(tmp_path: Path) -> None:
    bad = write(tmp_path, "a.yaml", "zebra: 1")
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RuleError) as caught:
        load([tmp_path / "none.yaml", bad, binary, tmp_path])
    lines = str(caught.value).splitlines()
    assert "no such file" in lines[0] and "unknown key" in lines[1]
    assert "no UTF-8" in lines[2] and "cannot be read: Is a directory" in lines[3]


def bomb(depth: int = 9) -> str:
    names = "abcdefghijklmnop"
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for number in range(1, depth):
        old, new = names[number - 1], names[number]
        lines.append(f"{new}: &{new} [{', '.join(['*' + old] * 9)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a bomb of aliases", bomb()),
        ("an alias that holds itself", "groups: &a [*a]"),
        ("brackets without end", "groups: " + "[" * 100_000),
        ("5 MB of rules", "alert_rules:\n" + "  - {name: a, metric: b, threshold: 1}\n" * 130_000),
        ("5 MB of one text", "alert_rules: " + "a" * 5_000_000),
        ("20,000 rules", "alert_rules:\n" + "  - {name: a}\n" * 20_000),
        ("a merge key", "a: &a {b: 1}\nc: {<<: *a}"),
        ("a tag of Python", "groups: !!python/object/apply:os.system [echo]"),
    ],
)
def test_a_hostile_file_is_refused_within_seconds(tmp_path: Path, what: str, text: str) -> None:
    path = write(tmp_path, "hostile.yaml", text)
    begun = time.process_time()
    with pytest.raises(RuleError, match=r"hostile\.yaml"):
        load([path])
    assert time.process_time() - begun < 10.0, what


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.floats()
        | st.text(max_size=8)
        | st.sampled_from(["x > 1", "5m", "npu_power_watts"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "groups",
                        "alert_rules",
                        "name",
                        "rules",
                        "alert",
                        "expr",
                        "for",
                        "labels",
                        "metric",
                        "threshold",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=25,
    )
)
def test_whatever_stands_in_a_file_it_is_rules_or_a_mistake(values: object) -> None:
    import yaml

    try:
        read(yaml.safe_dump(values), "r.yaml")
    except RuleError as error:
        assert all(line.startswith("r.yaml") for line in str(error).splitlines())
