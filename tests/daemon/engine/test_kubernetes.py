"""The kubernetes hand on a stand-in for an API server, over loopback HTTP and in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from change.server import EngineServer, LaunchCommand, ServerBusy, ServerError
from daemon.engine.kubernetes import KubernetesServer, kubernetes_server
from daemon.engine.kubernetes_api import MANIFEST, KubernetesApi, cluster
from daemon.sections.containers import KubernetesSection, WorkloadKind
from tests.change.server_contract import GRACE_SECONDS, ServerContract, Stand
from tests.daemon.engine.cluster import CONTAINER, NAME, NAMESPACE, Cluster, Object
from tests.daemon.engine.cluster_api import TOKEN, ClusterApi, serving
from tests.prepare import ROOT


def launch(*words: str, mark: str | None = None) -> LaunchCommand:
    environ = {} if mark is None else {"FAKE_ENGINE_MARK": mark}
    return LaunchCommand(("vllm", "serve", "a model's path", *words), environ)


GOOD = launch("--block-size", "128")
OTHER = launch("--block-size", "64", mark="cobalt")


class VirtualClock:
    """The cluster's time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def now(self) -> float:
        return self._cluster.now

    async def sleep(self, seconds: float) -> None:
        self._cluster.step(seconds)
        await asyncio.sleep(0)


def kubeconfig(url: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "it", "user": "me", "namespace": NAMESPACE}}],
        "clusters": [{"name": "it", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": TOKEN}}],
    }


class Room:
    """The cluster, its API, and hands on it."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.api = ClusterApi(cluster)
        self.file = folder / "kubeconfig"
        self.container: str | None = None
        self.hands: list[KubernetesServer] = []

    def server(self) -> KubernetesServer:
        kind: WorkloadKind = "Deployment" if self.cluster.kind == "Deployment" else "StatefulSet"
        section = KubernetesSection(kind=kind, name=NAME, container=self.container, kubeconfig=self.file)
        self.hands.append(kubernetes_server(section, VirtualClock(self.cluster)))
        return self.hands[-1]

    async def settled(self, server: EngineServer) -> None:
        for _ in range(40):
            self.cluster.step()
        assert (await server.look()).running

    @property
    def template(self) -> Object:
        found = self.cluster.workload["spec"]["template"]["spec"]["containers"][0]
        assert isinstance(found, dict)
        return found

    @property
    def annotations(self) -> Object:
        """Those of the workload that are Trimtab's, but for the one that counts its patches."""
        found = self.cluster.workload["metadata"]["annotations"]
        return {k: v for k, v in found.items() if k.startswith("trimtab/") and k != "trimtab/generation"}


@asynccontextmanager
async def room(cluster: Cluster, folder: Path) -> AsyncIterator[Room]:
    made = Room(cluster, folder)
    async with serving(made.api) as url:
        made.file.write_text(yaml.safe_dump(kubeconfig(url)))
        try:
            yield made
        finally:
            for hand in made.hands:
                await hand.close()


@asynccontextmanager
async def stand(kind: str, folder: Path) -> AsyncIterator[Stand]:
    cluster = Cluster(kind, list(GOOD.argv))
    async with room(cluster, folder) as found:

        async def engines() -> int:
            return len(cluster.living())

        async def leftovers() -> int:
            return len(cluster.own)

        async def next_start() -> LaunchCommand:
            assert "trimtab/before" not in found.annotations
            argv = (*(found.template.get("command") or ()), *(found.template.get("args") or ()))
            values = {one["name"]: one.get("value", "a secret") for one in found.template["env"]}
            return LaunchCommand(argv, values)

        async def say() -> None:
            cluster.say()

        async def moment() -> None:
            cluster.step()
            await asyncio.sleep(0.001)

        yield Stand(
            server=found.server,
            good=GOOD,
            other=OTHER,
            stubborn=launch("--ignore-term"),
            failing=launch("--fail"),
            engines=engines,
            leftovers=leftovers,
            overlapped=lambda: cluster.overlapped,
            next_start=next_start,
            bystanders_live=lambda: any(pod["metadata"]["uid"] == "pod-canary" for pod in cluster.pods),
            say=say,
            moment=moment,
        )


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
class TestContract(ServerContract):
    @pytest.fixture(autouse=True)
    def _on(self, kind: str, tmp_path: Path) -> None:
        self.kind, self.folder = kind, tmp_path

    def stand(self) -> Any:
        return stand(self.kind, self.folder)


Test = Callable[[Room, KubernetesServer], Awaitable[None]]


def within(tmp_path: Path, test: Test, kind: str = "Deployment", **how: Any) -> None:
    async def do() -> None:
        async with room(Cluster(kind, list(GOOD.argv), **how), tmp_path) as found:
            server = found.server()
            await found.settled(server)
            await test(found, server)

    asyncio.run(do())


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
        assert any(state.running and state.identity != begun.identity for state in seen)

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


def test_what_the_server_refuses_is_said_with_its_mend(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        async def said(error: str, **section: Any) -> None:
            api = KubernetesApi(cluster(room.file, None), namespace=section.get("namespace"), timeout=5.0)
            name = section.get("name", NAME)
            hand = KubernetesServer(
                api, kind="Deployment", name=name, container=None, clock=VirtualClock(room.cluster)
            )
            with pytest.raises(ServerError, match=error) as caught:
                await hand.look()
            assert TOKEN not in str(caught.value)
            await hand.close()

        await said("mend kind, name or namespace", name="absent")
        await said("grant what deploy/kubernetes/restart-rbac.yaml lists", namespace="another")
        room.file.write_text(room.file.read_text().replace(TOKEN, "stale"))
        await said("grant what")
        room.api.down = True
        await said("is up and reachable")

    within(tmp_path, test)


def test_no_way_to_a_cluster_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="name a kubeconfig"):
        cluster(None, None)
    with pytest.raises(ServerError, match="mend the file"):
        cluster(tmp_path / "none", None)
    broken = tmp_path / "broken"
    broken.write_text("clusters: 3")
    with pytest.raises(ServerError, match="mend the file"):
        cluster(broken, None)
