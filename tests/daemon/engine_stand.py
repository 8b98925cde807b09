"""An engine to stand beside: real HTTP on a real port, the plugin's contract in small, and every fault on order."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

LAUNCH = {"batch_max_tokens": 2048.0, "max_num_seqs": 256.0}
TOKEN = "stand-token-0123456789"

METRICS = """\
# HELP vllm:num_requests_running Requests running.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="stand"}} {running}
# HELP vllm:num_requests_waiting Requests waiting.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="stand"}} 0.0
# HELP vllm:kv_cache_usage_perc KV cache in use.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0",model_name="stand"}} 0.25
# HELP vllm:generation_tokens_total Tokens generated.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0",model_name="stand"}} {tokens}
"""


class EngineStand:
    """Serves from a thread of its own; attributes may be changed while it serves.

    `metrics_fault` is None, "cut" (the page ends midway), "hang" or "garbage"; `more_metrics` are
    lines at its end. `wrong_token` refuses every token.
    """

    def __init__(self) -> None:
        self.boots = 0
        self.launch: dict[str, float] = dict(LAUNCH)
        self.metrics_fault: str | None = None
        self.more_metrics = ""
        self.has_plugin = True
        self.scheduler_known = True
        self.version = "0.1.0"
        self.clamp: dict[tuple[str, float], float] = {}
        self.changes: list[dict[str, Any]] = []
        self.boot()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def boot(self, **flags: float) -> None:
        """Come up afresh, with other launch values where given."""
        self.boots += 1
        self.launch.update(flags)
        self.values = dict(self.launch)
        self.epoch = 0
        self.lease: tuple[float, dict[str, float]] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Listen, on the same port as before."""
        ready = threading.Event()

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            self._end = asyncio.Event()
            server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, reuse_address=True)
            ready.set()
            await self._end.wait()
            server.close()
            # From being accepted to its task's first step a connection takes three turns; a task that is cancelled
            # before that never closes it.
            for _ in range(3):
                await asyncio.sleep(0)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        self._thread = threading.Thread(target=lambda: asyncio.run(serve()), name="engine stand")
        self._thread.start()
        assert ready.wait(10)

    def stop(self) -> None:
        """Be gone: nobody listens any more."""
        if self._thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(10)
            self._thread = None

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, path, _ = head[0].split(" ")
            headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            await self._answer(writer, method, path.partition("?")[0], headers, body)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, writer: asyncio.StreamWriter, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> None:
        status, answer = 404, b'{"detail": "Not Found"}'
        if path == "/metrics":
            await self._metrics(writer)
            return
        if path == "/v1/models":
            status, answer = 200, json.dumps({"data": [{"id": "stand-model"}]}).encode()
        elif path == "/version":
            status, answer = 200, b'{"version": "0.32.0"}'
        elif path.startswith("/trimtab/v1/") and self.has_plugin:
            if headers.get("x-trimtab-token") != TOKEN:
                status, answer = 401, b'{"error": "wrong token"}'
            else:
                status, plain = self._plugin(method, path.rsplit("/", 1)[1], json.loads(body or b"null"))
                answer = json.dumps(plain).encode()
        writer.write(
            f"HTTP/1.1 {status} x\r\nContent-Length: {len(answer)}\r\nConnection: close\r\n\r\n".encode()
            + answer
        )
        await writer.drain()

    async def _metrics(self, writer: asyncio.StreamWriter) -> None:
        page = METRICS.format(running=3.0, tokens=float(int(time.time() * 10) % 10**9)).encode()
        page += self.more_metrics.encode()
        if self.metrics_fault == "hang":
            await asyncio.sleep(30)
        if self.metrics_fault == "garbage":
            page = b"<html>\x00\xff not metrics {{{ 17\n" * 5
        writer.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(page)}\r\n\r\n".encode()
        )
        writer.write(page[: len(page) // 2] if self.metrics_fault == "cut" else page)
        await writer.drain()

    def _plugin(self, method: str, what: str, body: Any) -> tuple[int, dict[str, Any]]:
        self._expire()
        if (method, what) == ("GET", "state"):
            return 200, self._state()
        if (method, what) == ("GET", "requests"):
            return 200, {"now": time.time(), "next_since": 0, "lost": 0, "records": [], "gaps": {}}
        if (method, what) == ("POST", "gate"):
            return 200, {"state": body["state"]}
        if (method, what) == ("POST", "knobs"):
            if body["if_epoch"] != self.epoch:
                return 409, {"error": f"the engine is at epoch {self.epoch}", "epoch": self.epoch}
            return 200, self._change(body)
        return 404, {"error": "no such route"}

    def _change(self, body: dict[str, Any]) -> dict[str, Any]:
        self.changes.append(body)
        before = dict(self.values)
        wanted = {name: self.clamp.get((name, value), value) for name, value in body["values"].items()}
        if any(self.values[name] != value for name, value in wanted.items()):
            self.values.update(wanted)
            self.epoch += 1
        seconds = body["lease_seconds"]
        back = self.lease[1] if self.lease is not None else {**before, **(body.get("revert_to") or {})}
        self.lease = None if seconds is None else (time.time() + seconds, back)
        effective = {name: self.values[name] for name in body["values"]}
        return {
            "epoch": self.epoch,
            "requested": body["values"],
            "effective": effective,
            "status": "applied",
            "reason": None,
        }

    def _expire(self) -> None:
        if self.lease is not None and time.time() >= self.lease[0]:
            self.values.update(self.lease[1])
            self.lease = None
            self.epoch += 1

    def _state(self) -> dict[str, Any]:
        return {
            "plugin": self.version,
            "engine": "vllm",
            "engine_version": "0.32.0",
            "boot_id": f"stand-{self.port}-{self.boots}",
            "epoch": self.epoch,
            "values": self.values,
            "ceilings": dict(self.launch),
            "floors": {"batch_max_tokens": 1.0, "max_num_seqs": 1.0},
            "lease_remaining_seconds": None if self.lease is None else max(0.0, self.lease[0] - time.time()),
            "gate": "open",
            "dp_ranks": 1,
            "api_servers": 1,
            "scheduler": "vllm.v1.core.sched.scheduler.Scheduler",
            "scheduler_known": self.scheduler_known,
        }
