"""`trimtab config`: check a file, print the schema."""

from __future__ import annotations

import typer
import yaml

from daemon import credentials
from daemon.acting.playbooks import configured_playbooks
from daemon.alerting.assembly import configured_rules
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import print_json
from daemon.config import Config, shown
from daemon.errors import ConfigError
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
    credentials.engine_api_key(settings)
    credentials.plugin_token(settings)
    configured_playbooks(settings, configured_rules(settings))
    try:
        check_bind(settings.web.host, credentials.web_token(settings))
    except UnsafeBind as error:
        raise ConfigError(str(error)) from error
