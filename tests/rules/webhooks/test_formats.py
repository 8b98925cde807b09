"""What each robot is posted: signed, within its limit, and nothing of an alert is a mark, link or mention."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.delivery.http import Answer
from rules.webhooks.formats import DINGTALK_BYTES, FEISHU_BYTES, FORMATS, WECOM_BYTES, FormatName, encoded
from rules.webhooks.message import Message
from tests.rules.alertmanager.alerts import NOW, an_alert

NAMES: list[FormatName] = ["plain", "dingtalk", "feishu", "wecom"]
CHATS: list[FormatName] = ["dingtalk", "feishu", "wecom"]
LIMITS = {"dingtalk": DINGTALK_BYTES, "feishu": FEISHU_BYTES, "wecom": 2 * WECOM_BYTES}
HOSTILE = (
    "[click](http://evil.example) ![x](http://evil.example/p.png) <@all> @all @13800000000 "
    '<at user_id="all">all</at> <font color="warning">x</font> `code` **b**\n# head\n> quote \x1b[2J \u202egnp.exe'
)


def body(name: FormatName, message: Message, secret: str | None = None) -> dict[str, Any]:
    return dict(FORMATS[name].body(message, NOW, secret).json)


def text(name: FormatName, message: Message) -> str:
    made = body(name, message)
    if name == "feishu":
        card = made["card"]
        return str(card["header"]["title"]["content"] + "\n" + card["elements"][0]["text"]["content"])
    return str(made["markdown"]["text" if name == "dingtalk" else "content"])


@pytest.mark.parametrize("name", CHATS)
def test_a_message_says_what_fires_since_when_and_why(name: FormatName) -> None:
    firing = an_alert("KvFull", labels={"npu": "3"})
    over = an_alert("Slow", state="resolved", annotations={})
    said = text(name, Message((firing, over)))
    for part in (
        "Trimtab alert: 1 firing, 1 resolved (KvFull and 1 more)",
        "FIRING KvFull",
        "(warning)",
        "KvFull holds",
        "npu=3",
        "since 2027-01-15 07:59:00 UTC, value 0.97",
        "RESOLVED Slow",
        "until 2027-01-15 07:59:55 UTC",
    ):
        assert part in said


@pytest.mark.parametrize("name", CHATS)
def test_a_message_says_of_which_engine_it_is(name: FormatName) -> None:
    at = Message((an_alert("KvFull"),), (), "", "north-1:8000", {"trimtab_engine": "north-1:8000"})
    assert "Trimtab alert at north-1:8000: 1 firing (KvFull)" in text(name, at)
    assert "Trimtab alert at north-1:8000: notice" in text(name, Message((), ("hot",), "", "north-1:8000"))
    assert "at x：//＠all" in text(name, Message((), ("hot",), "", "x://@all")), "nothing in it is a mark"


def test_the_worst_that_fires_stands_first() -> None:
    alerts = [
        an_alert("over", state="resolved", labels={"severity": "critical"}),
        an_alert("mild"),
        an_alert("bad", labels={"severity": "critical"}),
    ]
    said = text("wecom", Message(tuple(alerts)))
    assert said.index("FIRING bad") < said.index("FIRING mild") < said.index("RESOLVED over")


@pytest.mark.parametrize("name", CHATS)
def test_an_alert_cannot_mark_link_or_call(name: FormatName) -> None:
    alert = an_alert(
        HOSTILE, labels={HOSTILE: HOSTILE, "severity": HOSTILE}, annotations={"summary": HOSTILE}
    )
    said = text(name, Message((alert,), (HOSTILE,)))
    without_ours = re.sub(r"(?m)^#### |\*\*", "", said)
    assert not re.search(r"[@<>\[\]*`#\x00-\x09\x0b-\x1f\u202e]|://", without_ours)
    made = body(name, Message((alert,)))
    if name == "dingtalk":
        assert made["at"] == {"atMobiles": [], "atUserIds": [], "isAtAll": False}


@pytest.mark.parametrize("name", CHATS)
@pytest.mark.parametrize("filling", ["x", "温", "😀", '"\\'])
def test_however_much_there_is_to_say_it_keeps_within_the_limit(name: FormatName, filling: str) -> None:
    labels = {f"l{n}": filling * 300 for n in range(12)}
    alerts = tuple(
        an_alert(f"A{n}", labels=labels, annotations={"summary": filling * 900}) for n in range(300)
    )
    message = Message(alerts, tuple(filling * 4000 for _ in range(50)), "http://trimtab:9470/alerts")
    assert len(encoded(body(name, message))) <= LIMITS[name]
    assert re.search(
        r"and \d+ more: http://trimtab:9470/alerts$", text(name, Message(alerts, (), message.page_url))
    )
    if name == "wecom":
        assert len(text(name, message).encode()) <= WECOM_BYTES


@given(st.lists(st.text(st.characters(), max_size=400), min_size=1, max_size=30), st.sampled_from(NAMES))
def test_no_text_breaks_a_format(texts: list[str], name: FormatName) -> None:
    alerts = tuple(an_alert(t, labels={"l": t}, annotations={"summary": t}) for t in texts)
    made = encoded(body(name, Message(alerts, tuple(texts))))
    assert name == "plain" or len(made) <= LIMITS[name]
    json.loads(made)


def test_dingtalk_signs_time_and_secret_in_the_address() -> None:
    request = FORMATS["dingtalk"].body(Message((an_alert(),)), 1_800_000_000.1234, "SECabc")
    expected = hmac.new(b"SECabc", b"1800000000123\nSECabc", hashlib.sha256).digest()
    assert request.params == {"timestamp": "1800000000123", "sign": base64.b64encode(expected).decode()}
    assert "SECabc" not in json.dumps(dict(request.json))
    assert FORMATS["dingtalk"].body(Message((an_alert(),)), NOW, None).params == {}


def test_feishu_signs_inside_the_body_with_the_secret_in_the_key() -> None:
    made = body("feishu", Message((an_alert(),)), "abc")
    expected = hmac.new(b"1800000000\nabc", b"", hashlib.sha256).digest()
    assert (made["timestamp"], made["sign"]) == ("1800000000", base64.b64encode(expected).decode())
    assert "sign" not in body("feishu", Message((an_alert(),)))


def test_plain_is_all_there_is_for_a_program() -> None:
    own = {"trimtab_engine": "north-1:8000", "severity": "of our own"}
    alerts = (an_alert(value=float("nan")),)
    made = body("plain", Message(alerts, ("a note",), "http://t/alerts", "north-1:8000", own))
    assert made == {
        "source": "trimtab",
        "version": "1",
        "time": "2027-01-15T08:00:00.000000Z",
        "page": "http://t/alerts",
        "engine": "north-1:8000",
        "alerts": [
            {
                "status": "firing",
                "fingerprint": an_alert().fingerprint,
                "labels": {
                    "trimtab_engine": "north-1:8000",
                    "alertname": "KvFull",
                    "severity": "warning",
                },
                "annotations": {"summary": "KvFull holds"},
                "value": None,
                "startsAt": "2027-01-15T07:59:00.000000Z",
                "endsAt": None,
                "playbook": None,
            }
        ],
        "notes": ["a note"],
    }


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(200, b'{"errcode":0,"errmsg":"ok"}'), None),
        (Answer(200, b'{"StatusCode":0,"StatusMessage":"success","code":0,"data":{},"msg":"success"}'), None),
        (Answer(200, b'{"errcode":310000,"errmsg":"sign not match"}'), "code 310000 sign not match"),
        (Answer(200, b'{"code":19021,"msg":"sign match fail"}'), "code 19021 sign match fail"),
        (Answer(200, b'{"errcode":45009,"errmsg":"api freq out of limit"}'), "code 45009"),
        (Answer(200, b'{"errcode":false}'), "code False"),
        (Answer(200, b"<html>login</html>"), "is this its address"),
        (Answer(200, b"{}"), "without a code"),
        (Answer(200, b"[" * 100_000), "is this its address"),
        (Answer(502, b"bad gateway"), "HTTP 502: bad gateway"),
    ],
)
def test_a_robot_that_refuses_with_http_200_is_understood(answer: Answer, reason: str | None) -> None:
    for name in CHATS:
        said = FORMATS[name].verdict(answer)
        assert said is None if reason is None else said is not None and reason in said


def test_a_plain_webhook_is_content_with_any_success() -> None:
    assert FORMATS["plain"].verdict(Answer(204, b"")) is None
    assert FORMATS["plain"].verdict(Answer(302, b"")) == "HTTP 302"
