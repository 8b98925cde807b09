"""An analysis as plain text or as a JSON-ready object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from collectors.profile.findings import Figure, Finding
from collectors.profile.model import RankProfile
from collectors.profile.switches import Installed

SCHEMA_VERSION = 1
_SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class Analysis:
    """The profiles read, what was found in them, what could not be read, and the engine that advice was held to."""

    profiles: tuple[RankProfile, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    installed: Installed | None = None


def as_dict(analysis: Analysis) -> dict[str, Any]:
    """A JSON-ready object: times in seconds, sizes in bytes, shares 0 to 1, null for unknown."""
    installed = analysis.installed
    return {
        "schema_version": SCHEMA_VERSION,
        "profiles": [profile_as_dict(profile) for profile in analysis.profiles],
        "findings": [asdict(finding) for finding in analysis.findings],
        "vllm_ascend": None
        if installed is None
        else {"path": str(installed.path), "version": installed.version},
        "notes": list(analysis.notes),
    }


def profile_as_dict(profile: RankProfile) -> dict[str, Any]:
    """One profile: its sums, without the notes (which the whole reading has) and the memory spans."""
    found = asdict(profile)
    del found["notes"]
    for component in found["memory"]:
        del component["spans"], component["span_seconds"]
    found["computing_seconds"] = profile.computing_seconds
    found["compute_tasks"] = profile.compute_tasks
    return found


def as_text(analysis: Analysis) -> str:
    """The analysis as lines for people."""
    # Names come from the profiles: none of them may move a terminal's cursor.
    return "".join(f"{_printable(line)}\n" for line in _lines(analysis))


def _printable(line: str) -> str:
    return line if line.isprintable() else "".join(c if c.isprintable() else "�" for c in line)


def _lines(analysis: Analysis) -> Iterator[str]:
    for profile in analysis.profiles:
        yield f"{profile.label}: {headline(profile)}"
        yield f"    {profile.source}"
    for finding in analysis.findings:
        yield ""
        yield f"[{finding.severity}] {finding.title}  ({finding.id})"
        yield f"  {finding.meaning}"
        for rank, figures in by_rank(finding.figures):
            yield f"  {rank}:" if rank else "  all:"
            yield from (f"    {figure.name}: {shown(figure)}" for figure in figures)
        if finding.threshold is not None:
            yield f"  held to: {finding.threshold}"
        yield from (f"  try: {advice}" for advice in finding.advice)
    if analysis.notes:
        yield ""
        yield "Not read, or with reserve:"
        yield from (f"  {note}" for note in analysis.notes)


def headline(profile: RankProfile) -> str:
    """One line on a profile: its form, chip, tasks and computing time."""
    parts = [f"{profile.form} form"]
    if profile.chip is not None:
        parts.append(profile.chip)
    if profile.operators:
        parts.append(
            f"computing {profile.computing_seconds * 1e6:,.1f} us over {profile.compute_tasks} tasks"
        )
    for step in profile.steps[:3]:
        if step.computing_seconds is not None:
            parts.append(f"step {step.name} computing {step.computing_seconds * 1e6:,.1f} us")
    if len(profile.steps) > 3:
        parts.append(f"and {len(profile.steps) - 3} more steps")
    return ", ".join(parts)


def by_rank(figures: Sequence[Figure]) -> list[tuple[str | None, list[Figure]]]:
    """The figures of each rank together, in the order in which ranks first come."""
    found: dict[str | None, list[Figure]] = {}
    for figure in figures:
        found.setdefault(figure.rank, []).append(figure)
    return list(found.items())


def shown(figure: Figure) -> str:
    """A figure as people read it."""
    value = figure.value
    match figure.unit:
        case "seconds":
            return f"{value * 1e6:,.1f} us" if value < 1 else f"{value:,.3f} s"
        case "bytes":
            return size(value)
        case "bytes per second":
            return f"{value / 1e9:,.2f} GB/s"
        case "share":
            return f"{value:.1%}"
        case "times":
            return f"{value:.2f}"
        case _:
            return f"{value:,.0f}"


def size(value: float) -> str:
    """A size in bytes as people read it."""
    for unit in _SIZES[:-1]:
        if abs(value) < 1024:
            return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} {_SIZES[-1]}"
