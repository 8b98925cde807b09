"""Captured profiles of real runs, where a folder of them is at hand: the figures are their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.profile.findings import examine
from collectors.profile.model import RankProfile
from collectors.profile.parsed import parsed
from collectors.profile.read import plan, read

Say = Callable[[str], None]


def profiles(corpus: Path, form: str) -> tuple[RankProfile, ...]:
    folders = [corpus / "msprof" / f"torch-{form}-level1-rank{rank}" for rank in (0, 1)]
    reading = read(plan(folders))
    assert reading.notes == ()
    return reading.profiles


def test_the_text_profiles_add_up_to_their_own_steps(corpus: Path, say: Say) -> None:
    found = profiles(corpus, "text")
    assert [profile.label for profile in found] == ["rank 0", "rank 1"]
    for profile, told in zip(found, (8873.8, 8878.3), strict=True):
        (step,) = profile.steps
        assert step.name == "50"
        assert step.computing_seconds is not None
        assert step.computing_seconds * 1e6 == pytest.approx(told, abs=0.05)
        assert profile.computing_seconds * 1e6 == pytest.approx(told, abs=0.1)
        line = profile.timeline
        assert line is not None
        assert line.exposed_communication_seconds == pytest.approx(
            step.exposed_communication_seconds, rel=1e-4
        )
        assert line.free_seconds == pytest.approx(step.free_seconds, rel=1e-4)
        say(
            f"text {profile.label}: computing {step.computing_seconds * 1e6:,.1f} us in step {step.name}, "
            f"{profile.compute_tasks} tasks add up to {profile.computing_seconds * 1e6:,.1f} us"
        )


def test_the_database_profiles_add_up_to_their_own_steps(corpus: Path, say: Say) -> None:
    found = profiles(corpus, "db")
    first = found[0]
    assert (first.compute_tasks, round(first.computing_seconds * 1e6, 1)) == (187, 8903.4)
    for profile in found:
        (step,) = profile.steps
        assert step.computing_seconds is not None
        assert profile.computing_seconds == pytest.approx(step.computing_seconds, rel=1e-6)
        say(
            f"DB {profile.label}: computing {profile.computing_seconds * 1e6:,.1f} us "
            f"over {profile.compute_tasks} tasks"
        )


def test_both_forms_rank_the_same_top_operators(corpus: Path, say: Say) -> None:
    tops = {
        (form, profile.label): [operator.type for operator in profile.operators[:5]]
        for form in ("text", "db")
        for profile in profiles(corpus, form)
    }
    assert len(tops) == 4
    assert len({tuple(top) for top in tops.values()}) == 1, tops
    say(f"top operators of both ranks in both forms: {', '.join(next(iter(tops.values())))}")


def test_no_slow_card_is_named(corpus: Path, say: Say) -> None:
    for form in ("text", "db"):
        named = {finding.id for finding in examine(profiles(corpus, form))}
        assert {"time_shares", "top_operators", "memory_bound", "links", "waits", "allocator"} <= named
        assert not named & {"slow_card", "waiting_card", "slow_link"}
        say(f"{form}: {len(named)} findings, no slow or waiting card: {', '.join(sorted(named))}")
    small = examine(read(plan([corpus / "msprof" / "two-rank-small"])).profiles)
    assert not {finding.id for finding in small} & {"slow_card", "waiting_card"}


def test_the_memory_bound_share_of_a_healthy_run(corpus: Path, say: Say) -> None:
    for profile in (*profiles(corpus, "text"), *profiles(corpus, "db")):
        measured = sum(operator.measured_seconds for operator in profile.operators)
        mte2 = sum(operator.mte2_seconds for operator in profile.operators) / measured
        bound = sum(operator.memory_bound_seconds for operator in profile.operators) / measured
        assert mte2 == pytest.approx(0.62, abs=0.01)
        assert 0.6 < bound < 0.8
        say(f"{profile.form} {profile.label}: mte2 {mte2:.2f}, {bound:.0%} of measured time is memory bound")


def test_everything_there_is_read_without_an_error(corpus: Path) -> None:
    before = sorted((corpus / "msprof").rglob("*"))
    found = parsed(corpus / "msprof")
    assert found["error"] is None
    assert len(found["profiles"]) == 7
    assert sorted((corpus / "msprof").rglob("*")) == before
