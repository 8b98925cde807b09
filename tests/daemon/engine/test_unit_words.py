"""Words of a command line survive a unit file, and variables of the unit's own command stay variables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from change.server import LaunchCommand
from daemon.engine.drop_in import Remembered, written
from daemon.engine.unit_words import bus_path, environment, exec_start
from daemon.guardian.wire import Command
from tests.daemon.engine.standing_systemd import PROGRAM

WORDS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=6)
SPACE: dict[str, object] = {}
SOURCE = PROGRAM[PROGRAM.index("def split(") : PROGRAM.index("def load(")]
EXPAND = PROGRAM[PROGRAM.index("def expanded(") : PROGRAM.index("class State")]
exec(
    f"import re\n{SOURCE}\n{EXPAND}", SPACE
)  # the reader's side is written on its own, from systemd's manual


def read(line: str, environ: dict[str, str] | None = None) -> list[str]:
    split, expanded = SPACE["split"], SPACE["expanded"]
    assert callable(split)
    assert callable(expanded)
    found = expanded(split(line), environ or {})
    assert isinstance(found, list)
    return found


@given(WORDS)
def test_any_words_are_read_back_as_they_were(words: list[str]) -> None:
    argv = ["/usr/bin/vllm", *words]
    line = exec_start(argv)
    assert "\n" not in line
    assert read(line) == argv


@given(st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True), st.text("aZ %$\"'\\\n;=")))
def test_any_environment_is_read_back_as_it_was(environ: dict[str, str]) -> None:
    split = SPACE["split"]
    assert callable(split)
    assert dict(split(line)[0].split("=", 1) for line in environment(environ)) == environ


def test_what_needs_no_quotes_has_none_and_signs_are_doubled() -> None:
    line = exec_start(["/usr/bin/vllm", "serve", '--config={"a": 1}', "50%", "$HOME", ""])
    assert line == '/usr/bin/vllm serve "--config={\\"a\\": 1}" "50%%" "$$HOME" ""'


def test_a_variable_of_the_units_own_command_stays_one_and_its_value_is_not_written() -> None:
    own = Command(argv=["/usr/bin/vllm", "serve", "$MODEL", "--api-key", "${KEY}"])
    command = LaunchCommand((*own.argv, "--block-size", "256"))
    text = written(Remembered(command=Command.of(command), own=own), [])
    line = next(line for line in text.splitlines() if line.startswith("ExecStart=/")).removeprefix(
        "ExecStart="
    )
    found = read(line, {"MODEL": "m", "KEY": "a secret"})
    assert found == ["/usr/bin/vllm", "serve", "m", "--api-key", "a secret", "--block-size", "256"]
    assert "a secret" not in text


@pytest.mark.parametrize("argv", [[], [""], ["-vllm"], ["@vllm"], ["vllm", "a\0b"]])
def test_what_a_unit_cannot_hold_is_refused(argv: list[str]) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        exec_start(argv)


def test_a_name_that_is_no_variable_is_refused() -> None:
    with pytest.raises(ValueError, match="no name"):
        environment({"A=B": "c"})


@pytest.mark.parametrize(
    ("unit", "path"), [("vllm.service", "vllm_2eservice"), ("9-a@b.service", "_39_2da_40b_2eservice")]
)
def test_a_units_object_has_systemds_name(unit: str, path: str) -> None:
    assert bus_path(unit) == f"/org/freedesktop/systemd1/unit/{path}"
