"""What the documents name exists: files, headings, make targets, commands and settings."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import typer.main

from daemon.cli import app
from daemon.config import known_keys
from tests.prepare import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def ids(path: Path) -> str:
    """A page as the test names it."""
    return str(path.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), f"{ids(page)} links to {target}"
        assert not anchor or anchor in anchors(linked), f"{ids(page)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_make_target_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"(?:`|^    )make ([a-z]+)", page.read_text(), flags=re.MULTILINE))
    assert named <= targets


@cache
def commands(*group: str) -> frozenset[str]:
    """The commands that `trimtab [GROUP] --help` lists; empty for one that has none below it."""
    command: object = typer.main.get_command(app)
    for name in group:
        command = getattr(command, "commands", {})[name]
    return frozenset(getattr(command, "commands", {}))


SAID = re.compile(
    r"(?:`|^    |bin/|exec trimtab )trimtab ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", flags=re.MULTILINE
)


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_command_named_exists(page: Path) -> None:
    for command, second in SAID.findall(page.read_text()):
        assert command in commands(), f"{ids(page)} names `trimtab {command}`"
        below = commands(command)
        assert not below or not second or second in below, f"{ids(page)} names `trimtab {command} {second}`"


def test_the_readme_names_every_make_target_a_person_needs() -> None:
    text = (ROOT / "README.md").read_text()
    assert all(f"make {target}" in text for target in ("demo", "check", "test", "acceptance"))


def test_every_setting_has_its_line() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    missing = [
        key for key in known_keys() if f"`{key}`" not in text and f"`{key.rpartition('.')[2]}`" not in text
    ]
    assert not missing


def test_every_command_has_its_line() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    missing = [command for command in sorted(commands()) if f"trimtab {command}" not in text]
    assert not missing
