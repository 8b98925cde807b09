"""The catalogue's data holds together."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from change.arguments import spellings_of
from change.catalogue.domain import Choices, Numbers, complaint
from change.catalogue.index import HOT_KNOBS, engine_named, knobs_of
from change.catalogue.knob import Engine, Flag, JsonKey, Knob, StartLog
from change.versions import release

ENGINES: list[Engine] = ["vllm", "sglang", "mindie"]
EVERY = [knob for engine in ENGINES for knob in knobs_of(engine).values()]


@pytest.mark.parametrize("knob", EVERY, ids=lambda knob: f"{knob.engine}-{knob.name}")
def test_every_knob_says_what_it_is_and_where(knob: Knob) -> None:
    assert knob.help.endswith("."), knob.help
    assert knob.places or knob.attributes
    assert knob.lane == ("hot" if knob.attributes else "cold")
    for place in knob.places:
        assert place.since is None or place.until is None or release(place.since) < release(place.until)
        assert not isinstance(place, Flag) or re.fullmatch(r"--[a-z0-9-]+", place.spelling)
    for earlier, later in zip(knob.places, knob.places[1:], strict=False):
        assert earlier.until is not None and later.since is not None
        assert release(earlier.until) <= release(later.since), "one place at a time"
    for reading in knob.reads:
        if isinstance(reading, StartLog):
            assert re.compile(reading.pattern).groups == (1 if reading.value is None else 0)
    for since, text in knob.defaults:
        assert release(since) and text
    if isinstance(knob.domain, Numbers):
        for value in (*knob.domain.tried, knob.domain.low, knob.domain.high):
            assert value is None or complaint(knob.domain, value, knob.unit) is None


@pytest.mark.parametrize("engine", ENGINES)
def test_no_two_knobs_are_written_at_the_same_place(engine: Engine) -> None:
    flags = Counter[str]()
    keys = Counter[tuple[str, ...]]()
    for knob in knobs_of(engine).values():
        flags.update(
            {word for place in knob.places for word in spellings_of(place) if isinstance(place, Flag)}
        )
        keys.update({place.path for place in knob.places if isinstance(place, JsonKey)})
    assert [word for word, times in flags.items() if times > 1] == []
    assert [path for path, times in keys.items() if times > 1] == []


def test_what_changes_answers_or_the_number_of_devices_is_tried_only_by_name() -> None:
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"):
        for engine in ("vllm", "sglang"):
            assert knobs_of(engine)[name].search == "by_name"
    gated = [knob for knob in EVERY if knob.accuracy_gate]
    assert {"quantization", "kv_cache_dtype", "dtype"} <= {knob.name for knob in gated}
    assert all(knob.search != "free" for knob in gated)


def test_a_knob_that_is_tried_freely_has_something_to_try() -> None:
    for knob in EVERY:
        if knob.search == "free" and isinstance(knob.domain, Numbers):
            assert knob.domain.tried or knob.domain.low is not None, knob.name
        assert knob.search != "free" or not isinstance(knob.domain, Choices) or len(knob.domain.words) > 1


def test_every_successor_is_a_knob_of_those_platforms() -> None:
    for knob in EVERY:
        for successor in knob.successors:
            other = knobs_of(knob.engine)[successor.knob]
            assert all(other.on(platform) for platform in successor.platforms)


def test_the_six_hot_knobs() -> None:
    assert [*HOT_KNOBS] == [
        "batch_max_tokens",
        "max_prefill_tokens",
        "long_prefill_tokens",
        "max_num_seqs",
        "watermark",
        "priority_by_size",
    ]


def test_ascends_own_options_know_their_defaults_by_version() -> None:
    binding = knobs_of("vllm")["additional_config.enable_cpu_binding"]
    assert [binding.default(release(version)) for version in ("0.7.3", "0.13.0", "0.23.0")] == [
        None,
        "false",
        "true",
    ]
    assert binding.default(None) == "true"


def test_an_option_that_moved_is_found_at_its_place_of_the_version() -> None:
    knob = knobs_of("vllm")["additional_config.recompute_scheduler_enable"]
    old, new = knob.place(release("0.23.0")), knob.place(release("0.25.1"))
    assert isinstance(old, JsonKey) and old.path == ("recompute_scheduler_enable",)
    assert isinstance(new, JsonKey) and new.path == ("scheduler_config", "recompute_scheduler_enable")


def test_an_option_that_went_and_came_back_is_gone_in_between() -> None:
    knob = knobs_of("vllm")["additional_config.enable_sparse_c8"]
    there = [knob.place(release(version)) is not None for version in ("0.18.0", "0.23.0", "0.25.1", "0.27.0")]
    assert there == [True, False, True, False]


def test_engines_are_told_by_the_names_they_have() -> None:
    assert engine_named("vllm-ascend") == ("vllm", "ascend")
    assert engine_named("sglang") == ("sglang", None)
    with pytest.raises(ValueError, match="expected vllm, vllm-ascend, sglang or mindie"):
        engine_named("tgi")
