"""Runs walked by the daemon on a simulated engine: from an alert to a verified end, and everything that stops one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.sample import labels
from daemon.sections.playbooks import HooksSection
from tests.daemon.acting.driver_stand import ENGINE, OTHERS_NPU, DriverStand
from tests.daemon.acting.test_hook_program import hook
from tests.daemon.acting.test_restart import clock_text
from web.body import NotFound, Refused


@pytest.fixture
def stand(tmp_path: Path) -> DriverStand:
    return DriverStand(tmp_path)


def test_an_alert_walks_its_playbook_to_the_verified_end(stand: DriverStand) -> None:
    before = stand.here.values()["max_num_seqs"]

    async def story() -> None:
        stand.heat(91.0)
        stand.fires()
        await stand.ticks(6, 91.0)
        await stand.ticks(40, 70.0)

    stand.here.stand.live(story())
    (run,) = stand.runs
    assert (run.state, run.cause, run.target) == ("succeeded", "thermal", "npu 3"), run.reason
    assert stand.captures.taken == ["dmesg"]
    assert stand.here.values()["max_num_seqs"] == before / 2
    (entry,) = stand.here.stand.journal.last(10)
    assert entry.actor == f"run-{run.id} of playbook hot"
    assert stand.driver.counts.runs == {("hot", "succeeded"): 1}
    assert stand.driver.counts.acts == {("set_knobs", "done"): 1}
    (act,) = stand.acts
    assert act.outcome is not None
    assert act.outcome["figures"]["journal_entry"] == entry.id


def test_what_does_not_help_is_taken_back(stand: DriverStand) -> None:
    before = stand.here.values()

    async def story() -> None:
        stand.heat(91.0)
        stand.fires()
        await stand.ticks(330, 91.0)

    stand.here.stand.live(story())
    assert [run.state for run in stand.runs] == ["rolled_back"]
    assert stand.here.values() == before
    assert stand.driver.counts.acts == {("set_knobs", "done"): 1, ("set_knobs", "undone"): 1}


def test_a_campaign_gives_way_before_the_act(stand: DriverStand) -> None:
    stand.campaign.running = True

    async def story() -> None:
        stand.heat(91.0)
        stand.fires()
        await stand.ticks(6, 91.0)

    stand.here.stand.live(story())
    assert [decision for _, decision in stand.campaign.stopped] == ["superseded"]
    assert "run-1 of playbook hot" in stand.campaign.stopped[0][0]
    assert any("the campaign ended" in line for line in stand.lines())


class Silenced:
    """An Alertmanager's word."""

    def __init__(self, word: bool | None, seconds: float = 0.0) -> None:
        self.word, self.seconds = word, seconds

    async def suppressed(self, fingerprint: str, now: float) -> bool | None:
        await asyncio.sleep(self.seconds)
        return self.word


@pytest.mark.parametrize(
    ("word", "seconds", "state"),
    [(True, 0.0, "skipped"), (False, 0.0, "running"), (None, 0.0, "running"), (True, 60.0, "running")],
)
def test_a_silenced_alert_starts_nothing_and_who_does_not_answer_silences_nothing(
    tmp_path: Path, word: bool | None, seconds: float, state: str
) -> None:
    stand = DriverStand(tmp_path, silences=Silenced(word, seconds))

    async def story() -> None:
        stand.heat(70.0)
        stand.fires()
        await stand.ticks(6, 70.0)

    stand.here.stand.live(story())
    (run,) = stand.runs
    assert run.state == state
    if state == "skipped":
        assert "silenced" in (run.reason or "")


def test_mode_advise_asks_and_acts_only_on_a_yes(tmp_path: Path) -> None:
    stand = DriverStand(tmp_path, mode="advise")
    before = stand.here.values()

    async def story() -> None:
        stand.heat(91.0)
        stand.fires()
        await stand.ticks(6, 91.0)
        (asked,) = stand.driver.pending()
        assert asked["id"] == "run-1-relieve-3"
        assert asked["kind"] == "playbook"
        assert "max_num_seqs" in asked["text"]
        assert stand.here.values() == before
        assert stand.driver.asks("run-1-relieve-3")
        assert stand.here.notices.holds("run-1 asks")
        with pytest.raises(NotFound):
            stand.driver.answer("run-9-relieve-3", yes=True)
        stand.driver.answer("run-1-relieve-3", yes=True)
        assert not stand.here.notices.holds("run-1 asks")
        with pytest.raises(NotFound):
            stand.driver.answer("run-1-relieve-3", yes=False)
        await stand.ticks(5, 91.0)

    stand.here.stand.live(story())
    assert stand.driver.pending() == []
    assert stand.here.values()["max_num_seqs"] == before["max_num_seqs"] / 2


