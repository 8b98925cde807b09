"""The hot lane over HTTP: the contract, and what becomes of every way an answer can be wrong."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from change.engine import EngineError, EngineUnreachable, PluginAbsent, StaleEpoch
from daemon.engine.hot import HotEngine
from tests.change.engine_contract import EngineContract, Laboratory
from tests.change.plain_engine import PlainEngine
from tests.daemon.engine.plugin_server import TOKEN, plugin_server, saying


class TestHotEngine(EngineContract):
    @asynccontextmanager
    async def laboratory(self) -> AsyncIterator[Laboratory]:
        engine = PlainEngine()

        async def advance(seconds: float) -> None:
            engine.now += seconds

        async def serve() -> None:
            engine.finish_requests(20)

        async with plugin_server(engine) as url, HotEngine(url, token=TOKEN) as hot:
            yield Laboratory(hot, advance, serve)


def ask(server: AbstractAsyncContextManager[str], call: str = "state", **settings: Any) -> Any:
    """Make one call at a server and return what comes of it."""

    async def within() -> Any:
        async with server as url, HotEngine(url, **settings) as hot:
            calls: dict[str, Callable[[], Awaitable[Any]]] = {
                "state": hot.state,
                "knobs": lambda: hot.set_knobs({"watermark": 0.1}, if_epoch=0, lease_seconds=None),
                "requests": lambda: hot.requests(0),
                "gate": lambda: hot.gate("open", lease_seconds=1, retry_after=1),
            }
            return await calls[call]()

    return asyncio.run(within())


def http(status: int, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} -", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def error(status: int, **body: Any) -> bytes:
    return http(status, json.dumps(body).encode())


CALLS = ["state", "knobs", "requests", "gate"]


class TestAnswersThatAreErrors:
    @pytest.mark.parametrize("call", CALLS)
    def test_not_found_means_no_plugin(self, call: str) -> None:
        with pytest.raises(PluginAbsent, match="install it"):
            ask(saying(error(404, detail="Not Found")), call)

    @pytest.mark.parametrize("status", [401, 403])
    def test_a_refused_token_means_no_plugin_and_names_the_mend(self, status: int) -> None:
        with pytest.raises(PluginAbsent, match=r"the token is wrong.*token_file"):
            ask(saying(error(status, error="the token is wrong")), token="x")

    def test_a_conflict_carries_the_current_epoch(self) -> None:
        with pytest.raises(StaleEpoch, match="read it again") as caught:
            ask(saying(error(409, error="read it again", epoch=42)), "knobs")
        assert caught.value.epoch == 42

    @pytest.mark.parametrize("body", [b"", b"{}", b'{"epoch": "42"}', b'{"epoch": true}', b"[409]"])
    def test_a_conflict_that_names_no_epoch_is_an_error_like_others(self, body: bytes) -> None:
        with pytest.raises(EngineError) as caught:
            ask(saying(http(409, body)), "knobs")
        assert type(caught.value) is EngineError

    @pytest.mark.parametrize("status", [400, 405, 413, 422, 500])
    def test_other_errors_say_what_the_plugin_says(self, status: int) -> None:
        with pytest.raises(EngineError, match=r"watermark must be below 0\.5") as caught:
            ask(saying(error(status, error="watermark must be below 0.5")), "knobs")
        assert type(caught.value) is EngineError

    @pytest.mark.parametrize("status", [502, 503, 504])
    def test_a_gateway_without_an_engine_behind_it_is_nobody_there(self, status: int) -> None:
        with pytest.raises(EngineUnreachable, match="Bad Gateway"):
            ask(saying(http(status, b"<h1>Bad Gateway</h1>")), "requests")

    def test_an_engine_that_does_not_answer_its_plugin_is_nobody_there(self) -> None:
        with pytest.raises(EngineUnreachable, match="the engine cannot be asked"):
            ask(saying(error(503, error="the engine cannot be asked")), "state")

    def test_one_service_missing_in_the_plugin_is_not_a_missing_engine(self) -> None:
        with pytest.raises(EngineError, match="no request timings") as caught:
            ask(saying(error(503, error="no request timings: --disable-log-stats")), "requests")
        assert type(caught.value) is EngineError

    def test_a_redirect_is_not_followed(self) -> None:
        with pytest.raises(EngineError, match="redirects"):
            ask(saying(http(307, b"", "Location: http://127.0.0.1:1/")))

    def test_an_error_page_is_cut_short_and_cleaned(self) -> None:
        with pytest.raises(EngineError) as caught:
            ask(saying(http(500, b"\x1b[31m\x00" + b"x " * 10_000)))
        assert len(str(caught.value)) < 500
        assert str(caught.value).isprintable()


class TestNobodyThere:
    def test_a_closed_port(self) -> None:
        async def closed() -> str:
            async with saying() as url:
                return url

        url = asyncio.run(closed())

        async def within() -> None:
            async with HotEngine(url) as hot:
                await hot.state()

        with pytest.raises(EngineUnreachable, match="nobody answers"):
            asyncio.run(within())

    @pytest.mark.parametrize("call", CALLS)
    def test_silence_ends_at_the_time_out(self, call: str) -> None:
        began = time.monotonic()
        with pytest.raises(EngineUnreachable, match=r"within 0\.2 s"):
            ask(saying(hang=True), call, timeout=0.2)
        assert time.monotonic() - began < 20

    def test_an_answer_that_drips_ends_at_the_same_time_out(self) -> None:
        drops = [b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n", *[b"x"] * 1000]
        began = time.monotonic()
        with pytest.raises(EngineUnreachable, match=r"within 0\.3 s"):
            ask(saying(*drops, pause=0.05), timeout=0.3)
        assert time.monotonic() - began < 20

    def test_a_connection_cut_before_or_within_the_answer(self) -> None:
        for parts in ([], [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"]):
            with pytest.raises(EngineError):
                ask(saying(*parts))


class TestGarbage:
    BODIES = (
        b"",
        b"{}",
        b"null",
        b"[]",
        b"<html>",
        b"\xff\xfe",
        b'{"epoch": 1',
        b"[" * 5000,
        b'{"epoch": 1e999, "now": NaN}',
    )

    @pytest.mark.parametrize("body", BODIES)
    @pytest.mark.parametrize("call", ["state", "knobs", "requests"])
    def test_a_body_that_is_not_an_answer_is_an_engine_error(self, call: str, body: bytes) -> None:
        with pytest.raises(EngineError, match="cannot be read") as caught:
            ask(saying(http(200, body)), call)
        assert type(caught.value) is EngineError

    def test_what_is_not_http_is_an_engine_error(self) -> None:
        with pytest.raises(EngineError):
            ask(saying(b"SSH-2.0-OpenSSH_9.2\r\n"))

    @pytest.mark.parametrize("call", CALLS)
    def test_an_endless_body_is_cut_off(self, call: str) -> None:
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        with pytest.raises(EngineError, match="more than"):
            ask(saying(head, *[chunk] * 1000), call, timeout=20)

    def test_a_compressed_bomb_is_cut_off(self) -> None:
        bomb = gzip.compress(b" " * 50_000_000)
        with pytest.raises(EngineError, match="more than"):
            ask(saying(http(200, bomb, "Content-Encoding: gzip")))


class TestWhatIsSent:
    def test_the_path_the_engine_is_served_under(self) -> None:
        async def within() -> None:
            async with plugin_server(PlainEngine(), "/llm") as url:
                base = url.removesuffix("/llm")
                for hot in (
                    HotEngine(url, token=TOKEN),
                    HotEngine(f"{base}/", token=TOKEN, root_path="/llm/"),
                ):
                    async with hot:
                        assert (await hot.state()).epoch == 0

        asyncio.run(within())

    def test_the_token_and_the_engines_own_key_go_in_headers_of_their_own(self) -> None:
        heard: list[bytes] = []

        async def within() -> None:
            async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                heard.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(http(404))
                writer.close()
                await writer.wait_closed()

            server = await asyncio.start_server(connected, "127.0.0.1", 0)
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with server, HotEngine(url, token="secret-1\n", api_key="secret-2") as hot:
                with pytest.raises(PluginAbsent):
                    await hot.state()

        asyncio.run(within())
        assert b"X-Trimtab-Token: secret-1\r\n" in heard[0]
        assert b"Authorization: Bearer secret-2\r\n" in heard[0]

    def test_proxies_of_the_environment_are_not_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
        assert ask(plugin_server(PlainEngine()), token=TOKEN).epoch == 0


class TestSettings:
    @pytest.mark.parametrize(
        "url", ["", "127.0.0.1:8000", "ftp://h", "http://", "http://h:port", "http://[::1"]
    )
    def test_an_address_that_cannot_be(self, url: str) -> None:
        with pytest.raises(EngineError, match=r"engine\.url"):
            HotEngine(url)

    @pytest.mark.parametrize("secret", ["", " \n", "a\nb", "naïve", "a\0b"])
    def test_a_secret_that_no_header_can_hold_is_refused_without_showing_it(self, secret: str) -> None:
        with pytest.raises(EngineError) as caught:
            HotEngine("http://127.0.0.1:1", token=secret)
        assert "naïve" not in str(caught.value)

    def test_a_ca_file_that_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "ca.pem").write_text("not a certificate")
        for name in ("ca.pem", "absent.pem"):
            with pytest.raises(EngineError, match="CA file"):
                HotEngine("https://127.0.0.1:1", verify=tmp_path / name)

    def test_neither_its_repr_nor_its_errors_hold_a_secret(self) -> None:
        hot = HotEngine("http://user:hidden@127.0.0.1:9", token="hidden", api_key="hidden")

        async def within() -> str:
            async with hot:
                with pytest.raises(EngineUnreachable) as caught:
                    await hot.state()
                return str(caught.value)

        assert "hidden" not in repr(hot) + asyncio.run(within())
