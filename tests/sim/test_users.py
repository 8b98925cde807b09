"""Users of a closed loop come and go: whoever leaves is answered first, and nobody asks twice at a time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.faults.replica import REPLICA, USERS
from sim.node import Node

START = 1_700_000_000.0


def node() -> Node:
    """The replica with its plain users, who think equally long each time."""
    return Node(REPLICA, 101, START)


def asked(one: Node, seconds: float) -> int:
    """Requests that arrive within some time."""
    before = one.engine.arrived
    one.advance(one.now + seconds)
    return one.engine.arrived - before


def test_the_rate_of_requests_follows_the_users() -> None:
    one = node()
    one.advance(START + 300.0)
    usual = asked(one, 600.0)
    one.engine.set_users(USERS // 2, one.now)
    one.advance(one.now + 120.0)
    assert asked(one, 600.0) == pytest.approx(usual / 2, rel=0.2)
    one.engine.set_users(USERS, one.now)
    one.advance(one.now + 120.0)
    assert asked(one, 600.0) == pytest.approx(usual, rel=0.1)


def test_when_all_have_left_what_is_inside_is_answered_and_nothing_comes() -> None:
    one = node()
    one.advance(START + 300.0)
    inside = one.running + one.waiting
    done = one.completed
    one.engine.set_users(0, one.now)
    assert asked(one, 300.0) == 0
    assert one.running == one.waiting == 0
    assert one.completed - done == inside


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 300), st.floats(0.0, 40.0)), max_size=8))
def test_there_are_never_more_requests_inside_than_users(changes: list[tuple[int, float]]) -> None:
    one = node()
    most = USERS
    for users, seconds in changes:
        one.engine.set_users(users, one.now)
        one.advance(one.now + seconds)
        most = max(most, users)
        assert one.engine.users == users
        assert one.running + one.waiting <= most
    one.advance(one.now + 400.0)
    assert one.running + one.waiting <= one.engine.users


def test_traffic_that_comes_by_itself_has_no_users() -> None:
    with pytest.raises(ValueError, match="no users"):
        Node("default", 101, START).engine.set_users(3, START)
