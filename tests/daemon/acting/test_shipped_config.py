"""What a daemon without any setting walks: the shipped playbooks load as they are beside the shipped rules."""

from __future__ import annotations

import pytest

from daemon.acting.playbooks import configured_playbooks, described
from daemon.alerting.assembly import configured_rules
from daemon.config import Config
from rules.playbook.schema import Diagnose
from sim.faults import FAULTS as MADE
from tests.prepare import ROOT

FAULTS = {
    "thermal": "thermal_throttling",
    "slow_card": "slow_card",
    "fragmentation": "memory_fragmentation",
    "leak": "hbm_leak",
    "oom_at_load": "npu_out_of_memory",
    "stall": "engine_stall",
    "dead_engine": "engine_dead",
    "irq_storm": "irq_storm",
    "governor": "cpu_governor",
    "numa": "cpu_binding",
    "queue_surge": "queue_over_100",
}
"""The 11 faults that the simulator makes, and the playbook of each."""


def test_the_shipped_playbooks_load_beside_the_shipped_rules() -> None:
    groups = configured_rules(Config())
    playbooks = configured_playbooks(Config(), groups)

    named = {rule.playbook for group in groups for rule in group.rules if rule.playbook is not None}
    assert named <= set(playbooks)
    assert set(FAULTS) == set(MADE)
    assert set(FAULTS.values()) <= named
    for playbook in playbooks.values():
        assert len(described(playbook)["steps"]) == len(playbook.steps)


@pytest.mark.parametrize(("cause", "name"), FAULTS.items())
def test_the_cause_of_each_fault_is_named_by_its_playbook_and_in_its_row(cause: str, name: str) -> None:
    playbook = configured_playbooks(Config(), configured_rules(Config()))[name]
    page = (ROOT / "docs" / "playbooks.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))

    causes = {step.cause for step in playbook.steps if isinstance(step, Diagnose)}
    assert cause in causes
    assert {one for one in causes if f"`{one}`" not in row} == set()
