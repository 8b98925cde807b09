"""Repeats are counted, and told once until it has been quiet."""

from __future__ import annotations

import pytest

from collectors.logs.catalogue import catalogue
from collectors.logs.events import Event, events_of
from collectors.logs.tally import Tally
from collectors.sample import Sample, labels

MEMORY = "RuntimeError: NPU out of memory. Tried to allocate 2.00 MiB (NPU {device}; {total}.00 GiB total capacity)"


def event(text: str = "OSError: Address already in use") -> Event:
    (found,) = events_of([text], catalogue())
    return found


def test_the_first_is_told_at_once_and_the_number_after_it_was_quiet() -> None:
    tally = Tally(quiet_seconds=60)
    tally.add("engine", "/a.log", [event()], 100.0)
    begun, ended = tally.told(100.0)
    assert ([episode.count for episode in begun], ended) == ([1], [])
    for now in (110.0, 150.0, 200.0):
        tally.add("engine", "/b.log", [event()] * 5, now)
        assert tally.told(now) == ([], [])
    assert tally.told(259.0) == ([], [])
    begun, ended = tally.told(260.0)
    assert begun == []
    assert [(e.count, e.first, e.last, e.path, e.over) for e in ended] == [(16, 100.0, 200.0, "/a.log", True)]
    assert tally.told(999.0) == ([], [])


def test_after_the_quiet_it_is_told_anew() -> None:
    tally = Tally(quiet_seconds=60)
    tally.add("engine", None, [event()], 100.0)
    tally.told(100.0)
    tally.add("engine", None, [event()], 160.0)  # nobody asked in between
    begun, ended = tally.told(160.0)
    assert ([e.first for e in begun], ended) == ([160.0], [])
    assert [e.count for e in tally.episodes()] == [1, 1]


def test_sources_and_signatures_are_told_apart() -> None:
    tally = Tally()
    tally.add("engine", None, [event(), event("OSError: No space left on device")], 1.0)
    tally.add("kernel", None, [event("x: No space left on device")], 2.0)
    counts = {
        (dict(sample.labels)["signature"], dict(sample.labels)["source"]): sample.value
        for sample in tally.samples(3.0)
        if sample.name == "trimtab_log_events_total"
    }
    assert counts == {
        ("address_in_use", "engine"): 1.0,
        ("disk_full", "engine"): 1.0,
        ("disk_full", "kernel"): 1.0,
    }


def test_samples_count_all_and_keep_the_last_figures() -> None:
    tally = Tally()
    tally.add(
        "engine", None, [event(MEMORY.format(device=1, total=30) + " [repeated 6x across cluster]")], 1.0
    )
    tally.add("engine", None, [event(MEMORY.format(device=1, total=32))], 2.0)
    samples = tally.samples(3.0)
    own = labels(signature="npu_out_of_memory", severity="error", source="engine")
    assert Sample("trimtab_log_events_total", 7.0, 3.0, own) in samples
    assert Sample("trimtab_log_event_time_seconds", 2.0, 3.0, own) in samples
    card = labels(device="1", source="engine")
    assert Sample("npu_out_of_memory_capacity_bytes", 32.0 * 2**30, 3.0, card) in samples
    assert Sample("npu_out_of_memory_requested_bytes", 2.0 * 2**20, 3.0, card) in samples
    assert not [sample for sample in samples if sample.name == "npu_out_of_memory_free_bytes"]


def test_memory_is_bounded_and_what_goes_on_is_kept() -> None:
    tally = Tally(quiet_seconds=60, max_episodes=3)
    texts = [f"error code:{code}" for code in (507010, 507011, 507012, 507013, 507014)]
    for now in range(0, 1000, 10):
        tally.add("plog", None, [event()], float(now))
        tally.add("plog", None, [event(texts[now // 200])], float(now))
        tally.told(float(now))
    assert len(tally.episodes()) == 3
    longest = max(tally.episodes(), key=lambda episode: episode.count)
    assert (longest.count, longest.first) == (100, 0.0)
    for number in range(200):
        tally.add("engine", None, [event(MEMORY.format(device=number, total=30))], 1000.0)
    devices = {s.labels for s in tally.samples(1000.0) if s.name == "npu_out_of_memory_capacity_bytes"}
    assert len(devices) == 64


def test_bounds_must_make_sense() -> None:
    with pytest.raises(ValueError, match="quiet_seconds is positive"):
        Tally(quiet_seconds=0)
