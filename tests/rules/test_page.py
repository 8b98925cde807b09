"""The examples of docs/rules.md work as they are printed."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import yaml

from rules.rule_file import load
from rules.rule_tests import judge, read_tests
from rules.short_form import ACTIONS
from tests.prepare import ROOT

PAGE = (ROOT / "docs" / "rules.md").read_text()


def examples() -> list[str]:
    """The indented blocks of the page."""
    return [
        textwrap.dedent(found)
        for found in re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE, flags=re.MULTILINE)
    ]


def test_the_rules_and_the_test_of_the_page_work_together(tmp_path: Path) -> None:
    short, groups, test = examples()
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(yaml.safe_load(short) | yaml.safe_load(groups)))
    (tmp_path / "test.yaml").write_text(test)
    (one, other) = load([tmp_path / "rules.yaml"])
    assert [rule.name for rule in (*one.rules, *other.rules)] == ["high_temperature", "QueueOver100"]
    found = judge(read_tests(tmp_path / "test.yaml"), load)
    assert (found.expectations, found.differences) == (2, ())


def test_the_page_names_every_action_of_the_guides_with_its_playbook() -> None:
    for action, playbook in ACTIONS.items():
        assert f"`{action}`" in PAGE
        assert playbook is None or f"`{playbook}`" in PAGE
