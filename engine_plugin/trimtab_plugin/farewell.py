"""The end of a server behind a closed gate: whoever is on the way in is still told to come again.

uvicorn closes its listener with what the kernel has accepted for it, and connections whose request has not arrived yet;
vLLM lets both wait for as long as its engine takes to end. Each of those clients would see a reset.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

from trimtab_plugin.gate import Gate

logger = logging.getLogger("vllm.trimtab")

CATCH_UP_SECONDS = 0.05
"""What came while the loop was busy is taken in first."""
HEAR_SECONDS = 2.0
"""Longest wait for the requests of connections that are there."""
POLL_SECONDS = 0.02

_gates: weakref.WeakSet[Gate] = weakref.WeakSet()
Shutdown = Callable[..., Awaitable[None]]


def watch(gate: Gate) -> None:
    """Have this process's server take its leave if it ends while `gate` is closed."""
    _gates.add(gate)
    # Not imported: where uvicorn is not what runs us, there is nothing to do.
    Server = getattr(sys.modules.get("uvicorn"), "Server", None)
    if Server is None:
        return
    original: Shutdown = Server.shutdown
    if getattr(original, "is_trimtabs", False):
        return

    async def shutdown(self: Any, sockets: list[socket.socket] | None = None) -> None:
        if any(gate.closed for gate in _gates):
            try:
                await _take_leave(self)
            except Exception as error:
                # Another version of uvicorn: the server ends as it always did.
                logger.warning("trimtab: the server ends without a farewell: %s", error)
        await original(self, sockets)

    setattr(shutdown, "is_trimtabs", True)  # noqa: B010 - a function has no such attribute for a type checker
    Server.shutdown = shutdown


async def _take_leave(server: Any) -> None:
    """Listen no more, and have those that are connected heard and turned away."""
    await asyncio.sleep(CATCH_UP_SECONDS)
    loop = asyncio.get_running_loop()
    late = [sock for listener in server.servers for one in listener.sockets for sock in _last(one)]
    for listener in server.servers:
        listener.close()
    config = server.config

    def protocol() -> asyncio.Protocol:
        made: asyncio.Protocol = config.http_protocol_class(
            config=config, server_state=server.server_state, app_state=server.lifespan.state
        )
        return made

    for sock in late:
        with contextlib.suppress(OSError):
            await loop.connect_accepted_socket(protocol, sock, ssl=config.ssl)
    deadline = time.monotonic() + HEAR_SECONDS
    while time.monotonic() < deadline and _unheard(server):  # noqa: ASYNC110 - uvicorn tells of no request
        await asyncio.sleep(POLL_SECONDS)


def _last(listener: Any) -> list[socket.socket]:
    """Take the connections that the kernel holds for a listener, and refuse every later one."""
    found = []
    with socket.fromfd(listener.fileno(), listener.family, listener.type) as own:
        own.setblocking(False)
        with contextlib.suppress(OSError):
            while True:
                sock, _ = own.accept()
                sock.setblocking(False)
                found.append(sock)
        with contextlib.suppress(OSError):
            # At once, and not when the loop comes round to it: a connection made meanwhile would be reset.
            own.shutdown(socket.SHUT_RD)
    return found


def _unheard(server: Any) -> bool:
    """Whether a connection is there that has not sent a request yet."""
    return any(getattr(one, "cycle", one) is None for one in server.server_state.connections)
