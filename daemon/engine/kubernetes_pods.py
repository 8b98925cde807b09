"""What the pods of one run say of the engine in them: whether it runs, and why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lightkube.models.core_v1 import ContainerState
from lightkube.resources.core_v1 import Pod

from change.server import ServerState
from daemon.engine.kubernetes_workload import RUN, Workload

_COMING = frozenset({"", "PodInitializing", "ContainerCreating"})
"""Reasons to wait that pass by themselves."""


@dataclass(frozen=True, slots=True)
class EnginePod:
    """One pod. `ended` tells that the engine in it does not run and nothing is under way, `restarts` is the kubelet's.

    `going` is one that was told to end, `finished` one whose processes are gone for good (evicted, for instance): it
    is kept as a record and nobody removes it at once.
    `exit_code` is of the last run that ended in it; `reason` why it does not run, or not yet.
    """

    name: str
    uid: str
    run: str
    created: str
    going: bool
    finished: bool
    restarts: int
    ended: bool
    exit_code: int | None
    reason: str | None


def read_pods(pods: Sequence[Pod], workload: Workload) -> list[EnginePod]:
    """The pods that belong to a workload, oldest first; others with the same labels are left out."""
    found = [_read(pod, workload) for pod in pods if _owned(pod, workload)]
    return sorted(found, key=lambda pod: (pod.created, pod.name))


def of_the_run(pods: Sequence[EnginePod], workload: Workload) -> list[EnginePod]:
    """Those of the present template that are not on their way out."""
    return [pod for pod in pods if pod.run == workload.run and not pod.going]


def state(workload: Workload, pods: Sequence[EnginePod]) -> ServerState:
    """What the engine does; `pods` are all of the workload's."""
    present = of_the_run(pods, workload)
    restarts = sum(pod.restarts for pod in present)
    run = f"{workload.uid} run {workload.run}"
    identity = f"{run} restart {restarts}" if restarts else run
    if workload.rolls:
        return _rolling(workload, present, identity)
    if not workload.replicas:
        return ServerState(running=not all(pod.finished for pod in pods), identity=identity)
    if not present:
        # It was asked for, and its pod is not there yet.
        return ServerState(running=True, identity=identity, reason=workload.failing)
    last = present[-1]
    if last.ended or (workload.on_trial and last.restarts):
        # The kubelet starts a container again at once; for a start on trial its first end is the answer.
        return ServerState(running=False, identity=identity, exit_code=last.exit_code, reason=last.reason)
    return ServerState(running=True, identity=identity, reason=last.reason if not last.restarts else None)


def _rolling(workload: Workload, present: Sequence[EnginePod], identity: str) -> ServerState:
    ended = [pod for pod in present if pod.ended]
    if workload.rolled_out and workload.ready:
        return ServerState(running=True, identity=identity)
    if workload.expired is not None or (ended and not workload.ready):
        reason = workload.expired or ended[-1].reason
        return ServerState(
            running=False, identity=identity, exit_code=ended[-1].exit_code if ended else None, reason=reason
        )
    why = next((pod.reason for pod in present if pod.reason), workload.failing)
    said = f"rollout: {workload.updated} of {workload.replicas} updated, {workload.ready} ready"
    return ServerState(
        running=False,
        identity=identity,
        exit_code=ended[-1].exit_code if ended else None,
        reason=f"{said}; {why}" if why else said,
        starting=not workload.settled or workload.ready < workload.replicas,
    )


def _owned(pod: Pod, workload: Workload) -> bool:
    meta = pod.metadata
    if meta is None:
        return False
    for owner in meta.ownerReferences or ():
        if workload.kind == "StatefulSet" and owner.uid == workload.uid:
            return True
        hashed = (meta.labels or {}).get("pod-template-hash")
        if owner.kind == "ReplicaSet" and hashed and owner.name == f"{workload.name}-{hashed}":
            return workload.kind == "Deployment"
    return False


def _read(pod: Pod, workload: Workload) -> EnginePod:
    meta, status = pod.metadata, pod.status
    assert meta is not None
    restarts, ended, exit_code = 0, False, None
    reason = None
    for condition in (status.conditions if status else None) or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            reason = f"{condition.reason}: {condition.message}"
    for container in (status.containerStatuses if status else None) or ():
        if container.name == workload.container.name:
            restarts = container.restartCount
            before = _ended(container.lastState)
            now = container.state
            exit_code = before[0]
            if before[1] is not None:
                reason = f"restarted after {before[1]}"
            if now is not None and now.terminated is not None:
                ended, (exit_code, reason) = True, _ended(now)
            elif now is not None and now.waiting is not None and (now.waiting.reason or "") not in _COMING:
                # CrashLoopBackOff, ImagePullBackOff, CreateContainerConfigError and their like.
                words = (now.waiting.reason, before[1], now.waiting.message)
                ended, exit_code = True, before[0]
                reason = ": ".join(dict.fromkeys(word for word in words if word))
    finished = status is not None and status.phase in ("Failed", "Succeeded")
    if status is not None and finished and not ended:
        ended, reason = (
            True,
            ": ".join(word for word in (status.reason, status.message) if word) or status.phase,
        )
    annotated = (meta.annotations or {}).get(RUN, "")
    return EnginePod(
        name=meta.name or "",
        uid=meta.uid or "",
        run=annotated if annotated.isdecimal() else "0",
        created=str(meta.creationTimestamp or ""),
        going=meta.deletionTimestamp is not None,
        finished=finished,
        restarts=restarts,
        ended=ended,
        exit_code=exit_code,
        reason=reason,
    )


def _ended(state: ContainerState | None) -> tuple[int | None, str | None]:
    if state is None or state.terminated is None:
        return None, None
    return state.terminated.exitCode, state.terminated.reason
