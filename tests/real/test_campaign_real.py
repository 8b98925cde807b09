"""A short campaign, and a kill in the middle of one, on a real server: the short form of the long measurements."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import crash, real_campaign
from tests.real.engine import RealEngine

pytestmark = pytest.mark.real
MINUTES = 9.0


def values_of(engine: RealEngine) -> dict[str, float]:
    async def read() -> dict[str, float]:
        async with engine.hot() as hot:
            return dict((await hot.state()).values)

    return asyncio.run(read())


def test_a_campaign_fails_no_request_and_leaves_what_it_says(
    engine_0_32: RealEngine, tmp_path: Path, say: Callable[[str], None]
) -> None:
    before = values_of(engine_0_32)
    rate = asyncio.run(real_campaign.fair_rate(engine_0_32))
    found = asyncio.run(
        real_campaign.run_campaign(
            engine_0_32,
            tmp_path / "short",
            minutes=MINUTES,
            knobs=["batch_max_tokens"],
            rate=rate,
            seed=3,
            min_effect=0.6,
        )
    )
    say(real_campaign.figures(found).replace("\n", "\n  "))
    assert found.traffic.sent > 0 and not found.traffic.failures
    assert found.report["failed_requests"] == 0 and found.report["restarts"] == 0
    decision = found.report["decision"]
    if (
        decision == "aborted"
    ):  # A machine that stalls leaves a queue behind whoever serves: the promoted one goes back.
        assert "returned in probation" in "; ".join(found.report["reasons"])
    else:
        assert decision in ("promoted", "kept", "inconclusive", "too_thin")
    promoted = decision == "promoted"
    assert found.as_told and dict(found.serving) == (found.report["winner"] if promoted else before)
    # How much is found depends on the machine; that a trial served does not.
    if decision != "too_thin":
        assert found.trials
    asyncio.run(real_campaign.restore(engine_0_32, before))
    assert values_of(engine_0_32) == before


def test_a_kill_in_the_middle_of_a_trial_comes_back_by_itself(
    engine_0_32: RealEngine, tmp_path: Path, say: Callable[[str], None]
) -> None:
    found, failures = asyncio.run(crash.crashes(engine_0_32, tmp_path, 1, seed=4))
    say(crash.figures(found, failures).replace("\n", "\n  "))
    (only,) = found
    assert only.back_seconds <= crash.LEASE_SECONDS + 1.0
    assert only.gate_seconds <= crash.GATE_SECONDS + 1.0
    assert only.open_entries == 0 and only.half_trials == 0
    assert not [text for text in failures if not text.startswith("SentAway: HTTP 503")]
