"""Why playbooks walk: alerts that fire here, alerts that Alertmanager's webhook brings, and a person's order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import structlog

from collectors.sample import Labels
from rules.playbook.messages import Source, Trigger

ASK_SECONDS = 3.0
"""Longest wait for Alertmanager's word whether an alert is silenced: who does not answer silences nothing."""
MOST_ASKED = 16
MOST_WAITING = 1000
"""More at once are a flood: what is dropped comes again with the next alert that fires."""
RESOLVED = "the alert resolved by itself"
SUPPRESSED = "the alert is silenced or inhibited in Alertmanager"
PLAYBOOK_LABEL = "playbook"

_log = structlog.get_logger("trimtab")


class Silences(Protocol):
    """Who knows whether an alert is silenced or inhibited."""

    async def suppressed(self, fingerprint: str, now: float) -> bool | None:
        """Whether it is; None where nobody answered."""
        ...


class Triggers:
    """Triggers on their way to the runner: each is asked for silences first."""

    def __init__(self, silences: Silences | None, clock: Callable[[], float]) -> None:
        self._silences = silences
        self._clock = clock
        self._ready: list[Trigger] = []
        self._asking: dict[asyncio.Task[None], str] = {}
        self._over: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(MOST_ASKED)

    def add(self, trigger: Trigger) -> None:
        """Take a trigger in; a person's needs no leave."""
        if self._silences is None or trigger.source == "manual" or not trigger.fingerprint:
            self._ready.append(trigger)
            return
        if len(self._asking) >= MOST_WAITING:
            _log.warning("too many alerts at once, one starts no playbook", playbook=trigger.playbook)
            return
        task = asyncio.create_task(self._ask(self._silences, trigger))
        self._asking[task] = trigger.fingerprint
        task.add_done_callback(self._forget)

    def over(self, fingerprint: str) -> None:
        """The alert is over: what is still asked about it, or was and has not gone on, starts nothing."""
        if not fingerprint:
            return
        self._over |= {task for task, asked in self._asking.items() if asked == fingerprint}
        self._ready = [
            _refused(one, RESOLVED) if one.fingerprint == fingerprint else one for one in self._ready
        ]

    def ready(self) -> list[Trigger]:
        """Those that were asked for by now, in their order."""
        ready, self._ready = self._ready, []
        return ready

    async def finish(self) -> None:
        """Ask no more."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    async def _ask(self, silences: Silences, trigger: Trigger) -> None:
        suppressed: bool | None = None
        try:
            async with self._slots, asyncio.timeout(ASK_SECONDS):
                suppressed = await silences.suppressed(trigger.fingerprint, self._clock())
        except TimeoutError:
            pass
        except Exception:
            _log.exception("whether an alert is silenced could not be asked", playbook=trigger.playbook)
        if suppressed is None:
            _log.info("no Alertmanager said whether the alert is silenced", playbook=trigger.playbook)
        if asyncio.current_task() in self._over:
            trigger = _refused(trigger, RESOLVED)
        elif suppressed:
            trigger = _refused(trigger, SUPPRESSED)
        self._ready.append(trigger)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._asking.pop(task, None)
        self._over.discard(task)


def _refused(trigger: Trigger, why: str) -> Trigger:
    return replace(trigger, refusal=why)


def manual(playbook: str, labels: Labels, now: float, *, dry_run: bool) -> Trigger:
    """A person's order to walk a playbook."""
    source: Source = "manual"
    return Trigger(playbook, source, labels, alert_started=now, dry_run=dry_run)
