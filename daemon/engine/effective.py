"""Which settings are in force in an engine: from its metrics page, the plugin, its start-up log and /server_info."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from change.catalogue.domain import Json, told
from change.catalogue.index import knobs_of
from change.catalogue.knob import (
    CacheLabel,
    Engine,
    Knob,
    PluginCeiling,
    PluginLaunch,
    Reading,
    ServerInfo,
    StartLog,
)
from change.engine import EngineState
from change.server import Setting, Settings

LARGEST_ANSWER_BYTES = 16 * 1024 * 1024
_CACHE_INFO = re.compile(r"^vllm[:_]cache_config_info\{(.*)\}\s+\S+", re.MULTILINE)
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_NOTHING = ("None", "none", "null", "")


@dataclass(frozen=True, slots=True)
class Told:
    """What an engine told of itself after a start; None, or no line, is what was not heard.

    `page` is the text of its metrics page, `log` what it wrote since this start, `server_info` the answer of
    /server_info, which only servers in development mode give.
    """

    page: str | None = None
    state: EngineState | None = None
    log: tuple[str, ...] = ()
    server_info: Mapping[str, Any] | None = None


def effective(told_by: Told, engine: Engine) -> Settings:
    """The settings in force, each by the surest way that knows it; those nobody told are absent."""
    labels = _cache_labels(told_by.page)
    log = "\n".join(told_by.log)
    found: dict[str, Setting] = {}
    for knob in knobs_of(engine).values():
        for reading in knob.reads:
            value = _read(knob, reading, told_by, labels, log)
            if value is not None:
                found[knob.name] = value
                break
    return found


class EffectiveReader:
    """Asks a server that is up for its metrics page and /server_info."""

    def __init__(
        self,
        url: str,
        *,
        metrics_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | bool = True,
        timeout_seconds: float = 5.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = url
        self._metrics = metrics_url or f"{url}/metrics"
        self._headers = dict(headers or {})
        self._tls = tls
        self._timeout = timeout_seconds
        self._transport = transport

    async def read(self, engine: Engine, *, state: EngineState | None, log: Iterable[str]) -> Settings:
        """The settings in force; never raises for a server that does not answer: what it would tell is unknown."""
        # JSON of the configuration needs the query; servers without it answer as they always do.
        page, answer = await asyncio.gather(
            self._ask(self._metrics, "text/plain;version=0.0.4"),
            self._ask(f"{self._url}/server_info?config_format=json", "application/json"),
        )
        info = None if answer is None else read_server_info(answer)
        return effective(Told(page, state, tuple(log), info), engine)

    async def _ask(self, url: str, accept: str) -> str | None:
        try:
            async with (
                asyncio.timeout(self._timeout),
                httpx2.AsyncClient(
                    verify=self._tls, timeout=self._timeout, trust_env=False, transport=self._transport
                ) as client,
                client.stream("GET", url, headers={**self._headers, "Accept": accept}) as response,
            ):
                if not response.is_success:
                    return None
                body = bytearray()
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > LARGEST_ANSWER_BYTES:
                        return None
                return body.decode("utf-8", "replace")
        except (httpx2.HTTPError, OSError, TimeoutError):
            return None


def read_server_info(text: str) -> Mapping[str, Any] | None:
    """The JSON object of an answer of /server_info, or None if it is none."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _read(knob: Knob, reading: Reading, told_by: Told, labels: Mapping[str, str], log: str) -> Setting | None:
    match reading:
        case CacheLabel(name=name):
            return _value(knob, labels[name]) if name in labels else None
        case PluginCeiling():
            return None if told_by.state is None else _number(knob, told_by.state.ceilings.get(knob.name))
        case PluginLaunch():
            if told_by.state is None or told_by.state.epoch != 0:
                return None
            return _number(knob, told_by.state.values.get(knob.name))
        case StartLog(pattern=pattern, value=fixed):
            # A line may stand once for each rank and each start: the newest counts.
            matches = re.findall(pattern, log)
            if not matches:
                return None
            return fixed if fixed is not None else _value(knob, matches[-1])
        case ServerInfo(path=path):
            return _from_info(knob, told_by.server_info, path)


def _from_info(knob: Knob, info: Mapping[str, Any] | None, path: tuple[str, ...]) -> Setting | None:
    found: Any = info
    for key in path:
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    if isinstance(found, list):
        return _value(knob, " ".join(str(each) for each in found))
    return _value(knob, found if isinstance(found, str) else json.dumps(found))


def _value(knob: Knob, text: str) -> Setting | None:
    """A text as the knob's value; nothing (None) is what the knob calls unset, or unknown."""
    if text.strip() in _NOTHING and not isinstance(knob.domain, Json):
        return knob.unset
    return told(knob.domain, text.removeprefix("torch."))


def _number(knob: Knob, value: float | None) -> Setting | None:
    return None if value is None else told(knob.domain, repr(value))


def _cache_labels(page: str | None) -> dict[str, str]:
    """The labels of the page's cache_config_info; none where engines of one server differ in a label."""
    found: dict[str, str] = {}
    differing = set()
    for block in _CACHE_INFO.findall(page or ""):
        for name, text in _LABEL.findall(block):
            value = _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text)
            if found.setdefault(name, value) != value:
                differing.add(name)
    return {name: value for name, value in found.items() if name not in differing}
