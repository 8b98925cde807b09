"""Hot values: validity in words, differences, ranges to search; and versions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from change.catalogue.index import HOT_KNOBS
from change.knobs import differences, problems, search_space
from change.versions import release
from tests.change.plain_engine import CEILINGS, FLOORS, LAUNCH


class TestVersions:
    @pytest.mark.parametrize(
        ("text", "numbers"),
        [
            ("0.28.0", (0, 28)),
            ("v0.20.2rc1", (0, 20, 2)),
            ("0.6.6.post1", (0, 6, 6)),
            ("0.32.1.dev3+g1a2b", (0, 32, 1)),
            (" 1 ", (1,)),
            ("0", (0,)),
        ],
    )
    def test_only_the_release_counts(self, text: str, numbers: tuple[int, ...]) -> None:
        assert release(text) == numbers

    @pytest.mark.parametrize("text", ["", "main", "dev", "-1"])
    def test_what_has_no_release_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="expected something like"):
            release(text)


class TestProblems:
    def test_the_launch_values_have_none(self) -> None:
        assert problems(LAUNCH, CEILINGS, FLOORS) == []

    @pytest.mark.parametrize(
        ("values", "complaint"),
        [
            (
                {"batch_max_tokens": 8193},
                "above 8192, its ceiling: only a restart with --max-num-batched-tokens",
            ),
            ({"batch_max_tokens": 255}, "below 256, the least"),
            ({"max_num_seqs": 0}, "below 1"),
            ({"max_num_seqs": 7.5}, "a whole number of requests"),
            ({"max_prefill_tokens": 8}, "below 16"),
            ({"watermark": 0.6}, "above 0.5"),
            ({"watermark": -0.1}, "below 0"),
            ({"watermark": float("nan")}, "expected a number"),
            ({"max_num_seqs": float("inf")}, "expected a number"),
            ({"block_size": 128}, "is no hot knob"),
            ({"batch_max_tokens": 4, "max_num_seqs": 8}, "every running request needs a token a step"),
        ],
    )
    def test_are_said_in_words(self, values: dict[str, float], complaint: str) -> None:
        assert complaint in "; ".join(problems(values, CEILINGS, FLOORS))

    @pytest.mark.parametrize("name", ["max_prefill_tokens", "long_prefill_tokens"])
    def test_zero_switches_a_cap_off(self, name: str) -> None:
        assert problems({name: 0}, CEILINGS, FLOORS) == []

    def test_hard_bounds_hold_where_the_engine_names_none(self) -> None:
        assert problems({"watermark": 1.0}, {}, {})
        assert problems({"max_num_seqs": 0}, {}, {})
        assert not problems({"max_num_seqs": 1}, {}, {})

    @settings(deadline=None)
    @given(st.dictionaries(st.sampled_from([*HOT_KNOBS, "other"]), st.floats(), max_size=5))
    def test_any_numbers_are_judged_without_an_exception(self, values: dict[str, float]) -> None:
        assert all(isinstance(text, str) and text for text in problems(values, CEILINGS, FLOORS))


class TestDifferences:
    def test_equal_or_unasked_values_are_none(self) -> None:
        assert differences({"a": 1}, {"a": 1.0, "b": 2}) == []

    def test_clamped_and_missing_values_are_said(self) -> None:
        assert differences({"a": 5, "b": 0.25}, {"a": 4}) == [
            "a was asked to be 5 and is 4",
            "b was asked to be 0.25 and does not exist in this engine",
        ]


class TestSearchSpace:
    def test_lies_between_floors_and_ceilings(self) -> None:
        ranges = {r.name: r for r in search_space(LAUNCH, CEILINGS, FLOORS)}
        assert [*ranges] == [name for name, knob in HOT_KNOBS.items() if knob.search == "free"]
        budget = ranges["batch_max_tokens"]
        assert (budget.low, budget.high, budget.log, budget.integer) == (256, 8192, True, True)
        cap = ranges["max_prefill_tokens"]
        assert (cap.low, cap.high, cap.zero_is_off) == (64, 8192, True)
        watermark = ranges["watermark"]
        assert (watermark.low, watermark.high, watermark.log, watermark.integer) == (0.0, 0.2, False, False)

    def test_priority_by_size_is_searched_only_where_it_is_named(self) -> None:
        values, ceilings = {**LAUNCH, "priority_by_size": 0}, {**CEILINGS, "priority_by_size": 2}
        assert "priority_by_size" not in [r.name for r in search_space(values, ceilings, FLOORS)]
        (found,) = search_space(values, ceilings, FLOORS, ["priority_by_size"])
        assert (found.low, found.high, found.integer) == (0, 2, True)

    def test_the_budget_stays_above_a_running_cap_that_is_not_searched(self) -> None:
        floors = {**FLOORS, "batch_max_tokens": 16}
        (alone,) = search_space(LAUNCH, CEILINGS, floors, ["batch_max_tokens"])
        assert alone.low == 256
        both = search_space(LAUNCH, CEILINGS, floors, ["batch_max_tokens", "max_num_seqs"])
        assert both[0].low == 64

    @settings(deadline=None)
    @given(
        st.fixed_dictionaries(
            {
                "batch_max_tokens": st.integers(256, 8192),
                "max_prefill_tokens": st.just(0) | st.integers(16, 8192),
                "max_num_seqs": st.integers(1, 256),
                "watermark": st.floats(0, 0.5),
            }
        )
    )
    def test_holds_the_incumbent_and_only_valid_values(self, values: dict[str, float]) -> None:
        for r in search_space(values, CEILINGS, FLOORS):
            assert r.low < r.high
            assert r.low <= values[r.name] <= r.high or (r.zero_is_off and values[r.name] == 0)
            assert r.low > 0 or not r.log
            for end in (r.low, r.high):
                assert problems({r.name: end}, CEILINGS, FLOORS) == []

    def test_a_knob_with_nothing_to_search_is_left_out(self) -> None:
        assert search_space({"max_num_seqs": 1}, {"max_num_seqs": 1}, {"max_num_seqs": 1}) == []

    def test_knobs_that_are_not_there_are_refused_by_name(self) -> None:
        with pytest.raises(ValueError, match="'block_size' is no hot knob"):
            search_space(LAUNCH, CEILINGS, FLOORS, ["block_size"])
        with pytest.raises(ValueError, match="this engine has no watermark"):
            search_space({"max_num_seqs": 8}, CEILINGS, FLOORS, ["watermark"])
