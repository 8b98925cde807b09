"""Serve the seeded face over HTTP: for the browser tests, and by hand with `python -m tests.web.serving 9471`."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI

from store import Store, open_store
from tests.web.fake_body import FakeBody
from tests.web.seeded import NOW, fill
from web.app import create_app, end_streams


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Run the app on a free loopback port and yield its address; stopping it also ends its streams."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)  # who comes before the server runs waits, and is not refused
        config = uvicorn.Config(app, log_level="warning", lifespan="on", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            end_streams(app)
            server.should_exit = True
            thread.join(timeout=10)
            assert not thread.is_alive(), "the server did not stop: a stream was left open"


def seeded_app(store: Store, *, running: bool = True, clock: Any = lambda: NOW, **changes: Any) -> FastAPI:
    """Build the face over a seeded store."""
    fill(store, running=running)
    return create_app(FakeBody(**changes), store, None, (), clock=clock)


if __name__ == "__main__":
    running = "promoted" not in sys.argv
    memory = open_store("sqlite:///:memory:")
    app = seeded_app(memory, running=running)
    body = FakeBody()
    for beat in range(450):
        app.state.feed.trend.add(NOW - 900 + 2 * beat, body.live(NOW))
    uvicorn.run(
        app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", timeout_graceful_shutdown=1
    )
