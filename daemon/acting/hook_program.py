"""Runs the operator's hook: a list of words and never a shell's line, bounded in time and output, and ended whole."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daemon.acting.deed import RunContext

MOST_BYTES = 64 * 1024
"""Of its output that are looked at."""
RUNAWAY_BYTES = 8 * 1024 * 1024
LOOK_SECONDS = 0.2
TOLD_CHARACTERS = 500
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "KUBECONFIG", "TMPDIR", "SSL_CERT_FILE")
"""Of our own environment: a hook gets no secret that was meant for us."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a hook ended: `code` is None where it was ended by us, or could not be begun."""

    code: int | None
    output: str
    seconds: float
    trouble: str | None = None

    @property
    def last_line(self) -> str:
        """Its last words."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return lines[-1][:TOLD_CHARACTERS] if lines else ""


def environment(context: RunContext, own: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a hook finds in its environment."""
    return {name: own[name] for name in _KEPT if name in own} | {
        "TRIMTAB_RUN": context.run,
        "TRIMTAB_PLAYBOOK": context.playbook,
        "TRIMTAB_TARGET": context.target,
    }


async def run_hook(argv: Sequence[str], context: RunContext, timeout_seconds: float) -> Ran:
    """Run it to its end; what is late, or prints without end, is killed with all that it began (its process group).

    What it leaves running on purpose goes on.
    """
    begun = time.monotonic()
    # A file and no pipe: a replica that it leaves running may hold its output open for weeks.
    with tempfile.TemporaryFile() as output:
        try:
            child = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment(context),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            return Ran(None, "", 0.0, f"{argv[0]}: cannot be run: {why}; is it there, and executable?")
        try:
            trouble = await _ended(child, output.fileno(), begun + timeout_seconds)
        finally:
            if child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)  # its own group: start_new_session made it
                await child.wait()
        text = _printable(os.pread(output.fileno(), MOST_BYTES, 0))
    took = time.monotonic() - begun
    if trouble is not None:
        return Ran(None, text, took, f"{argv[0]}: {trouble}, and was ended with all that it began")
    return Ran(child.returncode, text, took)


async def _ended(child: asyncio.subprocess.Process, output: int, deadline: float) -> str | None:
    """Wait for the end; says why the wait is over if it does not come."""
    ending = asyncio.create_task(child.wait())
    try:
        while not ending.done():
            left = deadline - time.monotonic()
            if left <= 0:
                return "did not end in its time"
            if os.fstat(output).st_size > RUNAWAY_BYTES:
                return f"printed more than {RUNAWAY_BYTES // 2**20} MiB"
            await asyncio.wait({ending}, timeout=min(left, LOOK_SECONDS))
        return None
    finally:
        ending.cancel()


def _printable(kept: bytes) -> str:
    text = kept.decode(errors="replace")
    return "".join(character for character in text if character.isprintable() or character in "\n\t")
