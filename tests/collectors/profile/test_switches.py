"""Switches are named as the installed vllm-ascend has them, read as source in each of the shapes it has had."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from collectors.profile.findings.fusion import WHAT, switch_advice
from collectors.profile.patterns import PATTERNS
from collectors.profile.switches import SWITCHES, SwitchError, read_switches

EARLY = """
class PassManager:
    def configure(self, config):
        if self.settings.get("enable_quantization_fusion", True):
            self.add("quantisation")
"""
MIDDLE = """
class AscendCompilationConfig:
    def __init__(self, fuse_norm_quant: bool = True, fuse_qknorm_rope: bool = False, **others):
        self.fuse_muls_add = others.get("fuse_muls_add", True)
"""
LATE = """
raise RuntimeError("this must never run")

class AscendCompilationConfig:
    fuse_norm_quant: bool = False
    fuse_qknorm_rope: bool = True
"""


def package(tmp_path: Path, source: str, version: str = "0.42.0") -> Path:
    folder = tmp_path / "vllm_ascend"
    folder.mkdir()
    (folder / "ascend_config.py").write_text(source)
    (folder / "_version.py").write_text(f"__version__ = version = '{version}'\n")
    return tmp_path


def test_arguments_and_keys_are_switches(tmp_path: Path) -> None:
    found = read_switches(package(tmp_path, MIDDLE))
    assert found.version == "0.42.0"
    assert [found.defaults[name] for name in ("fuse_norm_quant", "fuse_qknorm_rope", "fuse_muls_add")] == [
        True,
        False,
        True,
    ]


def test_fields_are_switches_and_nothing_is_run(tmp_path: Path) -> None:
    found = read_switches(package(tmp_path, LATE) / "vllm_ascend")
    assert found.defaults["fuse_norm_quant"] is False
    assert "vllm_ascend" not in sys.modules


def test_a_pass_manager_and_environment_variables_count(tmp_path: Path) -> None:
    root = package(tmp_path, "")
    (root / "vllm_ascend" / "compilation").mkdir()
    (root / "vllm_ascend" / "compilation" / "graph_fusion_pass_manager.py").write_text(EARLY)
    (root / "vllm_ascend" / "envs.py").write_text('variables = {"VLLM_ASCEND_ENABLE_MLAPO": lambda: 1}\n')
    found = read_switches(root)
    assert found.defaults["enable_quantization_fusion"] is True
    assert "VLLM_ASCEND_ENABLE_MLAPO" in found.defaults


def test_advice_names_the_switch_that_is_there_and_its_default(tmp_path: Path) -> None:
    installed = read_switches(package(tmp_path, MIDDLE))
    (rope,) = switch_advice(SWITCHES["qk-norm-rope"], installed)
    assert "0.42.0" in rope
    assert """--additional-config '{"ascend_compilation_config": {"fuse_qknorm_rope": true}}'""" in rope
    (quant,) = switch_advice(SWITCHES["norm-quant"], installed)
    assert "fuse_norm_quant, on by default" in quant
    assert "enable_quantization_fusion" not in quant


def test_advice_says_where_there_is_none(tmp_path: Path) -> None:
    installed = read_switches(package(tmp_path, MIDDLE))
    assert switch_advice((), installed) == ("vllm-ascend has no switch for this",)
    (missing,) = switch_advice(SWITCHES["swiglu-quant"], installed)
    assert missing.endswith("has no switch for this")


def test_without_a_package_the_releases_are_told_and_that_nothing_was_looked_up() -> None:
    told = switch_advice(SWITCHES["norm-quant"], None)
    assert "fuse_norm_quant" in told[0]
    assert "from 0.13.0" in told[0]
    assert "--vllm-ascend" in told[1]


@pytest.mark.parametrize(("source", "why"), [("def (", "not Python"), ("x" * 3_000_000, "too large")])
def test_a_damaged_package_is_refused(tmp_path: Path, source: str, why: str) -> None:
    with pytest.raises(SwitchError, match=why):
        read_switches(package(tmp_path, source))


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SwitchError, match=r"holds no vllm_ascend/ascend_config\.py"):
        read_switches(tmp_path)


def test_every_pattern_has_its_words_and_every_switch_its_pattern() -> None:
    names = {pattern.name for pattern in PATTERNS}
    assert set(WHAT) == names
    assert set(SWITCHES) <= names
