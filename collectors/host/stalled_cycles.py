"""Runs `perf stat` on the engine for a moment: how much of its cycles it stalled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from collectors.blocking import Blocking
from collectors.command import run_command
from collectors.host.files import SystemFiles
from collectors.host.perf import parse_perf_stat, perf_command, stalled_ratios
from collectors.host.tree import EngineTree, Process
from collectors.sample import CollectorError, Sample, labels

MAX_PROCESSES = 256
_FORBIDDEN = ("permission", "not permitted", "access to performance monitoring", "perf_event_paranoid")


class StalledCyclesCollector:
    """Counts stalled cycles of the engine's processes for `seconds`; costs the engine next to nothing.

    `program` is perf's name or path. Needs a processor that counts them (many VMs do not) and the right to ask.
    """

    name = "stalled_cycles"

    def __init__(
        self,
        tree: EngineTree,
        program: str = "perf",
        *,
        seconds: float = 1.0,
        root: Path = Path("/"),
        interval_seconds: float = 60.0,
        timeout_seconds: float | None = None,
    ) -> None:
        self.interval_seconds = interval_seconds
        self.notes: tuple[str, ...] = ()
        self._tree = tree
        self._program = program
        self._seconds = seconds
        self._timeout = seconds + 5.0 if timeout_seconds is None else timeout_seconds
        self._files = SystemFiles(root)
        self._blocking: Blocking[list[Process]] = Blocking(
            "stalled-cycles-collector", "does a process hang in the kernel (state D)?"
        )

    async def collect(self, now: float) -> list[Sample]:
        """Count once; no samples while no engine is known. Raises CollectorError with the reason."""
        self._files.forget_notes()
        processes = await self._blocking.run(lambda: self._tree.processes(self._files, now))
        self.notes = self._files.notes
        if not processes:
            return []
        if len(processes) > MAX_PROCESSES:
            self.notes += (
                f"{len(processes) - MAX_PROCESSES} processes over {MAX_PROCESSES} are not counted",
            )
        pids = [process.pid for process in processes[:MAX_PROCESSES]]
        command = perf_command(self._program, pids, self._seconds)
        output = await run_command(command, timeout_seconds=self._timeout)
        found = parse_perf_stat(output.text)
        ratios = stalled_ratios(found)
        # "not counted" is perf's word for processes that did not run: an idle engine, no fault.
        sound = found.counts or "not counted" in found.missing.values()
        if not ratios and (output.code or "not supported" in found.missing.values() or not sound):
            raise CollectorError(f"{self._program}: {self._reason(output.text, output.code, found.missing)}")
        self.notes += tuple(f"{event}: {why}" for event, why in sorted(found.missing.items()))
        return [
            Sample("trimtab_engine_stalled_cycles_ratio", ratio, now, labels(kind=kind))
            for kind, ratio in ratios.items()
        ]

    def _reason(self, text: str, code: int, missing: Mapping[str, str]) -> str:
        said = " ".join(text.split())
        if any(word in said.lower() for word in _FORBIDDEN):
            paranoid = (self._files.text("/proc/sys/kernel/perf_event_paranoid") or "unknown").strip()
            return (
                f"not allowed to count (kernel.perf_event_paranoid is {paranoid}): run Trimtab as root or with"
                " CAP_PERFMON, or set it to 1 or lower"
            )
        if "not supported" in missing.values():
            return "this processor, or the VM on it, does not count stalled cycles; set enabled: false"
        return f"exit code {code}: {said[:200]}" if said else f"exit code {code}, and nothing printed"
