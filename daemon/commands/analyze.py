"""`trimtab analyze`: what profiles say about why the engine is slow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

from collectors.profile.findings import examine
from collectors.profile.heat_map import as_csv, as_svg
from collectors.profile.read import Plan, plan, read
from collectors.profile.report import Analysis, as_dict, as_text
from collectors.profile.report_html import as_html
from collectors.profile.switches import Installed, SwitchError, installed_package, read_switches
from daemon.commands.output import print_json, remark
from daemon.errors import BAD, USAGE, UserError

app = typer.Typer(help="Analyse what profilers wrote.", no_args_is_help=False)


class Format(StrEnum):
    """How the analysis is printed."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


@app.callback()
def analyze() -> None:
    """Analyse what profilers wrote."""


@app.command("msprof")
def msprof(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders (or files) that msprof or torch_npu wrote."),
    ],
    form: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TEXT,
    memory_map: Annotated[
        Path | None,
        typer.Option(
            "--memory-map", metavar="FILE", help="Also write memory by component and time: .csv or .svg."
        ),
    ] = None,
    vllm_ascend: Annotated[
        Path | None,
        typer.Option(
            "--vllm-ascend", metavar="PATH", help="The engine's vllm-ascend, read as source for its switches."
        ),
    ] = None,
    hbm_gbps: Annotated[
        float | None,
        typer.Option("--hbm-gbps", metavar="N", min=1.0, help="The chip's nominal HBM bandwidth in GB/s."),
    ] = None,
) -> None:
    """Read profiles of msprof or torch_npu, text or DB, of one rank or many, and say what they show."""
    writer = None if memory_map is None else _writer(memory_map)
    installed, said = _switches(vllm_ascend)
    planned = plan(folders)
    with _progress(planned) as advance:
        reading = read(planned, advance)
    if not reading.profiles:
        raise UserError("\n".join((*reading.notes, "nothing here could be analysed")), BAD)
    analysis = Analysis(
        reading.profiles,
        tuple(
            examine(
                reading.profiles,
                hbm_nominal=None if hbm_gbps is None else hbm_gbps * 1e9,
                installed=installed,
            )
        ),
        (*reading.notes, *said),
        installed,
    )
    if memory_map is not None and writer is not None:
        _write(memory_map, writer(analysis))
    if form is Format.JSON:
        print_json(as_dict(analysis))
        return
    sys.stdout.write(as_html(analysis) if form is Format.HTML else as_text(analysis))


def _writer(path: Path) -> Callable[[Analysis], str]:
    match path.suffix.lower():
        case ".csv":
            return lambda analysis: as_csv(analysis.profiles)
        case ".svg":
            return lambda analysis: as_svg(analysis.profiles)
    raise UserError(f"--memory-map {path}: expected a name that ends in .csv or .svg", USAGE)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UserError(f"--memory-map {path}: {error.strerror or error}", USAGE) from error
    remark(f"memory by component and time is in {path}")


def _switches(path: Path | None) -> tuple[Installed | None, tuple[str, ...]]:
    """The vllm-ascend to name switches of: the one asked for, else the one this Python has, if any."""
    try:
        if path is not None:
            return read_switches(path), ()
        found = installed_package()
        return (None, ()) if found is None else (read_switches(found), ())
    except SwitchError as error:
        if path is not None:
            raise UserError(f"--vllm-ascend {error}", USAGE) from error
        return None, (str(error),)


@contextmanager
def _progress(planned: Plan) -> Iterator[Callable[[int], None]]:
    """A bar on stderr where that is a terminal; it says nothing elsewhere."""
    console = Console(stderr=True)
    with Progress(
        "reading",
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("reading", total=planned.size)
        yield lambda count: bar.advance(task, count)
