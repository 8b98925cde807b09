"""The config of one engine process: epochs, leases, and a step wrapper that exists only while it has work.

Runs on the engine's own thread; times are seconds of a monotonic clock, `wall` gives Unix seconds.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trimtab_plugin.knobs import SchedulerKnobs, Values

logger = logging.getLogger("vllm.trimtab")

Answer = dict[str, Any]

HISTORY_KEPT = 256


def boot_id() -> str:
    """Name this engine process for good: `<pid>-<start time in clock ticks since boot>-<random hex>`."""
    try:
        # The fields after the command's closing bracket; the start time is field 22 of the line.
        started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        started = str(int(time.time()))
    return f"{os.getpid()}-{started}-{secrets.token_hex(8)}"


class Controller:
    """Holds the engine's config and answers the plugin's utility call."""

    def __init__(
        self,
        scheduler: Any,
        *,
        name: str = "",
        refusal: str | None = None,
        queue_refusal: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Take charge of `scheduler`; with a `refusal` (why changes are unsafe here) only answer reads.

        `queue_refusal` is the same for priority by size alone.
        """
        self._scheduler = scheduler
        self._knobs = SchedulerKnobs(scheduler, queue_refusal)
        self._name = name
        self._refusal = refusal
        self._known = refusal is None
        self._clock = clock
        self._wall = wall
        self._boot_id = boot_id()
        self._values: Values = dict(self._knobs.launch)
        self._revert_to: Values = dict(self._knobs.launch)
        self._mark = ""
        self._revert_mark = ""
        self._deadline = float("inf")
        self._epoch = 0
        self._history: deque[tuple[int, float]] = deque([(0, wall())], maxlen=HISTORY_KEPT)
        self._wrapped = False

    def call(self, request: Mapping[str, Any]) -> Answer:
        """Answer one request of the API process; never raises for what the request holds.

        A request whose `expires` (Unix seconds) is past is not carried out: its sender has given up on it.
        """
        try:
            if request["op"] == "knobs":
                if self._wall() > request["expires"]:
                    return self._error(504, "the engine was busy for too long; nothing was changed")
                return self._apply(request)
            if request["op"] == "reset":
                self._reset(request["epoch"])
            return self._state()
        except Exception as error:
            # Whatever it is, it must not be left half written in a serving engine.
            self._give_up(error)
            return self._error(
                500, f"the plugin failed ({type(error).__name__}: {error}); launch values are back"
            )

    def _state(self) -> Answer:
        self._expire_if_due()
        knobs = self._knobs
        return {
            "boot_id": self._boot_id,
            "epoch": self._epoch,
            "values": knobs.effective(),
            "ceilings": knobs.ceilings,
            "floors": knobs.floors(self._values),
            "lease_remaining_seconds": self._lease_remaining(),
            "mark": self._mark,
            "scheduler": self._name,
            "scheduler_known": self._known,
            **self._moment(),
        }

    def _apply(self, request: Mapping[str, Any]) -> Answer:
        self._expire_if_due()
        knobs = self._knobs
        requested, problems = knobs.parse(request["values"])
        revert, revert_problems = knobs.parse(request.get("revert_to") or {})
        problems += [f"revert_to: {problem}" for problem in revert_problems]
        if problems:
            return self._error(422, "; ".join(problems))
        if request["if_epoch"] != self._epoch:
            return self._error(
                409,
                f"epoch {request['if_epoch']} is stale: the engine is at {self._epoch}; read the state again",
            )
        lease = request.get("lease_seconds")
        leased = self._deadline != float("inf")
        # A change for good during a lease stands on what the lease would go back to: the rest was only on trial.
        values = {**(self._revert_to if leased and lease is None else self._values), **requested}
        revert_to = {**(self._revert_to if leased else self._values), **revert}
        mark = request.get("mark")
        if mark is None:
            mark = self._revert_mark if leased and lease is None else self._mark
        problems = knobs.problems(values)
        problems += [f"revert_to: {problem}" for problem in knobs.problems(revert_to)]
        if problems:
            return self._error(422, "; ".join(problems))
        refusal = self._refusal or request.get("refusal")
        if refusal is not None:
            return self._result(requested, "refused", refusal)

        self._revert_to = revert_to if lease is not None else dict(values)
        if lease is None:
            self._revert_mark = mark
        elif not leased:
            self._revert_mark = self._mark
        self._deadline = float("inf") if lease is None else self._clock() + lease
        if values != self._values or mark != self._mark:
            self._begin(values, mark)
        else:
            self._arm()
        return self._result(requested, "draining" if knobs.draining else "applied", None)

    def _reset(self, epoch: int) -> None:
        """Go back to the launch values under `epoch`, which is above that of every rank."""
        self._deadline = float("inf")
        self._epoch = max(self._epoch, epoch - 1)
        self._revert_mark = ""
        self._begin(self._knobs.launch, "")

    def _result(self, requested: Values, status: str, reason: str | None) -> Answer:
        read = self._knobs.effective()
        return {
            "epoch": self._epoch,
            "requested": requested,
            "effective": {name: read[name] for name in requested},
            "status": status,
            "reason": reason,
            "values": read,
            "mark": self._mark,
            "lease_remaining_seconds": self._lease_remaining(),
            **self._moment(),
        }

    def _error(self, code: int, text: str) -> Answer:
        return {"code": code, "error": text, "epoch": self._epoch, **self._moment()}

    def _moment(self) -> Answer:
        return {"history": [list(entry) for entry in list(self._history)[-32:]], "now": self._wall()}

    def _lease_remaining(self) -> float | None:
        return None if self._deadline == float("inf") else max(0.0, self._deadline - self._clock())

    def _begin(self, values: Values, mark: str) -> None:
        """Start a new epoch with `values`; `mark` names what else is different in it, outside the engine."""
        self._values = dict(values)
        self._mark = mark
        self._knobs.write(values)
        self._epoch += 1
        self._history.append((self._epoch, self._wall()))
        self._arm()

    def _expire_if_due(self) -> None:
        if self._clock() >= self._deadline:
            self._deadline = float("inf")
            logger.warning(
                "trimtab: the lease of epoch %d ran out; going back to %s", self._epoch, self._revert_to
            )
            self._begin(self._revert_to, self._revert_mark)

    def _arm(self) -> None:
        """Wrap this scheduler's `schedule()` only while a lease, a lowered cap or a prefill cap is on."""
        needed = self._deadline != float("inf") or self._knobs.needs_each_step
        if needed and not self._wrapped:
            schedule, before_step = self._scheduler.schedule, self._before_step

            def schedule_with_trimtab(*args: Any, **kwargs: Any) -> Any:
                before_step()
                return schedule(*args, **kwargs)

            self._scheduler.schedule = schedule_with_trimtab
            self._wrapped = True
        elif not needed and self._wrapped:
            del self._scheduler.schedule
            self._wrapped = False

    def _before_step(self) -> None:
        try:
            if self._clock() >= self._deadline:
                self._expire_if_due()
            self._knobs.before_step()
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Put the launch values back, leave the scheduler alone from now on, and refuse changes."""
        logger.error("trimtab: the hot lane is switched off", exc_info=error)
        self._refusal = (
            f"the plugin failed in this engine ({type(error).__name__}: {error}); restart it to use hot knobs"
        )
        self._deadline = float("inf")
        if self._values != self._knobs.launch or self._mark:
            self._values = dict(self._knobs.launch)
            self._mark = self._revert_mark = ""
            self._epoch += 1
            self._history.append((self._epoch, self._wall()))
        # Unwrapped first: whatever the write meets, the engine's next step must be its own.
        if self._wrapped:
            del self._scheduler.schedule
            self._wrapped = False
        try:
            self._knobs.write(self._knobs.launch)
        except Exception as second:
            logger.error("trimtab: the launch values could not be put back either", exc_info=second)
