"""Who is told of alerts, as the configuration has it: credentials, names, notices, figures, and no secret anywhere."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import socket
import tarfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.alerting.sending import Sending, own_page, page_url
from daemon.config import Config, WebSection, shown
from daemon.doctor.bundle import known_secrets, write_bundle
from daemon.errors import ConfigError
from daemon.notices import Notices
from tests.collectors.page_server import PageServer, page_server
from tests.rules.alertmanager.alerts import NOW, an_alert
from tests.rules.alertmanager.stand import Stand, alertmanager_stand

KEY = "a-robots-key-0123456789"


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
def robot() -> Iterator[PageServer]:
    with page_server(PageServer(page=b'{"errcode":0}')) as served:
        yield served


def file(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text + "\n")
    return str(path)


def live(
    config: Config, story: Callable[[Sending, Notices], Coroutine[Any, Any, None]], clock: Clock | None = None
) -> None:
    clock = clock or Clock()
    notices = Notices(clock)
    sending = Sending(config, notices, clock)

    async def whole() -> None:
        try:
            await story(sending, notices)
        finally:
            await sending.close()

    asyncio.run(whole())


async def tick(sending: Sending) -> None:
    for _, one in sending.loops(asyncio.Event()):
        await one(NOW)


def webhook(tmp_path: Path, robot: PageServer, **more: Any) -> dict[str, Any]:
    return {
        "name": "ops",
        "url_file": file(tmp_path, "robot", f"{robot.url}/robot/send?access_token={KEY}"),
        "format": "dingtalk",
        **more,
    }


def test_alerts_go_to_every_alertmanager_and_changes_to_every_webhook(
    tmp_path: Path, stand: Stand, robot: PageServer
) -> None:
    stand.basic("trimtab", "pass-word-1")
    config = Config.model_validate(
        {
            "alertmanagers": [
                {
                    "url": stand.url,
                    "username": "trimtab",
                    "password_file": file(tmp_path, "pw", "pass-word-1"),
                }
            ],
            "rules": {"external_labels": {"cluster": "north"}, "webhooks": [webhook(tmp_path, robot)]},
        }
    )

    async def story(sending: Sending, notices: Notices) -> None:
        sending.take([an_alert("A")], NOW)
        sending.changed([an_alert("A")], NOW)
        await tick(sending)
        await tick(sending)
        assert not notices.standing()
        assert await sending.suppressed(an_alert("A").fingerprint, NOW) is False
        assert await sending.notify("card 3 is hot", NOW) == {"ops": None}

    live(config, story)
    ((_, alert),) = stand.kept.items()
    assert alert["labels"]["cluster"] == "north"
    assert alert["labels"]["trimtab_engine"] == f"{socket.gethostname()}:8000"
    assert alert["generatorURL"].endswith(":9470/alerts")
    assert len(robot.posted) == 2
    told = [json.loads(body)["markdown"]["text"] for body in robot.posted]
    assert "FIRING A" in told[0]
    assert all(f"at {socket.gethostname()}:8000: " in text for text in told), "the words to people too"


def test_a_program_is_told_the_labels_that_alertmanager_is_told(tmp_path: Path, robot: PageServer) -> None:
    rules = {
        "external_labels": {"cluster": "north", "trimtab_engine": "north-1"},
        "webhooks": [webhook(tmp_path, robot, format="plain")],
    }

    async def story(sending: Sending, notices: Notices) -> None:
        sending.changed([an_alert("A")], NOW)
        await tick(sending)

    live(Config.model_validate({"rules": rules}), story)
    told = json.loads(robot.posted[0])
    assert told["engine"] == "north-1"
    assert told["alerts"][0]["labels"] == {
        "alertname": "A",
        "severity": "warning",
        "cluster": "north",
        "trimtab_engine": "north-1",
    }


def test_a_bearer_token_is_read_from_its_file(tmp_path: Path, stand: Stand) -> None:
    stand.authorization = "Bearer tok-1"
    config = Config.model_validate(
        {"alertmanagers": [{"url": stand.url, "bearer_file": file(tmp_path, "bearer", "tok-1")}]}
    )

    async def story(sending: Sending, notices: Notices) -> None:
        sending.take([an_alert("A")], NOW)
        await tick(sending)

    live(config, story)
    assert stand.names() == {"A"}


def test_trouble_is_said_and_its_end_too(stand: Stand) -> None:
    clock = Clock()
    stand.answers = [503]
    stand.bad = {"bad"}

    async def story(sending: Sending, notices: Notices) -> None:
        sending.take([an_alert("A"), an_alert("bad")], NOW)
        await tick(sending)
        (notice,) = notices.standing()
        assert "alerts do not reach 127.0.0.1:" in notice.text and "HTTP 503" in notice.text
        clock.now += 2
        await tick(sending)
        (notice,) = notices.standing()
        assert "refused an alert, which is dropped: bad (" in notice.text
        for _, one in sending.loops(asyncio.Event()):
            await one(clock.now + 3601)
        assert not notices.standing()

    live(Config.model_validate({"alertmanagers": [{"url": stand.url}]}), story, clock)
    assert stand.names() == {"A"}


def test_a_target_that_hangs_does_not_hold_up_the_end(stand: Stand) -> None:
    stand.hold = threading.Event()

    async def story(sending: Sending, notices: Notices) -> None:
        sending.take([an_alert("A")], NOW)
        stop = asyncio.Event()
        ((_, one),) = sending.loops(stop)
        ticking = asyncio.ensure_future(one(NOW))
        assert await asyncio.to_thread(stand.begun.wait, 10)
        assert not ticking.done()
        stop.set()
        await asyncio.wait_for(ticking, 5)
        assert sending.health()[0].queued == 1

    live(Config.model_validate({"alertmanagers": [{"url": stand.url, "timeout_seconds": 60}]}), story)


def test_each_target_has_its_figures_under_a_name_of_its_own(stand: Stand) -> None:
    config = Config.model_validate({"alertmanagers": [{"url": stand.url}, {"url": stand.url}]})

    async def story(sending: Sending, notices: Notices) -> None:
        sending.take([an_alert("A"), an_alert("B")], NOW)
        found = {(sample.name, sample.labels): sample.value for sample in sending.samples(NOW)}
        name = stand.url.removeprefix("http://")
        for target in (name, f"{name} (2)"):
            assert found["trimtab_notification_queue_length", (("target", target),)] == 2.0
        assert len(found) == 8
        await tick(sending)
        assert {s.value for s in sending.samples(NOW) if s.name == "trimtab_notifications_sent_total"} == {
            2.0
        }

    live(config, story)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("ftp://host/x", "holds no HTTP address"),
        ("http://[bad/secretsecret", "holds no HTTP address"),
        ("", "is empty"),
    ],
)
def test_an_address_that_is_none_is_said_without_it(tmp_path: Path, content: str, reason: str) -> None:
    url_file = file(tmp_path, "robot", content)
    config = Config.model_validate({"rules": {"webhooks": [{"name": "ops", "url_file": url_file}]}})
    with pytest.raises(ConfigError, match=reason) as caught:
        Sending(config, Notices(Clock()), Clock())
    assert url_file in str(caught.value)
    assert not content or content not in str(caught.value)


def test_no_secret_of_a_target_is_shown_anywhere(
    tmp_path: Path, robot: PageServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    robot.page = json.dumps({"errcode": 9, "errmsg": f"no robot {KEY}"}).encode()
    secrets = {"pw": "pass-word-22", "sign": "SEC-sign-33"}
    config = Config.model_validate(
        {
            "alertmanagers": [
                {
                    "url": "http://127.0.0.1:9",
                    "username": "u",
                    "password_file": file(tmp_path, "pw", secrets["pw"]),
                }
            ],
            "rules": {
                "webhooks": [webhook(tmp_path, robot, secret_file=file(tmp_path, "sign", secrets["sign"]))]
            },
        }
    )
    said: list[str] = [json.dumps(shown(config))]

    async def story(sending: Sending, notices: Notices) -> None:
        sending.take([an_alert("A")], NOW)
        sending.changed([an_alert("A")], NOW)
        await tick(sending)
        said.extend(notice.text for notice in notices.standing())
        said.append(str(await sending.notify("x", NOW)))

    live(config, story)
    assert len(said) == 4
    path = tmp_path / "bundle.tar.gz"
    write_bundle(
        path, config, [], [], NOW, {"log.txt": f"{KEY} {secrets} {robot.url}/robot/send?access_token={KEY}"}
    )
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
        for member in archive.getmembers():
            read = archive.extractfile(member)
            assert read is not None
            said.append(read.read().decode())
    for secret in (KEY, *secrets.values()):
        assert secret in known_secrets(config)
        assert secret not in "".join(said) + caplog.text


@pytest.mark.parametrize(
    ("web", "expected"),
    [
        ({"host": "10.0.0.7", "token_file": "/t"}, "http://10.0.0.7:9470/alerts"),
        (
            {"host": "::1", "allowed_hosts": ["*", "ops.example"], "root_path": "/npu"},
            "http://ops.example:9470/npu/alerts",
        ),
        ({"allowed_hosts": ["ops.example:80"]}, "http://ops.example:80/alerts"),
        ({"host": "fd00::7"}, "http://[fd00::7]:9470/alerts"),
        ({"port": 0}, ""),
    ],
)
def test_our_page_is_named_as_others_reach_it(web: dict[str, Any], expected: str) -> None:
    section = WebSection.model_validate(web)
    assert page_url(section) == expected
    assert own_page(f"{expected}?x", section) is bool(expected)
    assert not own_page("http://elsewhere:9470/alerts", section)
