"""docs/profiles.md has each finding, each option and each table that is read."""

from __future__ import annotations

import ast

import typer.main

from collectors.profile import find
from collectors.profile.patterns import PATTERNS
from daemon.commands.analyze import app
from tests.prepare import ROOT

PAGE = (ROOT / "docs" / "profiles.md").read_text()


def finding_ids() -> set[str]:
    """The first argument of every `Finding(...)` in the package."""
    found = {f"unfused_{pattern.name.replace('-', '_')}" for pattern in PATTERNS}
    for path in (ROOT / "collectors" / "profile" / "findings").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                name = node.args[0]
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    found.add(name.value)
    return found


def test_every_finding_has_its_place() -> None:
    ids = finding_ids()
    assert len(ids) > 20
    assert not [name for name in ids if f"`{name}`" not in PAGE]


def test_every_option_has_its_row() -> None:
    command = getattr(typer.main.get_command(app), "commands")["msprof"]  # noqa: B009
    options = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    assert {"--format", "--memory-map"} <= options
    assert not [name for name in options - {"--help"} if f"`{name}" not in PAGE]


def test_every_table_that_is_looked_for_is_named() -> None:
    names = find.TABLES.pattern.partition("(")[2].partition(")")[0].replace("\n", "").split("|")
    assert "kernel_details" in names
    assert not [name for name in names if f"`{name.strip()}`" not in PAGE]
