"""A restart on the simulated hand: what goes through, what is refused, and what comes back from each way to fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from change.journal import JournalUnwritable
from change.restart.command import same
from change.restart.memory import MemoryPlan
from change.restart.ports import Holder
from change.restart.restart import Restart
from change.restart.roll_back import order_back
from change.restart.settings import RestartSettings
from change.server import LaunchCommand, ProcessMark
from sim.server_hand import FaultKind
from tests.change.restart.stand import GIB, Stand, read

STRANGER = Holder("python3", ProcessMark(77, 5.0), 20 * GIB, "NPU 1")


def test_a_restart_serves_with_the_new_settings_and_loses_no_request() -> None:
    stand = Stand()
    result = stand.restart(block_size=64, max_num_seqs=128)
    assert (result.outcome, result.phase) == ("served", "open")
    assert result.effective["block_size"] == 64
    assert stand.serves(block_size=64, max_num_seqs=128)
    assert same(stand.server.kept, stand.server.run.command)
    stand.node.advance(stand.node.now + 120.0)
    assert stand.node.failed_requests == 0
    assert stand.node.waiting + stand.node.running < 40
    (entry,) = stand.entries()
    assert (entry.lane, entry.state, entry.outcome) == ("cold", "closed", "done")
    assert entry.undo["settings"] == {"block_size": 128, "max_num_seqs": 256}


def test_the_time_of_trimtabs_own_hands_is_told_apart_from_the_engines() -> None:
    result = Stand().restart(block_size=64)
    engine = sum(result.seconds[phase] for phase in ("drain", "stop", "release", "load"))
    assert result.down_seconds == pytest.approx(engine + result.own_seconds)
    assert 0 < result.own_seconds < 3
    assert list(result.seconds) == [
        "gate", "drain", "stop", "release", "start", "load", "health", "probe", "warm_up", "effective", "open",
    ]  # fmt: skip


def test_each_milestone_of_the_load_is_a_line_of_progress() -> None:
    stand = Stand()
    stand.restart(block_size=64)
    for reached in ("arguments accepted", "weights loaded", "graphs captured", "serving"):
        assert any(line.startswith(f"load: {reached} after") for line in stand.said)


def test_secrets_are_not_in_the_journal_and_are_in_the_command_of_the_way_back() -> None:
    stand = Stand()
    stand.server.faults = ["probe"]
    stand.restart(block_size=64)
    (entry,) = stand.entries()
    assert "sk-simulated" not in str([entry.change, entry.undo, entry.effective])
    assert "sk-simulated" in stand.server.run.command.argv


# ---------------------------------------------------------------------- pre-flight


def spoil_port(stand: Stand) -> dict[str, Any]:
    stand.ground.port_taken_by = Holder("nginx", ProcessMark(78, 5.0))
    return {}


def spoil_memory(stand: Stand) -> dict[str, Any]:
    stand.ground.strangers = [STRANGER]
    return {}


def spoil_disk(stand: Stand) -> dict[str, Any]:
    stand.ground.disk_bytes = 1000
    return {}


def spoil_hand(stand: Stand) -> dict[str, Any]:
    stand.server.in_the_way = "the container was started with --rm"
    return {}


def spoil_arguments(stand: Stand) -> dict[str, Any]:
    async def problems(settings: object, command: object) -> list[str]:
        return ["--swap-space is gone since 0.18.0"]

    stand.judge(problems=problems)
    return {"swap_space": 4}


def spoil_golden(stand: Stand) -> dict[str, Any]:
    stand.judge(golden=lambda settings: "kv_cache_dtype" in settings)
    stand.probe.has_golden = False
    return {"kv_cache_dtype": "int8"}


def spoil_plan(_: Stand) -> dict[str, Any]:
    return {"tensor_parallel_size": 2}


def spoil_share(_: Stand) -> dict[str, Any]:
    return {"gpu_memory_utilization": 0.6}


def spoil_window(stand: Stand) -> dict[str, Any]:
    stand.judge(allowed=lambda order, now: "outside the maintenance window")
    return {}


def spoil_gate(stand: Stand) -> dict[str, Any]:
    stand.live(stand.node.control.set_knobs({"max_num_seqs": 64}, if_epoch=0, lease_seconds=30.0))
    return {}


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (spoil_port, "taken by nginx (pid 78)"),
        (spoil_memory, "held by python3 (pid 77) on NPU 1"),
        (spoil_disk, "make room"),
        (spoil_hand, "started with --rm"),
        (spoil_arguments, "--swap-space is gone"),
        (spoil_golden, "there is no golden prompt"),
        (spoil_plan, "memory plan cannot fit on a card of 32.0 GiB"),
        (spoil_share, "memory plan cannot fit into the share 0.6"),
        (spoil_window, "maintenance window"),
        (spoil_gate, "a hot trial is under way"),
    ],
)
def test_what_can_be_known_beforehand_stops_nothing(spoil: Any, says: str) -> None:
    stand = Stand()
    settings = spoil(stand) or {"block_size": 64}
    before = stand.server.run
    result = stand.restart(**settings)
    assert (result.outcome, result.phase) == ("refused", "preflight")
    assert says in result.reason
    assert stand.server.run is before
    assert stand.server.stops == 0
    assert stand.entries() == []
    assert stand.node.control.gate_state == "open"


def test_what_serves_fits_whatever_the_formulas_say() -> None:
    stand = Stand()

    async def too_much(command: LaunchCommand) -> MemoryPlan:
        found = read(command)
        return MemoryPlan(float(found["gpu_memory_utilization"]), 172 * GIB, int(found["max_num_seqs"]) * GIB)

    stand.judge(plan=too_much)
    assert stand.restart(block_size=64).outcome == "served"
    refused = stand.restart(max_num_seqs=512)
    assert (refused.outcome, refused.phase) == ("refused", "preflight")
    assert "memory plan cannot fit" in refused.reason
    assert stand.restart(max_num_seqs=128).outcome == "served"
    order = stand.live(order_back(stand.parts, stand.entries()[-1:], "operator"))
    assert stand.live(Restart(stand.parts, order).run()).outcome == "served"


def test_what_the_engine_itself_holds_counts_as_free() -> None:
    stand = Stand()
    stand.ground.strangers = [Holder("monitor", ProcessMark(79, 5.0), GIB, "NPU 0")]
    assert stand.restart(block_size=64).outcome == "served"


def test_an_engine_whose_processes_are_not_seen_is_who_holds_its_port_and_memory() -> None:
    stand = Stand()

    async def unseen(roots: object) -> tuple[ProcessMark, ...]:
        return ()

    stand.ground.family = unseen  # type: ignore[method-assign]
    assert stand.restart(block_size=64).outcome == "served"


def test_no_restart_without_a_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand()

    def full(*_: object, **__: object) -> int:
        raise JournalUnwritable("disk full")

    monkeypatch.setattr(stand.journal, "open", full)
    result = stand.restart(block_size=64)
    assert (result.outcome, result.phase, stand.server.stops) == ("refused", "preflight", 0)


# ---------------------------------------------------------------------- one failed start, one return


@pytest.mark.parametrize(
    ("fault", "phase", "says"),
    [
        ("bad_flag", "load", "refused a flag and ended with code 2"),
        ("init_failure", "load", "could not initialise and ended with code 1"),
        ("out_of_memory", "load", "npu_out_of_memory: RuntimeError: NPU out of memory"),
        ("dead_server", "load", "died under its server, which ended with code 0"),
        ("hang", "load", "'weights loaded' was not reached within 60 s"),
        ("probe", "probe", "does not answer a request: no answer within 60 s"),
        ("ignored", "effective", "block_size is 128, not 64 as asked"),
        ("slo", "open", "40% of the requests broke ttft_p90_seconds"),
    ],
)
def test_a_fault_is_noticed_in_its_phase_and_costs_one_failed_start(
    fault: FaultKind, phase: str, says: str
) -> None:
    stand = Stand()
    stand.server.faults = [fault]
    good = stand.server.run.command
    result = stand.restart(block_size=64)
    assert (result.outcome, result.phase) == ("returned", phase)
    assert says in result.reason
    assert stand.server.starts == 2
    assert stand.serves(block_size=128)
    assert same(stand.server.run.command, good)
    assert same(stand.server.kept, good)
    (entry,) = stand.entries()
    assert (entry.state, entry.outcome) == ("closed", "undone")
    assert says in str(entry.reason)
    stand.node.advance(stand.node.now + 200.0)
    assert stand.node.failed_requests == 0


def test_a_setting_that_did_not_take_is_named_with_what_was_asked() -> None:
    stand = Stand()
    stand.server.faults = ["ignored"]
    (wrong,) = stand.restart(block_size=64).mismatches
    assert (wrong.knob, wrong.requested, wrong.effective) == ("block_size", 64, 128)


def test_the_log_signature_of_a_failure_is_told() -> None:
    stand = Stand()
    stand.server.faults = ["out_of_memory"]
    result = stand.restart(block_size=64)
    assert result.sign == "npu_out_of_memory"
    assert any("NPU out of memory" in line for line in result.log)


def test_changed_answers_never_reach_users() -> None:
    stand = Stand()
    stand.judge(golden=lambda settings: "kv_cache_dtype" in settings)
    stand.server.faults = ["golden"]
    result = stand.restart(kv_cache_dtype="fp8")
    assert (result.outcome, result.phase, result.accuracy) == ("returned", "accuracy", "failed")
    assert stand.serves()
    assert stand.restart(kv_cache_dtype="int8").accuracy == "passed"


def test_when_the_way_back_fails_too_nothing_more_is_tried_and_somebody_is_told() -> None:
    stand = Stand()
    stand.server.faults = ["out_of_memory", "init_failure"]
    result = stand.restart(block_size=64)
    assert (result.outcome, result.phase) == ("down", "load")
    assert stand.server.starts == 2
    assert not stand.server.serving
    assert len(stand.alerts) == 1
    assert "npu_out_of_memory" in stand.alerts[0]
    assert stand.alerts[0].endswith("the daemon tries nothing more")
    (entry,) = stand.entries()
    assert entry.outcome == "undone"
    assert entry.effective is not None
    assert any("NPU out of memory" in line for line in entry.effective["log"])


def test_where_the_last_known_good_itself_was_kept_it_is_started_as_it_was_in_the_end() -> None:
    stand = Stand()
    stand.server.keeps_original = True
    stand.server.faults = ["out_of_memory", "init_failure"]
    result = stand.restart(block_size=64)
    assert (result.outcome, stand.server.starts) == ("returned", 3)
    assert "though not as it should" in stand.alerts[0]
    assert stand.serves(block_size=128)
    assert "TRIMTAB_GATE" not in stand.server.run.command.environ
    stand.server.faults = ["out_of_memory", "init_failure", "hang"]
    assert (stand.restart(block_size=64).outcome, stand.server.starts) == ("down", 6)


def test_after_that_an_operator_can_start_it_again() -> None:
    stand = Stand()
    stand.server.faults = ["out_of_memory", "init_failure"]
    stand.restart(block_size=64)
    assert stand.restart(block_size=128).outcome == "served"
    assert stand.serves(block_size=128)


def test_a_worker_that_outlives_its_engine_is_killed_and_only_that_one() -> None:
    stand = Stand()
    stand.ground.strangers = [Holder("VLLM::EngineCore", ProcessMark(80, 5.0), GIB, "NPU 2")]
    stand.server.zombies = 1
    worker = stand.server.run.processes[1]
    result = stand.restart(block_size=64)
    assert result.outcome == "served"
    assert stand.ground.reaped == [worker]
    assert result.seconds["release"] >= stand.parts.settings.release_seconds / 2


def test_memory_that_a_stranger_took_meanwhile_is_named() -> None:
    stand = Stand()
    order = stand.order(block_size=64)

    async def stop_and_lose(*, grace_seconds: float) -> None:
        await real(grace_seconds=grace_seconds)
        stand.ground.strangers = [STRANGER]

    real = stand.server.stop
    stand.server.stop = stop_and_lose  # type: ignore[method-assign]
    result = stand.live(Restart(stand.parts, order).run())
    assert (result.outcome, result.phase) == ("returned", "release")
    assert "held by python3 (pid 77) on NPU 1" in result.reason
    assert stand.serves(block_size=128)


def test_nobody_is_let_in_before_the_start_is_proved_however_long_it_loads() -> None:
    stand = Stand()
    stand.server.load_seconds = 1800.0
    stand.parts = replace(stand.parts, settings=RestartSettings(warm_up_requests=400))
    let_in: list[int] = []

    async def warm() -> None:
        let_in.append(stand.node.engine.arrived - before)
        await stand.clock.sleep(1.0)

    stand.probe.warm_up = warm  # type: ignore[method-assign]
    stand.live(_drained(stand))
    before = stand.node.engine.arrived
    assert stand.restart(block_size=64).outcome == "served"
    assert len(let_in) == 400
    assert set(let_in) == {0}
    assert stand.node.failed_requests == 0


@pytest.mark.parametrize(
    ("gauges", "counted", "drained"), [(0, 1, False), (0, 0, True), (0, None, True), (None, 0, False)]
)
def test_the_drain_waits_for_a_request_that_only_the_plugin_knows(
    gauges: int | None, counted: int | None, drained: bool
) -> None:
    stand = Stand()
    real = stand.node.control.read_state

    async def inside() -> int | None:
        return gauges

    stand.probe.inside = inside  # type: ignore[method-assign]
    stand.node.control.read_state = lambda: replace(real(), requests_inside=counted)  # type: ignore[method-assign]
    result = stand.restart(block_size=64)
    assert result.outcome == "served"
    assert (result.seconds["drain"] < 10.0) is drained


async def _drained(stand: Stand) -> None:
    await stand.node.control.gate("closed", lease_seconds=120.0, retry_after=5.0)
