"""What the daemon reads at its start, as it comes: the shipped rules and playbooks fit each other, with any SLO set."""

from __future__ import annotations

import pytest

from daemon.acting.playbooks import configured_playbooks
from daemon.alerting.assembly import configured_rules
from daemon.config import Config
from rules.slo_rules import LIMITS, LeftOut


@pytest.mark.parametrize("slo", [{}, dict.fromkeys(LIMITS, 0.01), dict.fromkeys(LIMITS, 0.5)])
@pytest.mark.parametrize("enabled", [True, False])
def test_a_plain_configuration_loads_its_rules_and_playbooks(slo: dict[str, float], enabled: bool) -> None:
    config = Config.model_validate({"slo": slo, "rules": {"enabled": enabled}})
    left_out: list[LeftOut] = []

    groups = configured_rules(config, left_out.append)
    playbooks = configured_playbooks(config, groups)

    named = {rule.playbook for group in groups for rule in group.rules if rule.playbook is not None}
    assert named and named <= playbooks.keys()
    assert bool(left_out) == (slo.get("error_ratio") != 0.01)
