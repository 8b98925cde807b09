"""A small HTTP server that speaks the plugin's contract for any `EngineControl`, or says whatever bytes a test wants.

It stands in for the plugin inside a real server, which has the same contract suite run against it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qs, urlsplit

from change.engine import EngineControl, EngineError, EngineUnreachable, RequestPage, StaleEpoch

TOKEN = "correct horse"

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def plugin_server(control: EngineControl, prefix: str = "") -> AsyncIterator[str]:
    """Serve an engine on a free loopback port and yield its address."""

    async def answer(method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
        address = urlsplit(target)
        if not address.path.startswith(f"{prefix}/trimtab/v1/"):
            return 404, {"error": "no such path"}
        if headers.get("x-trimtab-token") != TOKEN:
            return 401, {"error": "the token is wrong"}
        call = address.path.removeprefix(f"{prefix}/trimtab/v1/")
        try:
            return 200, await _call(control, method, call, parse_qs(address.query), body)
        except StaleEpoch as error:
            return 409, {"error": str(error), "epoch": error.epoch}
        except EngineUnreachable as error:
            return 503, {"error": str(error)}
        except EngineError as error:
            return 422, {"error": str(error)}

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await _read(reader)) is not None:
            status, said = await answer(*request)
            body = json.dumps(said).encode()
            writer.write(f"HTTP/1.1 {status} -\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()

    async with _listening(talk) as url:
        yield url + prefix


@asynccontextmanager
async def saying(*parts: bytes, pause: float = 0.0, hang: bool = False) -> AsyncIterator[str]:
    """Answer every request with these bytes, a pause between them, then close or hang."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _read(reader)
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)
        if hang:
            await asyncio.Event().wait()

    async with _listening(talk) as url:
        yield url


@asynccontextmanager
async def _listening(talk: Talk) -> AsyncIterator[str]:
    conversations: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        conversations.add(task)
        try:
            await talk(reader, writer)
        except ConnectionError:
            pass  # the client had heard enough
        finally:
            conversations.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in conversations:
            task.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)


async def _call(
    control: EngineControl, method: str, call: str, query: dict[str, list[str]], body: bytes
) -> dict[str, Any]:
    match method, call:
        case "GET", "state":
            return asdict(await control.state())
        case "GET", "requests":
            return page_json(await control.requests(int(query["since"][0])))
        case "POST", "knobs":
            asked = json.loads(body)
            return asdict(
                await control.set_knobs(
                    asked["values"],
                    if_epoch=asked["if_epoch"],
                    lease_seconds=asked["lease_seconds"],
                    revert_to=asked.get("revert_to"),
                    mark=asked.get("mark"),
                )
            )
        case "POST", "gate":
            asked = json.loads(body)
            await control.gate(
                asked["state"], lease_seconds=asked["lease_seconds"], retry_after=asked["retry_after"]
            )
            return {"gate": asked["state"]}
    raise EngineError(f"{method} {call} is not a call")


def page_json(page: RequestPage) -> dict[str, Any]:
    """A page as it goes over the wire: the keys of `gaps` are strings."""
    gaps = {
        str(epoch): {str(bucket): n for bucket, n in counts.items()} for epoch, counts in page.gaps.items()
    }
    return {**asdict(page), "gaps": gaps}


async def _read(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], bytes] | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    method, target, _ = head[0].split(" ", 2)
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return method, target, headers, body
