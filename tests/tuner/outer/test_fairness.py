"""Whether two engines side by side are asked the same."""

from __future__ import annotations

import math

import numpy as np

from change.engine import RequestRecord
from tuner.outer.fairness import unfair
from tuner.switchback import Arm, ScoredWindow
from tuner.window import Interval

SECONDS = 600.0
MIX = (128, 512, 1024)


def served(
    seed: int, *, rate: float = 1.0, seconds: float = 10.0, prompts: tuple[int, ...] = MIX
) -> list[ScoredWindow]:
    """One window of requests drawn from a mix; each stays for `seconds`, most of them after its first token."""
    rng = np.random.default_rng(seed)
    records = []
    for seq in range(int(rate * SECONDS)):
        first = (seq + 0.5) / rate
        finish = first + 0.9 * seconds
        prompt, output = int(rng.choice(prompts)), int(math.exp(rng.uniform(3, 5)))
        records.append(
            RequestRecord(
                seq, finish - seconds, first, finish, 1, 1, 1, prompt, output, 0, 0.0, 0.0, 0.0, 0, "stop"
            )
        )
    interval = Interval(1, 0.0, 0.0, SECONDS)
    return [ScoredWindow(1, 0, Arm(None, {}), interval, {}, {}, tuple(records), {}, None)]


def test_long_and_short_prompts_that_mix_by_luck_are_the_same_users() -> None:
    assert all(unfair(served(seed, rate=0.2), served(seed + 100, rate=0.2)) is None for seed in range(40))


def test_other_lengths_are_other_users_and_are_said() -> None:
    found = unfair(served(1), served(2, prompts=(1024,)))
    assert found is not None and "prompt_tokens_p50" in found and "output_tokens" not in found
    assert "nothing is scored" in found


def test_what_a_faster_engine_does_to_rate_or_concurrency_is_no_other_share() -> None:
    closed = served(1, rate=2.0, seconds=5.0)  # users who wait: as many inside, asked twice as often
    open_ = served(1, rate=1.0, seconds=4.0)  # users who do not: as many come, fewer are inside
    assert unfair(closed, served(2)) is None and unfair(open_, served(2)) is None


def test_another_share_of_the_users_moves_both() -> None:
    found = unfair(served(1, rate=0.3), served(2))
    assert found is not None and "requests_per_second 0.3 and 1" in found


def test_too_few_requests_say_nothing() -> None:
    assert unfair(served(1, rate=0.03), served(2)) is None


def test_requests_that_outlast_their_window_count() -> None:
    assert unfair(served(1, seconds=2 * SECONDS), served(2, seconds=2 * SECONDS)) is None
    found = unfair(served(1, rate=0.3, seconds=2 * SECONDS), served(2, seconds=2 * SECONDS))
    assert found is not None and "requests_per_second 0.3 and 1" in found
