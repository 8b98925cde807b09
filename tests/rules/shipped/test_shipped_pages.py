"""The pages about the shipped rules and playbooks tell of each as it is."""

from __future__ import annotations

import re
from pathlib import Path

from rules.playbook.load import load
from rules.playbook.schema import Diagnose
from rules.rule_file import load as load_rules
from rules.rule_file import shipped_files
from tests.prepare import ROOT
from tests.rules.shipped.cases import LIMITS

ALERTS = ROOT / "docs" / "alerts.md"
PLAYBOOKS = ROOT / "docs" / "playbooks.md"


def _rows(page: Path) -> dict[str, list[str]]:
    """The cells of each row whose first one is a name."""
    found: dict[str, list[str]] = {}
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        named = re.fullmatch(r"`(\w+)`", cells[0].strip())
        if line.startswith("| ") and named is not None and named[1] not in found:
            found[named[1]] = cells
    return found


def test_every_rule_is_on_its_page_with_severity_and_playbook() -> None:
    rows = _rows(ALERTS)
    rules = {rule.name: rule for group in load_rules(shipped_files(), limits=LIMITS) for rule in group.rules}

    told = {name: (cells[2], cells[3].strip(" |`")) for name, cells in rows.items() if name[0].isupper()}

    assert told == {rule.name: (rule.severity, rule.playbook) for rule in rules.values()}


def test_every_playbook_is_on_its_page() -> None:
    rows = _rows(PLAYBOOKS)

    assert set(load(sorted((ROOT / "rules" / "playbooks").glob("*.yaml")))) == {
        name for name in rows if name != "HCCL_DEBUG"
    }


def test_causes_are_told_as_they_are_named() -> None:
    rows = _rows(PLAYBOOKS)
    text = PLAYBOOKS.read_text(encoding="utf-8")

    for name, playbook in load(sorted((ROOT / "rules" / "playbooks").glob("*.yaml"))).items():
        causes = {step.cause for step in playbook.steps if isinstance(step, Diagnose)}
        if len(rows[name]) == 5:  # those without an act name the kind of trouble, which is their own name
            assert {cause for cause in causes if f"`{cause}`" not in text} == set(), name
