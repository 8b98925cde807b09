"""The hot values over a restart of ours: set again before the gate opens, as only the ordered flags have changed.

Elsewhere an engine with other flags never gets values back that were proved under the old ones. Here every flag is
known: those that the order names, and no other. Values beyond the new bounds are left out, and said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from change.engine import EngineControl, EngineState, Values
from change.journal import Journal, Kind
from change.knobs import differences, problems
from change.recovery import recover
from change.steps import ChangeRefused, Order, make


def on_purpose(journal: Journal, state: EngineState, named: Iterable[str]) -> dict[str, float]:
    """The values in force that differ from those the engine started with, less the knobs that an order names.

    Nothing where it is not known what the engine started with: then no value is known to have been set on purpose.
    """
    launch = journal.launch(state.boot_id)
    if launch is None:
        return {}
    left_out = set(named)
    return {
        name: value
        for name, value in state.values.items()
        if name not in left_out and launch.values.get(name) != value
    }


@dataclass(frozen=True, slots=True)
class Proved:
    """Hot values that serve by promotion, as they stood under an engine that is gone."""

    values: Values
    campaign_id: int | None


async def set_again(
    control: EngineControl,
    journal: Journal,
    values: Values,
    proved: Proved | None,
    *,
    trial: bool,
    actor: str,
    now: float,
) -> str | None:
    """Set `values` on the fresh engine, journaled; return what was left out and why, or None.

    In a trial they are no more than a part of it. Else `proved`, where all of it is among them, is promoted for this
    boot and its flags, so that a later restart by somebody else keeps it. Values that the engine does not take are no
    failure. Raises `EngineError` or `StoreError`.
    """
    # A process that died while it did this very thing left a change half done, under a lease.
    await recover(control, journal, now)
    state = await control.state()
    journal.note_launch(state, now)
    fitting = {
        name: value
        for name, value in values.items()
        if name in state.values and not problems({**state.values, name: value}, state.ceilings, state.floors)
    }
    said = [f"{name} {values[name]:g} does not fit any more" for name in values if name not in fitting]
    orders: list[tuple[Kind, Values, int | None]] = []
    kept: Values = {}
    if (
        not trial
        and proved is not None
        and proved.values
        and _within(proved.values, {**state.values, **fitting})
    ):
        kept = proved.values
        orders.append(("reapply", kept, proved.campaign_id))
    rest = {name: value for name, value in fitting.items() if name not in kept}
    if differences(rest, state.values):
        orders.append(("trial" if trial else "manual", rest, None))
    for kind, some, campaign in orders:
        state = await control.state()
        try:
            entry = await make(control, journal, state, Order(kind, actor, some, campaign_id=campaign), now)
        except ChangeRefused as refused:
            said.append(f"{', '.join(some)}: {refused}")
            continue
        if entry.outcome != "done":
            said.append(f"{', '.join(some)}: {entry.reason}")
    return "; ".join(said) or None


def _within(some: Values, all_of: Values) -> bool:
    return all(all_of.get(name) == value for name, value in some.items())
