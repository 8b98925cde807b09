"""What playbooks did since the daemon started, as counters of /metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from daemon.acting.work import Work
from rules.playbook.messages import ENDED, DoAct, Result, RunChanged, UndoAct


class Counts:
    """Runs by playbook and end, acts by kind and what came of them."""

    def __init__(self) -> None:
        self._runs: Counter[tuple[str, str]] = Counter()
        self._acts: Counter[tuple[str, str]] = Counter()

    @property
    def runs(self) -> Mapping[tuple[str, str], int]:
        """By playbook and state."""
        return self._runs

    @property
    def acts(self) -> Mapping[tuple[str, str], int]:
        """By kind and `done`, `failed`, `refused`, `undone` or `not_undone`."""
        return self._acts

    def changed(self, change: RunChanged) -> None:
        """Count a run that came to its end."""
        if change.state in ENDED:
            self._runs[change.playbook, change.state] += 1

    def heard(self, work: Work, result: Result) -> None:
        """Count an act or its undo."""
        if isinstance(work, DoAct):
            if result.refused is not None or result.outcome is None:
                came = "refused"
            else:
                came = "done" if result.outcome.ok else "failed"
        elif isinstance(work, UndoAct):
            came = "undone" if result.outcome is not None and result.outcome.ok else "not_undone"
        else:
            return
        self._acts[work.action.kind, came] += 1
