"""The share an allocator holds back, its usual size, and growth that nothing explains."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.derived import fragmentation
from collectors.derived.fragmentation import ALLOCATED, RESERVED, unexplained_growth
from collectors.derived.fragmentation import fragmentation as fragmentation_of
from collectors.history import History
from collectors.sample import Sample, labels
from tests.collectors.derived.stories import NOW, Floats, by_labels, card, every, fill_values

GIB = 1024.0**3
SHARE = "npu_allocator_fragmentation_ratio"
USUAL = "npu_allocator_fragmentation_baseline_ratio"
GROWTH = "npu_allocator_unexplained_growth_bytes_per_hour"
Of = Callable[[Floats], Floats]


def told(reserved: Of, allocated: Of, hours: float = 1.0, noise: float = 0.0) -> dict[str, float]:
    """Figures by name; the functions give GiB by hours before now."""
    history, draw = History(), np.random.default_rng(5)
    times = every(10.0, hours * 3600.0)
    before = (NOW - times) / 3600.0
    for name, gib in ((RESERVED, reserved(before)), (ALLOCATED, allocated(before))):
        fill_values(history, name, card(0), times, (gib + noise * draw.standard_normal(len(times))) * GIB)
    return {
        sample.name: sample.value
        for sample in fragmentation.samples(history, NOW)
        if isinstance(sample.value, float)
    }


def at(gib: float) -> Of:
    return lambda before: np.full(len(before), gib)


def test_the_share_that_is_reserved_and_not_given_out() -> None:
    assert told(at(50.0), at(40.0), hours=0.1) == {SHARE: pytest.approx(0.2)}


def test_the_usual_share_is_that_of_the_hours_before() -> None:
    found = told(at(50.0), lambda before: np.where(before < 1.0, 25.0, 35.0), hours=6.0)
    assert found[SHARE] == pytest.approx(0.5)
    assert found[USUAL] == pytest.approx(0.3)


def test_memory_long_in_pieces_does_not_become_the_usual_one() -> None:
    found = told(at(50.0), lambda before: np.where(before < 14.0, 30.0, 46.0), hours=20.0)
    assert found[SHARE] == pytest.approx(0.4)
    assert found[USUAL] == pytest.approx(0.08)


def test_an_hour_and_a_half_is_no_usual_share() -> None:
    assert USUAL not in told(at(50.0), at(40.0), hours=1.5)


def test_reserved_that_rises_while_allocated_is_flat() -> None:
    found = told(lambda before: 50.0 - 2.0 * before, at(40.0), noise=0.02)
    assert found[GROWTH] / GIB == pytest.approx(2.0, rel=0.2)


@pytest.mark.parametrize(
    ("reserved", "allocated"),
    [
        (at(50.0), at(40.0)),
        (lambda before: 50.0 - 2.0 * before, lambda before: 40.0 - 2.0 * before),
        (at(50.0), lambda before: 30.0 + 5.0 * before),
        (lambda before: np.where(before < 0.5, 55.0, 50.0), at(40.0)),
        (lambda before: 50.0 - 10.0 * np.maximum(before - 0.7, 0.0), at(35.0)),
        (lambda before: 50.0 - 5.0 * ((before * 3.0) % 1.0), at(40.0)),
        (lambda before: 50.0 + before, at(40.0)),
    ],
    ids=["flat", "both-rise", "less-given-out", "step", "warm-up", "saw-tooth", "given-back"],
)
def test_what_is_no_unexplained_growth(reserved: Of, allocated: Of) -> None:
    assert told(reserved, allocated, noise=0.02)[GROWTH] == 0.0


def test_allocated_that_explains_half_leaves_the_other_half() -> None:
    found = told(lambda before: 50.0 - 2.0 * before, lambda before: 40.0 - 1.0 * before, noise=0.01)
    assert found[GROWTH] / GIB == pytest.approx(1.0, rel=0.2)


def test_twenty_minutes_are_too_few_for_a_growth() -> None:
    assert GROWTH not in told(lambda before: 50.0 - 2.0 * before, at(40.0), hours=0.3)


@pytest.mark.parametrize(("reserved", "allocated"), [(0.0, 0.0), (10.0, 11.0), (10.0, -1.0)])
def test_figures_that_cannot_be_make_no_share(reserved: float, allocated: float) -> None:
    assert told(at(reserved), at(allocated), hours=0.1) == {}


def test_one_of_the_two_alone_makes_no_share() -> None:
    history = History()
    history.add([Sample(RESERVED, 5.0, NOW, card(0))])
    assert list(fragmentation.samples(history, NOW)) == []
    history.add([Sample(ALLOCATED, 4.0, NOW - 50.0, card(0))])
    assert list(fragmentation.samples(history, NOW)) == []


def test_figures_of_a_source_that_failed_make_no_share() -> None:
    history = History()
    history.add([Sample(RESERVED, 5.0, NOW, card(0)), Sample(ALLOCATED, 4.0, NOW, card(0))], source="torch")
    assert by_labels(fragmentation.samples(history, NOW), SHARE) == {card(0): pytest.approx(0.2)}
    history.end("torch")
    assert list(fragmentation.samples(history, NOW)) == []


def test_figures_that_the_source_gives_no_more_make_no_share() -> None:
    history = History()
    for time, names in ((NOW - 10.0, (RESERVED, ALLOCATED)), (NOW, (RESERVED,))):
        history.add([Sample(name, 5.0, time, card(0)) for name in names], source="torch")
    assert list(fragmentation.samples(history, NOW)) == []


@given(st.floats(0.001, 1e12), st.floats(0.0, 1.0), st.floats(0.01, 100.0))
def test_the_unit_does_not_matter(reserved: float, share: float, scale: float) -> None:
    found = fragmentation_of(np.array([reserved]), np.array([reserved * share]))
    scaled = fragmentation_of(np.array([reserved * scale]), np.array([reserved * share * scale]))
    assert len(found) == 1 and 0.0 <= found[0] <= 1.0
    assert scaled == pytest.approx(found, abs=1e-9)


@given(st.floats(0.1, 100.0), st.floats(-1e3, 1e3))
@settings(deadline=None, max_examples=30)
def test_growth_scales_and_the_level_does_not_matter(scale: float, level: float) -> None:
    times = np.arange(0.0, 3600.0, 10.0)
    draw = np.random.default_rng(6)
    reserved, flat = times / 100.0 + draw.standard_normal(360), draw.standard_normal(360)
    plain = unexplained_growth(times, reserved, flat)
    moved = unexplained_growth(times, scale * reserved + level, scale * flat)
    assert plain is not None and plain > 0.005
    assert moved == pytest.approx(scale * plain, rel=1e-6)


def test_an_out_of_memory_error_tells_the_share_of_its_moment() -> None:
    history, own = History(), labels(device="0", source="engine")
    for figure, gib in (("reserved", 58.0), ("allocated", 43.5)):
        history.add([Sample(f"npu_out_of_memory_{figure}_bytes", gib * GIB, NOW, own)], figure)
    found = list(fragmentation.samples(history, NOW))
    assert by_labels(found, "npu_out_of_memory_fragmentation_ratio") == {own: pytest.approx(0.25)}
    assert len(found) == 1, "it says nothing of the allocator now"
