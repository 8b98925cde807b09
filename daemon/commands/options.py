"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from daemon import paths
from daemon.config import Config
from daemon.config_file import load

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "-c",
        "--config",
        metavar="FILE",
        help="Configuration file; else $TRIMTAB_CONFIG, else the usual places.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def configured(path: Path | None) -> Config:
    """The configuration a command works with."""
    return load(path if path is not None else paths.config_file())
