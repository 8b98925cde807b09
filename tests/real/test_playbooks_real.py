"""A stalled and a killed real vLLM server under `trimtab serve` in mode act: noticed, mended, back in service.

The same with its figures printed: `python -m bench.acceptance playbooks-real`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench import real_playbooks
from bench.real_playbooks import FAULTS, Fault
from bench.real_restart import say

pytestmark = pytest.mark.real


@pytest.mark.parametrize("fault", FAULTS)
def test_it_is_noticed_by_a_rule_and_mended_by_its_playbook(fault: Fault, tmp_path: Path) -> None:
    with real_playbooks.acting_pair(tmp_path / "pair") as pair:
        found = asyncio.run(real_playbooks.mend(pair, fault, seed=1))
    say(real_playbooks.figures([found]))
    assert found.good, real_playbooks.figures([found])
