"""The operator's hook as a real process: what it is told, how long it may take, and what is left of it."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import psutil
import pytest

from daemon.acting.deed import RunContext
from daemon.acting.hook_program import MOST_BYTES, Ran, environment, run_hook

RUN = RunContext("run-12", "slow_card", "npu 3")


def hook(folder: Path, text: str) -> list[str]:
    path = folder / "hook"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return [str(path)]


def ran(argv: list[str], seconds: float = 10.0) -> Ran:
    return asyncio.run(run_hook(argv, RUN, seconds))


def gone(pid: int, seconds: float = 5.0) -> bool:
    """Whether a killed process ends; a signal takes its time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


def written(path: Path, seconds: float = 10.0) -> bool:
    """Whether a file comes to hold something."""
    until = time.monotonic() + seconds
    while not (path.exists() and path.read_text()):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def test_it_is_told_for_what_it_runs_and_gets_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_TOKEN", "not-for-hooks")
    monkeypatch.setenv("ENGINE_API_KEY", "nor-this")
    told = ran(hook(tmp_path, "env"))
    assert told.code == 0
    assert "TRIMTAB_RUN=run-12" in told.output
    assert "TRIMTAB_PLAYBOOK=slow_card" in told.output
    assert "TRIMTAB_TARGET=npu 3" in told.output
    assert "not-for-hooks" not in told.output
    assert "nor-this" not in told.output


def test_words_are_no_shells_line(tmp_path: Path) -> None:
    told = ran([*hook(tmp_path, 'printf "%s" "$1"'), "; touch /nowhere $(id)"])
    assert told.output == "; touch /nowhere $(id)"


def test_its_code_and_last_words_are_told(tmp_path: Path) -> None:
    told = ran(hook(tmp_path, "echo first; echo no replica is ready >&2; exit 3"))
    assert (told.code, told.last_line, told.trouble) == (3, "no replica is ready", None)


def test_one_that_is_late_is_ended_with_what_it_began(tmp_path: Path) -> None:
    argv = hook(tmp_path, f"sleep 300 & echo $! > {tmp_path}/child; trap '' TERM; sleep 300")
    begun = time.monotonic()
    told = ran(argv, 0.5)
    assert told.code is None
    assert told.trouble is not None
    assert "did not end in its time" in told.trouble
    assert time.monotonic() - begun < 5
    assert gone(int((tmp_path / "child").read_text()))


def test_what_it_leaves_running_on_purpose_goes_on(tmp_path: Path) -> None:
    told = ran(hook(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; echo begun"))
    child = psutil.Process(int((tmp_path / "child").read_text()))
    try:
        assert (told.code, told.last_line) == (0, "begun")
        assert told.seconds < 5
        assert child.is_running()
    finally:
        child.kill()


def test_output_without_end_is_cut_and_the_program_ended(tmp_path: Path) -> None:
    told = ran(hook(tmp_path, "exec yes"), 30.0)
    assert told.code is None
    assert len(told.output) <= MOST_BYTES
    assert told.trouble is not None
    assert "printed more than" in told.trouble


def test_control_characters_do_not_reach_a_page(tmp_path: Path) -> None:
    told = ran(hook(tmp_path, r"printf 'a\033[31mb\000c\r\n'"))
    assert told.last_line == "a[31mbc"


@pytest.mark.parametrize("argv", [["/nowhere/hook"], ["/"], ["a\0b"]])
def test_one_that_cannot_be_run_says_so(argv: list[str]) -> None:
    told = ran(argv)
    assert told.code is None
    assert told.trouble is not None
    assert "cannot be run" in told.trouble


def test_a_caller_that_goes_away_leaves_no_process(tmp_path: Path) -> None:
    argv = hook(tmp_path, f"echo $$ > {tmp_path}/self; sleep 300")

    async def story() -> None:
        task = asyncio.create_task(run_hook(argv, RUN, 60.0))
        assert await asyncio.to_thread(written, tmp_path / "self")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(story())
    assert gone(int((tmp_path / "self").read_text()))


def test_only_named_variables_are_handed_on() -> None:
    own = {"PATH": "/bin", "KUBECONFIG": "/k", "AWS_SECRET_ACCESS_KEY": "s"}
    assert environment(RUN, own) == {
        "PATH": "/bin",
        "KUBECONFIG": "/k",
        "TRIMTAB_RUN": "run-12",
        "TRIMTAB_PLAYBOOK": "slow_card",
        "TRIMTAB_TARGET": "npu 3",
    }
    assert os.environ.get("TRIMTAB_RUN") is None
