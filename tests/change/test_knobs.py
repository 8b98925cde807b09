"""The knob catalogue: rows by version, validity in words, ranges to search."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from change.cold_knobs import OTHER_KNOBS
from change.knobs import HOT_KNOBS, NOT_YET, KnobRow, catalogue, differences, problems, search_space
from change.versions import release
from tests.change.plain_engine import CEILINGS, FLOORS, LAUNCH


def rows(version: str | None, engine: str = "vllm") -> dict[str, KnobRow]:
    return {row.name: row for row in catalogue(engine, version)}


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


class TestCatalogue:
    def test_five_hot_knobs_in_a_recent_vllm(self) -> None:
        hot = [row.name for row in catalogue("vllm", "0.32.0") if row.state == "hot"]
        assert hot == [*HOT_KNOBS]
        assert len(hot) == 5

    @pytest.mark.parametrize(
        ("version", "attribute"),
        [
            ("0.28.0", "max_num_running_reqs"),
            ("0.30.1", "max_num_running_reqs"),
            ("0.31.0", "max_num_active_reqs"),
        ],
    )
    def test_the_running_cap_moved_in_0_31(self, version: str, attribute: str) -> None:
        assert rows(version)["max_num_seqs"].attribute == f"Scheduler.{attribute}"

    def test_the_watermark_came_with_0_24(self) -> None:
        assert rows("0.23.0")["watermark"].state == "not in this version: since 0.24.0"
        assert rows("0.23.0")["watermark"].attribute is None
        assert rows("0.24.0")["watermark"].state == "hot"

    def test_cold_knobs_are_known_and_not_changed(self) -> None:
        row = rows("0.32.0")["block_size"]
        assert (row.lane, row.flag, row.state) == ("cold", "--block-size", NOT_YET)
        assert "128" in row.help

    def test_a_flag_that_is_gone_says_since_when_and_what_its_successor_is_not(self) -> None:
        assert rows("0.17.1")["swap_space"].state == NOT_YET
        assert rows("0.18.0")["swap_space"].state == "gone since 0.18.0"
        assert rows(None)["swap_space"].state == "gone since 0.18.0"
        assert "not the same thing" in rows("0.18.0")["swap_space"].help

    def test_without_a_version_rows_say_since_when(self) -> None:
        assert rows(None)["watermark"].state == "hot since 0.24.0"

    def test_ascend_is_vllm_and_sglang_has_rows_of_its_own(self) -> None:
        assert catalogue("vllm-ascend", "0.18.0") == catalogue("vllm", "0.18.0")
        sglang = rows("0.5.15", "sglang")
        assert {row.state for row in sglang.values()} == {NOT_YET}
        assert "pp_max_micro_batch_size" in sglang
        assert "block_size" not in sglang

    def test_an_unknown_engine_is_refused(self) -> None:
        with pytest.raises(ValueError, match="expected vllm"):
            catalogue("tgi", "1.0")

    def test_every_row_says_what_it_is(self) -> None:
        names = [(knob.engine, knob.name) for knob in OTHER_KNOBS]
        assert len(names) == len(set(names))
        for row in [*catalogue("vllm", None), *catalogue("sglang", None)]:
            assert row.help.endswith("."), row.name
            assert row.flag or row.attribute, row.name


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
        assert [*ranges] == [*HOT_KNOBS]
        budget = ranges["batch_max_tokens"]
        assert (budget.low, budget.high, budget.log, budget.integer) == (256, 8192, True, True)
        cap = ranges["max_prefill_tokens"]
        assert (cap.low, cap.high, cap.zero_is_off) == (64, 8192, True)
        watermark = ranges["watermark"]
        assert (watermark.low, watermark.high, watermark.log, watermark.integer) == (0.0, 0.2, False, False)

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
