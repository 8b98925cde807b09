"""What a server tells of itself beside its metrics: its version, and its role where it answers that."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from collectors.engines.families import KindName, Role
from collectors.engines.launch import DISAGGREGATION_MODES, KV_ROLES
from collectors.page import PageRefused, PageSource
from collectors.sample import CollectorError

ROUTES: dict[KindName, tuple[str, ...]] = {
    # /server_info is there under VLLM_SERVER_DEV_MODE=1 only.
    "vllm": ("/version", "/server_info"),
    # The second is the name of older releases.
    "sglang": ("/server_info", "/get_server_info"),
    "mindie": (),
}
"""What is asked of each kind, until version and role are known; a route that is not there is no fault."""

_KV_ROLE = re.compile(r"""["']?kv_role["']?\s*[:=]\s*["'](kv_[a-z]+)["']""")
_NO_TRANSFER = re.compile(r"""["']?kv_transfer_config["']?\s*[:=]\s*(?:None|null)\b""")
_LONGEST_VERSION = 64
_ABSENT = frozenset({401, 403, 404, 405})


@dataclass(frozen=True, slots=True)
class Identity:
    """None is unknown; `notes` say which answers could not be used."""

    version: str | None = None
    role: Role | None = None
    notes: tuple[str, ...] = ()


def read_answer(text: str) -> Identity:
    """Read what one of the routes answers: JSON of any shape, or vLLM's configuration in words."""
    role: Role | None = None
    words = text.replace("\\", "")  # quotes inside JSON's
    found = _KV_ROLE.search(words)
    if found is not None:
        role = KV_ROLES.get(found[1])
    elif _NO_TRANSFER.search(words):
        role = "both"
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return Identity(role=role)
    if not isinstance(values, dict):
        return Identity(role=role)
    mode = values.get("disaggregation_mode")
    if isinstance(mode, str):
        role = DISAGGREGATION_MODES.get(mode.lower(), role)
    version = values.get("version")
    usable = isinstance(version, str) and 0 < len(version) <= _LONGEST_VERSION and version.isprintable()
    return Identity(version if usable else None, role)


class IdentitySource:
    """Asks one server's routes; `base` is its address with the proxy's path, the rest as for `PageSource`."""

    def __init__(
        self,
        base: str,
        *,
        headers: dict[str, str] | None = None,
        ca_file: Path | None = None,
        verify: bool = True,
        timeout_seconds: float = 1.0,
    ) -> None:
        self._sources = {
            route: PageSource(
                base + route,
                headers=headers,
                ca_file=ca_file,
                verify=verify,
                timeout_seconds=timeout_seconds,
                max_bytes=1024 * 1024,
            )
            for routes in ROUTES.values()
            for route in routes
        }

    async def ask(self, kind: KindName, role: Role | None = None) -> Identity:
        """Ask the routes of a kind, one after the other, for what is unknown; `role` is what is known of it already.

        A server that does not answer one of them is not asked the next: it is late enough.
        """
        version: str | None = None
        for route in ROUTES[kind]:
            answer = await self._one(route)
            version, role = version or answer.version, role or answer.role
            if answer.notes or (version is not None and role is not None):
                return Identity(version, role, answer.notes)
        return Identity(version, role)

    async def _one(self, route: str) -> Identity:
        try:
            return read_answer(await self._sources[route].fetch())
        except PageRefused as refusal:
            return Identity() if refusal.status in _ABSENT else Identity(notes=(str(refusal),))
        except CollectorError as failure:
            return Identity(notes=(str(failure),))
