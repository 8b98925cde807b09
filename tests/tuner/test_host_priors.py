"""What is tried of a host, and what the guide's steps are on a topology."""

from __future__ import annotations

from change.choices import worded
from tuner.host_priors import host_priors
from tuner.proposer import Evidence, Proposer
from tuner.space import Dimension, Space

TEXTS = {
    "placement": ("as_found", "split:6", "split:4", "whole:6", "whole:4"),
    "memory": ("as_found", "node:4"),
    "cpu_governor": ("ondemand", "performance"),
}
HOST = Space(
    tuple(
        Dimension(name, 0, len(texts) - 1, log=False, integer=True, choice=True)
        for name, texts in TEXTS.items()
    ),
    {"batch_max_tokens": 2048.0},
    TEXTS,
)
FOUND = {"batch_max_tokens": 2048.0, **dict.fromkeys(TEXTS, 0.0)}


def test_nearest_and_roomiest_are_both_offered_with_cores_and_memory_on_one_node() -> None:
    offered = [worded(values, TEXTS) for _, values in host_priors(HOST)]
    assert {"placement": "split:4", "memory": "node:4"} in offered
    assert {"placement": "split:4", "memory": "node:4", "cpu_governor": "performance"} in offered
    # There is no room for the memory on node 6, so only the threads can go there.
    assert {"placement": "split:6"} in offered
    assert {"cpu_governor": "performance"} in offered


def test_a_space_without_a_host_has_no_such_prior() -> None:
    budget = Dimension("batch_max_tokens", 256, 8192, log=True, integer=True)
    assert list(host_priors(Space((budget,), {}))) == []


def proposals(proposer: Proposer) -> list[dict[str, float]]:
    """All there are, none of them any better than what was found."""
    evidence = [Evidence(FOUND, 0.0, 1e-4, -0.1)]
    found: list[dict[str, float]] = []
    while len(found) < 60 and (proposal := proposer.propose(evidence)) is not None:
        found.append(proposal.values)
        evidence.append(Evidence(proposal.values, 0.0, 1e-4, -0.1))
    return found


def test_each_text_alone_is_tried_and_a_small_space_is_searched_to_its_end() -> None:
    found = proposals(Proposer(HOST, FOUND, 3, lambda _: []))
    for name, texts in TEXTS.items():
        for place in range(1, len(texts)):
            assert {**FOUND, name: float(place)} in found
    assert len({tuple(sorted(values.items())) for values in found}) == len(found) >= 15
    assert all(values["batch_max_tokens"] == 2048.0 for values in found)


def test_a_text_that_did_not_take_is_tried_no_more_and_the_others_are() -> None:
    proposer = Proposer(HOST, FOUND, 3, lambda _: [])
    proposer.avoid("placement", 2.0)
    found = proposals(proposer)
    assert not any(values["placement"] == 2.0 for values in found)
    assert {values["placement"] for values in found} == {0.0, 1.0, 3.0, 4.0}
