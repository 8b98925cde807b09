"""What holds is said once when it begins and once when it is over."""

from __future__ import annotations

from typing import Any

from daemon.notices import Notices


class Log:
    """A log that remembers."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __getattr__(self, level: str) -> Any:
        return lambda text, **_: self.lines.append((level, text))


def test_the_same_thing_is_said_once() -> None:
    log = Log()
    notices = Notices(lambda: 1.0, log)
    for _ in range(5):
        notices.say("engine", "gone")
    assert log.lines == [("warning", "gone")]


def test_other_words_for_the_same_thing_keep_its_beginning() -> None:
    now = [1.0]
    notices = Notices(lambda: now[0], Log())
    notices.say("engine", "gone")
    now[0] = 9.0
    notices.say("engine", "gone, 3 requests lost", "error")
    (held,) = notices.standing()
    assert (held.since, held.level, held.text) == (1.0, "error", "gone, 3 requests lost")


def test_an_end_is_said_only_for_what_began() -> None:
    log = Log()
    notices = Notices(lambda: 1.0, log)
    notices.over("engine", "back")
    assert log.lines == []
    notices.say("engine", "gone")
    notices.over("engine", "back")
    assert log.lines[-1] == ("info", "back")
    assert not notices.holds("engine")


def test_the_worst_stands_first() -> None:
    notices = Notices(lambda: 1.0, Log())
    notices.say("a", "by the way", "info")
    notices.say("b", "bad", "error")
    notices.say("c", "hm", "warning")
    assert [n.text for n in notices.standing()] == ["bad", "hm", "by the way"]


def test_news_are_news_for_an_hour_and_troubles_stay() -> None:
    now = [0.0]
    notices = Notices(lambda: now[0], Log())
    notices.say("restart", "the engine restarted", "info")
    notices.say("engine", "gone")
    now[0] = 3601.0
    assert [notice.text for notice in notices.standing()] == ["gone"]
