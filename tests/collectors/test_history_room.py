"""The history's memory is bounded: who gets room, and who makes it."""

from __future__ import annotations

import pytest

from collectors.history import History
from collectors.sample import Sample, labels

RUNNING = "trimtab_engine_requests_running"
POWER = "npu_power_watts"


def test_at_the_limit_series_that_ended_make_room() -> None:
    history = History(max_series=10)
    for batch in range(5):
        own = [labels(npu=f"{batch}-{number}", chip="0") for number in range(8)]
        history.add([Sample(POWER, 1.0, float(batch), pairs) for pairs in own], source="npu_smi")
        history.add([], source="npu_smi")
    assert len(history) <= 10
    assert history.refused == 0


def test_at_the_limit_a_new_series_is_refused_and_counted() -> None:
    history = History(max_series=2)
    history.add([Sample(POWER, 1.0, 0.0, labels(npu=str(number))) for number in range(5)])
    assert (len(history), history.refused) == (2, 3)
    history.add([Sample(POWER, 2.0, 1.0, labels(npu="0"))])
    assert history.latest(POWER, labels(npu="0")) == Sample(POWER, 2.0, 1.0, labels(npu="0"))


def test_the_figures_of_single_links_take_no_room_from_the_others() -> None:
    history = History(max_series=2, max_details=3)
    for number in range(5):
        link = labels(npu="0", chip="0", link=str(number))
        history.add([Sample("npu_hccs_crc_errors_total", 1.0, 10.0, link)])
    assert (len(history), history.refused) == (3, 2)
    history.add([Sample("npu_power_watts", 90.0, 10.0, labels(npu="0", chip="0"))])
    assert (len(history), history.refused) == (4, 2)


def test_the_figures_of_single_links_are_kept_coarse_for_an_hour() -> None:
    history = History()
    link = labels(npu="0", chip="0", link="1")
    for second in range(0, 7200, 5):
        history.add([Sample("npu_hccs_crc_errors_total", float(second), float(second), link)])
    assert history.held_points() <= 132
    assert history.rate("npu_hccs_crc_errors_total", 7195.0, 300.0) == pytest.approx(1.0)
    assert history.latest("npu_hccs_crc_errors_total") == Sample(
        "npu_hccs_crc_errors_total", 7195.0, 7195.0, link
    )


def test_room_is_made_among_series_of_the_same_kind() -> None:
    history = History(max_series=1, max_details=1)
    link = labels(npu="0", chip="0", link="1")
    history.add([Sample("npu_hccs_crc_errors_total", 1.0, 10.0, link)], "links")
    history.add([Sample("npu_power_watts", 90.0, 20.0, labels(npu="0", chip="0"))])
    history.end("links")
    history.add([Sample("npu_power_watts", 80.0, 30.0, labels(npu="1", chip="0"))])
    assert (len(history), history.refused) == (2, 1)
    history.add([Sample("npu_hccs_crc_errors_total", 1.0, 30.0, labels(npu="1", chip="0", link="1"))])
    assert (len(history), history.refused) == (2, 1)


def test_room_is_looked_for_once_however_many_series_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def loads(*ages: int, time: float) -> list[Sample]:
        return [Sample("trimtab_host_load_average", 1.0, time, labels(minutes=str(age))) for age in ages]

    history, looked = History(max_series=3), 0
    history.add(loads(1, 2, 3, time=10.0), "host")

    def count(series: object, now: float | None = None) -> bool:
        nonlocal looked
        looked += 1
        return True

    with monkeypatch.context() as patch:
        patch.setattr(history, "_live", count)
        history.add(loads(*range(4, 504), time=11.0), "other")
    assert history.refused == 500
    assert looked == 3
    history.end("host")
    history.add(loads(4, time=12.0), "other")
    assert history.refused == 500, "the next readings look anew"
