"""What reading a vLLM metrics page costs: prometheus_client's parser on all of it, ours on what is needed.

python -m bench.scrape_cost [--page FILE] [--engines N] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from prometheus_client.parser import text_string_to_metric_families

from bench.vllm_page import vllm_page
from collectors.engines.vllm import VLLM, parse_vllm
from collectors.prometheus_text import PageParser, forget_labels
from collectors.sample import Distribution

REPEATS = 41


def measure(text: str, repeats: int = REPEATS) -> dict[str, float]:
    """Median milliseconds of each way, and how many samples the page has and how many are needed."""
    parser = PageParser(VLLM.wanted())

    def first() -> object:
        forget_labels()
        return parser.parse(text)

    needed = 0
    for point in parser.parse(text):
        needed += len(point.value.bounds) + 2 if isinstance(point.value, Distribution) else 1
    return {
        "page_samples": sum(len(family.samples) for family in text_string_to_metric_families(text)),
        "needed_samples": needed,
        "whole_page_ms": _milliseconds(lambda: list(text_string_to_metric_families(text)), repeats),
        "needed_first_ms": _milliseconds(first, repeats),
        "needed_ms": _milliseconds(lambda: parser.parse(text), repeats),
        "to_samples_ms": _milliseconds(lambda: parse_vllm(text, 0.0), repeats),
    }


def _milliseconds(work: Callable[[], object], repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        taken.append((time.perf_counter() - began) * 1e3)
    return median(taken)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table or, with --json, the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--page", type=Path, help="a captured page instead of a made one")
    options.add_argument("--engines", type=int, default=1, help="engines behind the made page")
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args(arguments)
    text = chosen.page.read_text() if chosen.page else vllm_page(engines=chosen.engines)
    found = measure(text)
    if chosen.json:
        print(json.dumps(found))
        return 0
    print(
        f"page of {found['page_samples']:.0f} samples, {found['needed_samples']:.0f} needed; median of {REPEATS}"
    )
    for label, key in (
        ("prometheus_client, whole page", "whole_page_ms"),
        ("ours, needed families, first scrape", "needed_first_ms"),
        ("ours, needed families, later scrapes", "needed_ms"),
        ("ours, to canonical samples", "to_samples_ms"),
    ):
        print(f"  {label:<38}{found[key]:8.2f} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
