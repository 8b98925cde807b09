"""From a trigger to a run that is written down: who is let in, on what target, with which reason if not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from collectors.sample import Labels
from rules.playbook.ledger import Ledger
from rules.playbook.messages import Trigger
from rules.playbook.rails import Past, Present, Rails, rests
from rules.playbook.run_store import Kept, RunStore
from rules.playbook.schema import Playbook
from rules.playbook.variables import MAX_VALUE

MOST_LABELS = 64
MOST_AT_ONCE = 200
"""Triggers that one tick looks at, so that a flood does not hold up the runs that walk."""
LONGEST_TARGET = 40
LONGEST_NAME = 100


def admit(
    triggers: Sequence[Trigger],
    playbooks: Mapping[str, Playbook],
    rails: Rails,
    store: RunStore,
    present: Sequence[Present],
    now: float,
) -> list[Kept]:
    """Write down a run for each trigger that has none yet, queued or skipped. Raises `StoreError`: nothing is then."""
    known = store.known([trigger for trigger in triggers if trigger.fingerprint])
    past = store.past(now)
    there = list(present)
    runs: list[Kept] = []
    for trigger in triggers:
        key = (trigger.playbook, trigger.fingerprint, trigger.alert_started)
        if trigger.fingerprint and key in known:
            continue
        known.add(key)
        run = _run(trigger, playbooks.get(trigger.playbook), rails, past, there, now)
        runs.append(run)
        if run.ledger.state == "queued":
            there.append(Present(0, trigger.playbook, run.ledger.target, waiting=True, holds=False))
    if runs:
        store.add(runs)
    for run in runs:
        told = f"{run.trigger.source}: {dict(run.trigger.labels).get('alertname') or run.trigger.playbook}"
        run.ledger.note(now, "state", f"{run.ledger.state}: {run.ledger.reason or told}")
        run.ledger.tell(now)
    return runs


def cleaned(trigger: Trigger) -> Trigger:
    """The trigger with names that can be written down: they come from outside."""
    return replace(trigger, playbook=_name(trigger.playbook), fingerprint=_name(trigger.fingerprint))


def _name(text: str) -> str:
    return text[:LONGEST_NAME].encode("utf-8", "replace").decode()


def target_of(playbook: Playbook, labels: Labels) -> str:
    """What a cool-down counts for; a card that the alert does not name is the engine as a whole."""
    if playbook.target == "npu":
        npu = "".join(char for char in dict(labels).get("npu", "") if char.isprintable())
        return f"npu {npu[:LONGEST_TARGET]}" if npu else "engine"
    return playbook.target


def values_of(trigger: Trigger, playbook: Playbook) -> dict[str, str]:
    """The variables that a trigger brings. What came from outside changes none that the playbook declares: whoever can
    send an alert would set its limits."""
    labels = dict(trigger.labels)
    if trigger.source == "alertmanager":
        declared = playbook.variables.keys() - {"alertname"}
        return {name: value for name, value in labels.items() if name not in declared}
    return labels


def _run(
    trigger: Trigger,
    playbook: Playbook | None,
    rails: Rails,
    past: Sequence[Past],
    present: Sequence[Present],
    now: float,
) -> Kept:
    large = _too_large(trigger.labels)
    if large is not None:
        trigger = replace(trigger, labels=())
    target = "engine" if playbook is None else target_of(playbook, trigger.labels)
    ledger = Ledger(0, trigger.playbook, target)
    reason = trigger.refusal or large
    if playbook is None:
        reason = reason or f"there is no playbook {trigger.playbook}"
        memory = {}
    else:
        own, others = rests(playbook, trigger.window_seconds)
        memory = {
            "rest_seconds": own,
            "target_rest_seconds": others,
            "window_seconds": trigger.window_seconds,
            "dry_asked": trigger.dry_run,
        }
        reason = reason or rails.admit(playbook, target, past, present, now)
    if reason is not None:
        ledger.state, ledger.reason, ledger.ended = "skipped", reason, now
    return Kept(ledger, trigger, now, trigger.dry_run, memory)


def _too_large(labels: Labels) -> str | None:
    if len(labels) > MOST_LABELS:
        return f"the alert has {len(labels)} labels: at most {MOST_LABELS}"
    long = next((name for name, value in labels if len(name) + len(value) > MAX_VALUE), None)
    return None if long is None else f"the alert's label {long[:60]!r} is longer than {MAX_VALUE} characters"
