"""From the time that a line bears to the Unix times that it may mean, as most formats name no zone and some no year."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

SLACK_SECONDS = 60.0
"""A line may be stamped so much after it is read, and before the positions were kept: clocks are not quite alike."""

_STAMP = re.compile(
    r"(?:(?P<year>\d{4})[-/]?)?(?P<month>\d\d)[-/]?(?P<day>\d\d)[-T ](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:[.,]\d{1,9}){0,2}(?P<zone>Z|[+-]\d\d:?\d\d)?"
)


def times_of(stamp: str, now: float) -> tuple[float, ...]:
    """The Unix times, to the second, that a stamp may mean read at `now`; none for one that is no date.

    Without a zone it is the host's or UTC (as in many containers); without a year it is the last such day.
    """
    found = _STAMP.fullmatch(stamp)
    if found is None:
        return ()
    # A day may have begun already in the stamp's zone.
    latest = datetime.fromtimestamp(now, UTC) + timedelta(days=1)
    month, day, hour, minute, second = (
        int(found[name]) for name in ("month", "day", "hour", "minute", "second")
    )
    try:
        if found["year"] is not None:
            written = datetime(int(found["year"]), month, day, hour, minute, second)
        else:
            written = datetime(latest.year, month, day, hour, minute, second)
            if written.replace(tzinfo=UTC) > latest:
                written = written.replace(year=latest.year - 1)
        if found["zone"] is not None:
            return (written.replace(tzinfo=_zone(found["zone"])).timestamp(),)
        return tuple(
            dict.fromkeys((written.replace(tzinfo=UTC).timestamp(), written.astimezone().timestamp()))
        )
    except (ValueError, OverflowError, OSError):
        return ()


def is_recent(stamp: str | None, since: float, now: float, seconds: float) -> bool:
    """Whether a line written between `since` and `now` bears a time of the last `seconds`, whatever zone it means."""
    meant = [
        time
        for time in (() if stamp is None else times_of(stamp, now))
        if since - SLACK_SECONDS <= time <= now + SLACK_SECONDS
    ]
    return bool(meant) and min(meant) >= now - seconds


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    ahead = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(-ahead if text[0] == "-" else ahead)
