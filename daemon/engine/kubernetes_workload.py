"""A Deployment or StatefulSet and its pods as the hand sees them, and the patches that start and stop it.

Pure functions and types over lightkube's models; `daemon.engine.kubernetes_api` does the calls. Every patch is a
strategic merge patch that names the resourceVersion it was made of: the API server refuses it with 409 if anybody
changed the object meanwhile. What is needed to go back is written by the same patch, so a crash cannot part them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lightkube.models.core_v1 import Container as PodContainer
from lightkube.models.core_v1 import EnvVar
from lightkube.resources.apps_v1 import Deployment, StatefulSet

from change.server import LaunchCommand, ServerError
from daemon.sections.containers import WorkloadKind

REPLICAS = "trimtab/replicas"
"""Annotation: how many replicas there were before Trimtab stopped the one."""
BEFORE = "trimtab/before"
"""Annotation: command, args and environ of the last known good, JSON, while another command is on trial."""
ENVIRON = "trimtab/environ"
"""Annotation: the variables that Trimtab set, JSON, each with the entry that was there before, or null."""
GENERATION = "trimtab/generation"
"""Annotation: the generation that Trimtab's last patch made; a later one is somebody else's change."""
RUN = "trimtab/run"
"""Annotation of the pod template, and so of its pods: counts Trimtab's starts."""

