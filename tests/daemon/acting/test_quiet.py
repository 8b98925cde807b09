"""When it is quiet: the window where one is set, else the hour that was the quietest of the last day."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from collectors.history import History
from collectors.sample import Sample, labels
from daemon.acting.quiet import LOAD, QuietTimes, Unknown
from daemon.acting.quiet_walks import MOST_FIRING, QuietWalks
from daemon.sections.restart import RestartSection
from rules.playbook.load import read
from rules.playbook.messages import Trigger

NOON = datetime(2026, 11, 30, 12, 0).astimezone().timestamp()
HOUR = 3600.0


def lived(hours: int, quietest: int, now: float = NOON) -> History:
    """A history of so many hours until now, with the fewest requests in one hour of the day."""
    history = History()
    own = labels(engine="0", model_name="m")
    at = now - hours * HOUR
    while at < now:
        hour = (datetime.fromtimestamp(at) + timedelta(seconds=1)).hour
        history.add([Sample(LOAD, 1.0 if hour == quietest else 20.0, at, own)], "vllm")
        at += 60.0
    return history


def test_the_window_says_when_and_when_it_began() -> None:
    quiet = QuietTimes(RestartSection(window=["02:00-04:00"]), History())
    assert "02:00-04:00" in quiet.name(NOON)
    assert quiet.next(NOON) == NOON + 14 * HOUR
    assert quiet.began(NOON) is None
    inside = NOON + 15 * HOUR + 30
    assert quiet.next(inside) == inside
    assert quiet.began(inside) == NOON + 14 * HOUR


def test_without_a_window_it_is_the_quietest_hour_of_the_last_day() -> None:
    quiet = QuietTimes(RestartSection(), lived(24, 4))
    assert quiet.quietest_hour(NOON) == 4
    assert quiet.next(NOON) == NOON + 16 * HOUR
    assert "04:00-05:00" in quiet.name(NOON)


def test_with_half_a_day_nobody_knows() -> None:
    quiet = QuietTimes(RestartSection(), lived(12, 4))
    for ask in (quiet.name, quiet.next, quiet.began, quiet.quietest_hour):
        with pytest.raises(Unknown, match=r"engine\.restart\.window"):
            ask(NOON)


RESTART = """
playbooks:
  - name: pieces
    title: Memory in pieces
    description: A restart mends it.
    steps:
      - {name: again, act: {kind: restart, arguments: {when: quietest}}, timeout: 1h}
      - {name: mended, verify: up == 1}
"""


def test_what_was_changed_is_watched_before_the_engine_is_restarted() -> None:
    books = read(RESTART.replace("    steps", "    target: npu\n    steps"), "test.yaml")
    walks = QuietWalks(QuietTimes(RestartSection(window=["02:00-04:00"]), History()), books)
    walks.fires(Trigger("pieces", "rule", (("npu", "3"),), "f", NOON))
    inside = NOON + 15 * HOUR
    assert walks.due(inside, {"engine": inside + 40}) == []
    assert len(walks.due(inside + 60, {"engine": inside + 40})) == 1


def test_alerts_from_outside_that_never_end_are_forgotten_the_oldest_first() -> None:
    walks = QuietWalks(
        QuietTimes(RestartSection(window=["02:00-04:00"]), History()), read(RESTART, "test.yaml")
    )
    for number in range(MOST_FIRING + 50):
        walks.fires(Trigger("pieces", "alertmanager", (), f"f{number}", NOON))
    due = walks.due(NOON + 15 * HOUR, {})
    assert len(due) == MOST_FIRING
    assert {"f49", f"f{MOST_FIRING + 49}"} & {one.fingerprint for one in due} == {f"f{MOST_FIRING + 49}"}
