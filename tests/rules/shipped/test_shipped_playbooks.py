"""Every shipped playbook can be walked, names what it finds, and is led to by a rule; every rule leads to one."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.logs.catalogue import PLAYBOOKS as OF_THE_CATALOGUE
from collectors.metrics import METRICS
from rules.expression import parse
from rules.playbook.load import load
from rules.playbook.schema import Act, Capture, Check, Diagnose, Playbook, Verify
from rules.playbook.variables import Template
from rules.rule_file import load as load_rules
from rules.rule_file import shipped_files
from rules.short_form import ACTIONS
from tests.rules.shipped.cases import LIMITS

RULES = [rule for group in load_rules(shipped_files(), limits=LIMITS) for rule in group.rules]
FILES = sorted((Path(__file__).parents[3] / "rules" / "playbooks").glob("*.yaml"))
WINDOWS: dict[str, float] = {}
for _rule in RULES:
    if _rule.playbook is not None:
        WINDOWS[_rule.playbook] = max(WINDOWS.get(_rule.playbook, 0.0), _rule.for_seconds)
PLAYBOOKS = load(FILES, WINDOWS)
FAULTS = {
    "thermal": "thermal_throttling",
    "slow_card": "slow_card",
    "fragmentation": "memory_fragmentation",
    "oom_at_load": "npu_out_of_memory",
    "stall": "engine_stall",
    "dead_engine": "engine_dead",
    "irq_storm": "irq_storm",
    "governor": "cpu_governor",
    "numa": "cpu_binding",
    "queue_surge": "queue_over_100",
}

every_playbook = pytest.mark.parametrize("playbook", PLAYBOOKS.values(), ids=lambda playbook: playbook.name)


def _causes(playbook: Playbook) -> set[str]:
    return {step.cause for step in playbook.steps if isinstance(step, Diagnose)}


def _conditions(playbook: Playbook) -> list[str]:
    found = [text for step in playbook.steps for text in step.figures.values()]
    found += [step.check for step in playbook.steps if isinstance(step, Check)]
    found += [step.verify for step in playbook.steps if isinstance(step, Verify)]
    return [Template(text).sample() for text in found]


def test_rules_and_playbooks_lead_to_each_other() -> None:
    of_operators = {name for name in ACTIONS.values() if name is not None}

    assert {rule.playbook for rule in RULES} <= set(PLAYBOOKS)
    assert {rule.playbook for rule in RULES} | of_operators == set(PLAYBOOKS)


def test_playbooks_that_logs_name_are_there() -> None:
    assert set(OF_THE_CATALOGUE) <= set(PLAYBOOKS)


@every_playbook
def test_names_a_cause_and_the_guide_it_follows(playbook: Playbook) -> None:
    assert _causes(playbook)
    assert playbook.guide
    assert playbook.description.endswith(".")


@every_playbook
def test_asks_for_metrics_that_there_are_and_of_the_tuned_engine_only(playbook: Playbook) -> None:
    for text in _conditions(playbook):
        for name in parse(text).names:
            assert name in METRICS
            if "server" in METRICS[name].labels:
                assert text.count(name) == text.count(f'{name}{{server=""')


@pytest.mark.parametrize(("cause", "name"), FAULTS.items())
def test_a_fault_has_its_playbook_which_acts_and_verifies(cause: str, name: str) -> None:
    playbook = PLAYBOOKS[name]

    assert cause in _causes(playbook)
    assert any(isinstance(step, Act) and step.act.kind != "notify" for step in playbook.steps)
    assert any(isinstance(step, Verify) for step in playbook.steps)


@pytest.mark.parametrize("name", ["hbm_leak", "host_memory"])
def test_a_leak_is_restarted_in_a_quiet_time(name: str) -> None:
    playbook = PLAYBOOKS[name]

    assert "leak" in _causes(playbook)
    restarts = [step.act for step in playbook.steps if isinstance(step, Act) and step.act.kind == "restart"]
    assert "quietest" in {act.arguments.when for act in restarts}


@pytest.mark.parametrize("name", ["thermal_throttling", "slow_card", "device_lost", "device_memory_fault"])
def test_traffic_leaves_a_bad_card_before_anything_that_takes_time(name: str) -> None:
    """Within 30 s where a second replica exists; else the run says that it is impossible, and goes on."""
    playbook = PLAYBOOKS[name]
    away = next(step for step in playbook.steps if isinstance(step, Act))

    assert away.act.kind == "traffic_away"
    assert away.timeout <= 25.0
    before = playbook.steps[: playbook.index[away.name]]
    assert not any(isinstance(step, Capture) or (isinstance(step, Check) and step.within) for step in before)
    alone = playbook.steps[playbook.index[away.failed]]
    assert isinstance(alone, Diagnose)
    assert "within 30 s is impossible" in alone.diagnose


@every_playbook
def test_an_act_that_fails_is_not_the_end_of_what_is_said(playbook: Playbook) -> None:
    for step in playbook.steps:
        if isinstance(step, Act) and step.act.kind not in ("notify", "scale_up"):
            assert step.failed != "end:failed", f"{step.name} fails without a word"
