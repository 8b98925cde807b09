"""What the Docker Engine API's error answers mean, over a real Unix socket."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from change.server import ServerBusy, ServerError
from daemon.engine.docker_api import DockerApi, NotThere


def talking(answer: bytes, test: Callable[[DockerApi], Awaitable[None]], *, hang: bool = False) -> None:
    """Say these bytes to every request."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if hang:
            await reader.read()
        writer.write(answer)
        writer.close()

    async def do() -> None:
        with tempfile.TemporaryDirectory() as folder:
            socket = Path(folder) / "socket"
            server = await asyncio.start_unix_server(connected, socket)
            api = DockerApi(socket, timeout=0.2 if hang else 20)
            try:
                await test(api)
            finally:
                await api.close()
                server.close()

    asyncio.run(do())


def said(status: int, body: object) -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (404, {"message": "No such container: x"}, NotThere, "No such container: x"),
        (409, {"message": "removal is already in progress"}, ServerBusy, "try again once that is over"),
        (500, {"message": "no space\x1b[31m left\non device"}, ServerError, "no space .31m left on device"),
        (502, b"<html>gateway</html>", ServerError, "<html>gateway</html>"),
        (403, {"msg": 1}, ServerError, "msg"),
    ],
)
def test_an_error_says_what_was_refused_and_why(
    status: int, body: object, kind: type[ServerError], words: str
) -> None:
    async def test(api: DockerApi) -> None:
        with pytest.raises(kind, match=words) as caught:
            await api.start("x")
        assert type(caught.value) is kind
        assert "POST /containers/x/start" in str(caught.value)

    talking(said(status, body), test)


def test_no_such_container_is_none() -> None:
    async def test(api: DockerApi) -> None:
        assert await api.inspect("x") is None
        assert await api.image_id("x") is None

    talking(said(404, {"message": "none"}), test)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"null"])
def test_an_answer_that_is_no_object_is_refused(body: bytes) -> None:
    async def test(api: DockerApi) -> None:
        with pytest.raises(ServerError, match="is it Docker's socket"):
            await api.inspect("x")
        with pytest.raises(ServerError):
            await api.create("x", {})

    talking(said(200, body), test)


def test_a_creation_without_an_id_is_refused() -> None:
    async def test(api: DockerApi) -> None:
        with pytest.raises(ServerError, match="docker ps -a"):
            await api.create("x", {"Env": ["HF_TOKEN=secret"]})

    talking(said(201, {"Warnings": []}), test)


def test_a_log_that_is_refused_is_said() -> None:
    async def test(api: DockerApi) -> None:
        with pytest.raises(ServerError, match="does not support reading"):
            await api.log("x", "0.000000000")

    talking(said(501, {"message": "configured logging driver does not support reading"}), test)


def test_one_that_knows_no_update_is_told_from_one_that_has_no_such_container() -> None:
    async def asked(there: bool) -> str:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            known = there and head.startswith(b"GET")
            writer.write(said(200, {"Id": "x"}) if known else said(404, b"Not Found"))
            writer.close()

        with tempfile.TemporaryDirectory() as folder:
            server = await asyncio.start_unix_server(connected, Path(folder) / "socket")
            api = DockerApi(Path(folder) / "socket", timeout=20)
            try:
                with pytest.raises(ServerError) as caught:
                    await api.set_restart_policy("x", {"Name": "no"})
            finally:
                await api.close()
                server.close()
        return str(caught.value)

    assert "cannot change a container's restart policy" in asyncio.run(asked(there=True))
    assert "(404): Not Found" in asyncio.run(asked(there=False))


def test_a_daemon_that_hangs_is_given_up() -> None:
    async def test(api: DockerApi) -> None:
        with pytest.raises(ServerError, match="did not answer POST /containers/x/start"):
            await api.start("x")

    talking(b"", test, hang=True)


def test_no_socket_is_said_with_its_mend(tmp_path: Path) -> None:
    async def do() -> None:
        api = DockerApi(tmp_path / "none", timeout=5)
        try:
            with pytest.raises(ServerError, match="check that it runs, that the socket is mounted here"):
                await api.inspect("x")
        finally:
            await api.close()

    asyncio.run(do())
