"""All Alertmanagers: each gets every alert, as from Prometheus, and none waits for another."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from collectors.sample import Labels
from rules.alert import Alert, fingerprint
from rules.alertmanager.payload import Posted, posted
from rules.alertmanager.suppression import question
from rules.alertmanager.target import Target

MOST_KNOWN = 20_000
ANSWER_SECONDS = 2.0
"""Longest wait for the word of one instance on a silence: one that hangs must not drown what another says."""
VALID_SECONDS = 240.0
"""How long a firing alert counts that does not say it itself: four times Prometheus' pause before it sends again."""


class Sender:
    """Hands alerts to every target, and asks the targets whether one is silenced or inhibited."""

    def __init__(
        self,
        targets: Sequence[Target],
        external_labels: Mapping[str, str] | None = None,
        page_url: str = "",
        *,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """`page_url` is the page of ours that an alert's `generatorURL` names."""
        self.targets = tuple(targets)
        self._external = dict(external_labels or {})
        self._page_url = page_url
        self._answer_seconds = answer_seconds
        self._known: OrderedDict[str, Labels] = OrderedDict()
        self._learnt: OrderedDict[str, Labels] = OrderedDict()
        self._sent: OrderedDict[str, Labels] = OrderedDict()

    def put(self, alerts: Sequence[Alert], now: float) -> None:
        """Have every target told of alerts that fire or are resolved; a firing one counts until its `valid_until`."""
        ready: list[Posted] = []
        for alert in alerts:
            if alert.state == "pending":
                continue
            until = alert.valid_until if alert.valid_until is not None else now + VALID_SECONDS
            sent = posted(alert, until, self._external, self._page_url)
            ready.append(sent)
            _remember(self._known, alert.fingerprint, sent.labels)
            _remember(self._sent, sent.fingerprint, sent.labels)
        for target in self.targets:
            target.put(ready)

    async def send(self, alerts: Sequence[Alert], now: float) -> None:
        """`put`, and one try at every target at once."""
        self.put(alerts, now)
        await asyncio.gather(*(target.send_due() for target in self.targets))

    def learn(self, fingerprint: str, labels: Labels) -> None:
        """An Alertmanager brought an alert of somebody's; it may be asked about, by the labels that it has there."""
        _remember(self._learnt, fingerprint, labels)

    def is_ours(self, fingerprint: str) -> bool:
        """Whether an Alertmanager that names this fingerprint speaks of an alert that this process sent."""
        return fingerprint in self._sent

    async def suppressed(self, fingerprint: str, now: float) -> bool | None:
        """Whether an alert is silenced or inhibited; None: no Alertmanager that knows it answered.

        `fingerprint` is that of the alert's own labels; external labels make it another one in Alertmanager, which is
        remembered. An alert that still waits in a target's queue is sent there before the target is asked, so that it
        is not unknown for being new. One instance that says suppressed is enough: a silence takes a moment to reach
        the others, and doing nothing is the safer mistake. Without any Alertmanager nobody can have silenced it: False.

        None means that a playbook may walk: who wants the engine left alone has `pause`, the kill-switch and the mode,
        and an Alertmanager that is down must not keep an engine from being mended.
        """
        if not self.targets:
            return False
        labels = self._known.get(fingerprint)
        said = await asyncio.gather(*(self._ask(target, fingerprint, labels) for target in self.targets))
        if any(said):
            return True
        return None if all(answer is None for answer in said) else False

    async def close(self) -> None:
        """Close every connection."""
        for target in self.targets:
            await target.close()

    async def _ask(self, target: Target, own: str, labels: Labels | None) -> bool | None:
        known = own
        if labels is None:
            labels = self._learnt.get(own)
        else:
            known = fingerprint(labels)
        try:
            async with asyncio.timeout(self._answer_seconds):
                if target.waits_for(known):
                    await target.send_due()
                return await question(target.wire, target.alerts_url, known, labels or ())
        except TimeoutError:
            return None


def _remember(known: OrderedDict[str, Labels], key: str, labels: Labels) -> None:
    known[key] = labels
    known.move_to_end(key)
    while len(known) > MOST_KNOWN:
        known.popitem(last=False)
