"""A real HTTP server on loopback that serves one page and remembers what it was asked."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class PageServer:
    """What to answer and what was asked; `claimed_bytes` announces more than is sent, `hold` answers only when set.

    `posted` keeps the bodies of what was sent by POST.
    """

    page: bytes = b""
    status: int = 200
    content_type: str = "text/plain; version=0.0.4; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)
    claimed_bytes: int | None = None
    hold: threading.Event | None = None
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    posted: list[bytes] = field(default_factory=list)
    url: str = ""


@contextmanager
def page_server(answer: PageServer, tls: ssl.SSLContext | None = None) -> Iterator[PageServer]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer.asked.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
            if answer.hold is not None:
                answer.hold.wait(10)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(answer.claimed_bytes or len(answer.page)))
            for key, value in answer.headers.items():
                self.send_header(key, value)
            self.end_headers()
            try:
                self.wfile.write(answer.page)
            except OSError:
                return  # the client has had enough, which is what the test is about

        def do_POST(self) -> None:
            answer.posted.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    answer.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield answer
    finally:
        if answer.hold is not None:
            answer.hold.set()
        server.shutdown()
        thread.join()
        server.server_close()