def test_a_second_yes_to_a_plan_that_has_changed_approves_nothing(tmp_path: Path) -> None:
    stand = DriverStand(tmp_path, mode="advise")

    async def story() -> None:
        stand.heat(91.0)
        stand.fires()
        await stand.ticks(6, 91.0)
        (first,) = stand.driver.pending()
        stand.driver.answer(first["id"], yes=True)
        state = await stand.node.control.state()
        fewer = {"max_num_seqs": state.values["max_num_seqs"] / 4}
        await stand.node.control.set_knobs(fewer, if_epoch=state.epoch, lease_seconds=None)
        await stand.ticks(3, 91.0)
        (second,) = stand.driver.pending()
        assert second["text"] != first["text"]
        # Somebody else answers on a page that still shows the first plan.
        with pytest.raises(NotFound):
            stand.driver.answer(first["id"], yes=True)
        await stand.ticks(3, 91.0)
        assert stand.driver.pending() == [second]
        assert stand.here.values()["max_num_seqs"] == fewer["max_num_seqs"]

    stand.here.stand.live(story())


def test_a_no_ends_the_run_with_nothing_done(tmp_path: Path) -> None:
    stand = DriverStand(tmp_path, mode="advise")
    before = stand.here.values()

    async def story() -> None:
        stand.heat(91.0)
        stand.fires()
        await stand.ticks(6, 91.0)
        stand.driver.answer("run-1-relieve-3", yes=False)
        await stand.ticks(3, 91.0)

    stand.here.stand.live(story())
    assert [run.state for run in stand.runs] == ["skipped"]
    assert stand.here.values() == before


def test_mode_observe_only_looks_and_says_what_it_would_have_done(tmp_path: Path) -> None:
    stand = DriverStand(tmp_path, mode="observe")
    before = stand.here.values()

    async def story() -> None:
        stand.heat(91.0)
        stand.fires()
        await stand.ticks(20, 91.0)

    stand.here.stand.live(story())
    (run,) = stand.runs
    assert run.state == "skipped"
    assert "would have" in (run.reason or "")
    assert (stand.here.values(), stand.acts) == (before, [])


@pytest.mark.parametrize("how", ["paused", "kill switch"])
def test_a_pause_and_the_kill_switch_stop_runs_in_mode_act(stand: DriverStand, how: str) -> None:
    before = stand.here.values()

    async def story() -> None:
        await stand.ticks(1, 91.0)
        stand.halt(how)
        stand.fires()
        await stand.ticks(6, 91.0)
        with pytest.raises(Refused, match=r"paused|kill-switch"):
            stand.driver.order("hot", {"npu": "3"}, dry_run=False)

    stand.here.stand.live(story())
    assert stand.here.values() == before
    assert [run.state for run in stand.runs] == ["queued"]


def test_after_a_crash_in_the_middle_what_no_step_has_verified_is_put_back(stand: DriverStand) -> None:
    before = stand.here.values()

    async def story() -> None:
        stand.heat(91.0)
        stand.fires()
        await stand.ticks(8, 91.0)
        assert stand.here.values() != before
        stand.begin()
        await stand.ticks(15, 91.0)

    stand.here.stand.live(story())
    assert stand.here.values() == before
    assert [run.state for run in stand.runs] == ["rolled_back"]


def test_the_same_alert_after_a_restart_starts_nothing_anew(stand: DriverStand) -> None:
    async def story() -> None:
        stand.heat(91.0)
        alert = stand.fires()
        await stand.ticks(50, 70.0)
        stand.begin()
        stand.driver.fired([alert], stand.now)
        await stand.ticks(3, 70.0)

    stand.here.stand.live(story())
    assert len(stand.runs) == 1


def test_an_alert_about_another_engines_card_starts_nothing_and_is_told(stand: DriverStand) -> None:
    async def story() -> None:
        await stand.ticks(1)
        stand.fires(npu=OTHERS_NPU)
        own = labels(alertname="Hot", npu=OTHERS_NPU, trimtab_engine=ENGINE)
        stand.driver.received(own, "f1", stand.now)
        await stand.ticks(3)
        assert stand.runs == []
        texts = [notice.text for notice in stand.here.notices.standing()]
        assert "Hot starts no playbook: NPU 6 is another engine's (collect.derived.cards)" in texts
        stand.fires(npu="?")
        await stand.ticks(3)

    stand.here.stand.live(story())
    assert len(stand.runs) == 1, "of a card of which it is not known, the engine's is thought"


