"""`trimtab demo`: a simulated node, the daemon and its pages in one command."""

from __future__ import annotations

from typing import Annotated

import typer

from daemon.commands.options import JsonOption
from daemon.commands.output import print_json
from daemon.commands.results import print_report
from daemon.errors import USAGE, UserError
from tuner.outer.settings import OuterSettings


def demo(
    headless: Annotated[bool, typer.Option("--headless", help="In virtual time, without a page.")] = False,
    minutes: Annotated[
        float | None, typer.Option("--minutes", min=1, help="Longest campaign, in simulated minutes.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which simulated node.")] = 1,
    scenario: Annotated[str, typer.Option("--scenario", help="Which story it tells.")] = "default",
    speed: Annotated[
        float, typer.Option("--speed", min=1, max=200, help="Simulated seconds a second.")
    ] = 60.0,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of the page.")] = 9470,
    restarts: Annotated[
        int | None,
        typer.Option("--restarts", min=0, max=20, help="Restarts to spend; else the scenario's."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Tune a simulated Ascend node and show it: nothing real is touched."""
    from sim.scenario import SCENARIOS

    if scenario not in SCENARIOS:
        raise UserError(f"scenario {scenario!r}: expected one of {', '.join(SCENARIOS)}", USAGE)
    if restarts and SCENARIOS[scenario].cold is None:
        raise UserError(f"scenario {scenario!r} has no start-up settings to restart with", USAGE)
    try:
        OuterSettings(restarts or 0)
    except ValueError as error:
        raise UserError(str(error), USAGE) from error
    if headless:
        from daemon.demo import headless_report

        report = headless_report(scenario, seed, minutes, restarts=restarts)
        if as_json:
            print_json(report)
        else:
            print_report(None, report)
        return
    from daemon.demo_page import serve_demo

    serve_demo(scenario, seed, minutes, speed, port, restarts)
