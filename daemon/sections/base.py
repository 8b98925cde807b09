"""What every part of the configuration file is built of: sections, and values that are checked alike everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


def _http_url(value: object) -> object:
    if not isinstance(value, str):
        return value
    if "@" in value:
        # The address is shown on pages and in logs, so a secret must not be a part of it.
        raise ValueError("the address holds a user or a password: put the key into a file (api_key_file)")
    try:
        parts = urlsplit(value)
        _ = parts.port  # raises ValueError for a port that is no number
    except ValueError as error:
        raise ValueError(f"{value!r} is no HTTP address: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{value!r} is no HTTP address: write http://HOST:PORT")
    return value.rstrip("/")


def _root_path(value: object) -> object:
    if isinstance(value, str) and value:
        if not value.startswith("/"):
            raise ValueError(f"{value!r} must begin with a slash, for example /trimtab")
        return value.rstrip("/")
    return value


def _expanded(value: object) -> object:
    return str(Path(value).expanduser()) if isinstance(value, str) and value else value


Url = Annotated[str, BeforeValidator(_http_url)]
RootPath = Annotated[str, BeforeValidator(_root_path)]
FilePath = Annotated[Path, BeforeValidator(_expanded)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Interval = Annotated[float, Field(gt=0, le=240)]
"""Between two readings of a source: the history calls a series stale after 300 s, and a reading takes its time."""
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Section(BaseModel):
    """A part of the file: unknown keys are errors, values do not change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _empty(cls, value: Any) -> Any:
        # `slo:` with every line below it commented out reads as null; it means the section's defaults.
        return {} if value is None else value
