"""One Alertmanager over real HTTP: what is retried, what is split, what is dropped, and how it comes in."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from rules.alertmanager.payload import Posted
from rules.alertmanager.target import Target
from rules.delivery.backoff import Backoff
from rules.delivery.http import Access, Wire, context
from tests.rules.alertmanager.alerts import NOW
from tests.rules.alertmanager.stand import Stand, alertmanager_stand


class Clock:
    """Unix seconds that a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def stand() -> Iterator[Stand]:
    with alertmanager_stand(Stand()) as standing:
        yield standing


@pytest.fixture
def clock() -> Clock:
    return Clock()


def a_posted(name: str, *, firing: bool = True, ends: float = NOW + 3600) -> Posted:
    return Posted((("alertname", name),), (), NOW - 60, ends, firing)


def with_target(
    stand: Stand, clock: Clock, story: Callable[[Target], Coroutine[Any, Any, None]], **access: Any
) -> Target:
    """Live a story with a target, and close it."""

    async def live() -> Target:
        target = Target(
            "am",
            stand.url,
            Wire(Access(**({"timeout": 5.0} | access))),
            clock,
            backoff=Backoff("am", first=1, longest=30),
        )
        try:
            await story(target)
        finally:
            await target.close()
        return target

    return asyncio.run(live())


def sending(*names: str) -> Callable[[Target], Coroutine[Any, Any, None]]:
    async def story(target: Target) -> None:
        target.put([a_posted(name) for name in names])
        await target.send_due()

    return story


def test_all_that_waits_goes_in_batches_of_64(stand: Stand, clock: Clock) -> None:
    target = with_target(stand, clock, sending(*(f"A{n}" for n in range(150))))
    assert [len(batch) for batch in stand.batches] == [64, 64, 22]
    assert (target.health.sent, target.health.queued, target.health.succeeded_at) == (150, 0, NOW)
    assert stand.kept[a_posted("A7").fingerprint] == a_posted("A7").body()


@pytest.mark.parametrize("failure", [500, 503, 429, 401, 403, 404, 307, "drop"])
def test_a_failure_is_retried_after_a_pause_that_grows(
    stand: Stand, clock: Clock, failure: int | str
) -> None:
    stand.answers = [failure] * 3

    async def story(target: Target) -> None:
        target.put([a_posted("A")])
        tries = []
        for _ in range(200):
            before = target.health.failed
            await target.send_due()
            if target.health.failed > before:
                tries.append(clock.now)
            if not target.health.queued:
                break
            clock.now += 0.1
        pauses = [b - a for a, b in itertools.pairwise(tries)]
        assert len(tries) == 3
        assert 0.7 < pauses[0] < 1.4 < pauses[1] < 2.6
        assert target.health.error is None
        assert target.health.failed_at == tries[-1]

    target = with_target(stand, clock, story)
    assert stand.names() == {"A"}
    assert (target.health.sent, target.health.failed, target.health.dropped) == (1, 3, 0)


def test_the_pause_that_the_target_asks_for_is_kept(stand: Stand, clock: Clock) -> None:
    stand.answers, stand.headers = [503], {"Retry-After": "20"}

    async def story(target: Target) -> None:
        target.put([a_posted("A")])
        await target.send_due()
        clock.now += 19
        await target.send_due()
        assert stand.names() == set()
        clock.now += 1.1
        await target.send_due()

    with_target(stand, clock, story)
    assert stand.names() == {"A"}


def test_the_good_of_a_batch_arrive_and_the_bad_are_dropped_and_named(stand: Stand, clock: Clock) -> None:
    stand.bad, stand.malformed = {"A5"}, {"A20", "A21"}
    target = with_target(stand, clock, sending(*(f"A{n}" for n in range(64))))
    assert stand.names() == {f"A{n}" for n in range(64)} - {"A5", "A20", "A21"}
    assert (target.health.dropped, target.health.queued, target.health.error) == (3, 0, None)
    assert target.health.refused is not None
    assert target.health.refused.startswith("A21 (") and "HTTP 422" in target.health.refused
    assert len(stand.batches) < 30, "halves, and not one by one"


def test_a_failure_in_the_midst_of_a_split_loses_nothing(stand: Stand, clock: Clock) -> None:
    stand.bad = {"A5"}
    stand.answers = [400, 200, 503]

    async def story(target: Target) -> None:
        target.put([a_posted(f"A{n}") for n in range(8)])
        await target.send_due()
        assert target.health.queued == 4, "the half that was taken is done"
        clock.now += 2
        await target.send_due()

    target = with_target(stand, clock, story)
    assert stand.names() == {"A4", "A6", "A7"}
    assert (target.health.queued, target.health.dropped) == (0, 1)


