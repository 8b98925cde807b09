"""A real Prometheus takes the shipped rules."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rules.export import export
from rules.rule_file import load, shipped_files
from tests.prepare import find_program
from tests.rules.shipped.cases import LIMITS


@pytest.mark.debian("promtool")
def test_promtool_accepts_the_exported_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(export(load(shipped_files(), limits=LIMITS)), encoding="utf-8")
    program = find_program("promtool")
    assert program is not None

    done = subprocess.run([program, "check", "rules", str(file)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout
