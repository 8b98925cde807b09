"""The Docker Engine API over its Unix socket: the few calls that a restart needs, and what their errors mean.

It speaks the unversioned paths, which every daemon answers with its newest version; the fields used are in all
of them since 1.25. Podman's service answers the same calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from change.server import ServerBusy, ServerError

LOG_BYTES = 8 * 1024 * 1024
"""Longest piece of a log that one call reads; the next call goes on behind it."""
_ERROR_CHARACTERS = 300
_STOP_MARGIN_SECONDS = 60.0
"""Over the grace that a stop was given, for the kill and for the devices to be let go of."""


class NotThere(ServerError):
    """There is no such container, image or network."""


class DockerApi:
    """One daemon's API; use it from one event loop and close it there."""

    def __init__(self, socket: Path, *, timeout: float) -> None:
        """Prepare to talk over `socket`; `timeout` in seconds for one answer. Nothing is sent yet."""
        self._socket = socket
        self._timeout = timeout
        self._client = httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(uds=str(socket)),
            base_url="http://docker",
            timeout=timeout,
            trust_env=False,
        )

    async def inspect(self, container: str) -> dict[str, Any] | None:
        """Everything the daemon knows of a container, or None if there is none of that name or id."""
        try:
            return _object(
                await self._call("GET", f"/containers/{quote(container, safe='')}/json"), "inspect"
            )
        except NotThere:
            return None

    async def image_id(self, name: str) -> str | None:
        """The id of the image that a name stands for at present, or None."""
        try:
            found = _object(await self._call("GET", f"/images/{quote(name, safe='')}/json"), "image").get(
                "Id"
            )
        except NotThere:
            return None
        return found if isinstance(found, str) else None

    async def create(self, name: str, body: Mapping[str, Any]) -> str:
        """Make a container and return its id; it is not started."""
        answer = _object(
            await self._call("POST", "/containers/create", params={"name": name}, body=body), "create"
        )
        made = answer.get("Id")
        if not isinstance(made, str) or not made:
            raise ServerError(f"{self} made {name} without saying its id: look with `docker ps -a`")
        return made

    async def connect(self, network: str, container: str, endpoint: Mapping[str, Any]) -> None:
        """Connect a container to one more network."""
        body = {"Container": container, "EndpointConfig": endpoint}
        await self._call("POST", f"/networks/{quote(network, safe='')}/connect", body=body)

    async def start(self, container: str) -> None:
        """Start a container; nothing happens if it runs."""
        await self._call("POST", f"/containers/{container}/start")

    async def unpause(self, container: str) -> None:
        """Let a paused container go on."""
        await self._call("POST", f"/containers/{container}/unpause")

    async def stop(self, container: str, grace_seconds: int) -> None:
        """Ask a container to end, kill it after the grace, and wait; nothing happens if it does not run."""
        await self._call(
            "POST",
            f"/containers/{container}/stop",
            params={"t": str(grace_seconds)},
            longest=grace_seconds + _STOP_MARGIN_SECONDS,
        )

    async def rename(self, container: str, name: str) -> None:
        """Give a container another name."""
        await self._call("POST", f"/containers/{container}/rename", params={"name": name})

    async def set_restart_policy(self, container: str, policy: Mapping[str, Any]) -> None:
        """Say when the daemon starts a container by itself."""
        try:
            await self._call("POST", f"/containers/{container}/update", body={"RestartPolicy": dict(policy)})
        except NotThere as error:
            if await self.inspect(container) is None:
                raise
            raise ServerError(
                f"{self} cannot change a container's restart policy, as older Podman cannot: two containers with one "
                "would both come up at the next boot; make the engine's with --restart=no and let systemd start it"
            ) from error

    async def remove(self, container: str) -> None:
        """Remove a container that does not run; its volumes stay."""
        await self._call("DELETE", f"/containers/{container}", params={"v": "false", "force": "false"})

    async def log(self, container: str, since: str) -> bytes:
        """Read a log from `since` (Unix seconds, nine decimals) as the daemon sends it, at most `LOG_BYTES`."""
        params = {"stdout": "true", "stderr": "true", "timestamps": "true", "since": since}
        path = f"/containers/{container}/logs"
        body = bytearray()
        try:
            async with self._client.stream("GET", path, params=params) as answer:
                if answer.status_code != HTTPStatus.OK:
                    self._refuse(answer.status_code, await answer.aread(), f"GET {path}")
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) >= LOG_BYTES:
                        break
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._unreachable(f"GET {path}", error) from error
        return bytes(body[:LOG_BYTES])

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def __str__(self) -> str:
        return f"the container daemon at {self._socket}"

    async def _call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        longest: float | None = None,
    ) -> bytes:
        try:
            answer = await self._client.request(
                method, path, params=params, json=body, timeout=longest or self._timeout
            )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._unreachable(f"{method} {path}", error) from error
        if answer.status_code >= HTTPStatus.BAD_REQUEST:
            self._refuse(answer.status_code, answer.content, f"{method} {path}")
        return answer.content

    def _unreachable(self, call: str, error: Exception) -> ServerError:
        if isinstance(error, httpx2.ConnectError):
            mend = "check that it runs, that the socket is mounted here and that this user may open it"
            return ServerError(f"{self} cannot be reached ({error}): {mend}")
        said = str(error) or type(error).__name__
        return ServerError(f"{self} did not answer {call} ({said}): look at its log, then try again")

    def _refuse(self, status: int, body: bytes, call: str) -> None:
        said = f"{self} refused {call} ({status}): {_message(body)}"
        if status == HTTPStatus.NOT_FOUND:
            raise NotThere(said)
        if status == HTTPStatus.CONFLICT:
            raise ServerBusy(f"{said}; somebody else works on it: try again once that is over")
        raise ServerError(said)


def _object(body: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ServerError(
            f"the container daemon's answer to {what} is no JSON object: is it Docker's socket?"
        )
    return found


def _message(body: bytes) -> str:
    text = body[: 4 * _ERROR_CHARACTERS].decode(errors="replace")
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    if isinstance(said, dict) and isinstance(said.get("message"), str):
        text = said["message"]
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:_ERROR_CHARACTERS]