def test_who_refuses_everything_is_not_asked_for_ever(stand: Stand, clock: Clock) -> None:
    stand.answers = [400] * 1000

    async def story(target: Target) -> None:
        target.put([a_posted(f"A{n}") for n in range(128)])
        await target.send_due()
        first = len(stand.batches)
        assert first == 127
        await target.send_due()
        assert len(stand.batches) == first

    target = with_target(stand, clock, story)
    assert target.health.error is not None and "refuses every alert" in target.health.error
    assert target.health.dropped == 64


def test_an_alert_that_may_be_over_is_not_sent_late(stand: Stand, clock: Clock) -> None:
    stand.answers = [503]

    async def story(target: Target) -> None:
        target.put([a_posted("old", ends=NOW + 60), a_posted("over", firing=False, ends=NOW - 1)])
        await target.send_due()
        clock.now += 61
        await target.send_due()

    target = with_target(stand, clock, story)
    assert stand.names() == {"over"}
    assert target.health.dropped == 1


def test_a_target_never_gets_two_requests_at_once(stand: Stand, clock: Clock) -> None:
    stand.hold = threading.Event()

    async def story(target: Target) -> None:
        target.put([a_posted(f"A{n}") for n in range(100)])
        tries = [asyncio.create_task(target.send_due()) for _ in range(5)]
        assert await asyncio.to_thread(stand.begun.wait, 10)
        assert stand.hold is not None
        stand.hold.set()
        await asyncio.gather(*tries)

    with_target(stand, clock, story)
    assert stand.most_at_once == 1
    assert [len(batch) for batch in stand.batches] == [64, 36]


def test_a_slow_target_is_given_up_in_time(stand: Stand, clock: Clock) -> None:
    stand.hold = threading.Event()
    target = with_target(stand, clock, sending("A"), timeout=0.1)
    assert target.health.error == "no answer within 0.1 s"
    assert target.health.queued == 1


def test_a_dead_target_is_a_failure_in_words(clock: Clock) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    target = with_target(Stand(url=url), clock, sending("A"))
    assert target.health.error
    assert (target.health.queued, target.health.failed) == (1, 1)


def test_one_that_answers_no_http_is_a_failure_in_words(clock: Clock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            peer, _ = listening.accept()
            peer.sendall(b"\x00\xffSSH-2.0\r\n\r\n" * 100)
            peer.close()

        threading.Thread(target=answer, daemon=True).start()
        target = with_target(Stand(url=f"http://127.0.0.1:{listening.getsockname()[1]}"), clock, sending("A"))
    assert target.health.error
    assert target.health.queued == 1


def test_basic_authentication_lets_in_and_a_wrong_password_is_not_shown(stand: Stand, clock: Clock) -> None:
    stand.basic("trimtab", "right")
    with_target(stand, clock, sending("A"), basic=("trimtab", "right"))
    assert stand.names() == {"A"}
    target = with_target(stand, clock, sending("B"), basic=("trimtab", "wrong-secret"))
    assert target.health.error == "HTTP 401: it refuses the credentials (Unauthorized)"


def test_a_bearer_token_lets_in(stand: Stand, clock: Clock) -> None:
    stand.authorization = "Bearer tok-1"
    with_target(stand, clock, sending("A"), bearer="tok-1")
    assert stand.names() == {"A"}


def test_the_address_may_have_a_path(stand: Stand, clock: Clock) -> None:
    stand.url += "/alerts/prefix/"
    with_target(stand, clock, sending("A"))
    assert stand.names() == {"A"}


@pytest.mark.debian("openssl")
def test_certificates_are_checked_against_the_file_of_authorities(tmp_path: Path, clock: Clock) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=am"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with alertmanager_stand(Stand(), tls) as stand:
        target = with_target(stand, clock, sending("A"))
        assert target.health.error is not None and "certificate verify failed" in target.health.error
        with_target(stand, clock, sending("A"), verify=context(certificate, True))
        assert stand.names() == {"A"}
        with_target(stand, clock, sending("B"), verify=context(None, False))
        assert stand.names() == {"A", "B"}


def test_a_file_of_authorities_that_is_none_is_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nothing")
    with pytest.raises(ValueError, match=r"ca\.pem cannot be used"):
        context(file, True)


def test_what_is_sent_is_json_in_utf8(stand: Stand, clock: Clock) -> None:
    async def story(target: Target) -> None:
        target.put([Posted((("alertname", "温度过高"),), (), NOW - 60, NOW + 60, True)])
        await target.send_due()

    with_target(stand, clock, story)
    assert json.loads(stand.body)[0]["labels"] == {"alertname": "温度过高"}
