"""The replicas of a Deployment, read and set through the cluster's API."""

from __future__ import annotations

from change.server import ServerError
from daemon.engine.kubernetes_api import Conflict, KubernetesApi

ATTEMPTS = 5


class DeploymentScale:
    """A `Scale`; a patch names the version it was made of, so that nobody's change in between is lost."""

    def __init__(self, api: KubernetesApi, name: str) -> None:
        self._api = api
        self._name = name

    async def replicas(self) -> int:
        """How many it is to have; 1 where nobody said, as Kubernetes takes it."""
        return (await self._read())[0]

    async def set_replicas(self, count: int) -> None:
        """Have it have so many."""
        for _ in range(ATTEMPTS):
            _, version = await self._read()
            patch = {"metadata": {"resourceVersion": version}, "spec": {"replicas": count}}
            try:
                await self._api.patch("Deployment", self._name, patch)
            except Conflict:
                continue
            return
        raise ServerError(
            f"Deployment {self._name} is being changed by somebody else all the time: try again"
        )

    async def _read(self) -> tuple[int, str | None]:
        found = await self._api.workload("Deployment", self._name)
        spec, meta = found.spec, found.metadata
        replicas = None if spec is None else spec.replicas
        return 1 if replicas is None else int(replicas), None if meta is None else meta.resourceVersion
