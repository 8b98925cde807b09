"""The kubernetes hand on a stand-in for an API server, over loopback HTTP and in virtual time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from change.server import LaunchCommand, ServerBusy, ServerError
from daemon.engine.kubernetes import KubernetesServer
from daemon.engine.kubernetes_api import MANIFEST, KubernetesApi, cluster
from tests.change.server_contract import GRACE_SECONDS, ServerContract
from tests.daemon.engine.cluster import CONTAINER, NAME, Cluster, Object
from tests.daemon.engine.cluster_stand import GOOD, OTHER, Room, VirtualClock, launch, room, stand, within
from tests.prepare import ROOT


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
class TestContract(ServerContract):
    @pytest.fixture(autouse=True)
    def _on(self, kind: str, tmp_path: Path) -> None:
        self.kind, self.folder = kind, tmp_path

    def stand(self) -> Any:
        return stand(self.kind, self.folder)


def test_a_stop_scales_to_none_and_a_start_back_and_nothing_else_changes(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        before = json.loads(json.dumps(room.cluster.workload["spec"]))
        await server.stop(grace_seconds=GRACE_SECONDS)
        assert room.cluster.workload["spec"]["replicas"] == 0
        await server.start(OTHER)
        await room.settled(server)
        container = room.template
        assert container["args"] == ["a model's path", "--block-size", "64"]
        assert container["command"] == ["vllm", "serve"]
        assert {"name": "FAKE_ENGINE_MARK", "value": "cobalt"} in container["env"]
        await server.stop(grace_seconds=GRACE_SECONDS)
        await server.start(GOOD)
        await server.keep(GOOD)
        after = room.cluster.workload["spec"]
        assert after["template"].get("metadata").pop("annotations") == {"trimtab/run": "2"}
        assert after == before
        assert room.annotations == {}
        assert room.cluster.workload["metadata"]["annotations"]["team"] == "search"

    within(tmp_path, test)


def test_only_the_calls_that_the_shipped_role_grants_are_made(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        await server.stop(grace_seconds=GRACE_SECONDS)
        await server.start(OTHER)
        await room.settled(server)
        await server.log(None)
        await server.keep(OTHER)
        granted = set()
        for manifest in yaml.safe_load_all((ROOT / MANIFEST).read_text()):
            for rule in manifest["rules"] if manifest["kind"] == "Role" else ():
                what = {"pods": "pods", "pods/log": "log"}.get(rule["resources"][0], "workload")
                granted |= {f"{verb} {what}" for verb in rule["verbs"]}
        assert set(room.api.calls) == granted

    within(tmp_path, test)


def test_a_variable_that_was_there_comes_back_as_it_was(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        before = json.loads(json.dumps(room.template["env"]))
        await server.stop(grace_seconds=GRACE_SECONDS)
        await server.start(LaunchCommand(GOOD.argv, {"VLLM_USE_V1": "0", "HF_TOKEN": "none", "NEW": "1"}))
        assert {"name": "HF_TOKEN", "value": "none"} in room.template["env"]
        await room.settled(server)
        await server.stop(grace_seconds=GRACE_SECONDS)
        await server.start(LaunchCommand(GOOD.argv, {"NEW": "2"}))
        assert (await room.server().command()).environ == {"NEW": "2"}
        await room.settled(server)
        await server.stop(grace_seconds=GRACE_SECONDS)
        await server.start(GOOD)
        assert room.template["env"] == before

    within(tmp_path, test)


@pytest.mark.parametrize("kept", [False, True])
def test_the_last_known_good_stands_in_the_object_while_a_change_is_on_trial(
    tmp_path: Path, kept: bool
) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        await server.stop(grace_seconds=GRACE_SECONDS)
        await server.start(OTHER)
        await server.stop(grace_seconds=GRACE_SECONDS)
        await server.start(launch("--block-size", "16"))
        words = json.loads(room.annotations["trimtab/before"])
        assert words == {"command": list(GOOD.argv[:2]), "args": list(GOOD.argv[2:]), "environ": {}}
        if kept:
            await server.keep(launch("--block-size", "16"))
            assert "trimtab/before" not in room.annotations

    within(tmp_path, test)


class Crash(BaseException):
    """The daemon's end, before or after one of its patches."""


