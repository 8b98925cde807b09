"""`trimtab host` on a real program: shown, planned, applied, taken back; alone and through the daemon."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from daemon.client import DaemonClient
from daemon.commands import host as command
from tests.daemon.host.real_program import HERE, NODE, SPLIT, Program
from tests.daemon.trimtab_command import Trimtab, one_line

pytestmark = pytest.mark.skipif(
    len(HERE) < 2, reason="needs a NUMA node with two CPUs that this test may use"
)


def test_show_has_every_knob_and_what_is_only_told(trimtab: Trimtab, config: str, program: Program) -> None:
    told = trimtab("host", "show", "--json", "-c", config)
    assert told.code == 0
    rows = {row["name"]: row for row in told.json["knobs"]}
    assert rows["placement"]["value"] == "as_found"
    assert f"split:{NODE}" in rows["placement"]["trials"]
    assert "host.knobs" in rows["swappiness"]["refusal"]
    assert {"tcmalloc", "PCIe ASPM"} <= {hint["name"] for hint in told.json["hints"]}
    assert "placement" in trimtab("host", "show", "-c", config).out


def test_plan_says_what_and_why_and_changes_nothing(trimtab: Trimtab, config: str, program: Program) -> None:
    before = program.lasting()
    told = trimtab("host", "plan", SPLIT, "swappiness=1", "-c", config)
    assert told.code == 0
    assert "compute threads to CPUs" in told.out
    assert "undo:" in told.out
    assert "advice only: swappiness is not among the knobs" in told.out
    rows = trimtab("host", "plan", "--json", "-c", config).json
    assert rows[0]["knob"] == "placement"
    assert program.lasting() == before


def test_apply_and_rollback_are_journaled_and_exact(trimtab: Trimtab, config: str, program: Program) -> None:
    before = program.lasting()
    told = trimtab("host", "apply", SPLIT, "--yes", "--json", "-c", config)
    assert told.code == 0
    assert told.json["outcome"] == "done"
    assert program.lasting() != before
    (row,) = trimtab("history", "--json", "-c", config).json
    assert (row["lane"], row["undo"]) == ("host", {"placement": "as_found"})
    assert trimtab("host", "rollback", "-c", config).code == 0
    assert program.lasting() == before
    told = trimtab("host", "rollback", "-c", config)
    assert told.code == 1
    one_line(told)


def test_detach_leaves_no_trace_on_the_host(trimtab: Trimtab, config: str, program: Program) -> None:
    before = program.lasting()
    trimtab("host", "apply", SPLIT, "--yes", "-c", config)
    assert trimtab("detach", "-c", config).code == 0
    assert program.lasting() == before


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (("apply", "placement=split:0"), 2, "--yes"),
        (("apply", "placment=split:0", "--yes"), 2, "did you mean placement?"),
        (("apply", "placement=wide", "--yes"), 2, "expected as_found or split:<n>"),
        (("apply", "swappiness=1", "--yes"), 1, "host.knobs"),
        (("apply", "placement=split:77", "--yes"), 1, "no node 77"),
        (("plan", "placement"), 2, "expected KNOB=VALUE"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_changes_nothing(
    trimtab: Trimtab, config: str, program: Program, words: tuple[str, ...], code: int, what: str
) -> None:
    before = program.lasting()
    told = trimtab("host", *words, "-c", config)
    assert told.code == code, told.err
    one_line(told)
    assert what in told.err
    assert program.lasting() == before


def test_mode_act_needs_no_yes(trimtab: Trimtab, config: str, program: Program) -> None:
    path = Path(config)
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"mode": "act"}))
    assert trimtab("host", "apply", SPLIT, "-c", config).code == 0
    assert trimtab("host", "rollback", "-c", config).code == 0


def test_a_running_daemon_carries_it_out(
    trimtab: Trimtab, config: str, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[tuple[str, object]] = []

    class Asked(DaemonClient):
        def __init__(self) -> None:
            pass

        def post(self, path: str, body: dict[str, object], *, patient: bool = False) -> object:
            orders.append((path, body))
            return {
                "entry": 1,
                "kind": "manual",
                "outcome": "done",
                "requested": {},
                "before": {},
                "reason": None,
            }

    monkeypatch.setattr(command, "running", lambda settings: Asked())
    before = program.lasting()
    assert trimtab("host", "apply", SPLIT, "--yes", "-c", config).code == 0
    assert trimtab("host", "rollback", "2", "-c", config).code == 0
    assert orders == [
        ("host/apply", {"changes": {"placement": f"split:{NODE}"}}),
        ("host/rollback", {"n": 2}),
    ]
    assert program.lasting() == before


def test_an_engine_that_cannot_be_seen_is_said(
    trimtab: Trimtab, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_ENGINE_PID", "999999999")
    told = trimtab("host", "apply", SPLIT, "--yes", "-c", config)
    assert told.code == 1
    assert "trimtab serve" in told.err
    assert trimtab("host", "show", "-c", config).code == 0
