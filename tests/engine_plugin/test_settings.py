"""The plugin's part of the engine's environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from trimtab_plugin.settings import TokenFile, disabled, starts_closed


@pytest.mark.parametrize(("value", "off"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_one_variable_switches_everything_off(value: str, off: bool) -> None:
    assert disabled({"TRIMTAB_DISABLE": value}) is off


def test_the_gate_starts_closed_only_when_told() -> None:
    assert starts_closed({"TRIMTAB_GATE": "closed"}, now=100.0)
    assert not starts_closed({"TRIMTAB_GATE": "open"}, now=100.0)
    assert not starts_closed({}, now=100.0)


def test_a_closed_start_counts_up_to_its_time_and_not_for_every_later_start() -> None:
    environ = {"TRIMTAB_GATE": "closed", "TRIMTAB_GATE_UNTIL": "200"}
    assert starts_closed(environ, now=199.0)
    assert not starts_closed(environ, now=200.0)


def test_the_token_is_the_files_text_and_may_change(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    token = TokenFile({"TRIMTAB_TOKEN_FILE": str(path)})
    assert token.problem() is None
    assert token.matches(b"first")
    assert not token.matches(b"first\n")
    assert not token.matches(None)
    path.write_text("second")
    assert token.matches(b"second")
    assert not token.matches(b"first")


def test_without_a_usable_file_nothing_matches_and_the_reason_is_said(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text(" \n")
    for environment, reason in (
        ({}, "without TRIMTAB_TOKEN_FILE"),
        ({"TRIMTAB_TOKEN_FILE": str(tmp_path / "absent")}, "cannot read"),
        ({"TRIMTAB_TOKEN_FILE": str(empty)}, "is empty"),
    ):
        token = TokenFile(environment)
        assert not token.matches(b"")
        assert reason in (token.problem() or "")
