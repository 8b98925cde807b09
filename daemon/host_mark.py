"""A config of the host as text: whole for the journal's keys, short for the plugin."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from change.choices import Options

MARK_CHARACTERS = 64


def config_text(config: Mapping[str, str]) -> str:
    """Every knob with its value, in their order."""
    return " ".join(f"{knob}={value}" for knob, value in config.items())


def config_mark(config: Mapping[str, str], options: Options, taken: str) -> str:
    """What tells a config from the others and from `taken`, as text of at most `MARK_CHARACTERS`."""
    short = config_text({knob: value for knob, value in config.items() if value != options[knob][0]})
    if len(short) <= MARK_CHARACTERS and short != taken:
        return short
    return f"{short[: MARK_CHARACTERS - 9]}~{zlib.crc32(config_text(config).encode()):08x}"
