"""A launch command with changed settings, or every reason why there is none."""

from __future__ import annotations

from change.facts import Facts
from change.installed.engine import Argument, InstalledEngine
from change.launch import plan, unknown_arguments
from change.server import LaunchCommand

FACTS = Facts("vllm", "0.28.0", "cpu")
INSTALLED = InstalledEngine(
    "vllm",
    "/packages/vllm",
    "0.28.0",
    tuple(Argument((each,)) for each in ("--block-size", "--max-num-seqs", "--port")),
)


def command(*words: str) -> LaunchCommand:
    return LaunchCommand(("vllm", "serve", "m", *words))


def test_settings_that_nothing_speaks_against_make_a_command() -> None:
    planned = plan(command("--block-size", "16"), {"block_size": 32}, FACTS)
    assert planned.command == command("--block-size", "32")
    assert planned.problems == ()


def test_rules_hold_with_what_stands_in_the_command() -> None:
    planned = plan(command("--max-num-batched-tokens", "128"), {"max_num_seqs": 256}, FACTS)
    assert planned.command is None
    assert "every running request needs a token" in planned.problems[0]


def test_a_command_that_cannot_be_changed_is_said() -> None:
    shell = LaunchCommand(("sh", "-c", "vllm serve m"))
    assert "a line for a shell" in plan(shell, {"block_size": 32}, FACTS).problems[0]


def test_an_argument_that_an_upgrade_took_away_is_named_with_what_came_after() -> None:
    planned = plan(command("--swap-space", "4"), {"block_size": 32}, FACTS)
    assert planned.command is None
    (text,) = planned.problems
    assert text.startswith("vllm 0.28.0 has no argument --swap-space")
    assert "kv_offloading_size" in text and text.endswith("take it out of the command")


def test_the_installed_engine_decides_where_it_is_known() -> None:
    facts = Facts("vllm", "0.28.0", "cpu", installed=INSTALLED)
    assert unknown_arguments(command("--block_size", "16", "-qawq", "--max-num-s=3", "--help"), facts) == []
    (text,) = unknown_arguments(command("--of-a-fork", "1", "--of-a-fork", "2"), facts)
    assert text == "the installed vllm 0.28.0 has no argument --of-a-fork: take it out of the command"


def test_what_nobody_knows_is_not_called_gone() -> None:
    assert unknown_arguments(command("--of-a-fork", "1"), FACTS) == []
    assert unknown_arguments(command("--swap-space", "4"), Facts("vllm")) == []
