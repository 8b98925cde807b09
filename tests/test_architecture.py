"""The house's own rules, checked on the files themselves."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.prepare import ROOT

ROOMS = ("store", "collectors", "change", "tuner", "rules", "web", "daemon", "sim", "bench")
"""Our top-level packages; Each is a package."""

LONGEST_MODULE_LINES = 400
ENGINES = {"vllm", "vllm_ascend", "sglang", "trimtab_plugin"}
"""What the plugin may import besides the standard library: the engine it lives in, and itself."""

OWN = {".py", ".md", ".toml", ".yaml", ".yml", ".html", ".css", ".js", ".service"}
OWN_NAMES = {"Makefile", "Dockerfile", "run", "install-plugin", "with-trimtab"}
FOREIGN = {".git", ".venv", ".cache", ".mypy_cache", ".hypothesis", "build", "dist", "vendor"}
"""Folders that hold what others wrote."""


@cache
def own_files() -> tuple[Path, ...]:
    """Every text file of the project, without environments, caches and vendored code."""
    found: list[Path] = []
    for folder, inner, names in os.walk(ROOT):
        inner[:] = [name for name in inner if name not in FOREIGN and not name.endswith(".egg-info")]
        found += [Path(folder, name) for name in names if Path(name).suffix in OWN or name in OWN_NAMES]
    return tuple(sorted(found))


def modules(*rooms: str) -> Iterator[Path]:
    """Python files of the named folders."""
    for room in rooms:
        yield from (path for path in own_files() if path.suffix == ".py" and path.is_relative_to(ROOT / room))


def test_imports_go_one_way() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_contracted_room_exists_and_every_room_is_contracted() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracted = set(project["tool"]["importlinter"]["root_packages"])
    present = {room for room in ROOMS if (ROOT / room / "__init__.py").exists()}
    assert contracted == present
    shipped = {
        pattern.rstrip("*") for pattern in project["tool"]["setuptools"]["packages"]["find"]["include"]
    }
    assert shipped == present


def locked() -> list[Requirement]:
    """The lock's entries that apply to this Python and platform."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    entries = [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]
    return [entry for entry in entries if entry.marker is None or entry.marker.evaluate()]


def test_the_environment_is_the_locked_one() -> None:
    wrong = [
        f"{entry.name} {metadata.version(entry.name)}, locked {entry.specifier}"
        for entry in locked()
        if not entry.specifier.contains(metadata.version(entry.name), prereleases=True)
    ]
    assert not wrong


def test_no_dependency_installs_a_package_named_like_a_room() -> None:
    owners = metadata.packages_distributions()
    for room in ROOMS:
        assert set(owners.get(room, [])) <= {"trimtab"}, f"{room} is also installed by {owners[room]}"


def test_the_daemon_needs_neither_torch_nor_an_engine() -> None:
    names = {entry.name.lower() for entry in locked()}
    assert not {name for name in names if name.startswith(("torch", "vllm", "sglang"))}


def imported(tree: ast.AST) -> set[str]:
    """Top-level names that a module imports from outside its own package."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


NEWER_THAN_THE_ENGINES = {"tomllib"}
"""Standard since Python 3.11; engines run 3.10."""


def test_the_plugin_needs_only_the_standard_library_of_python_3_10() -> None:
    files = list(modules("engine_plugin"))
    assert files, "the plugin has no files"
    allowed = (set(sys.stdlib_module_names) - NEWER_THAN_THE_ENGINES) | ENGINES
    for path in files:
        tree = ast.parse(path.read_text(), filename=str(path), feature_version=(3, 10))
        assert imported(tree) <= allowed, f"{path.relative_to(ROOT)} imports {imported(tree) - allowed}"


LOADED_BY_THE_ENGINE = {"trimtab_plugin.stats"}
"""Loaded through vLLM's stat logger group only, and derived from vLLM's own class."""


def test_the_plugin_loads_where_there_is_no_engine_and_nothing_else_installed() -> None:
    package = ROOT / "engine_plugin"
    names = {".".join(path.relative_to(package).with_suffix("").parts) for path in modules("engine_plugin")}
    wanted = sorted({name.removesuffix(".__init__") for name in names} - LOADED_BY_THE_ENGINE)
    program = f"import sys; sys.path.insert(0, {str(package)!r})\n" + "".join(f"import {n}\n" for n in wanted)
    # -I and -S: no site-packages at all, as bare as an engine's Python can be.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_no_module_is_long() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in modules(*ROOMS, "engine_plugin", "tests")
        if (lines := len(path.read_text().splitlines())) > LONGEST_MODULE_LINES
    }
    assert not long, f"more than {LONGEST_MODULE_LINES} lines, so more than one reason to change: {long}"


def test_names_say_what_a_module_is_for() -> None:
    vague = {"util", "utils", "helper", "helpers", "manager", "managers", "misc", "common"}
    assert not [str(path) for path in modules(*ROOMS, "engine_plugin", "tests") if path.stem in vague]


OUT_OF_PLACE = {
    "a path of one machine": r"/(?:wo" r"rk|fa" r"rm)/",
    "a registry's address": r"py" r"pi\.(?:org|python)|files\.python" r"hosted|mirrors?\.[a-z]+\.(?:com|edu)",
    "how it is developed": r"(?i)\bsub" r"agents?\b|\bC" r"EO\b",
    "the shared folder": r"shared/(?!corpus\b)[A-Za-z]+\.md",
    "unfinished work": r"\bTO" r"DO\b|\bFIX" r"ME\b|\bXX" r"X\b",
}
"""What to find nowhere, and why (in two pieces each, so that this file does not find itself)."""


@pytest.mark.parametrize("what", OUT_OF_PLACE)
def test_nothing_out_of_place_is_written_down(what: str) -> None:
    pattern = re.compile(OUT_OF_PLACE[what])
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in own_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, what + ":\n" + "\n".join(found)
