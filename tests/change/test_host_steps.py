"""Changes of the host lane: journaled before they are made, back after anything goes wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from change import host_steps
from change.host import HostChange, HostError, HostReading
from change.host_steps import HostLocks
from change.journal import Journal, Kind
from change.lock import EngineLock, LockHeld, NodeLock
from change.steps import ChangeRefused
from store import open_store
from store.models import JournalEntry
from tests.change.plain_host import Killed, PlainHost

SPLIT, MEMORY = HostChange("placement", "split:4"), HostChange("memory", "node:4")
CALM = HostChange("swappiness", "10")
FOUND = {"placement": "as_found", "memory": "as_found", "swappiness": "60"}
CHANGED = {"placement": "split:4", "memory": "node:4", "swappiness": "10"}


@pytest.fixture
def host() -> PlainHost:
    return PlainHost()


def change(
    host: PlainHost,
    journal: Journal,
    *changes: HostChange,
    locks: HostLocks = host_steps.NO_LOCKS,
    kind: Kind = "manual",
) -> JournalEntry:
    return asyncio.run(
        host_steps.change_host(
            host, journal, changes, boot_id="b1", kind=kind, actor="cli", now=1.0, locks=locks
        )
    )


def rollback(host: PlainHost, journal: Journal, n: int = 1) -> JournalEntry:
    return asyncio.run(host_steps.rollback_host(host, journal, n, 2.0, boot_id="b1", actor="cli"))


def recover(host: PlainHost, journal: Journal, boot_id: str = "b1") -> list[JournalEntry]:
    return asyncio.run(host_steps.recover_host(host, journal, 9.0, boot_id=boot_id))


def test_a_change_is_done_once_it_reads_back(host: PlainHost, journal: Journal) -> None:
    entry = change(host, journal, SPLIT, MEMORY)
    assert (entry.lane, entry.state, entry.outcome) == ("host", "closed", "done")
    assert entry.change == entry.effective == {"placement": "split:4", "memory": "node:4"}
    assert entry.undo["placement"] == {"was": "as_found", "with": {"value": "as_found"}}
    assert host.values["placement"] == "split:4"


def test_a_value_that_does_not_take_brings_all_of_them_back(host: PlainHost, journal: Journal) -> None:
    host.stuck = {"memory"}
    entry = change(host, journal, SPLIT, MEMORY)
    assert entry.outcome == "undone"
    assert "memory was asked to be node:4 and is as_found" in str(entry.reason)
    assert host.values == FOUND


def test_a_host_that_fails_is_brought_back_and_said(host: PlainHost, journal: Journal) -> None:
    async def scene() -> None:
        apply = host.apply

        async def failing(one: HostChange) -> None:
            if one.knob == "memory":
                raise HostError("no room")
            await apply(one)

        host.apply = failing  # type: ignore[assignment,method-assign]
        await host_steps.change_host(
            host, journal, [SPLIT, MEMORY], boot_id="b1", kind="manual", actor="cli", now=1.0
        )

    with pytest.raises(HostError, match="no room"):
        asyncio.run(scene())
    assert host.values == FOUND
    assert journal.open_entries("host") == []


def test_an_entry_that_cannot_be_undone_stays_open_until_it_can(host: PlainHost, journal: Journal) -> None:
    host.broken = {"placement"}
    with pytest.raises(HostError):
        change(host, journal, SPLIT)
    (entry,) = journal.open_entries("host")
    with pytest.raises(HostError):
        recover(host, journal)
    host.broken = set()
    assert [one.id for one in recover(host, journal)] == [entry.id]
    assert journal.open_entries("host") == []


def test_a_knob_that_cannot_be_put_back_keeps_no_other_from_it(host: PlainHost, journal: Journal) -> None:
    async def begin() -> None:
        changes = [MEMORY, CALM, SPLIT]
        await host_steps.begin_trial(host, journal, changes, boot_id="b1", actor="tune", now=1.0)
        for one in changes:
            await host.apply(one)

    asyncio.run(begin())
    host.broken = {"memory", "placement"}
    with pytest.raises(HostError, match=r"placement cannot be set.*memory cannot be set"):
        recover(host, journal)
    assert host.values == CHANGED | {"swappiness": "60"}
    host.broken = set()
    recover(host, journal)
    assert host.values == FOUND


def test_a_rollback_needs_no_reading_of_a_knob_that_is_gone(host: PlainHost, journal: Journal) -> None:
    change(host, journal, SPLIT, CALM)
    read = host.read

    async def gone(knob: str) -> HostReading:
        found = await read(knob)
        return HostReading(knob, found.scope, None, "the engine is gone") if knob == "placement" else found

    host.read = gone  # type: ignore[method-assign]
    entry = rollback(host, journal)
    assert (entry.outcome, host.values["swappiness"]) == ("done", "60")
    assert "placement was as_found and is unknown (the engine is gone)" in str(entry.reason)


@pytest.mark.parametrize(
    "changes", [(), (SPLIT, SPLIT), (HostChange("turbo", "1"),), (HostChange("memory", "as_found"),)]
)
def test_nothing_is_begun_for_an_order_without_sense(
    host: PlainHost, journal: Journal, changes: tuple[HostChange, ...]
) -> None:
    with pytest.raises(ChangeRefused):
        change(host, journal, *changes)
    assert host.calls == 0
    assert journal.last(1) == []


def test_a_knob_that_could_not_be_put_back_is_not_changed(host: PlainHost, journal: Journal) -> None:
    with pytest.raises(ChangeRefused, match="it is not here"):
        change(host, journal, HostChange("numa_balancing", "0"))


def test_rollback_takes_the_last_ones_back_in_order(host: PlainHost, journal: Journal) -> None:
    change(host, journal, SPLIT)
    change(host, journal, HostChange("placement", "split:6"))
    change(host, journal, CALM)
    entry = rollback(host, journal, 2)
    assert host.values == FOUND | {"placement": "split:4"}
    assert entry.change == {"swappiness": "60", "placement": "split:4"}
    assert len(journal.standing("b1", "host")) == 1
    rollback(host, journal)
    assert host.values == FOUND
    with pytest.raises(ChangeRefused, match="0 changes"):
        rollback(host, journal)


def test_host_and_hot_entries_do_not_meet(host: PlainHost, journal: Journal) -> None:
    change(host, journal, SPLIT)
    assert journal.standing("b1") == []
    assert journal.open_entries("hot") == []


def test_a_trial_may_go_to_and_fro_and_ends_as_it_began(host: PlainHost, journal: Journal) -> None:
    async def scene() -> JournalEntry:
        entry = await host_steps.begin_trial(
            host, journal, [SPLIT, MEMORY], boot_id="b1", actor="tune", now=1.0
        )
        assert host.values == FOUND
        for _ in range(3):
            await host.apply(SPLIT)
            await host.apply(MEMORY)
            await host_steps.put_back(host, entry.undo)
            assert host.values == FOUND
        await host.apply(SPLIT)
        return await host_steps.end_trial(host, journal, entry.id, 2.0, "rejected")

    entry = asyncio.run(scene())
    assert (entry.outcome, entry.kind, host.values) == ("undone", "trial", FOUND)


def test_a_trial_left_open_is_put_back_at_the_next_start(host: PlainHost, journal: Journal) -> None:
    async def scene() -> None:
        await host_steps.begin_trial(host, journal, [SPLIT], boot_id="b1", actor="tune", now=1.0)
        await host.apply(SPLIT)

    asyncio.run(scene())
    (entry,) = recover(host, journal)
    assert (entry.outcome, host.values) == ("recovered", FOUND)


def test_after_a_restart_of_the_host_nothing_is_put_back(host: PlainHost, journal: Journal) -> None:
    host.dies_at, host.dies_after = 1, True
    with pytest.raises(Killed):
        change(host, journal, SPLIT)
    (entry,) = recover(host, journal, "b2")
    assert "restarted" in str(entry.reason)
    assert host.calls == 1


def test_an_engine_that_started_again_gets_its_placement_back_and_the_node_is_left(
    host: PlainHost, journal: Journal
) -> None:
    change(host, journal, SPLIT, kind="promotion")
    change(host, journal, MEMORY)
    change(host, journal, CALM, kind="promotion")
    host.values = dict(FOUND)  # new threads; and somebody set swappiness by hand

    def again() -> JournalEntry | None:
        return asyncio.run(host_steps.reapply_host(host, journal, 5.0, boot_id="b1", actor="daemon"))

    entry = again()
    assert entry is not None
    assert (entry.kind, entry.change) == ("reapply", {"placement": "split:4"})
    assert host.values == FOUND | {"placement": "split:4"}
    assert again() is None
    rollback(host, journal)
    assert host.values == FOUND
    host.values = dict(FOUND)
    assert again() is None


def test_a_node_wide_change_takes_the_node_lock_and_an_engines_own_does_not(
    host: PlainHost, journal: Journal, tmp_path: Path
) -> None:
    with NodeLock(tmp_path, "b1", "another trimtab"):
        locks = HostLocks(EngineLock(tmp_path, "e1"), NodeLock(tmp_path, "b1"))
        change(host, journal, SPLIT, locks=locks)
        with pytest.raises(LockHeld, match="this node is being changed by another trimtab"):
            change(host, journal, CALM, locks=locks)
    assert host.values["swappiness"] == "60"
    change(host, journal, CALM, locks=locks)
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=60, deadline=None)
@given(dies_at=st.integers(1, 9), after=st.booleans(), rolls=st.booleans(), again=st.integers(1, 6))
def test_a_death_at_any_point_comes_back_to_what_was_found_or_to_what_was_proved(
    dies_at: int, after: bool, rolls: bool, again: int
) -> None:
    store = open_store("sqlite:///:memory:")
    try:
        journal, host = Journal(store, "http://127.0.0.1:8000"), PlainHost()
        host.dies_at, host.dies_after = dies_at, after
        try:
            change(host, journal, SPLIT, MEMORY, CALM)
            if rolls:
                rollback(host, journal)
        except Killed:
            # The next daemon may die as well, half-way through its recovery.
            host.dies_at = host.calls + again
            try:
                recover(host, journal)
            except Killed:
                host.dies_at = None
                recover(host, journal)
        assert host.values in (FOUND, CHANGED)
        assert journal.open_entries("host") == []
        standing = journal.standing("b1", "host")
        assert bool(standing) == (host.values == CHANGED)
    finally:
        store.close()
