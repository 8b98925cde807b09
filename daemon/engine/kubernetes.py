"""The cold lane of an engine in a cluster: the hand that patches its Deployment or StatefulSet.

With one replica a stop scales to none and waits until the pods are gone, so that the NPUs are free, and a start
patches the template and scales back. With several a stop does nothing, a start is a rolling update, and the engine
runs once the rollout is done. How many replicas there were, the command before and whose rollout it is stand in
annotations of the object itself, written by the same patch: a crash at any point leaves nothing to guess.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from typing import Any

from change.clock import Clock
from change.restart.command import same
from change.server import LaunchCommand, LogPart, ServerBusy, ServerError, ServerState
from daemon.engine.kubernetes_api import Conflict, KubernetesApi, cluster
from daemon.engine.kubernetes_pods import EnginePod, of_the_run, read_pods, state
from daemon.engine.kubernetes_workload import Workload, read_workload
from daemon.engine.stamped_log import NANOSECONDS, Position, read_on, stamped_lines
from daemon.sections.containers import KubernetesSection, WorkloadKind

POLL_SECONDS = 1.0
END_MARGIN_SECONDS = 60.0
"""Over a pod's grace: for the kubelet to kill what is left, and for the API server to hear of it."""
CONFLICTS = 10
"""How often a patch is made anew because somebody else changed the object meanwhile."""
CLOCKS_APART_SECONDS = 120
"""How far a node's clock and this one may be apart for a log to be read from a position on."""


