"""A namespace with the engine's workload, its API served on loopback, and hands on it: the stand for their tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from change.server import EngineServer, LaunchCommand
from daemon.engine.kubernetes import KubernetesServer, kubernetes_server
from daemon.sections.containers import KubernetesSection, WorkloadKind
from tests.change.server_contract import Stand
from tests.daemon.engine.cluster import NAME, NAMESPACE, Cluster, Object
from tests.daemon.engine.cluster_api import TOKEN, ClusterApi, serving


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

    @property
    def kind(self) -> WorkloadKind:
        return "Deployment" if self.cluster.kind == "Deployment" else "StatefulSet"

    def server(self) -> KubernetesServer:
        section = KubernetesSection(kind=self.kind, name=NAME, container=self.container, kubeconfig=self.file)
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


Test = Callable[[Room, KubernetesServer], Awaitable[None]]


def within(tmp_path: Path, test: Test, kind: str = "Deployment", **how: Any) -> None:
    async def do() -> None:
        async with room(Cluster(kind, list(GOOD.argv), **how), tmp_path) as found:
            server = found.server()
            await found.settled(server)
            await test(found, server)

    asyncio.run(do())
