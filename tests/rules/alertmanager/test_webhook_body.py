"""A webhook's body is read as far as it makes sense, and what makes none is refused in words."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.alert import fingerprint
from rules.alertmanager.payload import REPLACED
from rules.alertmanager.webhook_body import (
    MOST_ALERTS,
    MOST_BYTES,
    MOST_KEPT_BYTES,
    POST,
    WebhookError,
    parse,
    unix_time,
)
from tests.rules.alertmanager.posts import a_post, an_item

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ITEM = st.dictionaries(
    st.sampled_from(
        ["status", "labels", "annotations", "startsAt", "endsAt", "fingerprint", "generatorURL", "new"]
    ),
    JSON | st.sampled_from(["firing", "resolved", "2026-11-30T08:00:00Z"]) | st.just({"alertname": "A"}),
)


def test_an_alert_is_read_with_all_it_has() -> None:
    (alert,) = parse(a_post(an_item(silenceURL="http://x/#/silences"))).alerts
    assert alert.labels == (("alertname", "NodeDown"), ("severity", "critical"))
    assert alert.annotations == (("summary", "NodeDown holds"),)
    assert alert.status == "firing"
    assert alert.starts_at == datetime(2026, 11, 30, 8, 0, 0, 500_000, UTC).timestamp()
    assert alert.fingerprint == fingerprint(alert.labels)
    assert alert.body["silenceURL"] == "http://x/#/silences", "a field that we do not know is kept"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-30T08:00:00Z", datetime(2026, 11, 30, 8, tzinfo=UTC)),
        ("2026-11-30T08:00:00.123456789+02:00", datetime(2026, 11, 30, 6, 0, 0, 123457, UTC)),
        ("2026-11-30T08:00:00-05:30", datetime(2026, 11, 30, 13, 30, tzinfo=UTC)),
        ("2016-12-31T23:59:60Z", datetime(2016, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_times_are_read_to_the_nanosecond(text: str, expected: datetime) -> None:
    assert unix_time(text) == pytest.approx(expected.timestamp(), abs=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00Z",
        "",
        "yesterday",
        "2026-13-01T00:00:00Z",
        "2026-11-30",
        None,
        5,
        "２０２６-11-30T08:00:00Z",
    ],
)
def test_no_time_is_none_and_not_a_guess(text: object) -> None:
    assert unix_time(text) is None


@given(st.datetimes(min_value=datetime(1970, 1, 2), timezones=st.just(UTC)), st.integers(-14 * 60, 14 * 60))
def test_every_time_in_every_zone_is_the_same_moment(moment: datetime, minutes: int) -> None:
    there = moment.astimezone(timezone(timedelta(minutes=minutes))) if 1971 < moment.year < 9998 else moment
    assert unix_time(there.isoformat()) == pytest.approx(moment.timestamp(), abs=1e-3)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "no JSON object"),
        (b'{"version": NaN}', "no JSON"),
        (a_post(version="3"), "version"),
        (a_post(version=4), "version"),
        (a_post(alerts={}), "no list of objects"),
        (a_post("an alert"), "no list of objects"),
        (b'{"version": "4", "alerts": ' + b"[" * 200_000, "lists and objects"),
        (b'{"version": "4", "alerts": ' + b"[" * 2_000, "nested deeper"),
        (b'{"version":' * 50_000, "nested deeper"),
        (a_post(extra=[[]] * 30_000), "lists and objects"),
        (b'{"version": "4", "n": ' + b"9" * 100_000 + b"}", "no JSON"),
        (b" " * (MOST_BYTES + 1), "max_alerts"),
    ],
)
def test_what_alertmanager_does_not_send_is_refused_in_words(body: bytes, reason: str) -> None:
    with pytest.raises(WebhookError, match=reason) as caught:
        parse(body)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "broken",
    [
        {},
        an_item(status="pending"),
        an_item(labels=None),
        an_item(labels={}),
        an_item(labels={"alertname": 5}),
        an_item(labels={"alertname": ""}),
    ],
)
def test_one_senseless_alert_does_not_cost_the_others_their_way(broken: object) -> None:
    delivery = parse(a_post(broken, an_item()))
    assert [dict(alert.labels)["alertname"] for alert in delivery.alerts] == ["NodeDown"]
    assert delivery.left_out == 1


def test_more_alerts_than_it_takes_are_counted() -> None:
    items = [{"status": "firing", "labels": {"alertname": f"A{n}"}} for n in range(MOST_ALERTS + 7)]
    delivery = parse(a_post(*items, truncatedAlerts=5))
    assert (len(delivery.alerts), delivery.left_out) == (MOST_ALERTS, 12)


def test_a_fingerprint_that_is_none_is_computed() -> None:
    for given_one in (None, "zz", "A" * 16, 5, "0" * 17):
        (alert,) = parse(a_post(an_item(fingerprint=given_one))).alerts
        assert alert.fingerprint == fingerprint(alert.labels)


def test_control_characters_go_no_further() -> None:
    item = an_item(labels={"alertname": "a\x00\x1b]0;x\x07b\ud800"}, note=["\x1b[2J"])
    (alert,) = parse(a_post(item)).alerts
    assert dict(alert.labels)["alertname"] == f"a{REPLACED}{REPLACED}]0;x{REPLACED}b{REPLACED}"
    assert alert.body["note"] == [f"{REPLACED}[2J"]
    json.dumps(alert.body, ensure_ascii=False).encode()


def test_of_a_huge_alert_the_times_are_kept() -> None:
    (alert,) = parse(a_post(an_item(extra="x" * 2 * MOST_KEPT_BYTES))).alerts
    assert set(alert.body) == {"status", "startsAt", "endsAt", "fingerprint"}


def test_what_a_post_says_beside_its_alerts_is_kept_with_each() -> None:
    delivery = parse(a_post(an_item(), an_item("Other"), newer={"a": ["\x1b[2J"]}))
    for alert in delivery.alerts:
        post = alert.body[POST]
        assert post["receiver"] == "trimtab"
        assert post["groupKey"] == '{}:{alertname="NodeDown"}'
        assert post["newer"] == {"a": [f"{REPLACED}[2J"]}
        assert "alerts" not in post


def test_a_post_is_kept_only_where_it_fits_beside_the_alert() -> None:
    half = "x" * (MOST_KEPT_BYTES // 2)
    (small, large) = parse(a_post(an_item(), an_item("Other", extra=half), newer=half)).alerts
    assert small.body[POST]["newer"] == half
    assert large.body["extra"] == half and POST not in large.body
    for body in (small.body, large.body):
        assert len(json.dumps(dict(body))) <= MOST_KEPT_BYTES + 100
    (own,) = parse(a_post(an_item(post="of its own"))).alerts
    assert own.body[POST] == "of its own"


@given(st.lists(ITEM, max_size=4), st.dictionaries(st.text(max_size=6), JSON, max_size=3))
def test_no_body_of_the_right_form_breaks_it(items: list[object], more: dict[str, object]) -> None:
    body = json.dumps({"alerts": items, "version": "4"} | {"extra": more}, allow_nan=True).encode()
    try:
        delivery = parse(body)
    except WebhookError:
        assert b"NaN" in body or b"Infinity" in body
        return
    assert len(delivery.alerts) + delivery.left_out == len(items)
    for alert in delivery.alerts:
        json.dumps(dict(alert.body), ensure_ascii=False).encode()


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_body_at_all_breaks_it(body: bytes) -> None:
    with contextlib.suppress(WebhookError):
        parse(body)


def test_the_worst_bodies_are_refused_or_read_within_a_second(say: Callable[[str], None]) -> None:
    size = MOST_BYTES - 100
    worst = {
        "brackets": b"[" * size,
        "empty lists": b'{"version":"4","alerts":[' + b"[],"[:3] * (size // 3) + b"[]]}",
        "open string": b'"' + b"\\" * size,
        "quotes": b'"' * size,
        "open string of escaped quotes": b'{"version":"4","alerts":[],"x":"' + b'\\"' * (size // 2 - 20),
        "empty alerts": a_post()[:-1] + b', "alerts": [' + b"{}," * (size // 3 - 200) + b"{}]}",
        "long labels": a_post(*[an_item(labels={"alertname": "x" * 950}) for _ in range(500)]),
    }
    for name, body in worst.items():
        assert len(body) <= MOST_BYTES, name
        begun = time.process_time()
        with contextlib.suppress(WebhookError):
            parse(body)
        took = time.process_time() - begun
        say(f"{name}: {len(body) / 1e6:.1f} MB in {took * 1000:.0f} ms")
        assert took < 1.0, name
