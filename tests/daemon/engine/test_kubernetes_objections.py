"""What the Kubernetes hand can tell of a restart before any is tried."""

from __future__ import annotations

from pathlib import Path

from daemon.engine.kubernetes import KubernetesServer
from tests.daemon.engine.cluster_stand import Room, within


def test_without_the_right_to_patch_nothing_is_tried(tmp_path: Path) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        room.api.read_only = True
        (said,) = await server.objections()
        assert "grant what" in said

    within(tmp_path, test)
