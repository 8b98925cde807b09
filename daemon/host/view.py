"""The host lane shown and planned, with nothing changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from change.host import HostChange, HostError
from change.host_knobs import HOST_HINTS, HOST_KNOBS
from collectors.host.files import SystemFiles
from daemon.host.hand import HostHand
from daemon.host.npu_conf import read_npu_conf


class HostView:
    """What a hand sees, as plain rows."""

    def __init__(self, hand: HostHand, files: SystemFiles) -> None:
        self._hand = hand
        self._files = files

    async def show(self) -> dict[str, Any]:
        """Every knob as it stands, with the values worth a trial; what is only told in words."""
        choices = await self._hand.choices()
        rows = []
        for name in self._hand.knobs:
            knob = HOST_KNOBS[name]
            try:
                reading = await self._hand.look(name)
                value, reason = reading.value, reading.reason
            except HostError as failure:
                value, reason = None, str(failure)
            rows.append(
                {
                    "name": name,
                    "scope": knob.scope,
                    "value": value,
                    "reason": reason,
                    "trials": [one for one in choices.get(name, ()) if one != value],
                    "refusal": await self._refusal(name),
                    "values": list(knob.values),
                    "why": knob.why,
                    "read_back": knob.read_back,
                    "undo": knob.undo,
                }
            )
        conf = read_npu_conf(self._files)
        return {
            "knobs": rows,
            "npu_conf": None
            if conf is None
            else [
                {"key": one.key, "value": one.value, "verdict": one.verdict, "text": one.text} for one in conf
            ],
            "hints": [{"name": hint.name, "where": hint.where, "text": hint.text} for hint in HOST_HINTS],
        }

    async def plan(self, changes: Sequence[HostChange]) -> list[dict[str, Any]]:
        """What changes would do and why, with nothing changed; without any, those worth a trial first."""
        rows = []
        for change in changes or await self._worth_a_trial():
            knob = HOST_KNOBS[change.knob]
            try:
                reading = await self._hand.look(change.knob)
                value, does = reading.value, await self._hand.preview(change)
            except HostError as failure:
                value, does = None, [f"nothing: {failure}"]
            rows.append(
                {
                    "knob": change.knob,
                    "scope": knob.scope,
                    "from": value,
                    "to": change.value,
                    "does": does,
                    "why": knob.why,
                    "undo": knob.undo,
                    "refusal": await self._refusal(change.knob),
                }
            )
        return rows

    async def _refusal(self, knob: str) -> str | None:
        try:
            return await self._hand.refusal(knob)
        except HostError as failure:
            return str(failure)

    async def _worth_a_trial(self) -> list[HostChange]:
        """For each knob the first value worth a trial, whether it may be changed yet or not."""
        found = []
        for name, values in (await self._hand.trials()).items():
            found += [HostChange(name, value) for value in values[:1]]
        return found
