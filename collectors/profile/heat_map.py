"""Memory by component over time, allocated and reserved, as CSV and as an SVG picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from collectors.profile.model import MemoryComponent, RankProfile
from collectors.profile.report import size

COLUMNS = ("rank", "component", "start_seconds", "span_seconds", "allocated_bytes", "reserved_bytes")
SHOWN = 12
"""Components drawn for each rank, the largest first; the CSV has all."""

LEFT, WIDTH, ROW, HEAD, FOOT = 250, 720, 18, 30, 44


def as_csv(profiles: Sequence[RankProfile]) -> str:
    """One row for each rank, component and stretch of time: the most it held; an empty cell is unknown."""
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    writer.writerow(COLUMNS)
    for profile in profiles:
        for component in profile.memory:
            for span in component.spans:
                writer.writerow(
                    (
                        _plain(profile.label),
                        _plain(component.name),
                        f"{span.start_seconds:.9f}",
                        f"{component.span_seconds:.9f}",
                        "" if span.allocated_bytes is None else f"{span.allocated_bytes:.0f}",
                        "" if span.reserved_bytes is None else f"{span.reserved_bytes:.0f}",
                    )
                )
    return page.getvalue()


def as_svg(profiles: Sequence[RankProfile]) -> str:
    """A picture that stands alone: a row for each component's allocated and reserved memory, darker is more."""
    drawn = [profile for profile in profiles if profile.memory]
    parts: list[str] = []
    top = 0
    for profile in drawn:
        rows = list(_rows(profile))
        parts += _panel(profile, rows, top)
        top += HEAD + ROW * len(rows) + FOOT
    height = max(top, HEAD)
    if not drawn:
        parts.append('<text x="4" y="20">No profile has memory records.</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" '
        f'width="{LEFT + WIDTH + 20}" height="{height}" role="img" aria-label="memory by component over time">'
        "<style>text{font:12px sans-serif;fill:#1f2937}.cell{fill:#1d4ed8}.axis{stroke:#6b7280}"
        "@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.cell{fill:#93c5fd}}</style>"
        + "".join(parts)
        + "</svg>\n"
    )


Row = tuple[str, MemoryComponent, list[tuple[float, float | None]]]


def _rows(profile: RankProfile) -> Iterator[Row]:
    """Allocated and reserved memory of the largest components that held anything."""
    held = [
        c for c in profile.memory if (c.peak_reserved_bytes or 0) > 0 or (c.peak_allocated_bytes or 0) > 0
    ]
    for component in held[:SHOWN]:
        if component.peak_allocated_bytes is not None:
            spans = [(span.start_seconds, span.allocated_bytes) for span in component.spans]
            yield f"{component.name}, allocated", component, spans
        if component.peak_reserved_bytes is not None:
            spans = [(span.start_seconds, span.reserved_bytes) for span in component.spans]
            yield f"{component.name}, reserved", component, spans


def _panel(profile: RankProfile, rows: Sequence[Row], top: int) -> Iterator[str]:
    end = max(
        (component.spans[-1].start_seconds + component.span_seconds for _, component, _ in rows), default=0.0
    )
    most = max((value or 0.0 for _, _, spans in rows for _, value in spans), default=0.0)
    yield f'<text x="4" y="{top + 18}" font-weight="bold">{_safe(profile.label)}</text>'
    for number, (name, component, spans) in enumerate(rows):
        y = top + HEAD + number * ROW
        yield f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{_safe(name)}</text>'
        yield from _cells(spans, component.span_seconds, end, most, y)
    y = top + HEAD + len(rows) * ROW
    yield f'<line class="axis" x1="{LEFT}" y1="{y + 2}" x2="{LEFT + WIDTH}" y2="{y + 2}"/>'
    yield f'<text x="{LEFT}" y="{y + 18}">0 s</text>'
    yield f'<text x="{LEFT + WIDTH}" y="{y + 18}" text-anchor="end">{end:.6g} s; full colour {size(most)}</text>'


def _cells(
    spans: list[tuple[float, float | None]], length: float, end: float, most: float, y: int
) -> Iterator[str]:
    """A value holds until the next record; where nothing is known, nothing is drawn."""
    if end <= 0 or most <= 0:
        return
    starts = [start for start, _ in spans[1:]] + [spans[-1][0] + length]
    for value, group in groupby(zip(spans, starts, strict=True), key=lambda pair: pair[0][1]):
        if value is None:
            continue
        held = list(group)
        start, stop = held[0][0][0], held[-1][1]
        x, width = LEFT + start / end * WIDTH, max((stop - start) / end * WIDTH, 0.5)
        yield (
            f'<rect class="cell" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 2}" '
            f'fill-opacity="{0.06 + 0.94 * value / most:.3f}">'
            f"<title>{start:.6f} s: {size(value)}</title></rect>"
        )


def _safe(name: str) -> str:
    """A name from a profile as XML text: control characters are not allowed there even escaped."""
    shown = name if len(name) <= 40 else f"{name[:37]}..."
    return escape("".join(c if c.isprintable() else "�" for c in shown))


def _plain(name: str) -> str:
    """A name from a profile that a spreadsheet does not take for a formula."""
    return f"'{name}" if name[:1] in ("=", "+", "-", "@") else name