def test_an_alert_of_alertmanager_walks_by_its_label_or_by_its_rule(stand: DriverStand) -> None:
    async def story() -> None:
        await stand.ticks(1)
        driver = stand.driver
        driver.received(labels(alertname="Other", playbook="hot", npu="1"), "f1", stand.now)
        driver.received(labels(alertname="Hot", npu="2", trimtab_engine=ENGINE), "f2", stand.now)
        driver.received(labels(alertname="Other", npu="4", trimtab_engine=ENGINE), "f4", stand.now)
        # Of another replica, or of nobody knows which.
        driver.received(labels(alertname="Hot", playbook="hot", trimtab_engine="r2:8000"), "f6", stand.now)
        driver.received(labels(alertname="Hot", playbook="hot", instance="r2:9470", npu="6"), "f7", stand.now)
        driver.received(labels(alertname="Hot", npu="7"), "f8", stand.now)
        driver.received(labels(alertname="Other", playbook="of nobody", npu="5"), "f5", stand.now)
        driver.received(labels(alertname="Hot", npu="2", trimtab_engine=ENGINE), "f2", stand.now)
        await stand.ticks(2)

    stand.here.stand.live(story())
    assert sorted((run.source, run.target) for run in stand.runs) == [
        ("alertmanager", "npu 1"),
        ("alertmanager", "npu 2"),
    ]
    assert stand.here.notices.holds("unknown playbook")


AWAY = """
playbooks:
  - name: hot
    title: A slow replica
    description: Its traffic leaves.
    cooldown: 30min
    steps:
      - name: away
        act: {kind: traffic_away}
        timeout: 30s
      - {name: gone, verify: npu_temperature_celsius > 0, within: 30s}
"""


def test_traffic_leaves_by_the_operators_hook_or_it_is_said_that_30_seconds_are_impossible(
    tmp_path: Path,
) -> None:
    stand = DriverStand(tmp_path, AWAY)

    async def story() -> None:
        await stand.ticks(1)
        stand.fires()
        await stand.ticks(3)

    stand.here.stand.live(story())
    assert [run.state for run in stand.runs] == ["failed"]
    assert "within 30 s is impossible" in (stand.runs[0].reason or "")


def test_traffic_that_leaves_is_told_with_its_seconds(tmp_path: Path) -> None:
    stand = DriverStand(tmp_path, AWAY, hooks=HooksSection(traffic_away=hook(tmp_path, "exit 0")))

    async def story() -> None:
        await stand.driver.tick(stand.now)
        stand.fires()
        for _ in range(40):
            await stand.driver.tick(stand.now)
            await asyncio.sleep(0.05)
            if stand.acts and stand.acts[0].state == "done":
                break

    # A real program needs real time.
    asyncio.run(story())
    (act,) = stand.acts
    assert act.outcome is not None
    assert act.outcome["figures"]["within_30_seconds"] is True


RESTART = """
playbooks:
  - name: hot
    title: Memory in pieces
    description: A restart mends it.
    cooldown: 30min
    steps:
      - name: again
        act: {kind: restart, arguments: {when: quietest}}
        timeout: 1h
        failed: end:inconclusive
      - {name: mended, verify: npu_temperature_celsius > 0, within: 30s}
"""


def test_a_restart_that_can_wait_comes_in_the_quiet_time_while_the_alert_fires(tmp_path: Path) -> None:
    now = 1_700_000_020.0
    stand = DriverStand(tmp_path, RESTART, windows=[f"{clock_text(now + 3600)}-{clock_text(now + 7200)}"])
    starts = stand.here.stand.server.starts

    async def whole() -> None:
        await stand.ticks(1)
        alert = stand.fires()
        await stand.ticks(5)
        assert [run.state for run in stand.runs] == ["inconclusive"]
        assert "waits for the maintenance window" in (stand.runs[0].reason or "")
        # It sleeps over the hour, and another process takes over: its alert comes once more.
        await asyncio.sleep(3700.0)
        stand.begin()
        await stand.ticks(1)
        stand.driver.fired([alert], stand.now)
        await stand.ticks(300, 50.0)

    stand.here.stand.live(whole())
    assert [run.state for run in stand.runs] == ["inconclusive", "succeeded"]
    assert stand.here.stand.server.starts == starts + 1
