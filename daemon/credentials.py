"""Secrets come from files or the environment, and appear nowhere else."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from daemon.config import Config
from daemon.errors import ConfigError
from daemon.sections.engine import WatchedEngineSection
from daemon.sections.rules import AlertmanagerSection, WebhookSection

API_KEY_VARIABLE = "TRIMTAB_ENGINE_API_KEY"
TOKEN_VARIABLE = "TRIMTAB_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE_VARIABLE = "TRIMTAB_TOKEN_FILE"  # noqa: S105 - the name of a variable
WEB_TOKEN_VARIABLE = "TRIMTAB_WEB_TOKEN"  # noqa: S105 - the name of a variable


def engine_api_key(config: Config, environ: Mapping[str, str] = os.environ) -> str | None:
    """The engine's own API key, or None."""
    return _secret("engine.api_key_file", config.engine.api_key_file, environ.get(API_KEY_VARIABLE))


def watched_api_key(engine: WatchedEngineSection) -> str | None:
    """The API key of an engine beside the tuned one, or None; the variable is the tuned engine's alone."""
    return _secret(f"collect.engines ({engine.name}): api_key_file", engine.api_key_file, None)


def plugin_token_file(config: Config, environ: Mapping[str, str] = os.environ) -> Path:
    """Where the plugin's token is kept; the file need not exist."""
    if config.engine.token_file is not None:
        return config.engine.token_file
    named = environ.get(TOKEN_FILE_VARIABLE)
    return Path(named) if named else config.run_dir / "token"


def plugin_token(config: Config, environ: Mapping[str, str] = os.environ) -> str | None:
    """The plugin's token, or None where nobody set one up (the engine is then only observed)."""
    if config.engine.token_file is not None:
        return _secret("engine.token_file", config.engine.token_file, None)
    if environ.get(TOKEN_FILE_VARIABLE):
        return _secret(f"${TOKEN_FILE_VARIABLE}", Path(environ[TOKEN_FILE_VARIABLE]), None)
    if environ.get(TOKEN_VARIABLE):
        return _checked(f"${TOKEN_VARIABLE}", environ[TOKEN_VARIABLE])
    usual = config.run_dir / "token"
    return _secret("engine.token_file", usual, None) if usual.is_file() else None


def web_token(config: Config, environ: Mapping[str, str] = os.environ) -> str | None:
    """The token of Trimtab's own API, or None."""
    return _secret("web.token_file", config.web.token_file, environ.get(WEB_TOKEN_VARIABLE))


def alertmanager_secrets(section: AlertmanagerSection) -> tuple[str | None, str | None]:
    """The password and the bearer token of an Alertmanager, each None where it has none."""
    where = f"alertmanagers ({section.url})"
    return (
        _secret(f"{where}: password_file", section.password_file, None),
        _secret(f"{where}: bearer_file", section.bearer_file, None),
    )


def webhook_secrets(section: WebhookSection) -> tuple[str, str | None]:
    """The address of a webhook, which holds the robot's key, and its signing secret, None where it has none."""
    where = f"rules.webhooks ({section.name})"
    url = _secret(f"{where}: url_file", section.url_file, None)
    assert url is not None
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        # The address itself is not shown.
        raise ConfigError(
            f"{where}: url_file: {section.url_file} holds no HTTP address: write https://HOST/..."
        )
    return url, _secret(f"{where}: secret_file", section.secret_file, None)


def make_token_file(path: Path) -> Path:
    """Write a fresh random token, readable by this user only, unless the file is there already.

    Raises `ConfigError` if it cannot be written.
    """
    if path.is_file():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # O_EXCL: two starts at once must not write two tokens, and a link laid by another is not followed.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        if path.is_file():
            return path  # another start was quicker
        raise ConfigError(
            f"the token file {path} cannot be written: {error.strerror}; set engine.token_file or engine.run_dir"
        ) from error
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
    return path


def _secret(key: str, path: Path | None, value: str | None) -> str | None:
    if path is None:
        return _checked(f"the variable for {key}", value) if value else None
    try:
        text = path.read_text(encoding="ascii")
    except FileNotFoundError as error:
        raise ConfigError(f"{key}: {path} does not exist; write the secret there, mode 0600") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{key}: {path} holds something else than plain ASCII text") from error
    except OSError as error:
        raise ConfigError(f"{key}: {path} cannot be read: {error.strerror}") from error
    return _checked(f"{key}: {path}", text)


def _checked(where: str, text: str) -> str:
    secret = text.strip()
    if not secret:
        raise ConfigError(f"{where} is empty")
    if not secret.isprintable() or not secret.isascii() or " " in secret:
        # It travels in an HTTP header; the value itself is not shown.
        raise ConfigError(f"{where} holds spaces or control characters: one line of plain text is expected")
    return secret
