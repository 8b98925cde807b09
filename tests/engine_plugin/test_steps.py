"""What holds in every step, whatever is asked and whatever arrives."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from trimtab_plugin.control import Controller

from tests.engine_plugin.fake_engine import Clock, FakeRequest, FakeScheduler, knobs, run_until_idle

REQUESTS = st.builds(FakeRequest, prompt=st.integers(1, 300), outputs=st.integers(1, 12))
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "max_num_seqs": st.integers(1, 16),
        "batch_max_tokens": st.integers(16, 256),
        "max_prefill_tokens": st.just(0) | st.integers(16, 256),
        "long_prefill_tokens": st.just(0) | st.integers(16, 256),
    },
).filter(bool)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.lists(REQUESTS, min_size=1, max_size=8)),
        st.tuples(st.just("change"), CHANGES, st.none() | st.floats(0.5, 20)),
        st.tuples(st.just("steps"), st.integers(1, 10)),
        st.tuples(st.just("wait"), st.floats(0, 15)),
    ),
    max_size=40,
)


@given(events=EVENTS, ratchet=st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_change_and_no_lease_ever_breaks_the_schedulers_assertions(
    events: list[Any], ratchet: bool
) -> None:
    clock = Clock()
    scheduler = FakeScheduler(ratchet=ratchet, batch=256, seqs=16)
    controller = Controller(scheduler, clock=clock, wall=clock)
    arrived = 0
    for kind, *rest in events:
        if kind == "arrive":
            scheduler.waiting += rest[0]
            arrived += len(rest[0])
        elif kind == "change":
            epoch = controller.call({"op": "state"})["epoch"]
            answer = controller.call(knobs(rest[0], epoch, lease_seconds=rest[1]))
            if "error" not in answer:
                assert answer["effective"] == answer["requested"]
        elif kind == "steps":
            for _ in range(rest[0]):
                scheduler.schedule(False)
        else:
            clock.now += rest[0]
    run_until_idle(scheduler)
    assert scheduler.finished == arrived


@given(
    requests=st.lists(REQUESTS, min_size=1, max_size=30),
    cap=st.integers(16, 200),
    spec=st.sampled_from([0, 2]),
)
@settings(max_examples=100, deadline=None)
def test_under_a_prefill_cap_no_step_prefills_more_and_no_decode_starves(
    requests: list[FakeRequest], cap: int, spec: int
) -> None:
    scheduler = FakeScheduler(batch=256, seqs=16, spec=spec)
    controller = Controller(scheduler)
    assert controller.call(knobs({"max_prefill_tokens": cap}, 0))["status"] == "applied"
    scheduler.waiting = list(requests)
    for step in run_until_idle(scheduler):
        assert step["prefill"] <= cap
    # A prompt in pieces stands at the end of the running ones, so every decode before it gets its token.
    assert all(request.starved_steps == 0 for request in requests)
    assert scheduler.finished == len(requests)
