"""What the API server's error answers mean, and how a cluster is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from change.server import ServerError
from daemon.engine.kubernetes import KubernetesServer
from daemon.engine.kubernetes_api import KubernetesApi, cluster
from tests.daemon.engine.cluster import NAME
from tests.daemon.engine.cluster_api import TOKEN
from tests.daemon.engine.cluster_stand import Room, VirtualClock, within


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


def test_inside_a_pod_the_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = tmp_path / "serviceaccount"
    account.mkdir()
    for name, text in (("token", TOKEN), ("namespace", "models"), ("ca.crt", "")):
        (account / name).write_text(text)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = cluster(None, None, account)
    assert found.cluster.server == "https://10.0.0.1:443"
    assert found.namespace == "models"
    assert found.user is not None
    assert found.user.token_file == str(account / "token")
