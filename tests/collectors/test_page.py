"""Pages are fetched whole or not at all, from a real HTTP server on loopback."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest

from collectors.page import PageSource, SharedPage
from collectors.sample import CollectorError
from tests.collectors.page_server import PageServer, page_server


def fetch(source: PageSource) -> str:
    return asyncio.run(source.fetch())


def test_asks_for_the_text_format_and_nothing_else() -> None:
    with page_server(PageServer(b"up 1\n")) as server:
        assert fetch(PageSource(f"{server.url}/metrics")) == "up 1\n"
    path, headers = server.asked[0]
    assert path == "/metrics"
    assert headers["accept"] == "text/plain;version=0.0.4"
    assert headers["accept-encoding"] == "identity"


def test_goes_past_the_proxies_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with page_server(PageServer(b"up 1\n")) as server:
        assert fetch(PageSource(f"{server.url}/metrics")) == "up 1\n"


def test_a_page_cut_off_by_the_connection_is_an_error() -> None:
    with (
        page_server(PageServer(b"up 1\n", claimed_bytes=500)) as server,
        pytest.raises(CollectorError, match="/metrics"),
    ):
        fetch(PageSource(f"{server.url}/metrics"))


def test_openmetrics_without_its_end_mark_is_an_error() -> None:
    answer = PageServer(b"up 1\n", content_type="application/openmetrics-text; version=1.0.0")
    with page_server(answer) as server, pytest.raises(CollectorError, match="# EOF"):
        fetch(PageSource(server.url))
        answer.page = b"up 1\n# EOF\n"
        assert fetch(PageSource(server.url)) == "up 1\n# EOF\n"


def test_a_page_over_the_limit_is_an_error() -> None:
    with (
        page_server(PageServer(b"x" * 200_000)) as server,
        pytest.raises(CollectorError, match="larger than 100000 bytes"),
    ):
        fetch(PageSource(server.url, max_bytes=100_000))


def test_a_server_that_does_not_answer_costs_no_more_than_the_time_out() -> None:
    with page_server(PageServer(b"up 1\n", hold=threading.Event())) as server:
        began = time.monotonic()
        with pytest.raises(CollectorError, match=r"within 0\.2 s"):
            fetch(PageSource(server.url, timeout_seconds=0.2))
        assert time.monotonic() - began < 5


def test_nobody_listening_is_an_error_that_names_the_address() -> None:
    with page_server(PageServer()) as server:
        pass
    with pytest.raises(CollectorError, match=server.url):
        fetch(PageSource(server.url))


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "api_key"), (404, "root_path"), (500, "HTTP 500"), (302, "302")]
)
def test_any_answer_but_200_is_an_error(status: int, hint: str) -> None:
    with (
        page_server(PageServer(b"no\n", status=status, headers={"Location": "/elsewhere"})) as server,
        pytest.raises(CollectorError, match=hint),
    ):
        fetch(PageSource(server.url))
    assert len(server.asked) == 1


def test_bytes_that_are_not_text_are_an_error() -> None:
    with (
        page_server(PageServer(b"up \xff\n")) as server,
        pytest.raises(CollectorError, match=r"not UTF-8 \(byte 3\)"),
    ):
        fetch(PageSource(server.url))


def test_a_compressed_page_is_an_error() -> None:
    with (
        page_server(PageServer(b"\x1f\x8b", headers={"Content-Encoding": "gzip"})) as server,
        pytest.raises(CollectorError, match="compressed"),
    ):
        fetch(PageSource(server.url))


def test_a_secret_in_the_headers_is_in_no_error() -> None:
    with page_server(PageServer(b"no\n", status=401)) as server, pytest.raises(CollectorError) as caught:
        fetch(PageSource(server.url, headers={"Authorization": "Bearer s3cret"}))
    assert server.asked[0][1]["authorization"] == "Bearer s3cret"
    assert "s3cret" not in repr(caught.value)


@pytest.mark.parametrize("url", ["metrics", "file:///etc/passwd", "http://", "http://me:pw@host/metrics"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="address of a metrics page"):
        PageSource(url)


def test_certificates_that_cannot_be_used_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "garbage.pem").write_text("no certificate\n")
    for name in ("missing.pem", "garbage.pem"):
        with pytest.raises(ValueError, match=name):
            PageSource("https://127.0.0.1:1/metrics", ca_file=tmp_path / name)


@pytest.mark.debian("openssl")
def test_tls_is_verified_against_the_given_certificates(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-keyout", str(key), "-out", str(certificate), "-days", "2"),
            *("-subj", "/CN=engine", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with page_server(PageServer(b"up 1\n"), tls) as server:
        assert fetch(PageSource(server.url, ca_file=certificate)) == "up 1\n"
        assert fetch(PageSource(server.url, verify=False)) == "up 1\n"
        with pytest.raises(CollectorError, match=r"(?i)certificate"):
            fetch(PageSource(server.url))


def test_who_asks_for_a_shared_page_while_it_is_fetched_gets_the_same() -> None:
    async def scenario(shared: SharedPage, server: PageServer) -> list[str]:
        both = await asyncio.gather(shared.fetch(), shared.fetch())
        server.page = b"up 2\n"
        return [*both, await shared.fetch()]

    with page_server(PageServer(b"up 1\n")) as server:
        found = asyncio.run(scenario(SharedPage(PageSource(server.url)), server))
        assert len(server.asked) == 2
    assert found == ["up 1\n", "up 1\n", "up 2\n"]


def test_one_who_gives_up_on_a_shared_page_takes_it_from_no_other() -> None:
    hold = threading.Event()

    async def scenario(shared: SharedPage) -> str:
        hasty, patient = asyncio.create_task(shared.fetch()), asyncio.create_task(shared.fetch())
        await asyncio.sleep(0)
        hasty.cancel()
        hold.set()
        found = await patient
        assert hasty.cancelled()
        return found

    with page_server(PageServer(b"up 1\n", hold=hold)) as server:
        assert asyncio.run(scenario(SharedPage(PageSource(server.url)))) == "up 1\n"


def test_a_shared_page_that_nobody_waits_for_is_given_up() -> None:
    hold = threading.Event()

    async def scenario(shared: SharedPage) -> list[bool]:
        asking = asyncio.create_task(shared.fetch())
        await asyncio.sleep(0)
        [fetching] = asyncio.all_tasks() - {asking, asyncio.current_task()}
        asking.cancel()
        await asyncio.wait([asking, fetching], timeout=10.0)
        return [asking.cancelled(), fetching.cancelled()]

    with page_server(PageServer(b"up 1\n", hold=hold)) as server:
        assert asyncio.run(scenario(SharedPage(PageSource(server.url)))) == [True, True]
        hold.set()


def test_all_who_share_a_page_are_told_that_it_failed() -> None:
    async def scenario(shared: SharedPage) -> tuple[str | BaseException, ...]:
        return await asyncio.gather(shared.fetch(), shared.fetch(), return_exceptions=True)

    with page_server(PageServer(status=503)) as server:
        found = asyncio.run(scenario(SharedPage(PageSource(server.url))))
    assert [type(one).__name__ for one in found] == ["PageRefused", "PageRefused"]
