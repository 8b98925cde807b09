"""A program that works, fails, babbles, hangs or is not there, run as a real one."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from collectors.command import MAX_BYTES, CommandOutput, run_command
from collectors.sample import CollectorError
from tests.collectors.programs import alive, program, wait_until


def run(*command: str) -> CommandOutput:
    return asyncio.run(run_command(command, timeout_seconds=10.0))


def refusal(*command: str) -> str:
    with pytest.raises(CollectorError) as caught:
        run(*command)
    return str(caught.value)


def test_gives_what_was_printed_and_the_exit_code(tmp_path: Path) -> None:
    assert run(program(tmp_path, 'echo "$1 $LC_ALL $LANG"; exit 3'), "a b") == CommandOutput("a b C C\n", 3)
    assert os.environ.get("LC_ALL") != "C", "the daemon's own locale is untouched"


def test_errors_are_not_mixed_with_output(tmp_path: Path) -> None:
    assert run(program(tmp_path, "echo out; echo err >&2")).text == "out\n"
    assert run(program(tmp_path, "echo; echo err >&2")).text == "err\n"


def test_bytes_that_are_no_text_are_shown_as_such(tmp_path: Path) -> None:
    assert run(program(tmp_path, "printf 'a\\346\\216b'")).text == "a\\xe6\\x8eb"


def test_a_missing_program(tmp_path: Path) -> None:
    assert refusal(str(tmp_path / "tool")).endswith("tool: not found; is it in PATH?")


def test_a_program_that_may_not_be_run(tmp_path: Path) -> None:
    assert "cannot be run: Permission denied" in refusal(str(tmp_path))


@pytest.mark.parametrize("body", ["exec yes", "exec yes >&2", "exec cat /dev/zero"])
def test_endless_output_is_cut_short(tmp_path: Path, body: str) -> None:
    assert refusal(program(tmp_path, body)).endswith(f"printed more than {MAX_BYTES} bytes")


def test_endless_output_is_cut_short_though_much_of_it_waits_in_the_pipe(tmp_path: Path) -> None:
    # What is not read out keeps asyncio from telling that the child ended: that must not be waited for.
    large = "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20); os.execvp('yes', ['yes'])"
    command = program(tmp_path, f'exec {sys.executable} -c "{large}" 2>&-')
    assert refusal(command).endswith(f"printed more than {MAX_BYTES} bytes")


def test_a_program_that_hangs_is_killed_with_its_children_and_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, bool]:
        bystander = await asyncio.create_subprocess_exec("sleep", "60")
        command = program(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; echo half; wait")
        try:
            with pytest.raises(CollectorError) as caught:
                await run_command([command], timeout_seconds=0.5)
            return str(caught.value), bystander.returncode is None and alive(bystander.pid)
        finally:
            bystander.kill()
            await bystander.wait()

    began = time.monotonic()
    text, bystander_alive = asyncio.run(scenario())
    assert text.endswith("no answer within 0.5 s")
    assert time.monotonic() - began < 10
    assert bystander_alive
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not alive(child))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_what_a_program_left_behind_is_killed_and_no_descriptor_stays_open(tmp_path: Path) -> None:
    quiet = f"sleep 60 >&- 2>&- & echo $! > {tmp_path}/quiet; echo done"
    loud = f"sleep 60 & echo $! > {tmp_path}/loud; echo done"

    async def scenario() -> tuple[str, int]:
        await run_command(["true"], timeout_seconds=10.0)
        before = descriptors()
        text = (await run_command([program(tmp_path, quiet)], timeout_seconds=10.0)).text
        with pytest.raises(CollectorError, match="no answer within"):
            await run_command([program(tmp_path, loud)], timeout_seconds=0.5)
        with pytest.raises(CollectorError, match="printed more than"):
            await run_command([program(tmp_path, "exec yes")], timeout_seconds=10.0)
        await asyncio.sleep(0)
        return text, descriptors() - before

    assert asyncio.run(scenario()) == ("done\n", 0)
    left = [int((tmp_path / name).read_text()) for name in ("quiet", "loud")]
    wait_until(lambda: not any(alive(child) for child in left))


def test_a_run_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    command = program(tmp_path, f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 60")

    async def scenario() -> None:
        running = asyncio.create_task(run_command([command], timeout_seconds=60.0))
        await asyncio.to_thread(wait_until, lambda: (tmp_path / "pid").exists())
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scenario())
    assert not alive(int((tmp_path / "pid").read_text()))
