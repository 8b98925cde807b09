"""The token and the cookie that stands for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.sessions import FAILURES_ALLOWED, FAILURES_WINDOW_SECONDS, SESSION_SECONDS, Sessions


class Clock:
    """A clock that stands until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_only_the_token_matches() -> None:
    sessions = Sessions("secret", Clock())
    assert sessions.token_matches("secret")
    assert not sessions.token_matches("secre")
    assert not sessions.token_matches("")


def test_an_empty_token_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="empty"):
        Sessions("", Clock())


def test_a_cookie_runs_out_and_does_not_hold_the_token() -> None:
    clock = Clock()
    sessions = Sessions("secret", clock)
    cookie = sessions.issue()
    assert sessions.valid(cookie)
    assert "secret" not in cookie
    clock.now += SESSION_SECONDS
    assert not sessions.valid(cookie)


def test_a_new_token_ends_the_sessions_of_the_old() -> None:
    clock = Clock()
    assert not Sessions("new", clock).valid(Sessions("old", clock).issue())


@given(st.text())
def test_no_text_is_a_session_by_chance(text: str) -> None:
    assert not Sessions("secret", Clock()).valid(text)


@given(st.integers(0, 60), st.characters(codec="ascii"))
def test_a_cookie_changed_in_one_place_is_void(place: int, letter: str) -> None:
    sessions = Sessions("secret", Clock())
    cookie = sessions.issue()
    forged = cookie[:place] + letter + cookie[place + 1 :]
    assert sessions.valid(forged) == (forged == cookie)


def test_sign_in_closes_after_many_failures_and_opens_again() -> None:
    clock = Clock()
    sessions = Sessions("secret", clock)
    for _ in range(FAILURES_ALLOWED):
        assert not sessions.locked()
        sessions.failed()
    assert sessions.locked()
    clock.now += FAILURES_WINDOW_SECONDS
    assert not sessions.locked()
