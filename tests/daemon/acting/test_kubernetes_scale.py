"""The replicas of a Deployment over a stand-in of Kubernetes' API: read, set, and nobody's change lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from change.server import ServerError
from daemon.acting.replicas import kubernetes_scale
from daemon.engine.kubernetes import KubernetesServer
from daemon.sections.containers import KubernetesSection
from daemon.sections.playbooks import ScaleSection
from tests.daemon.engine.cluster import NAME, NAMESPACE
from tests.daemon.engine.cluster_api import Answer
from tests.daemon.engine.cluster_stand import Room, within


def test_the_count_is_set_in_the_object_and_again(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        section = ScaleSection(namespace=NAMESPACE, deployment=NAME)
        opened = kubernetes_scale(section, KubernetesSection(kubeconfig=room.file))
        assert opened is not None
        async with opened() as scale:
            assert await scale.replicas() == 1
            room.api.conflicts = 2
            await scale.set_replicas(2, expected=1)
            assert await scale.replicas() == 2
        assert room.cluster.workload["spec"]["replicas"] == 2

    within(tmp_path, test)


def test_what_the_cluster_refuses_is_said_with_its_mend(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        section = ScaleSection(namespace="another", deployment=NAME)
        opened = kubernetes_scale(section, KubernetesSection(kubeconfig=room.file))
        assert opened is not None
        async with opened() as scale:
            with pytest.raises(ServerError, match="grant what"):
                await scale.replicas()

    within(tmp_path, test)


def test_somebody_who_changes_it_all_the_time_is_named(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        section = ScaleSection(namespace=NAMESPACE, deployment=NAME)
        opened = kubernetes_scale(section, KubernetesSection(kubeconfig=room.file))
        assert opened is not None
        room.api.conflicts = 100
        async with opened() as scale:
            with pytest.raises(ServerError, match="somebody else"):
                await scale.set_replicas(2, expected=1)
        room.api.conflicts = 0

    within(tmp_path, test)


@pytest.mark.parametrize("late", [False, True], ids=["before the patch", "while it is made"])
def test_somebodys_scaling_is_left_as_it_is(tmp_path: Path, late: bool) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        section = ScaleSection(namespace=NAMESPACE, deployment=NAME)
        opened = kubernetes_scale(section, KubernetesSection(kubeconfig=room.file))
        assert opened is not None
        answer = room.api.answer

        def scaled(method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
            if method == "PATCH" and room.cluster.workload["spec"]["replicas"] == 1:
                room.cluster.workload["spec"]["replicas"] = 5
                room.cluster.changed(spec=True)
            return answer(method, target, headers, body)

        if late:
            room.api.answer = scaled  # type: ignore[method-assign]
        else:
            room.cluster.workload["spec"]["replicas"] = 5
        async with opened() as scale:
            with pytest.raises(ServerError, match=r"scaled to 5 since \(it was 1\)"):
                await scale.set_replicas(2, expected=1)
        assert room.cluster.workload["spec"]["replicas"] == 5

    within(tmp_path, test)
