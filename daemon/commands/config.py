"""`trimtab config`: check a file, print the schema."""

from __future__ import annotations

import asyncio
import time

import typer
import yaml

from collectors.history import History
from daemon import assembly, credentials
from daemon.acting.playbooks import configured_playbooks
from daemon.alerting.assembly import configured_rules
from daemon.alerting.sending import Sending
from daemon.canary import canary_config, canary_control, read_as_an_engine
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import print_json
from daemon.config import Config, shown
from daemon.engine.servers import engine_server
from daemon.errors import ConfigError
from daemon.notices import Notices
from web.bind import UnsafeBind, check_bind

app = typer.Typer(help="Check the configuration, print its schema.")


@app.command()
def check(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Read the file, follow its secrets, and print what is in effect with nothing secret in it."""
    settings = configured(config)
    check_start(settings)
    values = shown(settings)
    if as_json:
        print_json(values)
    else:
        print(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), end="")


@app.command()
def schema() -> None:
    """Print the JSON Schema of the file."""
    print_json(Config.model_json_schema())


def check_start(settings: Config) -> None:
    """Raise `ConfigError` for a configuration with which the daemon would refuse to start."""
    configured_playbooks(settings, configured_rules(settings))
    try:
        check_bind(settings.web.host, credentials.web_token(settings))
    except UnsafeBind as error:
        raise ConfigError(str(error)) from error
    asyncio.run(_make_parts(settings))


async def _make_parts(settings: Config) -> None:
    """Make each part that reads a secret or a certificate, as the daemon does; none of them does anything yet."""
    async with assembly.hot_engine(settings), canary_control(settings):
        engine_server(settings)
        if settings.tune.canary.url is not None:
            with read_as_an_engine():
                engine_server(canary_config(settings))
        assembly.runner(settings, History(), lasting=False)
        await Sending(settings, Notices(time.time), time.time).close()
