"""Each output of hccn_tool is read or refused, and no number is made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.hccn.output import (
    HEALTH_STATES,
    MAX_NOTES,
    HccnError,
    parse_hccn_conf,
    parse_link,
    parse_net_health,
    parse_ping,
    parse_tls,
    report,
)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "hccn"
TEXTS = {path.stem: path.read_text() for path in FIXTURES.iterdir()}


def test_a_link_is_up_or_down() -> None:
    assert parse_link(TEXTS["link_up"]) is True
    assert parse_link("link status: DOWN\n") is False


@pytest.mark.parametrize("word", HEALTH_STATES)
def test_every_word_for_the_networks_health_is_known(word: str) -> None:
    assert parse_net_health(f"net health status: {word} \n") == word


def test_tls_is_on_off_or_without_a_certificate() -> None:
    assert parse_tls(TEXTS["tls"]) is True
    assert parse_tls("device 0, tls switch[0](0:disable, 1:enable)\n") is False
    assert parse_tls("[ERROR] no certificate found\n") is False


def test_a_ping_counts_what_came_back() -> None:
    ping = parse_ping(TEXTS["ping_lossy"])
    assert (ping.sent, ping.received) == (3, 2)
    assert ping.lost_ratio == pytest.approx(1 / 3)
    assert ping.mean_seconds == pytest.approx(80e-6)


def test_a_ping_without_an_answer_has_no_round_trip() -> None:
    ping = parse_ping(
        "device 0 PING 192.0.2.1\nrecv time out seq=0\n1 packets transmitted, 0 received, 100.00% packet loss\n"
    )
    assert (ping.lost_ratio, ping.mean_seconds) == (1.0, None)


@pytest.mark.parametrize("parse", [parse_link, parse_net_health, parse_tls, parse_ping])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "printed nothing; is the driver loaded, and is it run as root"),
        ("Cmd execute failed!\n", "said 'Cmd execute failed!'; run it as root, and see"),
        (
            "link status: SIDEWAYS\nnet health status: Fine\ntls switch[7]\n2 packets transmitted, 3 received\n",
            "said",
        ),
        ("0 packets transmitted, 0 received, 0.00% packet loss\n", "said '0 packets"),
    ],
)
def test_anything_else_is_an_error_with_a_mend(parse: object, text: str, reason: str) -> None:
    assert callable(parse)
    with pytest.raises(HccnError, match=reason):
        parse(text)


def test_the_file_of_addresses_is_read_by_device() -> None:
    conf = parse_hccn_conf(TEXTS["hccn"])
    assert conf.devices == {
        0: {"address": "192.0.2.10", "netmask": "255.255.255.0", "gateway": "192.0.2.1"},
        10: {"address": "192.0.2.20", "netmask": "255.255.255.0", "send_arp_status": "1"},
    }
    assert conf.notes == ("line 9: 'this is damage' is no setting of a device",)


def test_a_pasted_text_of_several_commands_is_told_line_by_line() -> None:
    told = report(TEXTS["loop_over_devices"])
    assert told["link_up"] == [True, False]
    assert told["net_health"] == ["Success", "Fault"]
    assert told["tls"] == [{"device": 1, "enabled": False}, {"device": None, "enabled": False}]
    assert told["ping"] == [
        {
            "device": 2,
            "address": "192.0.2.9",
            "sent": 1,
            "received": 1,
            "lost_ratio": 0.0,
            "mean_seconds": pytest.approx(50e-6),
        }
    ]
    assert told["notes"] == ["line 10: 'root@node:~#' is not known"]
    assert told["error"] is None


@given(
    st.text(max_size=400) | st.lists(st.sampled_from("\n".join(TEXTS.values()).splitlines())).map("\n".join)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    told = report(text)
    json.dumps(told)
    notes = told["notes"]
    assert isinstance(notes, list) and len(notes) <= MAX_NOTES + 1
    for parse in (parse_link, parse_net_health, parse_tls, parse_ping):
        try:
            parse(text)
        except HccnError:
            continue
        assert told["error"] is None
    for settings in parse_hccn_conf(text).devices.values():
        assert all(settings.values())


@pytest.mark.parametrize("digits", ["9" * 400, "9" * 4050])
def test_numbers_beyond_all_sense_are_no_reading(digits: str) -> None:
    for text in (
        f"device 1 PING 192.0.2.1\n{digits} packets transmitted, 1 received",
        f"device {digits} PING 192.0.2.1",
        f"dev_id: {digits}, tls switch[1]\n",
        f"recv seq=0,time={digits}ms\n1 packets transmitted, 1 received",
    ):
        assert json.loads(json.dumps(told := report(text), allow_nan=False)) == told
    assert parse_ping(f"recv seq=0,time={digits}ms\n1 packets transmitted, 1 received").seconds == ()
    conf = parse_hccn_conf(f"address_{digits}=192.0.2.1\n")
    assert (len(conf.devices), len(conf.notes)) == (0, 1)


def test_many_unknown_lines_are_counted() -> None:
    notes = report("what?\n" * 100)["notes"]
    assert isinstance(notes, list)
    assert notes[-1] == "and 80 more like these"
