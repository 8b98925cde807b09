"""The replicas of a Deployment, read and set through the cluster's API."""

from __future__ import annotations

from change.server import ServerError
from daemon.engine.kubernetes_api import Conflict, KubernetesApi

ATTEMPTS = 5


class DeploymentScale:
    """A `Scale`; a patch names the version whose count was looked at, so that nobody's scaling in between is lost."""

    def __init__(self, api: KubernetesApi, name: str) -> None:
        self._api = api
        self._name = name

    async def replicas(self) -> int:
        """How many it is to have; 1 where nobody said, as Kubernetes takes it."""
        return (await self._read())[0]

    async def set_replicas(self, count: int, expected: int) -> None:
        """See `Scale`; what else changes in the object meanwhile is no reason not to."""
        for _ in range(ATTEMPTS):
            there, version = await self._read()
            if there != expected:
                raise ServerError(f"somebody has scaled to {there} since (it was {expected}): left as it is")
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
