"""`trimtab serve -- COMMAND`: the daemon, with the engine as its neighbour child."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Annotated

import typer

from daemon import credentials, paths
from daemon.commands.config import check_start
from daemon.commands.options import ConfigOption, configured
from daemon.commands.output import remark
from daemon.config import Config
from daemon.errors import ConfigError
from daemon.middleware import addition, has_plugin
from daemon.serve import serve as serve_both


def serve(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The engine's command.")],
    config: ConfigOption = None,
    plugin: Annotated[
        bool,
        typer.Option(
            "--plugin/--no-plugin", help="Add the plugin's middleware to a vLLM command that lacks it."
        ),
    ] = True,
) -> None:
    """Run the engine's COMMAND and the daemon side by side; ends when the engine ends, with its exit code."""
    settings = configured(config)
    # Before the check, which refuses a file that is named and not there.
    token_file = credentials.make_token_file(credentials.plugin_token_file(settings))
    check_start(settings)
    words = list(command)
    if plugin:
        added = addition(words, has_plugin)
        remark(added.text)
        words += added.arguments
    environ = environment(settings, token_file)
    run_dir = guarded_folder(settings)
    raise typer.Exit(serve_both(words, daemon_command(config), environ, remark, run_dir=run_dir))


def guarded_folder(settings: Config) -> Path | None:
    """Where the daemon may give orders about the engine; None if the configuration does not let it."""
    if settings.engine.server.hand != "process":
        return None
    folder = settings.run_dir.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be made: {error.strerror}; set engine.run_dir") from error
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(
            f"{folder}: must be this user's and writable for nobody else, since the engine's next command "
            "is kept there; `chmod go-w` it or set engine.run_dir"
        )
    return folder


def environment(settings: Config, token_file: Path) -> dict[str, str]:
    """What both children get: where the plugin and the daemon meet."""
    environ = dict(os.environ)
    environ[credentials.TOKEN_FILE_VARIABLE] = str(token_file.absolute())
    environ[paths.RUN_DIR_VARIABLE] = str(settings.run_dir.absolute())
    return environ


def daemon_command(config: Path | None) -> list[str]:
    """The command line of the daemon beside the engine."""
    where = ["-c", str(config)] if config is not None else []
    # -E, -P: neither the PYTHONPATH made for the engine nor a folder named daemon here may stand in for ours.
    return [sys.executable, "-E", "-P", "-m", "daemon.cli", "run", *where]
