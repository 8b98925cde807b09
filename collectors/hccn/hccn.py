"""The network of each device through hccn_tool: link, health, TLS and ping. Slow, for these seldom change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from collectors.command import run_command
from collectors.hccn.output import (
    HEALTH_STATES,
    HccnError,
    parse_hccn_conf,
    parse_link,
    parse_net_health,
    parse_ping,
    parse_tls,
)
from collectors.identity import Identities
from collectors.sample import CollectorError, Labels, Sample

COMMAND = "/usr/local/Ascend/driver/tools/hccn_tool"
CONF = Path("/etc/hccn.conf")
"""Where the driver's package puts its tool, and where the network of each device is set."""

MAX_CONF_BYTES = 1 << 20
MAX_BYTES = 64 * 1024
"""Of one answer; a certificate's is the longest, of a few lines."""
WAIT_SECONDS = 5.0
"""How soon to look again while it is not known which device has which number."""

T = TypeVar("T")


class HccnCollector:
    """Asks `command` about each device that `conf` names, one after the other.

    `ping` holds addresses to ping from each device. A command later than `timeout_seconds` is killed, and the rest
    of its device is left out of this reading.
    """

    name = "hccn"

    def __init__(
        self,
        command: str = COMMAND,
        *,
        conf: Path = CONF,
        ping: Sequence[str] = (),
        identities: Identities | None = None,
        interval_seconds: float = 120.0,
        timeout_seconds: float = 5.0,
    ) -> None:
        if not command:
            raise ValueError("the command of hccn_tool is empty")
        self.interval_seconds = self._interval = interval_seconds
        self.notes: tuple[str, ...] = ()
        self._command = command
        self._conf = conf
        self._ping = tuple(ping)
        self._identities = identities or Identities()
        self._timeout = timeout_seconds

    async def collect(self, now: float) -> list[Sample]:
        """Ask about every device; raises CollectorError. `notes` tells what could not be read."""
        self.notes = ()
        devices, notes = await asyncio.to_thread(self._devices)
        samples: list[Sample] = []
        unknown: list[int] = []
        for number in devices:
            own = self._identities.of_physical(number)
            if own is None:
                unknown.append(number)
            else:
                samples.extend(await self._device(number, own, now, notes))
        if unknown:
            numbers = ", ".join(map(str, unknown))
            notes.append(f"npu-smi has not listed which device has the physical id {numbers}: not asked yet")
        elif not samples:
            raise CollectorError(notes[-1])
        self.interval_seconds = (
            min(self._interval, WAIT_SECONDS) if unknown and not samples else self._interval
        )
        self.notes = tuple(notes)
        return samples

    def _devices(self) -> tuple[list[int], list[str]]:
        mend = (
            "set addresses with `hccn_tool -i N -ip -s ...`, or turn this source off (collect.hccn.enabled)"
        )
        try:
            with self._conf.open("rb") as file:
                text = file.read(MAX_CONF_BYTES).decode(errors="backslashreplace")
        except OSError as failure:
            raise CollectorError(f"{self._conf}: {failure.strerror}; {mend}") from failure
        conf = parse_hccn_conf(text)
        if not conf.devices:
            raise CollectorError(f"{self._conf} names no device; {mend}")
        return list(conf.devices), [f"{self._conf}: {note}" for note in conf.notes]

    async def _device(self, number: int, own: Labels, now: float, notes: list[str]) -> list[Sample]:
        samples: list[Sample] = []

        def put(metric: str, value: float, **more: str) -> None:
            pairs: Labels = tuple(sorted((*own, *more.items())))
            samples.append(Sample(metric, value, now, pairs))

        async def ask(parse: Callable[[str], T], *question: str) -> T | None:
            output = await run_command(
                (self._command, "-i", str(number), *question),
                timeout_seconds=self._timeout,
                max_bytes=MAX_BYTES,
            )
            try:
                return parse(output.text)
            except HccnError as failure:
                code = f" (exit code {output.code})" if output.code else ""
                notes.append(f"device {number}, {question[0]}: {failure}{code}")
                return None

        try:
            up = await ask(parse_link, "-link", "-g")
            if up is not None:
                put("npu_link_up", float(up))
            word = await ask(parse_net_health, "-net_health", "-g")
            if word is not None:
                put("npu_network_state", 1.0, state=word)
                answers = HEALTH_STATES[word]
                if answers is not None:
                    put("npu_network_ok", float(answers))
            tls = await ask(parse_tls, "-tls", "-g")
            if tls is not None:
                put("npu_tls_enabled", float(tls))
            for address in self._ping:
                ping = await ask(parse_ping, "-ping", "-g", "address", address)
                if ping is not None:
                    put("npu_ping_lost_ratio", ping.lost_ratio, address=address)
                    if ping.mean_seconds is not None:
                        put("npu_ping_seconds", ping.mean_seconds, address=address)
        except CollectorError as failure:
            notes.append(f"device {number}: {failure}")
        return samples