class CrashingApi(KubernetesApi):
    """Dies at a patch, before it is sent or after it was done."""

    left = 1000
    done = False

    async def patch(self, *what: Any) -> Any:
        self.left -= 1
        if self.left < 0 and not self.done:
            raise Crash
        found = await super().patch(*what)
        if self.left < 0:
            raise Crash
        return found


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize("replicas", [1, 3])
def test_a_crash_anywhere_can_be_mended(tmp_path: Path, kind: str, replicas: int, done: bool) -> None:
    """A change, another on top, a promotion: the caller dies at each of their patches."""

    async def attempt(at: int) -> bool:
        async with room(Cluster(kind, list(GOOD.argv), replicas=replicas), tmp_path) as found:
            await found.settled(found.server())
            before = json.loads(json.dumps(found.template))
            api = CrashingApi(cluster(found.file, None), namespace=None, timeout=5.0)
            api.left, api.done = at, done
            server = KubernetesServer(
                api, kind=found.kind, name=NAME, container=None, clock=VirtualClock(found.cluster)
            )
            crashed = False
            try:
                for command in (launch("--fail"), OTHER):
                    await server.stop(grace_seconds=GRACE_SECONDS)
                    await server.start(command)
                    found.cluster.step(3)
                await server.keep(OTHER)
            except Crash:
                crashed = True
            finally:
                await api.close()
            fresh = found.server()
            await fresh.stop(grace_seconds=GRACE_SECONDS)
            await fresh.start(GOOD)
            await fresh.keep(GOOD)
            await found.settled(fresh)
            assert found.template == before
            assert found.annotations == {}
            assert len(found.cluster.living()) == replicas
            assert not found.cluster.overlapped
            return crashed

    at = 0
    while asyncio.run(attempt(at)):
        at += 1
    assert at == (5 if replicas == 1 else 3)


