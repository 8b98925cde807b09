"""The switch between precisions: the operator's program is the balancer, the journal knows the way back."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
import yaml

from change.journal import Journal
from change.lock import EngineLock, LockHeld
from change.server import ServerError
from change.steps import ChangeRefused
from daemon.precision import BALANCER, PrecisionSwitch, Serving
from daemon.sections.precision import PrecisionSection
from store import Store, open_store
from tests.daemon.trimtab_command import Trimtab

NOW = 1_700_000_000.0
BF16 = {"a": 100.0, "b": 0.0}
W8A8 = {"a": 0.0, "b": 100.0}
PROGRAM = """
import json, pathlib, sys
home = pathlib.Path(sys.argv[1])
given = json.loads(sys.stdin.readline())
assert given["version"] == 1
file = home / "weights.json"
if (home / "refuses").exists() and given["action"] == "set" and given["weights"]["b"]:
    sys.exit("the balancer is read-only")
if given["action"] == "set":
    deaf = (home / "deaf").exists() and given["weights"]["b"]
    file.write_text(json.dumps({"a": 50.0, "b": 50.0} if deaf else given["weights"]))
print("hello" if (home / "garbled").exists() else json.dumps({"weights": json.loads(file.read_text())}))
"""


class Balancer:
    """The operator's program over a file."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "program.py").write_text(PROGRAM)
        self.put(BF16)
        self.argv = [sys.executable, str(home / "program.py"), str(home)]
        self.section = PrecisionSection(kept={"bf16": BF16, "w8a8": W8A8}, look=self.argv, set=self.argv)
        self.store: Store = open_store("sqlite:///:memory:")
        self.journal = Journal(self.store, BALANCER)
        self.switch = PrecisionSwitch(self.section, self.journal, self.lock)

    def lock(self) -> EngineLock:
        return EngineLock(self.home / "locks", BALANCER, "a test")

    def put(self, weights: dict[str, float]) -> None:
        (self.home / "weights.json").write_text(json.dumps(weights))

    @property
    def weights(self) -> dict[str, float]:
        return dict(json.loads((self.home / "weights.json").read_text()))


@pytest.fixture
def balancer(tmp_path: Path) -> Balancer:
    return Balancer(tmp_path)


def test_a_switch_gives_the_traffic_to_the_other_and_back_takes_it_back(balancer: Balancer) -> None:
    entry = asyncio.run(balancer.switch.switch("w8a8", "me", NOW))
    assert (entry.outcome, dict(entry.undo), balancer.weights) == ("done", BF16, W8A8)
    assert asyncio.run(balancer.switch.show()) == Serving("w8a8", W8A8)
    entry = asyncio.run(balancer.switch.back("me", NOW + 1))
    assert entry.outcome == "done" and balancer.weights == BF16
    with pytest.raises(ChangeRefused, match="nothing to take back"):
        asyncio.run(balancer.switch.back("me", NOW + 2))


def test_weights_that_do_not_hold_are_taken_back_and_said(balancer: Balancer) -> None:
    (balancer.home / "deaf").touch()
    entry = asyncio.run(balancer.switch.switch("w8a8", "me", NOW))
    assert entry.outcome == "undone" and "the balancer has a 50, b 50" in (entry.reason or "")
    assert balancer.weights == BF16


def test_a_program_that_refuses_leaves_what_was(balancer: Balancer) -> None:
    (balancer.home / "refuses").touch()
    entry = asyncio.run(balancer.switch.switch("w8a8", "me", NOW))
    assert entry.outcome == "undone" and "read-only" in (entry.reason or "")
    assert balancer.weights == BF16 and balancer.journal.open_entries() == []


def test_what_a_crash_left_half_done_is_taken_back_before_the_next_switch(balancer: Balancer) -> None:
    open_ = balancer.journal.open("manual", BALANCER, "me", W8A8, {"a": 70.0, "b": 30.0}, NOW)
    balancer.put(W8A8)
    entry = asyncio.run(balancer.switch.switch("w8a8", "me", NOW + 1))
    assert balancer.journal.entry(open_).outcome == "recovered"
    assert dict(entry.undo) == {"a": 70.0, "b": 30.0}


def test_weights_of_no_name_are_shown_as_they_are(balancer: Balancer) -> None:
    balancer.put({"a": 70.0, "b": 30.0})
    assert asyncio.run(balancer.switch.show()).name is None
    (balancer.home / "garbled").touch()
    with pytest.raises(ServerError, match="not understood"):
        asyncio.run(balancer.switch.show())


def test_an_unknown_name_and_a_held_lock_change_nothing(balancer: Balancer) -> None:
    with pytest.raises(ChangeRefused, match="bf16, w8a8"):
        asyncio.run(balancer.switch.switch("fp8", "me", NOW))
    with balancer.lock(), pytest.raises(LockHeld):
        asyncio.run(balancer.switch.switch("w8a8", "me", NOW))
    assert balancer.weights == BF16 and balancer.journal.last(1) == []


def test_the_command_shows_and_switches(balancer: Balancer, tmp_path: Path, trimtab: Trimtab) -> None:
    file = tmp_path / "trimtab.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "engine": {"url": "http://127.0.0.1:9", "run_dir": str(tmp_path / "run")},
                "precision": balancer.section.model_dump(mode="json"),
                "store": {"url": f"sqlite:///{tmp_path}/trimtab.db"},
            }
        )
    )
    assert "bf16: a 100" in trimtab("precision", "show", "-c", str(file)).out.replace("=", " ")
    assert trimtab("precision", "switch", "w8a8", "-c", str(file)).code == 0
    assert balancer.weights == W8A8
    assert json.loads(trimtab("precision", "back", "-c", str(file), "--json").out)["outcome"] == "done"
    assert balancer.weights == BF16
    assert trimtab("precision", "switch", "fp8", "-c", str(file)).code == 1
