"""A stand-in for Alertmanager on a real port: it keeps and refuses as the real one does, and fails on order."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rules.alert import fingerprint


@dataclass
class Stand:
    """What it was sent and what it answers.

    `answers` are statuses (or "drop": close without an answer) for the next posts, one each; `bad` are names of alerts
    that it refuses with 400 while it keeps the others, `malformed` those for which it refuses the whole batch with 422.
    `hold` answers only when set. `state` is what it says of an alert by name.
    """

    url: str = ""
    answers: list[int | str] = field(default_factory=list)
    bad: set[str] = field(default_factory=set)
    malformed: set[str] = field(default_factory=set)
    hold: threading.Event | None = None
    authorization: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    state: dict[str, str] = field(default_factory=dict)
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    batches: list[list[str]] = field(default_factory=list)
    queries: list[dict[str, list[str]]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    begun: threading.Event = field(default_factory=threading.Event)
    body: bytes = b""

    def names(self) -> set[str]:
        """The names of the alerts it has."""
        return {alert["labels"]["alertname"] for alert in self.kept.values()}

    def basic(self, user: str, password: str) -> None:
        """Let in by basic authentication alone."""
        self.authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@contextmanager
def alertmanager_stand(stand: Stand, tls: ssl.SSLContext | None = None) -> Iterator[Stand]:
    """Serve until the block ends."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5
        wbufsize = 65536

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with lock:
                stand.at_once += 1
                stand.most_at_once = max(stand.most_at_once, stand.at_once)
            stand.begun.set()
            if stand.hold is not None:
                stand.hold.wait(10)
            with lock:
                stand.at_once -= 1
                stand.body = body
                status, text = self._judge(body)
            if status:
                self._answer(status, text.encode())
            else:
                self.close_connection = True

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            stand.queries.append(query)
            if stand.answers:
                self._answer(int(stand.answers.pop(0)), b"no")
                return
            known = [
                {
                    **alert,
                    "fingerprint": key,
                    "status": {"state": stand.state.get(alert["labels"]["alertname"], "active")},
                }
                for key, alert in stand.kept.items()
            ]
            self._answer(200, json.dumps(known).encode())

        def _judge(self, body: bytes) -> tuple[int, str]:
            if stand.authorization is not None and self.headers.get("Authorization") != stand.authorization:
                return 401, "Unauthorized"
            alerts = json.loads(body)
            stand.batches.append([alert["labels"]["alertname"] for alert in alerts])
            if stand.answers:
                order = stand.answers.pop(0)
                return (0, "") if order == "drop" else (int(order), "as ordered")
            if any(name in stand.malformed for name in stand.batches[-1]):
                return 422, '{"code":602,"message":"labels in body is required"}'
            for alert in alerts:
                if alert["labels"]["alertname"] not in stand.bad:
                    stand.kept[fingerprint(tuple(sorted(alert["labels"].items())))] = alert
            refused = any(name in stand.bad for name in stand.batches[-1])
            return (400, '"invalid label set: invalid name"') if refused else (200, "")

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            for key, value in stand.headers.items():
                self.send_header(key, value)
            try:
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                self.close_connection = True  # the client has had enough, which is what the test is about

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    # Every connection is at its end when the block is: each thread is waited for.
    server.daemon_threads = False
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    stand.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stand
    finally:
        if stand.hold is not None:
            stand.hold.set()
        server.shutdown()
        thread.join()
        server.server_close()
