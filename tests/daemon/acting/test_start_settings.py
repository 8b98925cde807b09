"""Start-up settings of an action: values, factors of what is in force, and what nobody knows."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.acting.start_settings import Asked, asked, needs_values
from rules.actions import ActionRefused


def test_values_are_taken_as_they_are() -> None:
    given: dict[str, Any] = {
        "block_size": 64,
        "npu_alloc_conf": "expandable_segments:True",
        "enforce_eager": True,
    }
    assert asked({"settings": given}, {}, "vllm") == Asked(given)
    assert not needs_values({"settings": given})


def test_a_factor_is_one_of_what_is_in_force() -> None:
    arguments = {"settings": {"gpu_memory_utilization": "x0.95", "max_num_seqs": "x0.5"}}
    assert needs_values(arguments)
    found = asked(arguments, {"gpu_memory_utilization": 0.92, "max_num_seqs": 101}, "vllm")
    assert found == Asked({"gpu_memory_utilization": 0.874, "max_num_seqs": 50})


def test_where_nobody_says_it_the_engines_own_default_is_meant() -> None:
    found = asked({"settings": {"additional_config.init_redundancy_expert": "x2"}}, {}, "vllm")
    assert found == Asked({"additional_config.init_redundancy_expert": 0})


def test_it_stays_inside_the_knobs_domain() -> None:
    found = asked({"settings": {"gpu_memory_utilization": "x9"}}, {"gpu_memory_utilization": 0.9}, "vllm")
    assert found.settings == {"gpu_memory_utilization": 1}


def test_what_nobody_knows_is_left_out_and_named() -> None:
    arguments = {"settings": {"block_size": 64, "no_such_setting": "x0.5"}}
    assert asked(arguments, {}, "vllm") == Asked({"block_size": 64}, ("no_such_setting",))
    with pytest.raises(ActionRefused, match="no_such_setting"):
        asked({"settings": {"no_such_setting": "x0.5"}}, {}, "vllm")
