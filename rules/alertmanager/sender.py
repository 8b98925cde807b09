"""All Alertmanagers: each gets every alert, as from Prometheus, and none waits for another."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from collectors.sample import Labels
from rules.alert import Alert, fingerprint
from rules.alertmanager.payload import Posted, posted, sent_labels
from rules.alertmanager.suppression import question
from rules.alertmanager.target import Target

MOST_KNOWN = 20_000


class Sender:
    """Hands alerts to every target, and asks the targets whether one is silenced or inhibited."""

    def __init__(
        self, targets: Sequence[Target], external_labels: Mapping[str, str] | None = None, page_url: str = ""
    ) -> None:
        """`page_url` is the page of ours that an alert's `generatorURL` names."""
        self.targets = tuple(targets)
        self._external = dict(external_labels or {})
        self._page_url = page_url
        self._sent: OrderedDict[str, None] = OrderedDict()

    def put(self, alerts: Sequence[Alert], valid_until: float) -> None:
        """Have every target told of alerts that fire or are resolved; a firing one counts until `valid_until`."""
        ready = [
            posted(alert, valid_until, self._external, self._page_url)
            for alert in alerts
            if alert.state != "pending"
        ]
        for alert in ready:
            self._remember(alert)
        for target in self.targets:
            target.put(ready)

    async def send(self, alerts: Sequence[Alert], valid_until: float) -> None:
        """`put`, and one try at every target at once."""
        self.put(alerts, valid_until)
        await asyncio.gather(*(target.send_due() for target in self.targets))

    def is_ours(self, fingerprint: str) -> bool:
        """Whether an Alertmanager that names this fingerprint speaks of an alert that this process sent."""
        return fingerprint in self._sent

    async def suppressed(self, labels: Labels, *, received: bool = False) -> bool | None:
        """Whether an alert is silenced or inhibited; None: no Alertmanager that knows it answered.

        `labels` are the alert's own, or with `received` those of an alert that an Alertmanager's webhook brought, which
        carry the external labels already. An alert that still waits in a target's queue is sent there before the
        target is asked, so that a firing alert is not unknown for being new. One that says suppressed is enough: a
        silence takes a moment to reach the other instances, and doing nothing is the safer mistake. Without any
        Alertmanager nobody can have silenced it: False.

        None means that a playbook may walk: who wants the engine left alone has `pause`, the kill-switch and the mode,
        and an Alertmanager that is down must not keep an engine from being mended.
        """
        if not self.targets:
            return False
        known = labels if received else sent_labels(labels, self._external)
        said = await asyncio.gather(*(self._ask(target, known) for target in self.targets))
        if any(said):
            return True
        return None if all(answer is None for answer in said) else False

    async def close(self) -> None:
        """Close every connection."""
        for target in self.targets:
            await target.close()

    async def _ask(self, target: Target, labels: Labels) -> bool | None:
        if target.waits_for(fingerprint(labels)):
            await target.send_due()
        return await question(target.wire, target.alerts_url, labels)

    def _remember(self, alert: Posted) -> None:
        self._sent[alert.fingerprint] = None
        self._sent.move_to_end(alert.fingerprint)
        while len(self._sent) > MOST_KNOWN:
            self._sent.popitem(last=False)
