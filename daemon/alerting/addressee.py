"""Whose engine an alert is about: the label that ours carry to Alertmanager, and what is read from those of others."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil

from collectors.sample import Labels
from daemon.config import Config
from web.bind import is_loopback

ENGINE_LABEL = "trimtab_engine"
"""Not `engine`: engines give that name to their data-parallel ranks."""
PLAYBOOK_LABEL = "playbook"


def engine_name(config: Config) -> str:
    """The engine's host and port as others know it: a loopback address becomes this machine's name.

    `rules.external_labels` may give it another. Nothing of a user or password in the address is in it.
    """
    given = config.rules.external_labels.get(ENGINE_LABEL)
    if given:
        return given
    parts = urlsplit(config.engine.url)
    host = parts.hostname or ""
    named = socket.gethostname() if not host or is_loopback(host) else host
    bare = f"[{named}]" if ":" in named else named
    return f"{bare}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def sent_with(config: Config) -> dict[str, str]:
    """The labels that every alert of ours carries to Alertmanager besides its own."""
    return {**config.rules.external_labels, ENGINE_LABEL: engine_name(config)}


@dataclass(frozen=True, slots=True)
class Addressee:
    """Which alerts from outside are this engine's; `machine` are names and addresses of its host, in lower case."""

    engine: str
    machine: frozenset[str]

    def playbook(self, labels: Labels, of_rule: Mapping[str, str | None]) -> str | None:
        """The playbook that an alert from outside starts here: its label of that name, else its rule's.

        None where it names none, or speaks of another engine, or does not say which and names no playbook itself. One
        of a rule of ours that says neither engine nor machine may be any replica's: all have the same rules.
        """
        found = dict(labels)
        named = found.get(PLAYBOOK_LABEL) or None
        engine = found.get(ENGINE_LABEL)
        if engine is not None:
            return (named or of_rule.get(found.get("alertname", ""))) if engine == self.engine else None
        instance = found.get("instance", "")
        if not instance and found.get("alertname", "") in of_rule:
            return None
        return named if self._is_here(instance) else None

    def _is_here(self, instance: str) -> bool:
        """Whether what Prometheus read is on this machine, or not said."""
        if not instance:
            return True
        try:
            host = urlsplit(instance if "//" in instance else f"//{instance}").hostname or ""
        except ValueError:
            return False
        return host in self.machine or is_loopback(host)


def addressee(config: Config) -> Addressee:
    """The addressee of a configuration on this machine."""
    own = socket.gethostname()
    names = {own, own.split(".")[0], *_addresses(), *(_host(name) for name in config.web.allowed_hosts)}
    return Addressee(engine_name(config), frozenset(name.lower() for name in names))


def _addresses() -> list[str]:
    """The addresses of this machine's interfaces; none where the kernel is not to be asked (it wants AF_NETLINK)."""
    try:
        interfaces = psutil.net_if_addrs()
    except OSError:
        return []
    return [one.address.split("%")[0] for found in interfaces.values() for one in found]


def _host(name: str) -> str:
    return urlsplit(f"//{name}").hostname or name
