"""One real server per version for the whole run: they take half a minute each to start."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from tests.real.engine import RealEngine, warm_up


@pytest.fixture(scope="session")
def acceptance() -> bool:
    """Whether TRIMTAB_ACCEPTANCE asks for the long form."""
    return os.environ.get("TRIMTAB_ACCEPTANCE", "") not in ("", "0")


@pytest.fixture(scope="session")
def engine_0_32() -> Iterator[RealEngine]:
    """A warm vLLM 0.32.0, which writes the tokens of each step into its log."""
    arguments = [
        "--max-num-seqs",
        "32",
        "--max-num-batched-tokens",
        "4096",
        "--enable-logging-iteration-details",
    ]
    with RealEngine("0.32.0", arguments) as engine:
        asyncio.run(warm_up(engine))
        yield engine


@pytest.fixture(scope="session")
def engine_0_28() -> Iterator[RealEngine]:
    """A warm vLLM 0.28.0, where one number both admits requests and is asserted."""
    with RealEngine("0.28.0", ["--max-num-seqs", "64"]) as engine:
        asyncio.run(warm_up(engine))
        yield engine