def test_a_patch_is_made_anew_when_somebody_was_quicker(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        room.api.conflicts = 2
        await server.stop(grace_seconds=GRACE_SECONDS)
        assert room.cluster.living() == []
        room.api.conflicts = 1000
        with pytest.raises(ServerBusy, match="all the time"):
            await server.start(OTHER)

    within(tmp_path, test)


def test_another_persons_rollout_is_not_disturbed(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        room.cluster.somebody_patches(args=["another model"])
        with pytest.raises(ServerBusy, match="somebody else"):
            await server.stop(grace_seconds=GRACE_SECONDS)
        assert room.cluster.workload["spec"]["replicas"] == 1
        await room.settled(server)
        assert (await server.command()).argv == ("vllm", "serve", "another model")
        await server.stop(grace_seconds=GRACE_SECONDS)
        assert room.cluster.living() == []

    within(tmp_path, test)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_several_replicas_are_rolled_and_run_once_the_rollout_is_done(tmp_path: Path, kind: str) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        first = await server.look()
        await server.stop(grace_seconds=GRACE_SECONDS)
        assert len(room.cluster.living()) == 3
        begun = await server.start(OTHER)
        assert begun.starting
        assert not begun.running
        least, state = 3, begun
        while not state.running:
            room.cluster.step()
            least = min(least, sum(engine.ready for engine in room.cluster.living()))
            state = await room.server().look()
            assert state.running != state.starting
        assert least == 2
        assert state.identity not in (None, first.identity)
        assert state.identity == begun.identity
        assert all(engine.argv == list(OTHER.argv) for engine in room.cluster.living())

    within(tmp_path, test, kind=kind, replicas=3)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_rollout_that_fails_is_said_and_undone(tmp_path: Path, kind: str) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        await server.start(launch("--fail"))
        for _ in range(20):
            room.cluster.step()
        state = await server.look()
        assert not state.running
        assert state.exit_code == 3
        assert "CrashLoopBackOff" in (state.reason or "")
        assert any("it does not fit" in line for line in (await server.log(None)).lines)
        fresh = room.server()
        await fresh.start(GOOD)
        await fresh.keep(GOOD)
        await room.settled(fresh)
        assert all(engine.argv == list(GOOD.argv) for engine in room.cluster.living())

    within(tmp_path, test, kind=kind, replicas=3)


def test_a_rollout_that_gets_nowhere_ends_with_its_deadline(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        await server.start(launch("--hang"))
        for _ in range(700):
            room.cluster.step()
        state = await server.look()
        assert not state.running
        assert not state.starting
        assert "ProgressDeadlineExceeded" in (state.reason or "")
        await server.start(GOOD)
        await room.settled(server)

    within(tmp_path, test, replicas=2)


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        ("StatefulSet", {"podManagementPolicy": "OrderedReady"}, "OrderedReady"),
        ("StatefulSet", {"updateStrategy": {"type": "OnDelete"}}, "OnDelete"),
        ("StatefulSet", {"updateStrategy": {"rollingUpdate": {"partition": 1}}}, "partition"),
        ("Deployment", {"paused": True}, "paused"),
    ],
)
def test_what_cannot_be_taken_back_is_not_begun(tmp_path: Path, kind: str, spec: Object, said: str) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        room.cluster.workload["spec"].update(spec)
        room.cluster.changed(spec=True)
        room.cluster.step()
        generation = room.cluster.workload["metadata"]["generation"]
        with pytest.raises(ServerError, match=said):
            await server.start(OTHER)
        assert room.cluster.workload["metadata"]["generation"] == generation

    within(tmp_path, test, kind=kind, replicas=2)


def test_a_start_that_the_kubelet_repeats_is_another_run(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        await server.stop(grace_seconds=GRACE_SECONDS)
        begun = await server.start(launch("--fail", "--hog"))
        seen = []
        for _ in range(20):
            room.cluster.step()
            seen.append(await server.look())
        ended = next(state for state in seen if not state.running)
        assert (ended.exit_code, ended.reason) == (3, "OOMKilled")
        assert ended.identity == begun.identity
        assert any(state.identity != begun.identity for state in seen)
        # A start on trial has failed once; that the kubelet tries again does not make it one that runs.
        first = seen.index(ended)
        assert not any(state.running for state in seen[first:])
        assert {state.exit_code for state in seen[first:]} == {3}

    within(tmp_path, test)


def test_an_engine_that_is_kept_runs_again_after_its_end(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        before = await server.look()
        room.cluster.engines[room.cluster.own[0]["metadata"]["name"]].argv.append("--fail")
        room.cluster.engines[room.cluster.own[0]["metadata"]["name"]].lines.clear()
        seen = []
        for _ in range(20):
            room.cluster.step()
            seen.append(await server.look())
        assert any(state.exit_code == 3 for state in seen)
        assert any(state.running and state.identity != before.identity for state in seen)

    within(tmp_path, test)


def test_a_pod_that_finds_no_node_says_why(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        await server.stop(grace_seconds=GRACE_SECONDS)
        room.cluster.unschedulable = True
        await server.start(OTHER)
        room.cluster.step()
        state = await server.look()
        assert state.running
        assert "Insufficient huawei.com/Ascend910" in (state.reason or "")

    within(tmp_path, test)


def test_the_record_of_an_evicted_pod_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        room.cluster.evict()
        for _ in range(4):
            room.cluster.step()
        assert (await server.look()).running
        await server.stop(grace_seconds=GRACE_SECONDS)
        assert room.cluster.living() == []
        assert not (await server.look()).running

    within(tmp_path, test)


def test_a_pod_that_does_not_go_is_named_in_the_end(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        await server.stop(grace_seconds=GRACE_SECONDS)
        await server.start(launch("--ignore-term"))
        await room.settled(server)
        room.cluster.own[-1]["spec"]["terminationGracePeriodSeconds"] = 10_000
        with pytest.raises(ServerError, match=f"pod {NAME}-.* did not end"):
            await server.stop(grace_seconds=GRACE_SECONDS)

    within(tmp_path, test)


@pytest.mark.parametrize("replicas", [1, 3])
def test_trimtabs_own_pod_is_not_ended(tmp_path: Path, replicas: int) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        api = KubernetesApi(cluster(room.file, None), namespace=None, timeout=5.0)
        inside = KubernetesServer(
            api,
            kind=room.kind,
            name=NAME,
            container=None,
            clock=VirtualClock(room.cluster),
            host_name=room.cluster.own[0]["metadata"]["name"],
        )
        for order in (inside.stop(grace_seconds=GRACE_SECONDS), inside.start(OTHER)):
            with pytest.raises(ServerError, match="Trimtab itself runs in the pod"):
                await order
        assert "Trimtab itself runs in the pod" in (await inside.objections())[0]
        await inside.close()
        assert room.cluster.workload["metadata"]["generation"] == 1

    within(tmp_path, test, replicas=replicas)


def test_one_that_somebody_scaled_to_none_is_not_scaled_up(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        room.cluster.workload["spec"]["replicas"] = 0
        room.cluster.changed(spec=True)
        for _ in range(5):
            room.cluster.step()
        with pytest.raises(ServerError, match="no replicas"):
            await server.start(OTHER)

    within(tmp_path, test)


def test_of_several_containers_the_engines_is_named(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        room.cluster.workload["spec"]["template"]["spec"]["containers"].append(
            {"name": "proxy", "image": "x"}
        )
        with pytest.raises(ServerError, match="engine, proxy"):
            await server.look()
        room.container = "engin"
        with pytest.raises(ServerError, match="no container engin;"):
            await room.server().look()
        room.container = CONTAINER
        assert (await room.server().command()).argv == GOOD.argv

    within(tmp_path, test)
