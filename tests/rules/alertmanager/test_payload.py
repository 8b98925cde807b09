"""An alert as Alertmanager takes it: valid whatever its labels held, and ended when the caller says."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.alert import fingerprint
from rules.alertmanager.payload import (
    LONGEST_LABEL,
    LONGEST_NAME,
    MOST_LABELS,
    REPLACED,
    Posted,
    posted,
    rfc3339,
    sent_labels,
)
from tests.rules.alertmanager.alerts import NOW, an_alert

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
# Halves of surrogate pairs too, which a JSON text may hold and UTF-8 may not.
ANY_TEXT = st.text(st.characters(), max_size=40)
PAIRS = st.lists(st.tuples(ANY_TEXT, ANY_TEXT), max_size=90).map(tuple)


def test_a_firing_alert_holds_until_the_time_it_is_given() -> None:
    sent = posted(an_alert(), NOW + 60, {}, "http://trimtab:9470/alerts")
    assert sent.body() == {
        "labels": {"alertname": "KvFull", "severity": "warning"},
        "annotations": {"summary": "KvFull holds"},
        "startsAt": "2027-01-15T07:59:00.000000Z",
        "endsAt": "2027-01-15T08:01:00.000000Z",
        "generatorURL": "http://trimtab:9470/alerts",
    }
    assert sent.firing


def test_a_resolved_one_ended_when_it_did() -> None:
    sent = posted(an_alert(state="resolved"), NOW + 60, {}, "")
    assert (sent.ends_at, sent.firing) == (NOW - 5, False)
    assert "generatorURL" not in sent.body()


def test_an_end_before_the_start_would_be_refused() -> None:
    sent = posted(an_alert(state="resolved", resolved_at=NOW - 61), NOW, {}, "")
    assert sent.ends_at == sent.starts_at


def test_a_pending_alert_is_nobodys_business() -> None:
    with pytest.raises(ValueError, match="KvFull: a pending alert is not sent"):
        posted(an_alert(state="pending"), NOW, {}, "")


def test_external_labels_are_added_where_the_alert_has_none_such() -> None:
    own = (("alertname", "A"), ("cluster", "own"), ("empty", ""))
    external = {"cluster": "far", "empty": "filled", "node": "n1", "nothing": ""}
    assert dict(sent_labels(own, external)) == {
        "alertname": "A",
        "cluster": "own",
        "empty": "filled",
        "node": "n1",
    }


def test_control_characters_are_seen_and_harmless() -> None:
    sent = dict(sent_labels((("alertname", "a\x00\x1b[31m\nb\ud800"), ("zh", "温度\u3000高"))))
    assert sent["alertname"] == f"a{REPLACED}{REPLACED}[31m{REPLACED}b{REPLACED}"
    assert sent["zh"] == "温度\u3000高"
    annotation = posted(an_alert(annotations={"summary": "one\ntwo\x07"}), NOW, {}, "").annotations
    assert annotation == (("summary", f"one\ntwo{REPLACED}"),)


def test_a_valid_name_is_not_driven_out_by_one_that_becomes_it() -> None:
    assert dict(sent_labels((("a-b", "made"), ("a_b", "own"), ("9x", "digit")))) == {
        "a_b": "own",
        "_9x": "digit",
    }


def test_the_name_of_the_alert_is_kept_before_all_others() -> None:
    many = (*tuple((f"a{n:03}", "x") for n in range(2 * MOST_LABELS)), ("alertname", "A"))
    assert dict(sent_labels(many))["alertname"] == "A"


def test_two_long_values_stay_two_alerts() -> None:
    long = "x" * 5 * LONGEST_LABEL
    one, other = (sent_labels((("alertname", "A"), ("v", long + end))) for end in ("1", "2"))
    assert one != other
    assert all(len(dict(labels)["v"]) == LONGEST_LABEL for labels in (one, other))


@pytest.mark.parametrize("time", [-5.0, 0.0, 1e18, NOW])
def test_every_time_can_be_written(time: float) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", rfc3339(time))


@given(PAIRS, st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=5))
def test_whatever_the_labels_hold_what_is_sent_is_valid(
    own: tuple[tuple[str, str], ...], more: dict[str, str]
) -> None:
    sent = sent_labels(own, more)
    assert len(sent) <= MOST_LABELS
    assert list(sent) == sorted(dict(sent).items())
    for name, value in sent:
        assert NAME.fullmatch(name) and len(name) <= LONGEST_NAME
        assert value and len(value) <= LONGEST_LABEL
        assert not any(c < " " or c == "\x7f" for c in value)
        value.encode()
    assert sent_labels(sent, more) == sent, "what was sent once is sent so again"
    alert = Posted(sent, (), NOW, NOW, True)
    assert alert.fingerprint == fingerprint(sent)
    json.dumps(alert.body(), ensure_ascii=False).encode()
