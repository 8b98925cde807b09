"""One archive to send to who helps: findings, configuration, versions, last changes, outputs; nothing secret."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import yaml

from daemon import credentials
from daemon.config import Config, shown
from daemon.doctor.finding import Finding
from daemon.errors import ConfigError, UserError
from rules.webhooks.robot import secrets_of

STARS = "***"
_ASSIGNED = re.compile(
    r"""(?ix)( (?:api[-_]?key|token|secret|passw(?:or)?d|authorization) ["']? \s* [=:] \s* ["']? )
        (?: bearer \s+ )? [^\s"',}]{4,}"""
)
_BEARER = re.compile(r"(?i)(bearer\s+)[A-Za-z0-9._~+/=-]{8,}")
_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")


class Redactor:
    """Takes secrets out of texts: the ones that are known, and what looks like one."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first, so that one secret inside another leaves nothing of it behind.
        self._secrets = sorted({secret for secret in secrets if len(secret) >= 4}, key=len, reverse=True)

    def clean(self, text: str) -> str:
        """The text with stars where secrets were."""
        for secret in self._secrets:
            text = text.replace(secret, STARS)
        text = _ASSIGNED.sub(rf"\1{STARS}", text)
        text = _BEARER.sub(rf"\1{STARS}", text)
        return _PASSWORD.sub(rf"\1{STARS}@", text)


def known_secrets(config: Config) -> list[str]:
    """The secrets this configuration leads to; one that cannot be read cannot be in the bundle either."""
    found: list[str] = []
    for read in (credentials.engine_api_key, credentials.plugin_token, credentials.web_token):
        try:
            secret = read(config)
        except ConfigError:
            continue
        if secret:
            found.append(secret)
    return found + _secrets_of_targets(config)


def _secrets_of_targets(config: Config) -> list[str]:
    """Those of whom alerts are sent to."""
    found: list[str | None] = []
    for alertmanager in config.alertmanagers:
        with contextlib.suppress(ConfigError):
            found += credentials.alertmanager_secrets(alertmanager)
    for webhook in config.rules.webhooks:
        with contextlib.suppress(ConfigError):
            url, secret = credentials.webhook_secrets(webhook)
            found += [*secrets_of(url), secret]
    return [secret for secret in found if secret]


def write_bundle(
    path: Path,
    config: Config,
    findings: Sequence[Finding],
    journal: Sequence[Mapping[str, Any]],
    now: float,
    outputs: Mapping[str, str],
) -> list[str]:
    """Write the archive (mode 0600); returns the names of the files in it.

    `outputs` are further texts by file name: what tools printed. Raises `UserError` if it cannot be written.
    """
    redactor = Redactor(known_secrets(config))
    installed = sorted(f"{d.metadata['Name']}=={d.version}" for d in distributions())
    values = shown(config)
    files = {
        "findings.json": json.dumps([finding.as_dict() for finding in findings], indent=2),
        "config.yaml": yaml.safe_dump(values, sort_keys=False),
        "packages.txt": "\n".join(installed) + "\n",
        "journal.json": json.dumps(list(journal), indent=2),
        **outputs,
    }
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
            for name, text in files.items():
                body = redactor.clean(text).encode()
                entry = tarfile.TarInfo(f"trimtab-bundle/{name}")
                entry.size, entry.mtime, entry.mode = len(body), int(now), 0o600
                archive.addfile(entry, io.BytesIO(body))
    except OSError as error:
        raise UserError(f"{path}: the bundle cannot be written: {error.strerror}") from error
    return list(files)
