"""Whose engine an alert from outside is about, and what of the engine's address is told to others."""

from __future__ import annotations

import errno
import socket

import psutil
import pytest

from collectors.sample import labels
from daemon.alerting.addressee import Addressee, addressee, engine_name, sent_with
from daemon.config import Config

HERE = Addressee("north-1:8000", frozenset({"north-1", "10.0.0.1", "fe80::1"}))
OF_RULE = {"Down": "again"}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"alertname": "Down", "trimtab_engine": "north-1:8000"}, "again"),
        ({"alertname": "X", "trimtab_engine": "north-1:8000", "playbook": "hot"}, "hot"),
        ({"alertname": "X", "trimtab_engine": "north-1:8000"}, None),
        ({"alertname": "Down", "trimtab_engine": "north-2:8000", "playbook": "hot"}, None),
        ({"alertname": "Down"}, None),
        # An exported rule whose expression leaves no label: every replica has one of that name.
        ({"alertname": "Down", "playbook": "again"}, None),
        ({"alertname": "Down", "playbook": "again", "signature": "npu_out_of_memory"}, None),
        ({"alertname": "Down", "playbook": "again", "instance": "north-1:9470"}, "again"),
        ({"alertname": "Down", "playbook": "again", "instance": "north-2:9470"}, None),
        ({"alertname": "X", "playbook": "hot"}, "hot"),
        ({"alertname": "X", "playbook": "hot", "engine": "0"}, "hot"),
        ({"alertname": "X", "playbook": "hot", "instance": "north-2:9470"}, None),
        ({"alertname": "X", "playbook": "hot", "instance": "North-1:9470"}, "hot"),
        ({"alertname": "X", "playbook": "hot", "instance": "10.0.0.1:8082"}, "hot"),
        ({"alertname": "X", "playbook": "hot", "instance": "[fe80::1]:8082"}, "hot"),
        ({"alertname": "X", "playbook": "hot", "instance": "[nonsense"}, None),
    ],
)
def test_only_what_is_about_this_engine_starts_a_playbook(own: dict[str, str], expected: str | None) -> None:
    assert HERE.playbook(labels(**own), OF_RULE) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000", f"{socket.gethostname()}:8000"),
        ("http://north-1", "north-1:80"),
        ("https://north-1/v1", "north-1:443"),
    ],
)
def test_the_engine_is_named_as_others_know_it(url: str, expected: str) -> None:
    config = Config.model_validate({"engine": {"url": url}})
    assert engine_name(config) == expected
    assert sent_with(config) == {"trimtab_engine": expected}
    assert addressee(config).engine == expected


def test_the_operator_may_name_it() -> None:
    config = Config.model_validate({"rules": {"external_labels": {"trimtab_engine": "north", "dc": "1"}}})
    assert sent_with(config) == {"trimtab_engine": "north", "dc": "1"}


def test_where_the_kernel_does_not_tell_the_addresses_the_names_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused() -> None:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(psutil, "net_if_addrs", refused)
    monkeypatch.setattr(socket, "gethostname", lambda: "North-1.dc")
    assert addressee(Config()).machine == {"north-1.dc", "north-1"}
