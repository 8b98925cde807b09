"""The commands as one program: exit codes, and one line for every mistake of a person."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from daemon.cli import run
from tests.daemon.engine_stand import EngineStand
from tests.daemon.trimtab_command import Trimtab, one_line


def test_the_version_is_printed(trimtab: Trimtab) -> None:
    told = trimtab("--version")
    assert (told.code, told.err) == (0, "")
    assert re.fullmatch(r"trimtab \d+\.\d+\.\d+\n", told.out)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["tunee"],
        ["tune", "--mode", "observe"],
        ["tune", "--minutes", "-1", "--mode", "act"],
        ["rollback", "0"],
        ["rollback", "two"],
        ["history", "--nope"],
        ["config"],
        ["apply"],
        ["serve"],
        ["knobs", "--engine", "tgi"],
        ["knobs", "--version", "new"],
        ["collect", "--source", "nothing"],
        ["collect", "-c", "/nowhere/config.yaml"],
        ["tune"],
    ],
    ids=" ".join,
)
def test_usage_errors_are_one_line_and_code_2(trimtab: Trimtab, words: list[str]) -> None:
    told = trimtab(*words)
    assert told.code == 2
    one_line(told)


def test_every_command_has_help(trimtab: Trimtab) -> None:
    listed = re.findall(r"^  ([a-z]+)  ", trimtab("--help").out, re.MULTILINE)
    assert {
        "run",
        "serve",
        "doctor",
        "collect",
        "tune",
        "trials",
        "report",
        "knobs",
        "apply",
        "config",
    } <= set(listed)
    for command in listed:
        told = trimtab(command, "--help")
        assert told.code == 0
        assert "Usage:" in told.out


def test_the_engine_that_is_not_there_is_code_3(
    trimtab: Trimtab, config: str, engine: EngineStand, tmp_path: Path
) -> None:
    engine.stop()
    values = tmp_path / "values.yaml"
    values.write_text("max_num_seqs: 64")
    for words in (
        ["apply", str(values)],
        ["rollback"],
        ["detach"],
        ["tune", "--mode", "act"],
        ["tune", "--dry-run"],
    ):
        told = trimtab(*words, "-c", config)
        assert told.code == 3, words
        one_line(told)
        assert "nobody answers" in told.err


def test_reading_goes_on_without_the_engine(trimtab: Trimtab, config: str, engine: EngineStand) -> None:
    engine.stop()
    assert trimtab("history", "-c", config).code == 0
    told = trimtab("knobs", "--json", "-c", config)
    assert told.code == 0
    assert {"batch_max_tokens", "block_size"} <= {row["name"] for row in told.json}
    assert "nobody answers" in told.err


def test_a_defect_is_not_hidden_as_a_persons_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.commands.config.shown", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(["config", "check"])
