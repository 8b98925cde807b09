"""The few calls to a Kubernetes API server that a restart needs, through lightkube, and what their errors mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NoReturn

import httpx2
import msgspec
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.core.async_client import AsyncClient
from lightkube.core.exceptions import ApiError, ConfigError
from lightkube.resources.apps_v1 import Deployment, StatefulSet
from lightkube.resources.core_v1 import Pod
from lightkube.types import PatchType

from change.server import ServerError
from daemon.sections.containers import WorkloadKind

MANIFEST = "deploy/kubernetes/restart-rbac.yaml"
"""What grants the calls below."""
_KINDS: Mapping[WorkloadKind, type[Deployment] | type[StatefulSet]] = {
    "Deployment": Deployment,
    "StatefulSet": StatefulSet,
}
_FAILURES = (httpx2.HTTPError, ConfigError, msgspec.MsgspecError)


class Conflict(Exception):
    """Somebody changed the object since it was read: read it again, and patch that."""


class KubernetesApi:
    """One namespace of a cluster; use it from one event loop and close it there."""

    def __init__(self, config: SingleConfig, *, namespace: str | None, timeout: float) -> None:
        """Prepare to talk to the cluster of `config`; `timeout` in seconds for one answer. Nothing is sent yet."""
        self._server = config.cluster.server
        try:
            self._client = AsyncClient(
                config=config,
                namespace=namespace,
                timeout=httpx2.Timeout(timeout),
                field_manager="trimtab",
                trust_env=False,
            )
        except (ConfigError, OSError, ValueError, httpx2.HTTPError) as error:
            raise ServerError(f"the cluster at {self._server} cannot be used: {error}") from error

    @property
    def namespace(self) -> str:
        """The namespace that is spoken of."""
        return str(self._client.namespace)

    async def workload(self, kind: WorkloadKind, name: str) -> Deployment | StatefulSet:
        """Read the object."""
        try:
            return await self._client.get(_KINDS[kind], name)
        except _FAILURES as error:
            self._refuse(error, f"get {kind} {name}")

    async def patch(self, kind: WorkloadKind, name: str, patch: dict[str, Any]) -> Deployment | StatefulSet:
        """Patch the object by a strategic merge; raises `Conflict` if it changed since `patch` was made."""
        try:
            return await self._client.patch(_KINDS[kind], name, patch, patch_type=PatchType.STRATEGIC)
        except _FAILURES as error:
            if _code(error) == HTTPStatus.CONFLICT:
                raise Conflict from error
            self._refuse(error, f"patch {kind} {name}")

    async def pods(self, labels: Mapping[str, str]) -> Sequence[Pod]:
        """The pods that bear these labels."""
        try:
            return [pod async for pod in self._client.list(Pod, labels=dict(labels))]
        except _FAILURES as error:
            self._refuse(error, "list pods")

    async def log(self, pod: str, container: str, since_seconds: int | None) -> str:
        """What a pod's container wrote, with time stamps; empty while it has not started, or if it is gone."""
        try:
            lines = self._client.log(pod, container=container, since=since_seconds, timestamps=True)
            return "".join([line async for line in lines])
        except _FAILURES as error:
            if _code(error) in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND):
                return ""
            self._refuse(error, f"get the log of pod {pod}")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _refuse(self, error: Exception, call: str) -> NoReturn:
        where = f"the cluster at {self._server}, namespace {self.namespace}"
        code = _code(error)
        said = " ".join(str(error).split())[:300] or type(error).__name__
        if code == HTTPStatus.NOT_FOUND:
            mend = "mend kind, name or namespace in the configuration"
        elif code in (HTTPStatus.FORBIDDEN, HTTPStatus.UNAUTHORIZED):
            mend = f"grant what {MANIFEST} lists to the account that Trimtab uses"
        elif code is not None:
            mend = "see the message"
        elif isinstance(error, msgspec.MsgspecError):
            mend = "is it Kubernetes' API, or a newer version than lightkube's models know?"
        else:
            mend = "check that the API server is up and reachable from here"
        raise ServerError(f"{where} did not {call} ({said}): {mend}") from error


def cluster(
    kubeconfig: Path | None, context: str | None, account: Path = Path(SERVICE_ACCOUNT)
) -> SingleConfig:
    """How the cluster is reached: a kubeconfig's context, or the service account of the pod this runs in.

    The account's token is read anew when the kubelet has changed it.

    Raises `ServerError` if there is no such thing here.
    """
    try:
        if kubeconfig is None:
            found = KubeConfig.from_service_account(account).get()
        else:
            found = KubeConfig.from_file(kubeconfig).get(context)
    except (ConfigError, OSError, KeyError, TypeError, ValueError) as error:
        what = "this pod's service account" if kubeconfig is None else f"the kubeconfig {kubeconfig}"
        mend = "name a kubeconfig" if kubeconfig is None else "mend the file, or name another context"
        raise ServerError(f"{what} does not say how to reach the cluster ({error}): {mend}") from error
    if found is None:
        raise ServerError(f"the kubeconfig {kubeconfig} has no current context: name one")
    return found


def _code(error: Exception) -> int | None:
    if isinstance(error, ApiError) and error.status.code is not None:
        return error.status.code
    return error.response.status_code if isinstance(error, httpx2.HTTPStatusError) else None
