"""What a campaign would try of all lanes if it began now; nothing is changed."""

from __future__ import annotations

import time
from typing import Any

from change.engine import EngineState
from change.host import HostError
from change.host_knobs import ENGINE_KNOBS, HOST_KNOBS
from change.journal import Journal
from change.knobs import SearchRange, search_space
from change.restart.order import ColdLane
from change.server import ServerError, Settings
from collectors.history import History
from daemon import assembly
from daemon.cold_assembly import cold_lane, outside
from daemon.cold_memory import ColdPast, cold_past
from daemon.config import Config
from daemon.notices import Notices
from store import open_store
from tuner.outer.budget import TO_FINISH
from tuner.outer.memory import changed
from tuner.outer.proposer import VALUES, ColdProposer
from tuner.outer.settings import OuterSettings
from tuner.settings import TuneSettings

WITH_RESTARTS = "a campaign with restarts leaves the host as it is"


async def campaign_plan(config: Config, minutes: float | None, restarts: int | None) -> dict[str, Any]:
    """The plan as a document, out of the engine's state, its host, its launch command and what the store remembers.

    `restarts` is None for as many as are configured. Raises `ValueError` for a number of restarts that decides nothing
    or a knob that is none, `EngineError` for an engine out of reach, `StoreError`.
    """
    wanted = config.tune.settings(minutes)
    outer = config.tune.outer(config.engine.restart, restarts)
    history = History()
    async with assembly.hot_engine(config) as control:
        state = await control.state()
        space = _space(state, wanted)
        await assembly.near_readings(config, history)
        host = _host_names(config, wanted, outer)
        store = open_store(config.store_url)
        try:
            journal = Journal(store, config.engine.url)
            lane = cold_lane(config, control, journal, history, assembly.modes(config), Notices(time.time))
            try:
                past = cold_past(store, config.engine.url, state.engine_version)
                cold = await _cold(lane, outer, past)
            finally:
                if lane is not None:
                    await lane.finish()
        finally:
            store.close()
    now = time.time()
    return {
        "engine": config.engine.url,
        "engine_name": state.engine,
        "engine_version": state.engine_version,
        "scheduler": state.scheduler,
        "scheduler_known": state.scheduler_known,
        "incumbent": dict(state.values),
        "search": [_range(one) for one in space],
        "host_knobs": host,
        "host": await _host(config, history, host),
        "host_note": WITH_RESTARTS if outer.restarts else None,
        "cold": cold | {"window": outside(config.engine.restart, now)},
        "objective": {"name": wanted.objective.name, "quantile": wanted.objective.quantile},
        "slo": {key: value for key, value in config.slo.model_dump().items() if value is not None},
        "min_effect": wanted.min_effect,
        "max_regression": wanted.max_regression,
        "minutes": wanted.minutes,
        "restarts": outer.restarts,
        "stopped": assembly.modes(config).stopped(now),
    }


def _space(state: EngineState, wanted: TuneSettings) -> list[SearchRange]:
    hot = [name for name in wanted.knobs if name not in HOST_KNOBS]
    if wanted.knobs and not hot:
        return []
    return search_space(state.values, state.ceilings, state.floors, hot)


def _range(one: SearchRange) -> dict[str, Any]:
    return {"name": one.name, "low": one.low, "high": one.high, "zero_is_off": one.zero_is_off}


def _host_names(config: Config, wanted: TuneSettings, outer: OuterSettings) -> list[str]:
    """Knobs of the host that a campaign may move; whether they can be changed is another question."""
    if outer.restarts or not (wanted.knobs or config.mode == "act"):
        return []
    return [name for name in wanted.knobs or ENGINE_KNOBS if name in config.host.knobs]


async def _host(config: Config, history: History, names: list[str]) -> dict[str, list[str]]:
    """The values of those that can be changed now, the one in force first."""
    if not names:
        return {}
    try:
        choices = await assembly.host_lane_hand(config, history).choices()
    except HostError:
        return {}
    return {name: list(choices[name]) for name in names if name in choices}


async def _cold(lane: ColdLane | None, outer: OuterSettings, past: ColdPast) -> dict[str, Any]:
    """Start-up settings: what would be tried, in order, and why what is not tried is not."""
    plan: dict[str, Any] = {
        "why_not": None,
        "most": max(0, outer.restarts - TO_FINISH),
        "lost_minutes": outer.lost_minutes,
        "incumbent": None,
        "candidates": [],
        "skipped": [],
        "held": [],
    }
    if not outer.restarts:
        return plan | {"why_not": "no restart is allowed: tune.restarts or --restarts, 3 and more"}
    if lane is None:
        return plan | {
            "why_not": "nothing here may restart the engine: set engine.server.hand to how it is started"
        }
    try:
        incumbent = await lane.settings()
    except ServerError as error:
        return plan | {"why_not": f"the engine's start-up settings are not known: {error}"}
    proposer = ColdProposer(incumbent, outer, past.memory, past.winners)
    # A campaign steps on from what looks better; nobody knows that beforehand.
    while (proposal := proposer.propose(None)) is not None:
        moved = changed(proposal.settings, incumbent)
        problems = list(await lane.problems(moved))
        if problems:
            proposer.refuse(proposal.settings)
        plan["candidates"].append(
            {
                "settings": moved,
                "source": proposal.source,
                "note": proposal.note,
                "allowed": not problems,
                "why_not": problems,
            }
        )
    plan["incumbent"], plan["skipped"] = dict(incumbent), list(proposer.skipped)
    plan["held"] = _held(incumbent, outer, past)
    return plan


def _held(incumbent: Settings, outer: OuterSettings, past: ColdPast) -> list[dict[str, str]]:
    """Start-up settings that no candidate moves, and why."""
    held = []
    for name in VALUES:
        why = outer.may_move(name)
        if why is None and name not in incumbent and name not in (*outer.allow, *outer.knobs):
            why = f"this engine does not say what its {name} is"
        if why is None and (mark := past.memory.marks.get(name)) is not None:
            why = str(mark)
        if why is not None:
            held.append({"name": name, "why": why})
    return held