class KubernetesServer:
    """The engine in one container of a Deployment or StatefulSet; an `EngineServer`."""

    keeps_original = False

    def __init__(
        self,
        api: KubernetesApi,
        *,
        kind: WorkloadKind,
        name: str,
        container: str | None,
        clock: Clock,
        host_name: str = "",
    ) -> None:
        """Prepare a hand for one container of a workload; `host_name` is this machine's, the pod's that it may be."""
        self._api = api
        self._host_name = host_name
        self._kind = kind
        self._name = name
        self._container = container
        self._clock = clock

    @property
    def way(self) -> str:
        """`kubernetes`."""
        return "kubernetes"

    async def command(self) -> LaunchCommand:
        """Return the container's command and args; see `EngineServer`. An image's own entry point is not in it."""
        return (await self._workload()).command

    async def look(self) -> ServerState:
        """Say what the engine does; see `EngineServer`. With several replicas it runs once the rollout is done."""
        workload = await self._workload()
        return state(workload, await self._pods(workload))

    async def objections(self) -> list[str]:
        """Say if Trimtab would end with the pod, has no right to patch, or somebody rolls out; see `EngineServer`."""
        try:
            await self._refuse_own_pod()
            workload = await self._workload()
            self._refuse_foreign(workload)
            # A patch of nothing needs the right to patch, and changes nothing.
            await self._api.patch(self._kind, self._name, {"metadata": {"resourceVersion": workload.version}})
        except Conflict:
            return []
        except ServerError as error:
            return [str(error)]
        blocked = workload.blocked or (workload.one_by_one if workload.rolls else None)
        return [] if blocked is None else [f"the {workload} cannot be given another command: {blocked}"]

    async def attend(self) -> None:
        """Do nothing: nobody else puts the engine back here."""

    async def stop(self, *, grace_seconds: float) -> None:
        """Scale the one replica to none and wait until its pods are gone; with several replicas do nothing.

        The kubelet kills after the pod's own terminationGracePeriodSeconds: an API server knows no other way that
        is sure to end a process before it says so. `grace_seconds` only lengthens the wait. Raises `ServerBusy`
        during somebody else's rollout, `ServerError` if a pod does not go or Trimtab would end with it.
        """
        await self._refuse_own_pod()
        workload = await self._change(lambda w: None if w.rolls or not w.replicas else w.stop_patch())
        if workload.rolls:
            return
        deadline = self._clock.now() + max(grace_seconds, workload.grace_seconds) + END_MARGIN_SECONDS
        while pods := [pod for pod in await self._pods(workload) if not pod.finished]:
            if self._clock.now() >= deadline:
                raise ServerError(
                    f"the pod {pods[0].name} of the {workload} did not end in its grace of "
                    f"{workload.grace_seconds:g} s: look at its node and kubelet (kubectl describe pod {pods[0].name})"
                )
            await self._clock.sleep(POLL_SECONDS)

    async def start(self, command: LaunchCommand) -> ServerState:
        """Patch the template and scale back, or begin a rolling update; see `EngineServer`.

        With several replicas one may run: they are replaced one after another. Raises `ServerBusy` during somebody
        else's rollout, `ServerError` if the object cannot be rolled out.
        """

        await self._refuse_own_pod()

        def patch(workload: Workload) -> dict[str, Any]:
            if not workload.usual_replicas:
                raise ServerError(
                    f"the {workload} has no replicas and Trimtab did not stop it: scale it to what you want first"
                )
            blocked = workload.blocked or (workload.one_by_one if workload.rolls else None)
            if blocked is not None:
                raise ServerError(f"the {workload} cannot be given another command: {blocked}")
            if not workload.rolls and workload.replicas:
                raise ServerError(f"the {workload} runs already: stop it before another is started")
            return workload.start_patch(command, run=True)

        workload = await self._change(patch)
        return state(workload, await self._pods(workload))

    async def log(self, position: str | None) -> LogPart:
        """Read what the present run's oldest living pod has written; see `EngineServer`."""
        workload = await self._workload()
        present = of_the_run(await self._pods(workload), workload)
        if not present:
            return LogPart((), position or "")
        pod = next((one for one in present if not one.ended), present[-1])
        after = Position.parse(position, f"{pod.name}/{pod.uid}/{pod.restarts}")
        text = await self._api.log(pod.name, workload.container.name, self._since(after))
        return read_on(stamped_lines(text), after)

    async def keep(self, command: LaunchCommand) -> None:
        """Cross out the recorded command before; see `EngineServer`. A stopped engine gets `command` first.

        Raises `ServerError` if another command runs.
        """

        def patch(workload: Workload) -> dict[str, Any] | None:
            if same(workload.command, command):
                return None
            if workload.replicas:
                raise ServerError(
                    f"the {workload} runs with another command than the one to keep: stop it, or start that command"
                )
            return workload.start_patch(command, run=False)

        await self._change(patch)
        await self._change(Workload.keep_patch)

    async def close(self) -> None:
        """Close the connections to the API server."""
        await self._api.close()

    async def _workload(self) -> Workload:
        return read_workload(await self._api.workload(self._kind, self._name), self._container)

    async def _pods(self, workload: Workload) -> list[EnginePod]:
        return read_pods(await self._api.pods(workload.selector), workload)

    async def _change(self, patch: Callable[[Workload], dict[str, Any] | None]) -> Workload:
        """Patch the object as it is now; `patch` is asked again when somebody was quicker."""
        for _ in range(CONFLICTS):
            workload = await self._workload()
            wanted = patch(workload)
            if wanted is None:
                return workload
            if "spec" in wanted:
                self._refuse_foreign(workload)
            try:
                found = await self._api.patch(self._kind, self._name, wanted)
            except Conflict:
                await self._clock.sleep(POLL_SECONDS)
                continue
            return read_workload(found, self._container)
        raise ServerBusy(
            f"the {self._kind} {self._name} is changed all the time by somebody else: try again later"
        )

    async def _refuse_own_pod(self) -> None:
        workload = await self._workload()
        if any(pod.name == self._host_name for pod in await self._pods(workload)):
            raise ServerError(
                f"Trimtab itself runs in the pod {self._host_name} of the {workload} and would end with it: give it a "
                "Deployment of its own, or use the hand process in the engine's container"
            )

    def _refuse_foreign(self, workload: Workload) -> None:
        if workload.foreign:
            raise ServerBusy(
                f"the {workload} is being rolled out or scaled by somebody else ({workload.updated} of "
                f"{workload.replicas} updated): try again when `kubectl rollout status` says that it is done"
            )

    def _since(self, after: Position) -> int | None:
        """How many seconds back the log is to be read; the API takes no other measure."""
        if not after.stamp:
            return None
        passed = self._clock.now() - after.stamp / NANOSECONDS
        return None if passed < -CLOCKS_APART_SECONDS else max(0, math.ceil(passed)) + CLOCKS_APART_SECONDS


def kubernetes_server(section: KubernetesSection, clock: Clock) -> KubernetesServer:
    """The hand for the Deployment or StatefulSet that the configuration names.

    Raises `ServerError` if there is no way to the cluster here.
    """
    assert section.name is not None, "the section was checked"
    api = KubernetesApi(
        cluster(section.kubeconfig, section.context),
        namespace=section.namespace,
        timeout=section.timeout_seconds,
    )
    return KubernetesServer(
        api,
        kind=section.kind,
        name=section.name,
        container=section.container,
        clock=clock,
        host_name=socket.gethostname(),
    )
