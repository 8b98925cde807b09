"""The page about the configuration has every key with its default and its meaning, as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from daemon.config import Config, known_keys, section_of
from daemon.config_file import read
from daemon.sections.base import Section

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()


def default(value: Any) -> str:
    """A default as the page writes it."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    if value in ([], ""):
        return "none"
    return f"`{value:g}`" if isinstance(value, int | float) else f"`{value}`"


def rows(model: type[Section], prefix: str = "") -> list[str]:
    found = []
    for name, field in model.model_fields.items():
        section = section_of(field.annotation)
        if section is not None:
            found += rows(section, f"{prefix}{name}.")
        else:
            given = "required" if field.is_required() else default(field.default)
            found.append(f"| `{prefix}{name}` | {given} | {field.description} |")
    return found


def test_every_key_has_its_row() -> None:
    assert [row for row in rows(Config) if row not in PAGE.splitlines()] == []
    assert len(rows(Config)) == len(known_keys())


def test_no_row_is_about_a_key_that_is_gone() -> None:
    named = [
        line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `") and "| key" not in line
    ]
    settings = [name for name in named if not name.isupper()]
    assert sorted(settings) == sorted(known_keys())


def test_the_example_is_a_good_one() -> None:
    example = PAGE.split("```yaml\n")[1].split("```")[0]
    assert read(example, "the example").mode == "advise"
