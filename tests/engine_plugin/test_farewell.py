"""A uvicorn server that ends behind its gate: nobody on the way in is reset."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from trimtab_plugin.http import Middleware
from trimtab_plugin.settings import TokenFile

REQUEST = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
EACH = 8


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        for kind in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{kind}.complete"})
        return
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Ending:
    """A server with its gate, run in the test's own loop, so that the test can keep it from accepting."""

    def __init__(self, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("a-secret\n")
        token.chmod(0o600)
        self.middleware = Middleware(app, token=TokenFile({"TRIMTAB_TOKEN_FILE": str(token)}))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        config = uvicorn.Config(self.app, interface="asgi3", lifespan="on", log_level="error")
        self.server = uvicorn.Server(config)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """What a framework adds to each scope: the application, here without an engine."""
        await self.middleware({**scope, "app": SimpleNamespace(state=SimpleNamespace())}, receive, send)

    async def started(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self.server.serve(sockets=[self.listener]))
        while not self.server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        return task


async def end_with_clients_on_the_way(tmp_path: Path, *, closed: bool) -> list[bytes | None]:
    """End the server with connections it has not seen yet; half of them send only when it ends already."""
    ending = Ending(tmp_path)
    task = await ending.started()
    if closed:
        ending.middleware._gate.close(60.0, 1.0)
    ending.server.should_exit = True
    # No step of the loop from here to the end of this: all of them are in the kernel's queue only.
    clients = [socket.create_connection(ending.address) for _ in range(2 * EACH)]
    for client in clients[:EACH]:
        client.sendall(REQUEST)

    def late(client: socket.socket) -> None:
        client.sendall(REQUEST)

    def answer(client: socket.socket) -> bytes | None:
        client.settimeout(10.0)
        try:
            return client.recv(65536) or None
        except OSError:
            return None

    loop = asyncio.get_running_loop()
    # As late as the server looks whether it is to end: a tenth of a second.
    await asyncio.sleep(0.3)
    for client in clients[EACH:]:
        try:
            late(client)
        except OSError:
            continue
    answers = await asyncio.gather(*(loop.run_in_executor(None, answer, client) for client in clients))
    await task
    ending.listener.close()
    ending.middleware._gate.open()
    for client in clients:
        client.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(ending.address)
    return list(answers)


def test_whoever_is_on_the_way_in_is_told_to_come_again(tmp_path: Path) -> None:
    answers = asyncio.run(end_with_clients_on_the_way(tmp_path, closed=True))
    assert len(answers) == 2 * EACH
    for answer in answers:
        assert answer is not None
        head = answer.partition(b"\r\n\r\n")[0].lower()
        assert head.startswith(b"http/1.1 503")
        assert b"retry-after: 1" in head
        assert b"connection: close" in head


def test_a_server_with_an_open_gate_ends_as_it_always_did(tmp_path: Path) -> None:
    answers = asyncio.run(end_with_clients_on_the_way(tmp_path, closed=False))
    assert answers[EACH:] == [None] * EACH
