"""The `trimtab` command: puts the commands together and turns failures into one line and an exit code."""

from __future__ import annotations

import io
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from change.engine import EngineError, EngineUnreachable
from change.host import HostError
from change.journal import JournalUnwritable
from change.lock import LockError
from change.profiler import ProfilerError
from daemon import log
from daemon.commands import analyze, bench, config, host, orders, playbook, precision, results, rules
from daemon.commands.capture import capture
from daemon.commands.collect import collect
from daemon.commands.demo import demo
from daemon.commands.doctor import doctor
from daemon.commands.knobs import knobs
from daemon.commands.parse import parse
from daemon.commands.run import run as run_daemon
from daemon.commands.serve import serve
from daemon.commands.tune import tune
from daemon.errors import BAD, UNREACHABLE, USAGE, UserError
from store import StoreError

app = typer.Typer(
    name="trimtab",
    help="Autopilot for LLM inference on Ascend NPUs: watches a live engine, tunes it, keeps what it proved.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo")(demo)
app.command("run")(run_daemon)
app.command("serve")(serve)
app.command("doctor")(doctor)
app.command("collect")(collect)
app.command("capture")(capture)
app.command("parse")(parse)
app.command("tune")(tune)
app.command("trials")(results.trials)
app.command("report")(results.report)
app.command("knobs")(knobs)
app.command("apply")(orders.apply)
app.command("rollback")(orders.rollback)
app.command("history")(results.history)
app.command("pause")(orders.pause)
app.command("resume")(orders.resume)
app.command("detach")(orders.detach)
app.add_typer(host.app, name="host")
app.add_typer(rules.app, name="rules")
app.add_typer(playbook.app, name="playbook")
app.add_typer(precision.app, name="precision")
app.add_typer(config.app, name="config")
app.add_typer(bench.app, name="bench")
app.add_typer(analyze.app, name="analyze")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"trimtab {version('trimtab')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of the program itself."""


def run(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    log.quiet()
    try:
        return app(arguments, prog_name="trimtab", standalone_mode=False) or 0
    except UserError as error:
        return _fail(str(error), error.code)
    except EngineUnreachable as error:
        return _fail(str(error), UNREACHABLE)
    except (EngineError, HostError, JournalUnwritable, LockError, ProfilerError, StoreError) as error:
        return _fail(str(error), BAD)
    except typer.TyperException as error:
        return _fail(f"{error.format_message()} See `trimtab --help`.", USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", 130)
    except BrokenPipeError:
        # Whoever read the output has enough of it; the interpreter must not complain about it at the end.
        sys.stdout = None
        return BAD


def main() -> None:
    """Entry point of the console script."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of files need not be text in any encoding; what cannot be printed is shown as \\xNN.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run())


def _fail(text: str, code: int) -> int:
    for line in text.splitlines() or [""]:
        print(f"trimtab: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
