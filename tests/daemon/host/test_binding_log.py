"""What the engine's log says of vllm-ascend's own binding."""

from __future__ import annotations

import os
from pathlib import Path

from collectors.logs.find import Pattern
from daemon.host.binding_log import BindingLog

PLAN = "INFO 01-02 cpu_binding.py:210] NPU{}: main=[98, 99] acl=[100] release=[101]\n"


def test_the_newest_log_that_says_anything_counts_and_is_read_again_when_it_grows(tmp_path: Path) -> None:
    old, new = tmp_path / "a.log", tmp_path / "b.log"
    old.write_text("starting\n" + PLAN.format(1))
    os.utime(old, (1, 1))
    new.write_text("starting\n")
    log = BindingLog([Pattern("engine", str(tmp_path / "*.log"))])
    assert set(log.binding().npus) == {1}
    new.write_text("starting\n" + PLAN.format(2))
    assert set(log.binding().npus) == {2}


def test_without_a_log_nothing_is_known(tmp_path: Path) -> None:
    assert BindingLog([Pattern("engine", str(tmp_path / "*.log"))]).binding().npus == {}
