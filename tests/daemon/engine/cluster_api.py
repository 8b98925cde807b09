"""Serves the stand-in of a Kubernetes namespace over loopback HTTP: the real API's paths, patches and error answers.

Only the calls that the shipped role grants are answered; everything else is forbidden.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.daemon.engine.cluster import CONTAINER, NAME, NAMESPACE, Cluster, Object, stamp

TOKEN = "a service account's token"
Answer = tuple[int, str, bytes]


def failure(code: int, reason: str, message: str) -> Answer:
    """An error as the API server words it."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return _json({**status, "message": message, "reason": reason, "code": code}, code)


def merge(target: Object, patch: Object, path: str = "") -> None:
    """Apply a strategic merge patch: null deletes, containers and variables merge by name, other lists are replaced."""
    for key, value in patch.items():
        where = f"{path}.{key}"
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            merge(target.setdefault(key, {}), value, where)
        elif where.endswith((".containers", ".env")):
            entries = target.setdefault(key, [])
            for one in value:
                found = next((entry for entry in entries if entry["name"] == one["name"]), None)
                if one.get("$patch") == "delete":
                    entries[:] = [entry for entry in entries if entry["name"] != one["name"]]
                elif found is None:
                    entries.append({k: v for k, v in one.items() if v is not None})
                else:
                    merge(found, one, where)
        else:
            target[key] = copy.deepcopy(value)


class ClusterApi:
    """Answers for one cluster; `calls` are the verbs that were asked for, `conflicts` are still to be made up."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.calls: list[str] = []
        self.conflicts = 0
        self.read_only = False
        self.down = False

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        """Answer one request."""
        address = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        if headers.get("authorization") != f"Bearer {TOKEN}":
            return failure(401, "Unauthorized", "Unauthorized")
        apps, core = f"/apis/apps/v1/namespaces/{NAMESPACE}/", f"/api/v1/namespaces/{NAMESPACE}/pods"
        kind = f"{self.cluster.kind.lower()}s"
        if address.path == f"{apps}{kind}/{NAME}" and method in ("GET", "PATCH"):
            self.calls.append("get workload" if method == "GET" else "patch workload")
            if method == "PATCH" and self.read_only:
                return failure(403, "Forbidden", f"cannot patch {kind}")
            return self._patch(headers, body) if method == "PATCH" else _json(self.cluster.workload)
        if address.path.startswith(apps):
            return failure(404, "NotFound", f'{kind}.apps "{address.path.rsplit("/", 1)[1]}" not found')
        if address.path == core and method == "GET":
            self.calls.append("list pods")
            wanted = dict(part.split("=") for part in query["labelSelector"].split(","))
            found = [pod for pod in self.cluster.pods if wanted.items() <= pod["metadata"]["labels"].items()]
            return _json({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": found})
        if address.path.startswith(f"{core}/") and address.path.endswith("/log") and method == "GET":
            self.calls.append("get log")
            return self._log(address.path.split("/")[-2], query)
        return failure(403, "Forbidden", f"{method} {address.path} is forbidden")

    def _patch(self, headers: dict[str, str], body: bytes) -> Answer:
        if headers["content-type"] != "application/strategic-merge-patch+json":
            return failure(415, "UnsupportedMediaType", headers["content-type"])
        patch, workload = json.loads(body), self.cluster.workload
        if self.conflicts:
            self.conflicts -= 1
            self.cluster.changed(spec=False)
        if patch["metadata"].pop("resourceVersion", None) != workload["metadata"]["resourceVersion"]:
            return failure(
                409, "Conflict", "the object has been modified; please apply your changes to the latest"
            )
        before = copy.deepcopy(workload["spec"])
        merge(workload, patch)
        self.cluster.changed(spec=workload["spec"] != before)
        return _json(workload)

    def _log(self, name: str, query: dict[str, str]) -> Answer:
        engine = self.cluster.engines.get(name)
        if engine is None or query["container"] != CONTAINER:
            return failure(404, "NotFound", f'pods "{name}" not found')
        if not engine.lines:
            words = f'container "{CONTAINER}" in pod "{name}" is waiting to start: ContainerCreating'
            return failure(400, "BadRequest", words)
        since = self.cluster.now - float(query.get("sinceSeconds", "inf"))
        lines = [(at, text) for at, text in engine.lines if at >= since]
        text = "".join(f"{stamp(at)[:-1]}.000000001Z {said}\n" for at, said in lines)
        return 200, "text/plain", text.encode()


@asynccontextmanager
async def serving(api: ClusterApi) -> AsyncIterator[str]:
    """Serve on a free loopback port and yield the address."""
    conversations: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        conversations.add(task)
        try:
            while not api.down and (request := await _read(reader)) is not None:
                status, kind, body = api.answer(*request)
                head = f"HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
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


async def _read(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], bytes] | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    method, target, _ = head[0].split(" ", 2)
    pairs = (line.partition(":") for line in head[1:])
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return method, target, headers, await reader.readexactly(int(headers.get("content-length", "0")))


def _json(found: Any, status: int = 200) -> Answer:
    return status, "application/json", json.dumps(found).encode()
