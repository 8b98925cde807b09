"""The engine that a command starts is found on disk and read, in every way it may be installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from change.catalogue.index import knobs_of
from change.catalogue.knob import Flag
from change.facts import Facts
from change.gates import problems
from change.launch import unknown_arguments
from change.server import LaunchCommand
from change.versions import release
from daemon.engine.installed import installed_at, installed_for, installed_in
from tests.real.setup_vllm import MAIN, PYTHON, SECOND, target

ARGUMENTS = """
class EngineArgs:
    def add_cli_args(parser):
        parser.add_argument("--max-num-seqs", type=int)
        parser.add_argument("--additional-config", type=json.loads)
"""


def package(folder: Path, version: str = "0.28.0") -> Path:
    """A package shaped like vLLM's in a folder."""
    for name, text in {
        "__init__.py": "raise SystemExit('never imported')\n",
        "_version.py": f"__version__: str\n__version__ = version = '{version}'\n",
        "engine/arg_utils.py": ARGUMENTS,
    }.items():
        path = folder / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def environment(root: Path) -> tuple[Path, Path]:
    """A virtual environment: its Python and its folder of packages."""
    python = root / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("")
    (root / "pyvenv.cfg").write_text("")
    site = root / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    return python, site


def test_beside_the_python_of_the_command(tmp_path: Path) -> None:
    python, site = environment(tmp_path)
    package(site)
    found = installed_for(LaunchCommand((str(python), "-m", "vllm.entrypoints.openai.api_server")), "vllm")
    assert found is not None
    assert (found.version, found.source) == ("0.28.0", str(site / "vllm"))
    assert found.has("--max-num-seqs")
    assert found.additional_keys is None


def test_behind_the_script_that_the_command_starts(tmp_path: Path) -> None:
    python, site = environment(tmp_path)
    package(site)
    script = python.parent / "vllm"
    script.write_text(f"#!{python}\nimport sys\n")
    assert installed_for(LaunchCommand((str(script), "serve", "m")), "vllm") is not None
    by_name = LaunchCommand(("vllm", "serve", "m"), {"PATH": str(python.parent)})
    script.chmod(0o755)
    assert installed_for(by_name, "vllm") is not None


def test_what_pythonpath_names_comes_first(tmp_path: Path) -> None:
    python, site = environment(tmp_path / "venv")
    package(site)
    other = package(tmp_path / "other", "0.32.0")
    found = installed_for(LaunchCommand((str(python), "-m", "vllm"), {"PYTHONPATH": str(other)}), "vllm")
    assert found is not None and found.version == "0.32.0"


def test_an_editable_installation_is_followed(tmp_path: Path) -> None:
    python, site = environment(tmp_path / "venv")
    (site / "easy.pth").write_text(f"# a remark\nimport os\n{package(tmp_path / 'work')}\n")
    assert installed_at(python, "vllm").source == str(tmp_path / "work" / "vllm")


def test_so_is_the_finder_that_one_leaves(tmp_path: Path) -> None:
    python, site = environment(tmp_path / "venv")
    where = package(tmp_path / "work") / "vllm"
    finder = site / "__editable___vllm_0_28_0_finder.py"
    finder.write_text(f"import sys\nMAPPING: dict[str, str] = {{'vllm': '{where}'}}\nNAMESPACES = {{}}\n")
    assert installed_at(python, "vllm").source == str(where)


def test_below_the_root_of_a_container(tmp_path: Path) -> None:
    python, site = environment(tmp_path / "opt" / "venv")
    package(site)
    command = LaunchCommand(("/opt/venv/bin/python", "-m", "vllm"))
    assert python.is_file()
    assert installed_for(command, "vllm", root=tmp_path) is not None
    assert installed_for(command, "vllm") is None


def test_ascends_own_package_is_read_beside_it(tmp_path: Path) -> None:
    site = package(tmp_path)
    ascend = site / "vllm_ascend"
    (ascend / "quantization").mkdir(parents=True)
    (ascend / "__init__.py").write_text("")
    (ascend / "_version.py").write_text("__version__ = version = '0.23.0rc1'\n")
    (ascend / "ascend_config.py").write_text('x = additional_config.get("enable_kv_nz", False)\n')
    (ascend / "quantization" / "a.py").write_text('@register_quantization_config("ascend")\nclass A: pass\n')
    found = installed_in([site], "vllm")
    assert found is not None
    assert found.additional_keys == frozenset({"enable_kv_nz"})
    assert found.quantizations == frozenset({"ascend"})
    assert found.ascend_version == "0.23.0rc1"


def test_the_version_may_stand_in_the_metadata_alone(tmp_path: Path) -> None:
    site = package(tmp_path)
    (site / "vllm" / "_version.py").unlink()
    (site / "vllm_ascend-0.18.0.dist-info").mkdir()
    (site / "vllm-0.17.1+cpu.dist-info").mkdir()
    found = installed_in([site], "vllm")
    assert found is not None and found.version == "0.17.1+cpu"


def test_an_engine_that_is_not_here_is_unknown(tmp_path: Path) -> None:
    assert installed_for(LaunchCommand(("/nowhere/python", "-m", "vllm")), "vllm", root=tmp_path) is None
    assert installed_for(LaunchCommand(("mindieservice_daemon",)), "mindie") is None
    with pytest.raises(FileNotFoundError, match="no vllm is installed at"):
        installed_at(tmp_path, "vllm")


@pytest.mark.real
@pytest.mark.parametrize(("version", "environ"), [(MAIN, {}), (SECOND, {"PYTHONPATH": str(target(SECOND))})])
class TestReal:
    def test_every_flag_of_the_catalogue_is_really_there(self, version: str, environ: dict[str, str]) -> None:
        command = LaunchCommand((str(PYTHON), "-m", "vllm.entrypoints.openai.api_server"), environ)
        found = installed_for(command, "vllm")
        assert found is not None and found.version == version
        for knob in knobs_of("vllm").values():
            place = knob.place(release(version))
            if isinstance(place, Flag):
                missing = [word for word in place.spellings if not found.has(word)]
                assert missing == [], knob.name
                assert place.off is None or found.has(place.off), knob.name
        assert not found.has("--swap-space")
        facts = Facts("vllm", version, "cpu", installed=found)
        (text,) = problems({"swap_space": 4}, facts)
        assert "kv_offloading_size" in text
        words = [
            "--model",
            "m",
            "--port",
            "8000",
            "--max-num-seqs",
            "8",
            "-tp",
            "1",
            "-O3",
            "--no-enable-prefix-caching",
            "--swap-space",
            "4",
        ]
        (gone,) = unknown_arguments(LaunchCommand((*command.argv, *words)), facts)
        assert "has no argument --swap-space" in gone
