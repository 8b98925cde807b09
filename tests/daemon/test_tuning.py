"""A campaign driven against the simulated node in virtual time: what is changed, stored and journaled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from change.engine import EngineUnreachable
from change.journal import Journal, JournalUnwritable
from daemon.headless import START, node_gauges, settings_of
from daemon.ledger import abandon_unfinished
from daemon.tuning import Tuning
from sim.node import Node
from sim.scenario import SCENARIOS
from store import Store, open_store
from store.models import Campaign, JournalEntry, Pair, Trial, Window
from tuner import calibration
from tuner.settings import Slo, TuneSettings

SETTINGS = replace(settings_of(SCENARIOS["default"], None), minutes=240.0)
QUICK = replace(SETTINGS, knobs=("max_prefill_tokens",), min_effect=0.2, minutes=180.0)
"""One knob with a large effect: decided within three hours of thin traffic."""


class Stand:
    """One node, one store and one campaign."""

    def __init__(
        self,
        scenario: str = "default",
        *,
        mode: Any = "act",
        settings: TuneSettings = SETTINGS,
        seed: int = 5,
    ) -> None:
        self.node = Node(SCENARIOS[scenario], 131, START)
        self.node.advance(START + 30.0)
        self.store: Store = open_store("sqlite:///:memory:")
        self.journal = Journal(self.store, "simulated")
        self.tuning = Tuning(
            self.node.control,
            self.store,
            self.journal,
            lambda _: node_gauges(self.node),
            settings,
            Slo(),
            engine="simulated",
            mode=mode,
            seed=seed,
            timer=None,
        )

    async def until(self, done: Callable[[], bool], seconds: float = 20_000.0, *, tick: float = 1.0) -> None:
        last = self.node.now + seconds
        while not done():
            assert self.node.now < last, "it did not come"
            self.node.advance(self.node.now + tick)
            await self.tuning.tick(self.node.now)

    def trial_serves(self) -> bool:
        campaign = self.tuning.campaign
        return campaign is not None and campaign.in_force.trial is not None

    def asked(self) -> str | None:
        return None if self.tuning.pending is None else self.tuning.pending.kind

    async def values(self) -> dict[str, float]:
        return dict((await self.node.control.state()).values)

    def rows(self, table: Any) -> list[Any]:
        with self.store.reading() as session:
            return list(session.scalars(select(table)).all())

    def reasons(self) -> str:
        assert self.tuning.report is not None
        return "; ".join(self.tuning.report["reasons"])


LAUNCH = dict(SCENARIOS["default"].launch)


def test_a_whole_campaign_is_stored_and_its_journal_closed() -> None:
    async def run() -> None:
        stand = Stand(settings=QUICK)
        await stand.until(lambda: stand.tuning.done)
        report = stand.tuning.report
        assert report is not None
        (campaign,) = stand.rows(Campaign)
        assert campaign.decision == report["decision"] and campaign.report["pairs"] == report["pairs"]
        assert len(stand.rows(Pair)) == report["pairs"] > 20
        assert len(stand.rows(Window)) > report["pairs"] / 2
        assert len(stand.rows(Trial)) == report["trials"] > 0
        assert all(trial.ended is not None for trial in stand.rows(Trial))
        assert stand.rows(JournalEntry) and not stand.journal.open_entries()
        assert await stand.values() == (report["winner"] or LAUNCH)

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(6))
def test_what_was_promoted_serves_though_the_verdict_came_together_with_the_next_switch(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on an engine of short requests with a late tick: a window is scored by the tick in which the next one begins.
    settle = calibration.settle

    def short(*known: Any) -> calibration.Calibrated:
        found = settle(*known)
        return replace(found, timing=replace(found.timing, settle=3.0))

    monkeypatch.setattr(calibration, "settle", short)

    async def run() -> None:
        stand = Stand(settings=QUICK, seed=seed)
        await stand.until(lambda: stand.tuning.done, tick=4.0)
        report = stand.tuning.report
        assert report is not None and report["decision"] == "promoted"
        assert await stand.values() == report["winner"]
        assert all(trial.state != "invalid" for trial in stand.rows(Trial))

    asyncio.run(run())


def test_a_trial_is_in_the_journal_before_it_serves_and_under_a_lease() -> None:
    async def run() -> None:
        stand = Stand()
        await stand.until(stand.trial_serves)
        (entry,) = stand.journal.open_entries()
        assert entry.kind == "trial" and entry.undo == LAUNCH
        state = await stand.node.control.state()
        assert dict(state.values) == entry.change and state.lease_remaining_seconds is not None

    asyncio.run(run())


def test_stopping_puts_the_incumbent_back_in_the_same_second() -> None:
    async def run() -> None:
        stand = Stand()
        await stand.until(stand.trial_serves)
        await stand.tuning.stop(stand.node.now, "aborted", "paused by the operator")
        assert await stand.values() == LAUNCH
        assert stand.tuning.done and "paused by the operator" in stand.reasons()
        assert not stand.journal.open_entries()

    asyncio.run(run())


def test_a_tuner_that_dies_leaves_the_incumbent_after_the_lease() -> None:
    async def run() -> None:
        stand = Stand()
        await stand.until(stand.trial_serves)
        stand.node.advance(stand.node.now + SETTINGS.lease_seconds + 1.0)
        assert await stand.values() == LAUNCH

    asyncio.run(run())


def test_an_engine_that_restarts_supersedes_the_campaign() -> None:
    async def run() -> None:
        stand = Stand()
        await stand.until(stand.trial_serves)
        stand.node.restart({"max_num_seqs": 128}, down_seconds=20.0)
        await stand.until(lambda: stand.tuning.done, 100.0)
        assert stand.tuning.report is not None and stand.tuning.report["decision"] == "superseded"
        assert (await stand.values())["max_num_seqs"] == 128

    asyncio.run(run())


def test_a_change_from_elsewhere_supersedes_the_campaign_and_stays() -> None:
    async def run() -> None:
        stand = Stand()
        await stand.until(stand.trial_serves)
        state = await stand.node.control.state()
        await stand.node.control.set_knobs({"max_num_seqs": 99}, if_epoch=state.epoch, lease_seconds=None)
        await stand.until(lambda: stand.tuning.done, 60.0)
        assert stand.tuning.report is not None and stand.tuning.report["decision"] == "superseded"
        assert (await stand.values())["max_num_seqs"] == 99

    asyncio.run(run())


def test_an_engine_out_of_reach_for_a_moment_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        stand = Stand()
        await stand.until(stand.trial_serves)

        async def gone() -> Any:
            raise EngineUnreachable("nobody answers")

        with monkeypatch.context() as patch:
            patch.setattr(stand.node.control, "state", gone)
            for _ in range(40):
                stand.node.advance(stand.node.now + 1.0)
                await stand.tuning.tick(stand.node.now)
        assert not stand.tuning.done and await stand.values() == LAUNCH
        await stand.until(stand.trial_serves, 60.0)

    asyncio.run(run())


def test_a_journal_that_cannot_be_written_means_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        stand = Stand()

        def full(*_: Any, **__: Any) -> int:
            raise JournalUnwritable("the disk is full")

        monkeypatch.setattr(stand.journal, "open", full)
        await stand.until(lambda: stand.tuning.done)
        assert "the disk is full" in stand.reasons()
        assert await stand.values() == LAUNCH and (await stand.node.control.state()).epoch == 0

    asyncio.run(run())


def test_advise_asks_before_the_campaign_and_before_the_promotion() -> None:
    async def run() -> None:
        stand = Stand(mode="advise", settings=QUICK)
        await stand.until(lambda: stand.asked() is not None, 10.0)
        assert stand.asked() == "campaign"
        assert stand.tuning.campaign is None
        stand.tuning.approve()
        await stand.until(lambda: stand.asked() is not None or stand.tuning.done)
        assert stand.asked() == "promotion"
        stand.node.advance(stand.node.now + 60.0)
        assert await stand.values() == LAUNCH, "nothing is kept while a person thinks"
        stand.tuning.approve()
        await stand.until(lambda: stand.tuning.done)
        assert stand.tuning.report is not None and stand.tuning.report["decision"] == "promoted"
        assert await stand.values() == stand.tuning.report["winner"]

    asyncio.run(run())


def test_declining_the_promotion_keeps_the_incumbent() -> None:
    async def run() -> None:
        stand = Stand(mode="advise", settings=QUICK)
        await stand.until(lambda: stand.asked() is not None, 10.0)
        stand.tuning.approve()
        await stand.until(lambda: stand.asked() is not None or stand.tuning.done)
        await stand.tuning.decline(stand.node.now)
        assert stand.tuning.report is not None and stand.tuning.report["decision"] == "kept"
        assert stand.tuning.report["winner"] is None and await stand.values() == LAUNCH

    asyncio.run(run())


async def in_probation() -> Stand:
    stand = Stand(settings=QUICK)

    def probation() -> bool:
        return stand.tuning.campaign is not None and stand.tuning.campaign.phase == "probation"

    await stand.until(lambda: probation() or stand.tuning.done)
    assert probation() and stand.journal.promoted() is not None
    return stand


def test_stopping_in_probation_takes_the_promotion_back_for_good() -> None:
    async def run() -> None:
        stand = await in_probation()
        await stand.tuning.stop(stand.node.now, "aborted", "paused by the operator")
        assert await stand.values() == LAUNCH and stand.journal.promoted() is None
        assert stand.tuning.done and stand.tuning.report is not None and stand.tuning.report["winner"] is None
        assert not stand.journal.open_entries()

    asyncio.run(run())


def test_a_promotion_is_taken_back_even_if_the_engine_is_out_of_reach_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        stand = await in_probation()

        async def gone() -> Any:
            raise EngineUnreachable("nobody answers")

        with monkeypatch.context() as patch:
            patch.setattr(stand.node.control, "state", gone)
            await stand.tuning.stop(stand.node.now, "aborted", "paused by the operator")
            assert not stand.tuning.done
        await stand.until(lambda: stand.tuning.done, 10.0)
        assert await stand.values() == LAUNCH and stand.journal.promoted() is None

    asyncio.run(run())


def test_an_engine_that_restarts_in_probation_is_not_given_the_promotion_again() -> None:
    async def run() -> None:
        stand = await in_probation()
        stand.node.restart(down_seconds=20.0)
        await stand.until(lambda: stand.tuning.done, 100.0)
        assert stand.tuning.report is not None and stand.tuning.report["decision"] in (
            "aborted",
            "superseded",
        )
        assert stand.journal.promoted() is None and await stand.values() == LAUNCH

    asyncio.run(run())


def test_a_promotion_that_did_not_hold_is_not_reported_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        stand = Stand(settings=QUICK)
        true_state = stand.node.control.state

        async def lying() -> Any:
            state = await true_state()
            campaign = stand.tuning.campaign
            if campaign is not None and campaign.phase == "probation":
                return replace(state, values=LAUNCH)
            return state

        monkeypatch.setattr(stand.node.control, "state", lying)
        await stand.until(lambda: stand.tuning.done)
        assert stand.tuning.report is not None and stand.tuning.report["decision"] == "aborted"
        assert stand.tuning.report["winner"] is None and stand.journal.promoted() is None

    asyncio.run(run())


def test_observe_never_tunes() -> None:
    with pytest.raises(ValueError, match="observe"):
        Stand(mode="observe")


def test_too_little_traffic_is_said_with_what_would_be_needed() -> None:
    async def run() -> None:
        stand = Stand("thin")
        await stand.until(lambda: stand.tuning.done)
        assert stand.tuning.report is not None and stand.tuning.report["decision"] == "too_thin"
        assert "needs about" in stand.reasons()

    asyncio.run(run())


def test_a_clamped_knob_is_found_before_it_is_scored() -> None:
    async def run() -> None:
        stand = Stand("clamped")
        await stand.until(lambda: any(t.state == "invalid" for t in stand.rows(Trial)))
        invalid = [t for t in stand.rows(Trial) if t.state == "invalid"]
        assert all("max_prefill_tokens" in t.reason for t in invalid)
        numbers = {t.number for t in invalid}
        assert not [p for p in stand.rows(Pair) if p.trial in numbers]

    asyncio.run(run())


def test_what_a_dead_process_left_is_ended_at_the_next_start() -> None:
    async def run() -> None:
        stand = Stand()
        await stand.until(stand.trial_serves)
        (campaign,) = stand.rows(Campaign)
        assert abandon_unfinished(stand.store, "simulated", stand.node.now, keep=campaign.id) == 0
        assert abandon_unfinished(stand.store, "simulated", stand.node.now, keep=None) == 1
        (campaign,) = stand.rows(Campaign)
        assert campaign.decision == "aborted" and campaign.ended is not None
        assert all(trial.ended is not None for trial in stand.rows(Trial))

    asyncio.run(run())
