"""A new boot of the engine: open changes are ended, what was promoted is put back, but never blindly."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from change.apply import change
from change.journal import Journal, JournalUnwritable, Kind, Promotion
from change.lock import EngineLock
from daemon import assembly
from daemon.config import Config
from store import open_store
from store.models import Campaign
from tests.daemon.engine_stand import LAUNCH, EngineStand
from tests.daemon.living import Said, config_for, notices, running, times_said

pytestmark = pytest.mark.usefixtures("quick")


def promote(config: Config, engine: EngineStand, values: dict[str, float]) -> None:
    store = open_store(config.store_url)
    launch = dict(engine.launch)
    Journal(store, engine.url).set_promoted(Promotion(launch, launch, values), time.time())
    store.close()


def test_after_a_restart_with_the_same_flags_what_was_promoted_serves_again(
    tmp_path: Path, engine: EngineStand
) -> None:
    config = config_for(tmp_path, engine)
    promote(config, engine, {"batch_max_tokens": 512.0})

    async def story() -> None:
        async with running(config) as one:
            await one.until(
                lambda live: (live["engine"].get("values") or {}).get("batch_max_tokens") == 512.0
            )
            engine.boot()
            live = await one.until(
                lambda live: (
                    str(live["engine"].get("boot_id")).endswith("-2")
                    and live["engine"]["values"]["batch_max_tokens"] == 512.0
                )
            )
            assert live["engine"]["lease_remaining_seconds"] is None
            assert live["engine"]["launch"] == LAUNCH
            assert notices(live, "the engine restarted")

    asyncio.run(story())


def test_after_a_restart_with_other_flags_nothing_is_re_applied_and_it_is_said_once(
    tmp_path: Path, engine: EngineStand, said: Said
) -> None:
    config = config_for(tmp_path, engine)
    promote(config, engine, {"batch_max_tokens": 512.0})

    async def story() -> None:
        async with running(config) as one:
            await one.until(
                lambda live: (live["engine"].get("values") or {}).get("batch_max_tokens") == 512.0
            )
            engine.changes.clear()
            engine.boot(batch_max_tokens=4096.0)
            live = await one.until(lambda live: notices(live, "the engine started otherwise"))
            await asyncio.sleep(0.5)
            live = await one.live()
            assert live["engine"]["values"]["batch_max_tokens"] == 4096.0
            assert engine.changes == []

    asyncio.run(story())
    assert times_said(said, "the engine started otherwise") == 1


@pytest.mark.parametrize("why", ["observe", "kill switch"])
def test_what_was_promoted_waits_while_nothing_may_be_changed(
    tmp_path: Path, engine: EngineStand, why: str
) -> None:
    config = config_for(tmp_path, engine, mode="observe" if why == "observe" else "act")
    promote(config, engine, {"batch_max_tokens": 512.0})
    if why == "kill switch":
        config.kill_switch_file.parent.mkdir(parents=True)
        config.kill_switch_file.touch()

    async def story() -> None:
        async with running(config) as one:
            await one.until(lambda live: notices(live, "what was promoted is not looked after"))
            assert engine.changes == []
            if why == "kill switch":
                config.kill_switch_file.unlink()
                await one.until(lambda live: live["engine"]["values"]["batch_max_tokens"] == 512.0)

    asyncio.run(story())


def test_a_change_left_open_by_a_crash_is_taken_back_at_the_next_start(
    tmp_path: Path, engine: EngineStand
) -> None:
    config = config_for(tmp_path, engine)
    store = open_store(config.store_url)
    journal = Journal(store, engine.url)
    journal.open(
        "trial", f"stand-{engine.port}-1", "campaign 1", {"max_num_seqs": 64.0}, {"max_num_seqs": 256.0}, 1.0
    )
    engine.values["max_num_seqs"] = 64.0
    engine.epoch = 7

    async def story() -> None:
        async with running(config) as one:
            await one.until(lambda live: live["engine"].get("values") == LAUNCH)
            await one.until(lambda live: notices(live, "was left open"))

    asyncio.run(story())
    assert journal.open_entries() == []
    assert journal.last(1)[0].outcome == "recovered"
    store.close()


def test_while_another_process_changes_the_engine_its_open_change_is_left_alone(
    tmp_path: Path, engine: EngineStand, said: Said
) -> None:
    config = config_for(tmp_path, engine)
    boot_id = f"stand-{engine.port}-1"
    store = open_store(config.store_url)
    journal = Journal(store, engine.url)
    journal.open("trial", boot_id, "campaign 1", {"max_num_seqs": 64.0}, {"max_num_seqs": 256.0}, 1.0)
    engine.values["max_num_seqs"] = 64.0
    other = EngineLock(assembly.lock_dir(config), boot_id, "another campaign")
    other.acquire()

    async def story() -> None:
        async with running(config) as one:
            await one.until(lambda live: notices(live, "another campaign"))
            await asyncio.sleep(0.3)
            assert engine.changes == []
            other.release()
            await one.until(lambda live: live["engine"].get("values") == LAUNCH)
            await one.until(lambda live: not notices(live, "another campaign"))

    asyncio.run(story())
    assert journal.open_entries() == []
    assert times_said(said, "another campaign") == 1
    store.close()


async def serve(
    config: Config, engine: EngineStand, budget: float, kind: Kind, campaign_id: int | None = None
) -> None:
    """Change the engine for good while no daemon runs."""
    store = open_store(config.store_url)
    async with assembly.hot_engine(config) as control:
        await change(
            control,
            Journal(store, engine.url),
            {"batch_max_tokens": budget},
            kind=kind,
            actor="test",
            now=time.time(),
            campaign_id=campaign_id,
        )
    store.close()


async def promote_and_die(
    config: Config, engine: EngineStand, *, ended: str | None, lane: str = "hot"
) -> None:
    """As a daemon leaves it that is killed after it promoted: in probation, or after an end of the campaign."""
    async with running(config) as one:
        await one.until(lambda live: live["engine"].get("plugin") is not None)
    store = open_store(config.store_url)
    with store.session() as session:
        row = Campaign(
            engine=engine.url,
            boot_id="of the promotion",
            started=time.time(),
            phase="probation",
            lane=lane,
            objective={},
            settings={},
            incumbent=dict(LAUNCH),
            fingerprint={},
            calibration={},
            **({"ended": time.time(), "decision": ended} if ended else {}),
        )
        session.add(row)
    campaign_id = row.id
    store.close()
    await serve(config, engine, 512.0, "promotion", campaign_id)
    assert engine.values["batch_max_tokens"] == 512.0


def what_is_promoted(config: Config, engine: EngineStand) -> dict[str, float] | None:
    store = open_store(config.store_url)
    promoted = Journal(store, engine.url).promoted()
    store.close()
    return None if promoted is None else dict(promoted.values)


@pytest.mark.parametrize("mode", ["observe", "act"])
def test_a_promotion_whose_probation_broke_off_is_taken_back_at_the_next_start(
    tmp_path: Path, engine: EngineStand, mode: str
) -> None:
    config = config_for(tmp_path, engine, mode=mode)

    async def story() -> None:
        await promote_and_die(config, engine, ended=None)
        async with running(config) as one:
            await one.until(lambda live: notices(live, "probation broke off was taken back"))
            await one.until(lambda live: notices(live, "a campaign that broke off was ended"))

    asyncio.run(story())
    assert engine.values == LAUNCH
    assert what_is_promoted(config, engine) is None


@pytest.mark.parametrize(("ended", "lane"), [("promoted", "hot"), ("promoted", "cold"), ("kept", "cold")])
def test_a_promotion_that_held_through_its_probation_serves_on(
    tmp_path: Path, engine: EngineStand, ended: str, lane: str
) -> None:
    """So does what a campaign with restarts put back at its end, whatever that was."""
    config = config_for(tmp_path, engine)

    async def story() -> None:
        await promote_and_die(config, engine, ended=ended, lane=lane)
        async with running(config) as one:
            await one.until(lambda live: live["engine"].get("plugin") is not None)
            assert (await one.http.post("/api/v1/tune", json={"mode": "act"})).status_code == 200

    asyncio.run(story())
    assert engine.values["batch_max_tokens"] == 512.0
    assert what_is_promoted(config, engine) is not None


def test_after_a_restart_of_the_engine_too_an_unproven_promotion_is_only_forgotten(
    tmp_path: Path, engine: EngineStand
) -> None:
    config = config_for(tmp_path, engine)

    async def story() -> None:
        await promote_and_die(config, engine, ended=None)
        engine.boot()
        engine.changes.clear()
        async with running(config) as one:
            await one.until(lambda live: notices(live, "probation broke off was taken back"))

    asyncio.run(story())
    assert engine.values == LAUNCH
    assert engine.changes == []
    assert what_is_promoted(config, engine) is None


@pytest.mark.parametrize("journaled", [True, False])
def test_what_an_operator_set_after_an_unproven_promotion_is_left_alone(
    tmp_path: Path, engine: EngineStand, journaled: bool
) -> None:
    """By Trimtab or past it."""
    config = config_for(tmp_path, engine)

    async def story() -> None:
        await promote_and_die(config, engine, ended=None)
        if journaled:
            await serve(config, engine, 1024.0, "manual")
        else:
            async with assembly.hot_engine(config) as control:
                await control.set_knobs(
                    {"batch_max_tokens": 1024.0}, if_epoch=engine.epoch, lease_seconds=None
                )
        async with running(config) as one:
            await one.until(lambda live: notices(live, "the engine was changed on purpose since"))
            await one.until(lambda live: notices(live, "a campaign that broke off was ended"))

    asyncio.run(story())
    assert engine.values["batch_max_tokens"] == 1024.0
    assert what_is_promoted(config, engine) is None


def test_a_promotion_whose_way_back_failed_is_taken_back_at_the_next_start_too(
    tmp_path: Path, engine: EngineStand
) -> None:
    config = config_for(tmp_path, engine)

    async def story() -> None:
        await promote_and_die(config, engine, ended="aborted")
        async with running(config) as one:
            await one.until(lambda live: notices(live, "probation broke off was taken back"))

    asyncio.run(story())
    assert engine.values == LAUNCH
    assert what_is_promoted(config, engine) is None


def test_an_unproven_promotion_that_could_not_be_forgotten_is_looked_at_again(
    tmp_path: Path, engine: EngineStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_for(tmp_path, engine)

    def full(*_: object, **__: object) -> None:
        raise JournalUnwritable("the disk is full")

    async def story() -> None:
        await promote_and_die(config, engine, ended=None)
        with monkeypatch.context() as patched:
            patched.setattr(Journal, "open", full)
            patched.setattr(Journal, "clear_promoted", full)
            async with running(config) as one:
                await one.until(lambda live: engine.values == LAUNCH)
                patched.undo()
                await one.until(lambda live: notices(live, "a campaign that broke off was ended"))
                assert (await one.http.post("/api/v1/tune", json={"mode": "act"})).status_code == 200

    asyncio.run(story())
    assert what_is_promoted(config, engine) is None
