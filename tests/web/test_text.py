"""Every text the scripts ask for is in the table, and the table holds nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from web import pages
from web.text import ENGLISH

SOURCES = [*pages.HERE.glob("static/js/*.js"), *pages.HERE.glob("templates/*.html"), pages.HERE / "pages.py"]


def asked() -> tuple[set[str], set[str]]:
    """Keys that are written out, and beginnings of keys that are put together."""
    exact: set[str] = set()
    begun: set[str] = set()
    for source in SOURCES:
        text = Path(source).read_text()
        exact |= set(re.findall(r'\bt\(\s*"([\w.]+)"', text))
        exact |= set(re.findall(r'[?:]\s*"([a-z]+(?:\.\w+)+)"', text))
        exact |= set(re.findall(r'(?:text|ENGLISH)\["([\w.]+)"\]', text))
        begun |= set(re.findall(r"\bt\(\s*`([\w.]*\.)\$\{", text))
        begun |= {f"{group}." for group in re.findall(r'\b(?:word|count)\("([\w.]+)"', text)}
        begun |= set(re.findall(r'"([\w.]+\.)"\s*~', text))
    return exact, begun


def test_every_key_that_is_asked_for_exists() -> None:
    exact, begun = asked()
    assert exact - set(ENGLISH) == set()
    assert [group for group in begun if not any(key.startswith(group) for key in ENGLISH)] == []


def test_every_key_is_asked_for() -> None:
    exact, begun = asked()
    suffixed = re.compile(r"`\$\{\w+\}\.(\w+)`")
    endings = {ending for source in SOURCES for ending in suffixed.findall(Path(source).read_text())}
    unused = {
        key
        for key in ENGLISH
        if key not in exact
        and not any(key.startswith(group) for group in begun)
        and key.rpartition(".")[2] not in endings
    }
    assert unused == set()