DEFAULT_GRACE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Workload:
    """What the API server says of the Deployment or StatefulSet at one time.

    `replicas` are wanted; `total`, `updated`, `ready` are there. `revisions` are a StatefulSet's current and update
    revision. `blocked` is why no change of the template gets to its pods, `one_by_one` why none gets to several
    replicas in turn, `expired` what ProgressDeadlineExceeded says, `failing` why no pod can be made. `complete`
    tells that the Deployment's controller called the present rollout finished.
    """

    kind: WorkloadKind
    name: str
    uid: str
    version: str
    generation: int
    observed: int
    replicas: int
    total: int
    updated: int
    ready: int
    annotations: Mapping[str, str]
    selector: Mapping[str, str]
    grace_seconds: float
    run: str
    container: PodContainer
    revisions: tuple[str, str] | None = None
    blocked: str | None = None
    one_by_one: str | None = None
    expired: str | None = None
    failing: str | None = None
    complete: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def usual_replicas(self) -> int:
        """How many replicas there are when it is not stopped by Trimtab; 0 if nobody knows."""
        kept = self.annotations.get(REPLICAS, "")
        return self.replicas or (int(kept) if kept.isdecimal() else 0)

    @property
    def rolls(self) -> bool:
        """Whether it has several replicas, which are changed one after another."""
        return self.usual_replicas > 1

    @property
    def on_trial(self) -> bool:
        """Whether its present command is not kept yet."""
        return BEFORE in self.annotations

    @property
    def settled(self) -> bool:
        """Whether no rollout is under way, be its pods ready or not."""
        if self.observed < self.generation:
            return False
        if self.revisions is not None and self.replicas:
            return self.revisions[0] == self.revisions[1] and self.total == self.replicas
        return self.complete or (self.updated == self.replicas and self.total == self.replicas)

    @property
    def rolled_out(self) -> bool:
        """Whether the last rollout came to its end: every replica is of the present template and was ready."""
        return self.settled and (self.complete or self.ready == self.replicas)

    @property
    def foreign(self) -> bool:
        """Whether a rollout is under way that Trimtab did not begin."""
        return (
            not self.settled
            and self.expired is None
            and self.annotations.get(GENERATION) != str(self.generation)
        )

    @property
    def command(self) -> LaunchCommand:
        """Command and args of the container, and the variables that Trimtab set."""
        argv = (*(self.container.command or ()), *(self.container.args or ()))
        if not argv:
            raise ServerError(
                f"the container {self.container.name} of the {self} has neither command nor args: write its "
                "arguments into the manifest, what the image starts by itself cannot be seen"
            )
        values = {entry.name: entry.value for entry in self.container.env or ()}
        ours = {name: values.get(name) for name in _object(self.annotations.get(ENVIRON))}
        return LaunchCommand(argv, {name: value for name, value in ours.items() if value is not None})

    def stop_patch(self) -> dict[str, Any]:
        """What stops the one replica and remembers that there was one."""
        return self._patch({"replicas": 0}, {REPLICAS: str(self.usual_replicas)})

    def start_patch(self, command: LaunchCommand, *, run: bool) -> dict[str, Any]:
        """What has the template run `command`; with `run` the replicas come back as a new run of it.

        The last known good is written down once, and crossed out when it comes back.
        """
        if not command.argv:
            raise ServerError(f"there is no command to start the {self} with: it needs at least one argument")
        present = self._written()
        kept = _object(self.annotations.get(BEFORE))
        container: dict[str, Any] = {"name": self.container.name}
        if kept and _same(kept, command):
            container |= {"command": kept["command"], "args": kept["args"]}
            before: str | None = None
        else:
            container |= self._words(command.argv)
            before = json.dumps(kept or present)
            if _same(present, command):
                before = json.dumps(kept) if kept else None
        container["env"], changed = self._env(command.environ)
        template: dict[str, Any] = {"spec": {"containers": [container]}}
        spec: dict[str, Any] = {"template": template}
        annotations: dict[str, str | None] = {
            BEFORE: before,
            ENVIRON: json.dumps(changed) if changed else None,
        }
        if run:
            template["metadata"] = {"annotations": {RUN: str(int(self.run) + 1)}}
            spec["replicas"] = self.usual_replicas
            annotations[REPLICAS] = None
        return self._patch(spec, annotations)

    def keep_patch(self) -> dict[str, Any] | None:
        """What crosses out the last known good; None if there is none. No rollout follows it."""
        if BEFORE not in self.annotations:
            return None
        return {"metadata": {"resourceVersion": self.version, "annotations": {BEFORE: None}}}

    def _patch(self, spec: Mapping[str, Any], annotations: Mapping[str, str | None]) -> dict[str, Any]:
        # The API server counts each change of the spec, and the resourceVersion makes sure that ours is the next.
        marks = {**annotations, GENERATION: str(self.generation + 1)}
        return {"metadata": {"resourceVersion": self.version, "annotations": marks}, "spec": dict(spec)}

    def _words(self, argv: tuple[str, ...]) -> dict[str, Any]:
        """Cut an argument list where the manifest cuts it, so that the change is the least."""
        first = list(self.container.command or ())
        words = list(argv)
        if not first:
            return {"args": words}  # the image's own entry point comes before them
        if not self.container.args:
            return {"command": words}
        if words[: len(first)] == first:
            return {"args": words[len(first) :]}
        return {"command": words, "args": None}

    def _env(self, wanted: Mapping[str, str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Changes to the variables that lead to the original ones with `wanted` over them, and what those were."""
        present = {entry.name: _entry(entry) for entry in self.container.env or ()}
        changed = _object(self.annotations.get(ENVIRON))
        original = {name: changed.get(name, present.get(name)) for name in {**present, **changed}}
        patch: list[dict[str, Any]] = []
        for name in changed.keys() | wanted.keys():
            if name in wanted:
                patch.append({"name": name, "value": wanted[name], "valueFrom": None})
            elif isinstance(entry := original[name], dict):
                patch.append({"value": None, "valueFrom": None, **entry})
            else:
                patch.append({"name": name, "$patch": "delete"})
        return sorted(patch, key=lambda one: str(one["name"])), {name: original.get(name) for name in wanted}

    def _written(self) -> dict[str, Any]:
        """The present command as the annotation holds it."""
        return {
            "command": list(self.container.command) if self.container.command else None,
            "args": list(self.container.args) if self.container.args else None,
            "environ": dict(self.command.environ),
        }


def read_workload(found: Deployment | StatefulSet, container: str | None) -> Workload:
    """Read what the API server answered; raises `ServerError` if the container is not to be found in it."""
    kind: WorkloadKind = "Deployment" if isinstance(found, Deployment) else "StatefulSet"
    meta, spec, status = found.metadata, found.spec, found.status
    if meta is None or not meta.name or spec is None or spec.template.spec is None:
        raise ServerError(
            f"the API server described a {kind} without a name or a template: is it Kubernetes?"
        )
    blocked = one_by_one = expired = failing = None
    revisions: tuple[str, str] | None = None
    complete = False
    if isinstance(found, Deployment):
        blocked = "it is paused (kubectl rollout resume)" if found.spec and found.spec.paused else None
        for condition in (found.status.conditions if found.status else None) or ():
            if condition.type == "Progressing":
                said = f"{condition.reason}: {condition.message}"
                expired = said if condition.reason == "ProgressDeadlineExceeded" else None
                complete = condition.reason == "NewReplicaSetAvailable"
            if condition.type == "ReplicaFailure" and condition.status == "True":
                failing = f"{condition.reason}: {condition.message}"
    else:
        blocked, one_by_one = _stateful_blocks(found)
        if found.status and found.status.currentRevision and found.status.updateRevision:
            revisions = (found.status.currentRevision, found.status.updateRevision)
    observed = (status.observedGeneration if status else None) or 0
    generation = meta.generation or 0
    template = spec.template.metadata
    annotations = (template.annotations if template else None) or {}
    labels = (template.labels if template else None) or {}
    run = annotations.get(RUN, "")
    updated, total = (status.updatedReplicas if status else 0) or 0, (status.replicas if status else 0) or 0
    replicas = 1 if spec.replicas is None else spec.replicas
    grace = spec.template.spec.terminationGracePeriodSeconds
    return Workload(
        kind=kind,
        name=meta.name,
        uid=meta.uid or "",
        version=meta.resourceVersion or "",
        generation=generation,
        observed=observed,
        replicas=replicas,
        total=total,
        updated=updated,
        ready=(status.readyReplicas if status else 0) or 0,
        annotations=meta.annotations or {},
        selector=spec.selector.matchLabels or labels,
        grace_seconds=DEFAULT_GRACE_SECONDS if grace is None else float(grace),
        run=run if run.isdecimal() else "0",
        container=_container(spec.template.spec.containers, container, f"{kind} {meta.name}"),
        revisions=revisions,
        blocked=blocked,
        one_by_one=one_by_one,
        expired=expired if observed >= generation else None,
        failing=failing,
        complete=complete and observed >= generation and updated == total == replicas,
    )


def _stateful_blocks(found: StatefulSet) -> tuple[str | None, str | None]:
    spec = found.spec
    assert spec is not None
    strategy = spec.updateStrategy
    rolling = strategy.rollingUpdate if strategy is not None else None
    blocked = one_by_one = None
    if rolling is not None and rolling.partition:
        blocked = f"its updateStrategy has a partition, {rolling.partition}: set 0"
    if spec.podManagementPolicy != "Parallel":
        # The controller waits for a pod that never gets ready before it takes the next template, also the old one.
        one_by_one = (
            "its podManagementPolicy is OrderedReady, which gets no failed start back: make it with Parallel"
        )
    if strategy is not None and strategy.type == "OnDelete":
        one_by_one = "its updateStrategy is OnDelete: set RollingUpdate"
    return blocked, one_by_one


def _container(containers: list[PodContainer], name: str | None, where: str) -> PodContainer:
    names = ", ".join(one.name for one in containers)
    if name is None:
        if len(containers) == 1:
            return containers[0]
        raise ServerError(
            f"the {where} has the containers {names}: say in the configuration which is the engine"
        )
    for one in containers:
        if one.name == name:
            return one
    raise ServerError(f"the {where} has no container {name}; it has {names}")


def _entry(entry: EnvVar) -> dict[str, Any]:
    found = entry.to_dict()
    assert isinstance(found, dict)
    return found


def _same(written: Mapping[str, Any], command: LaunchCommand) -> bool:
    argv = (*(written.get("command") or ()), *(written.get("args") or ()))
    return argv == command.argv and written.get("environ") == dict(command.environ)


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
