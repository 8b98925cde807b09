"""Runs a program that changes the engine: bounded in time, and what it left running on purpose goes on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from change.server import ServerError

MAX_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Said:
    """What a program printed, and its exit code."""

    output: str
    errors: str
    code: int

    @property
    def reason(self) -> str:
        """Its last words, one line."""
        lines = [line.strip() for line in (self.errors or self.output).splitlines() if line.strip()]
        return lines[-1][:500] if lines else f"exit code {self.code}, without a word"


async def run_program(argv: Sequence[str], *, timeout_seconds: float, given: bytes = b"") -> Said:
    """Run `argv` with `given` on its stdin and wait for its end, its children not included.

    Raises `ServerError` if it cannot be run, is late (it is killed then) or prints too much.
    """
    # Files, not pipes: a program may leave an engine behind that holds its output open for weeks.
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(given)
        stdin.seek(0)
        try:
            child = await asyncio.create_subprocess_exec(
                *argv,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
            )
        except OSError as error:
            raise ServerError(
                f"{argv[0]}: cannot be run: {error.strerror}; is it there, and executable?"
            ) from error
        try:
            async with asyncio.timeout(timeout_seconds):
                code = await child.wait()
        except TimeoutError as error:
            raise ServerError(f"{argv[0]}: did not end within {timeout_seconds:g} s") from error
        finally:
            if child.returncode is None:
                # Only the program itself: what it began may be the engine.
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()
        texts = []
        for file in (stdout, stderr):
            if os.fstat(file.fileno()).st_size > MAX_BYTES:
                raise ServerError(f"{argv[0]}: printed more than {MAX_BYTES} bytes")
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        return Said(texts[0], texts[1], code)
