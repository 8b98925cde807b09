"""`trimtab bench`: benchmarks, each prints a table or, with --json, its figures."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from daemon.commands.options import JsonOption
from daemon.commands.output import print_json
from daemon.errors import UserError

app = typer.Typer(help="Benchmarks; each prints a table, or its figures with --json.", add_completion=False)


@app.command("overhead")
def overhead(as_json: JsonOption = False) -> None:
    """What watching costs: 64 chips and two engines in both shapes, and a week of samples (minutes)."""
    from bench.overhead import main  # here, so that other commands do not load the simulator

    main(["--json"] if as_json else [])


@app.command("search")
def search(
    first: Annotated[int, typer.Option("--first", metavar="SEED", min=1, help="First seed.")] = 101,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, max=200, help="How many.")] = 4,
    blind: Annotated[bool, typer.Option("--random", help="Random search over the same windows.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Campaigns on the simulated node, seed by seed: what was gained of what there was to gain."""
    from bench.search import outcomes, summary, table

    found = outcomes(range(first, first + seeds), arm="random" if blind else "ours")
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        print(f"{table(found)}\n{summary(found)}")


@app.command("detect")
def detect(
    fault: Annotated[str | None, typer.Option("--fault", metavar="F", help="This fault alone.")] = None,
    first: Annotated[int, typer.Option("--first", metavar="SEED", min=1, help="First seed.")] = 101,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, max=200, help="How many.")] = 2,
    as_json: JsonOption = False,
) -> None:
    """Faults of a simulated replica, seed by seed: whether the shipped rules and playbooks find, name and mend them."""
    from bench.detect import all_found, figures, summary, table
    from sim.faults import FAULTS

    chosen = [name for name in FAULTS if fault in (None, name)]
    if not chosen:
        raise UserError(f"--fault {fault}: no such fault; there are {', '.join(FAULTS)}")
    found = all_found(range(first, first + seeds), chosen)
    if as_json:
        print_json(figures(found))
    else:
        print(f"{table(found)}\n{summary(found)}")


@app.command("adaptive")
def adaptive(
    first: Annotated[int, typer.Option("--first", metavar="SEED", min=1, help="First seed.")] = 1,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, max=200, help="How many.")] = 5,
    share: Annotated[
        float,
        typer.Option("--load", metavar="SHARE", min=0.1, max=1.5, help="Load, of what the engine can do."),
    ] = 0.7,
    as_json: JsonOption = False,
) -> None:
    """The adaptive mode, the guide's formula and the best static config on the same arrivals, steady and drifting."""
    from bench.adaptive import results, table

    found = results(range(first, first + seeds), share=share)
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        print(table(found))


@app.command("priority")
def priority(
    first: Annotated[int, typer.Option("--first", metavar="SEED", min=1, help="First seed.")] = 1,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, max=200, help="How many.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """Requests served as they come, long ones first, short ones first: the share over 1 s to the first token."""
    from bench.priority import results, table

    found = results(range(first, first + seeds))
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        print(table(found))
