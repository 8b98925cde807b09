"""What `hccn_tool` prints, and `/etc/hccn.conf`: pure readers of text.

Shapes are those of Huawei's HCCN Tool Interface Reference (`-link`, `-net_health`, `-tls`, `-ping` with `-g`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from collectors.lines import numbered
from collectors.notes import bounded

HEALTH_STATES = {
    "Success": True,
    "Socket fail": False,
    "Receive timeout": False,
    "Unreachable": False,
    "Time exceeded": False,
    "Fault": False,
    "Init": None,  # no address to detect is set, or nothing was sent yet
    "Thread error": None,
    "Detect ip set": None,
    "Unknown": None,
}
"""Words of the network's health, and whether they say that it answers; None is that nobody knows."""

MAX_NOTES = 20

_LINK = re.compile(r"link status\s*:\s*(\S+)", re.IGNORECASE)
_HEALTH = re.compile(r"net health status\s*:\s*(\S.*)", re.IGNORECASE)
_TLS = re.compile(
    r"(?:(?:dev_id\s*:|device)\s*(\d{1,4})\s*,\s*)?tls switch\s*\[\s*([01])\s*\]", re.IGNORECASE
)
_NO_TLS = re.compile(r"no certificate found", re.IGNORECASE)
_CERTIFICATE = re.compile(
    r"\[(?:pub cert|ca\d* cert|crl)\] info|(?:subject|issuer|start_time|end_time|tls expiration status)\s*\["
)
_PING = re.compile(r"device\s+(\d{1,4})\s+PING\s+(\S+)", re.IGNORECASE)
_REPLY = re.compile(r"recv seq\s*=\s*\d{1,20}\s*,\s*time\s*=\s*(\d{1,9}(?:\.\d{1,9})?)\s*ms", re.IGNORECASE)
_NO_REPLY = re.compile(r"recv time out seq", re.IGNORECASE)
_TOTAL = re.compile(r"(?<!\d)(\d{1,9}) packets transmitted, (\d{1,9}) received", re.IGNORECASE)
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9_]*?)_(\d{1,4})\s*=\s*(\S*)")


class HccnError(Exception):
    """The output is no answer; the text is its reason, in the tool's own words, and what to do."""


@dataclass(frozen=True, slots=True)
class Ping:
    """Packets sent and received, and the round trips in seconds that were printed."""

    sent: int
    received: int
    seconds: tuple[float, ...]

    @property
    def lost_ratio(self) -> float:
        return (self.sent - self.received) / self.sent

    @property
    def mean_seconds(self) -> float | None:
        return sum(self.seconds) / len(self.seconds) if self.seconds else None


@dataclass(frozen=True, slots=True)
class HccnConf:
    """Settings (`address`, `netmask`, `gateway`, `netdetect`, ...) by device number; notes on other lines."""

    devices: Mapping[int, Mapping[str, str]]
    notes: tuple[str, ...]


def parse_link(text: str) -> bool:
    """Whether the port is up; raises HccnError if the output does not say."""
    match = _LINK.search(text)
    word = match[1].upper() if match else ""
    if word not in ("UP", "DOWN"):
        raise _refusal(text)
    return word == "UP"


def parse_net_health(text: str) -> str:
    """The word for the network's health, one of HEALTH_STATES; raises HccnError for any other output."""
    for line in text.splitlines():
        match = _HEALTH.search(line)
        if match and match[1].rstrip() in HEALTH_STATES:
            return match[1].rstrip()
    raise _refusal(text)


def parse_tls(text: str) -> bool:
    """Whether TLS is switched on; without a certificate it is off. Raises HccnError if neither is said."""
    match = _TLS.search(text)
    if match:
        return match[2] == "1"
    if _NO_TLS.search(text):
        return False
    raise _refusal(text)


def parse_ping(text: str) -> Ping:
    """What came back; raises HccnError if the summary line is missing or does not add up."""
    total = _TOTAL.search(text)
    sent, received = (int(total[1]), int(total[2])) if total else (0, 0)
    if sent < 1 or received > sent:
        raise _refusal(text)
    return Ping(sent, received, tuple(float(one) / 1000.0 for one in _REPLY.findall(text)))


def parse_hccn_conf(text: str) -> HccnConf:
    """The file that the driver reads the network of each device from at boot: lines such as `address_0=10.0.0.1`."""
    devices: dict[int, dict[str, str]] = {}
    notes: list[str] = []
    for number, bare in numbered(text, notes):
        if bare.startswith("#"):
            continue
        match = _SETTING.fullmatch(bare)
        if match is None:
            notes.append(f"line {number}: {bare[:120]!r} is no setting of a device")
        elif match[3]:
            devices.setdefault(int(match[2]), {})[match[1].lower()] = match[3]
    return HccnConf(dict(sorted(devices.items())), tuple(bounded(notes, MAX_NOTES)))


@dataclass(slots=True)
class _Pings:
    """One run of `-ping` within a longer text."""

    device: int | None = None
    address: str | None = None
    seconds: list[float] = field(default_factory=list)


def report(text: str) -> dict[str, object]:
    """What a pasted output (of one command or of several) says, as plain values for JSON.

    Links and health stand in the order of the text, for their lines name no device. Unknown lines are noted.
    """
    links: list[bool] = []
    health: list[str] = []
    tls: list[dict[str, object]] = []
    pings: list[dict[str, object]] = []
    notes: list[str] = []
    ping = _Pings()
    for number, bare in numbered(text, notes):
        if _CERTIFICATE.search(bare) or _NO_REPLY.search(bare):
            continue
        if (match := _HEALTH.search(bare)) and match[1] in HEALTH_STATES:
            health.append(match[1])
        elif (match := _LINK.search(bare)) and match[1].upper() in ("UP", "DOWN"):
            links.append(match[1].upper() == "UP")
        elif match := _TLS.search(bare):
            tls.append({"device": int(match[1]) if match[1] else None, "enabled": match[2] == "1"})
        elif _NO_TLS.search(bare):
            tls.append({"device": None, "enabled": False})
        elif match := _PING.search(bare):
            ping = _Pings(int(match[1]), match[2])
        elif match := _REPLY.search(bare):
            ping.seconds.append(float(match[1]) / 1000.0)
        elif (match := _TOTAL.search(bare)) and 0 <= int(match[2]) <= int(match[1]) > 0:
            found = Ping(int(match[1]), int(match[2]), tuple(ping.seconds))
            pings.append(
                {
                    "device": ping.device,
                    "address": ping.address,
                    "sent": found.sent,
                    "received": found.received,
                    "lost_ratio": found.lost_ratio,
                    "mean_seconds": found.mean_seconds,
                }
            )
            ping = _Pings()
        else:
            notes.append(f"line {number}: {bare[:120]!r} is not known")
    known = links or health or tls or pings
    return {
        "link_up": links,
        "net_health": health,
        "tls": tls,
        "ping": pings,
        "notes": bounded(notes, MAX_NOTES),
        "error": None if known else str(_refusal(text)),
    }


def _refusal(text: str) -> HccnError:
    said = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not said:
        return HccnError("hccn_tool printed nothing; is the driver loaded, and is it run as root?")
    return HccnError(f"hccn_tool said {said[:120]!r}; run it as root, and see /var/log/hccn_tool/hccn.log")
