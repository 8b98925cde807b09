"""What is tried next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from change.engine import Values
from tuner.proposer import Evidence, Proposer, spread
from tuner.space import Dimension, Space

INCUMBENT: dict[str, float] = {"batch_max_tokens": 2048.0, "max_prefill_tokens": 0.0}
SPACE = Space(
    (
        Dimension("batch_max_tokens", 256.0, 8192.0, log=True, integer=True),
        Dimension("max_prefill_tokens", 16.0, 8192.0, log=True, integer=True, zero_is_off=True),
    ),
    {},
)


def drawn(problems: Values | None = None, count: int = 40) -> list[dict[str, float]]:
    """What is proposed one after another where a budget of 320 is best and nothing else matters."""

    def gain(values: Values) -> float:
        return 1.0 - abs(SPACE.encode(values)[0] - SPACE.encode({**values, "batch_max_tokens": 320.0})[0])

    proposer = Proposer(
        SPACE, INCUMBENT, 7, lambda values: ["no"] if problems is not None and values == problems else []
    )
    evidence = [Evidence(INCUMBENT, 0.0, 1e-4, -0.1)]
    found = []
    for _ in range(count):
        proposal = proposer.propose(evidence)
        if proposal is None:
            break
        found.append(proposal.values)
        evidence.append(Evidence(proposal.values, gain(proposal.values) - gain(INCUMBENT), 1e-3, -0.1))
    return found


def test_the_search_does_not_run_dry_and_tries_nothing_twice() -> None:
    found = drawn()
    assert len(found) == 40
    assert len({tuple(sorted(values.items())) for values in found}) == 40
    assert INCUMBENT not in found


def test_a_narrow_optimum_beside_the_leader_is_found() -> None:
    assert any(values["batch_max_tokens"] == 320 for values in drawn())


def test_what_is_not_valid_is_never_proposed() -> None:
    forbidden = {"batch_max_tokens": 320.0, "max_prefill_tokens": 0.0}
    assert forbidden not in drawn(forbidden)


def test_the_middle_comes_first_and_then_both_sides() -> None:
    halves: list[dict[str, float]] = [{"knob": v} for v in (2048, 1024, 512, 256, 128, 64, 32)]
    assert [values["knob"] for values in spread(halves)] == [256, 1024, 64, 2048, 512, 128, 32]


@given(st.lists(st.floats(0, 1), max_size=20))
def test_nothing_is_lost_or_doubled(places: list[float]) -> None:
    given_values: list[dict[str, float]] = [{"knob": place} for place in places]
    assert sorted(v["knob"] for v in spread(given_values)) == sorted(places)
