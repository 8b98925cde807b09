"""Playbook files: what is read, and what is refused with its place."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rules.actions import ACTION_KINDS
from rules.playbook import PlaybookError, load, read, schema
from rules.playbook.schema import ENDS, KINDS, Act
from tests.prepare import ROOT
from tests.rules.playbook.stand import HOT

EXAMPLE = re.search(r"```yaml\n(.*?)```", (ROOT / "docs" / "playbook-format.md").read_text(), re.DOTALL)


def flow(steps: str) -> str:
    """A playbook of these steps, one a line."""
    lines = "".join(f"      - {{{step}}}\n" for step in steps.strip().splitlines())
    return f"playbooks:\n  - name: p\n    title: P\n    description: D\n    cooldown: 2h\n    steps:\n{lines}"


CHECK = 'check: "npu_temperature_celsius > 1"'
VERIFY = 'verify: "npu_temperature_celsius < 1"'
HALVE = "act: {kind: set_knobs, arguments: {max_num_seqs: x0.5}}"


def mistake(text: str) -> str:
    with pytest.raises(PlaybookError) as raised:
        read(text, "p.yaml")
    return str(raised.value)


def test_the_example_of_the_docs_is_a_playbook() -> None:
    assert EXAMPLE is not None
    (playbook,) = read(EXAMPLE[1], "docs").values()
    assert playbook.target == "npu"
    assert playbook.cooldown == 1800
    assert [step.name for step in playbook.steps] == ["hot", "evidence", "cause", "relieve", "cooler"]
    act = playbook.steps[3]
    assert isinstance(act, Act)
    assert act.action().arguments == {"max_num_seqs": "x0.5"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("within: 30s", "withn: 30s", "steps[0].withn: unknown key; did you mean within?"),
        ("cooldown:", "cool_down:", "playbooks[0].cool_down: unknown key; did you mean cooldown?"),
        ("yes: evidence", "yes: evidense", "there is no step evidense; did you mean evidence?"),
        ("max_num_seqs", "max_num_seq", "did you mean max_num_seqs?"),
        ("x0.5", "0.5x", "neither a number, nor"),
        ("kind: set_knobs", "kind: rm", "'set_knobs'"),
        ("arguments:", "argument:", "argument: unknown key; did you mean arguments?"),
        ("timeout: 60s", "timeout: 3 days", "is no duration"),
        ("timeout: 60s", "timeout: 9h", "less than or equal to 7200"),
        ("cooldown: 30min", "cooldown: 2min", "120 s is too short"),
        ("dmesg", "dmesgg", "'msprof', 'plog', 'dmesg' or 'memory'"),
        ("> ${limit}", "> ${limt}", "did you mean ${limit}?"),
        ("> ${limit}", "> ${", "is no variable"),
        ("> ${limit}", "> (", "check:"),
        (
            '{name: cause, diagnose: "card ${npu} is over ${limit}", cause: thermal}',
            "{name: cause, diagnose: x}",
            "is missing",
        ),
        ("diagnose:", "diagnosis:", "a step has one of check, capture"),
        ("name: relieve", "name: cause", "cause is also the name of steps[2]"),
        ("target: npu", "target: gpu", "'engine', 'npu' or 'host'"),
    ],
)
def test_a_mistake_is_told_with_its_place(old: str, new: str, said: str) -> None:
    line = HOT[: HOT.index(old)].count("\n") + 1
    text = mistake(HOT.replace(old, new, 1))
    assert said in text
    assert text.startswith(f"p.yaml:{line}: ")


def test_a_mistake_of_a_step_as_a_whole_has_the_step_s_place() -> None:
    text = mistake(HOT.replace("for: 30s", "for: 10min"))
    line = HOT[: HOT.index("name: cooler")].count("\n") + 1
    assert text.startswith(f"p.yaml:{line}: playbooks[0].steps[4]: for (600 s) is longer than within (300 s)")


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (f"name: a, {CHECK}, then: b", "then: unknown key"),
        (f'name: a, {CHECK}, "yes": c\nname: b, {CHECK}\nname: c, {CHECK}', "nothing leads to b"),
        (f"name: v, {VERIFY}", "a way leads here without an act"),
        (f'name: a, {CHECK}, "no": v\nname: b, {HALVE}\nname: v, {VERIFY}', "a way leads here without an act"),
        (f"name: b, {HALVE}", "ends succeeded after an act that no step has verified"),
        (f"name: b, {HALVE}, then: end:succeeded", "ends succeeded after an act"),
        (f"name: b, {HALVE}\nname: v, {VERIFY}, \"no\": end:succeeded", "ends succeeded after an act"),
        (f'name: a, {CHECK}, "no": a', "leads back to itself without waiting"),
        (f'name: a, {CHECK}\nname: d, diagnose: x, cause: y, then: a', "leads back to itself without waiting"),
        (f"name: undo, {CHECK}", "is an end: give the step another name"),
    ],
)  # fmt: skip
def test_a_way_that_cannot_be_right_is_refused(steps: str, said: str) -> None:
    assert said in mistake(flow(steps))


@pytest.mark.parametrize(
    "steps",
    [
        f'name: a, {CHECK}, within: 5s, "no": a',
        f"name: b, {HALVE}, failed: c\nname: v, {VERIFY}\nname: c, {CHECK}",
        f"name: n, act: {{kind: notify, arguments: {{text: hello}}}}\nname: a, {CHECK}",
        f'name: b, {HALVE}\nname: v, {VERIFY}, "no": again\nname: again, {HALVE}\nname: w, {VERIFY}',
        "name: r, act: {kind: restart}, timeout: 20min\n" + f"name: v, {VERIFY}",
    ],
)
def test_a_way_that_can_be_right_is_taken(steps: str) -> None:
    assert read(flow(steps), "p.yaml")


def test_the_rule_of_its_alert_lengthens_the_least_cool_down() -> None:
    assert read(HOT, "p.yaml", {"hot": 1500.0})
    with pytest.raises(PlaybookError, match=r"`for` \(1600 s\) and its verification \(300 s\) take 1900 s"):
        read(HOT, "p.yaml", {"hot": 1600.0})


def test_every_mistake_of_every_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(HOT.replace("30s", "30 lightyears").replace("dmesg", "dmsg"))
    (tmp_path / "b.yaml").write_text(HOT)
    (tmp_path / "c.yaml").write_text(HOT)
    with pytest.raises(PlaybookError) as raised:
        load([*sorted(tmp_path.iterdir()), tmp_path / "none.yaml"])
    text = str(raised.value)
    assert text.count("a.yaml") >= 2
    assert "c.yaml: playbook hot is also in" in text
    assert "none.yaml: no such file" in text


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "more than 10000 keys"),
        ("playbooks: &a [*a]", "an alias that holds itself"),
        ("playbooks: " + "[" * 20_000, "p.yaml"),
        ("x" * 600_000, "at most 524288 are read"),
        ("- a", "must be a list of playbooks"),
        ("", "must be a list of playbooks"),
        ("playbooks: {}", "playbooks"),
        ("int: 1\nplaybooks: []", "p.yaml:1: int: unknown key"),
        ("playbooks: []\n(: 1", "p.yaml:2: (: unknown key"),
        ("playbooks: [1, null, x]", "playbooks[0]"),
        (flow(f'name: a, check: "{"(" * 900}1{")" * 900} > 0"'), "check"),
        (flow(f'name: a, check: "{"x" * 3000}"'), "at most 2000 characters"),
        (flow("\n".join(f"name: s{i}, {CHECK}" for i in range(65))), "64"),
        (flow(f"name: a, {CHECK}, within: 1000000000h"), "less than or equal to 3600"),
        ("!!python/object/apply:os.system [x]", "p.yaml"),
    ],
)
def test_a_hostile_file_is_refused(text: str, said: str) -> None:
    assert said in mistake(text)


def test_a_huge_file_is_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(PlaybookError, match="1073741824 bytes"):
        load([path])


def test_the_schema_names_every_step_and_action() -> None:
    text = json.dumps(schema())
    for word in ("check", "capture", "diagnose", "act", "verify", "expand_batch", "traffic_away"):
        assert f'"{word}"' in text
    assert '"for"' in text


PLAIN = yaml.safe_load(re.sub(r"\b(yes|no):", r'"\1":', EXAMPLE[1] if EXAMPLE else ""))
WORDS = [
    *KINDS,
    *ENDS,
    *ACTION_KINDS,
    "name",
    "arguments",
    "steps",
    "for",
    "kind",
    "${npu}",
    "5min",
    "hot",
    "",
    "(",
    "'",
]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
def test_whatever_stands_there_is_a_playbook_or_a_mistake(data: st.DataObject) -> None:
    whole = copy.deepcopy(PLAIN)
    place: Any = whole
    while isinstance(place, dict | list) and place:
        key: Any = data.draw(
            st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place))))
        )
        if data.draw(st.booleans()):
            place[key] = data.draw(VALUES)
            break
        if isinstance(place, dict) and data.draw(st.booleans()):
            place[data.draw(st.sampled_from(WORDS))] = data.draw(VALUES)
        place = place[key]
    with contextlib.suppress(PlaybookError):
        read(yaml.safe_dump(whole), "p.yaml")
