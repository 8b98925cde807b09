"""What is put in force after a change that nobody answered."""

from __future__ import annotations

from dataclasses import replace

from sim.node import Node
from sim.scenario import SCENARIOS
from tuner.messages import Observation, Switch
from tuner.settings import Slo
from tuner.switchback import Arm, Switchback, Timing

NOW = 1_700_000_000.0


def lost() -> tuple[Switchback, Observation]:
    """A bench whose last switch nobody answered, and an engine that answers again."""
    node = Node(SCENARIOS["default"], 101, NOW)
    state = node.control.read_state()
    bench = Switchback(state.values, Slo(), 30.0, 60.0)
    bench.begin(NOW, state.epoch)
    bench.measure_by(Timing(1.0, 5.0, 1.0))
    bench.plan(1, [Arm(1, {**state.values, "max_num_seqs": 32.0})])
    seen = Observation(state, None)
    assert [type(command) for command in bench.step(NOW, seen)] == [Switch]
    bench.unanswered()
    return bench, seen


def test_the_incumbent_comes_first_once_the_engine_answers_again() -> None:
    bench, seen = lost()
    assert bench.step(NOW + 1, replace(seen, state=None)) == []
    (command,) = bench.step(NOW + 2, seen)
    assert isinstance(command, Switch)
    assert command.trial is None


def test_nothing_is_put_back_over_a_promotion_that_came_in_between() -> None:
    bench, seen = lost()
    assert seen.state is not None
    winner = Arm(1, {**seen.state.values, "max_num_seqs": 32.0})
    bench.promote(winner)
    bench.begin(NOW + 1, seen.state.epoch + 1)
    assert bench.step(NOW + 2, seen) == []
    assert bench.in_force == winner
