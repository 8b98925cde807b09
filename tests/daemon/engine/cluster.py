"""A stand-in for a Kubernetes namespace: one Deployment or StatefulSet, its controller, its kubelet, in virtual time.

The objects have the shapes of the real API (apps/v1, core/v1). `step` lets a second pass: the controller makes and
ends pods one at a time (maxSurge 0, maxUnavailable 1), the kubelet starts their containers and starts again those
that end, and an engine in a container writes its lines. `cluster_api` serves it.
"""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

NAMESPACE = "models"
NAME = "qwen"
CONTAINER = "engine"
LABELS = {"app": NAME}
BACKOFF_SECONDS = 10.0
BEGAN = 1_800_000_000.0

Object = dict[str, Any]


def stamp(at: float) -> str:
    """A time as objects bear it."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Engine:
    """The container in one pod: what it was started with, wrote and came to."""

    argv: list[str]
    environ: dict[str, str]
    lines: list[tuple[float, str]] = field(default_factory=list)
    status: str = "waiting"
    exit_code: int | None = None
    reason: str = "ContainerCreating"
    ended_at: float = 0.0
    said: int = 0

    def write(self, at: float, text: str) -> None:
        self.lines.append((at, text))

    @property
    def ready(self) -> bool:
        return self.status == "running" and any("Starting vLLM" in text for _, text in self.lines)


class Cluster:
    """One workload named `qwen` whose pods have an engine's container and, if asked, a second one."""

    def __init__(self, kind: str, argv: list[str], *, replicas: int = 1, spec: Object | None = None) -> None:
        self.now = BEGAN
        self.version = 100
        self.overlapped = False
        self.unschedulable = False
        self.engines: dict[str, Engine] = {}
        self.pods: list[Object] = []
        self._made = 0
        self._progressed = self.now
        self._was: tuple[int, int, int] = (0, 0, 0)
        template: Object = {
            "metadata": {"labels": dict(LABELS)},
            "spec": {
                "containers": [
                    {
                        "name": CONTAINER,
                        "image": "registry/vllm-ascend:v0.18",
                        "command": argv[:2],
                        "args": argv[2:],
                        "env": [
                            {
                                "name": "HF_TOKEN",
                                "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}},
                            },
                            {"name": "VLLM_USE_V1", "value": "1"},
                        ],
                    }
                ],
                "terminationGracePeriodSeconds": 30,
            },
        }
        self.workload: Object = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {
                "name": NAME,
                "namespace": NAMESPACE,
                "uid": "8a1f4c1e-0000-4000-8000-000000000001",
                "resourceVersion": "100",
                "generation": 1,
                "creationTimestamp": stamp(self.now),
                "annotations": {"team": "search"},
            },
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": dict(LABELS)},
                "template": template,
                **({"serviceName": NAME, "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}),
                **({"progressDeadlineSeconds": 600} if kind == "Deployment" else {}),
                **(spec or {}),
            },
            "status": {"replicas": 0} if kind == "StatefulSet" else {},
        }
        self._stranger()

    @property
    def kind(self) -> str:
        return str(self.workload["kind"])

    def living(self) -> list[Engine]:
        """The engines of the workload that run now."""
        return [
            self.engines[pod["metadata"]["name"]] for pod in self.own if self._of(pod).status == "running"
        ]

    @property
    def own(self) -> list[Object]:
        """The workload's pods."""
        return [pod for pod in self.pods if pod["metadata"]["name"] in self.engines]

    def changed(self, spec: bool) -> None:
        """Count a change of the workload."""
        self.version += 1
        self.workload["metadata"]["resourceVersion"] = str(self.version)
        if spec:
            self.workload["metadata"]["generation"] += 1

    def somebody_patches(self, **container: Any) -> None:
        """Another person changes the engine's container."""
        self.workload["spec"]["template"]["spec"]["containers"][0].update(container)
        self.changed(spec=True)

    def evict(self) -> None:
        """The kubelet ends the newest pod for want of memory and leaves its record."""
        pod = self.own[-1]
        self._of(pod).status, self._of(pod).exit_code = "evicted", None

    def say(self) -> None:
        for engine in self.living():
            engine.said += 1
            engine.write(self.now, f"said {engine.said}")

    def step(self, seconds: float = 1.0) -> None:
        """Let the time pass."""
        self.now += seconds
        for pod in list(self.own):
            self._kubelet(pod)
        self._controller()
        running = [engine for engine in self.living() if "--decoy" not in engine.argv]
        if self.workload["spec"]["replicas"] <= 1 and len(running) > 1:
            self.overlapped = True

    def _of(self, pod: Object) -> Engine:
        return self.engines[pod["metadata"]["name"]]

    def _revision(self) -> str:
        text = json.dumps(self.workload["spec"]["template"], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    def _controller(self) -> None:
        spec, status, revision = self.workload["spec"], self.workload["status"], self._revision()
        before = copy.deepcopy(status)
        if not spec.get("paused"):
            self._roll(spec["replicas"], revision)
        active = [pod for pod in self.own if not self._gone(pod)]
        updated = [pod for pod in active if self._hash(pod) == revision and not self._going(pod)]
        # A StatefulSet counts pods that are on their way out, a Deployment does not.
        counted = active if self.kind == "StatefulSet" else [pod for pod in active if not self._going(pod)]
        ready = [pod for pod in counted if self._of(pod).ready]
        counts = {"replicas": len(counted), "updatedReplicas": len(updated), "readyReplicas": len(ready)}
        status.clear()
        # Zeros are left out, save the one field that a StatefulSet's status must have.
        always = ("replicas",) if self.kind == "StatefulSet" else ()
        status.update({key: value for key, value in counts.items() if value or key in always})
        status["observedGeneration"] = self.workload["metadata"]["generation"]
        done = len(updated) == len(counted) == len(ready) == spec["replicas"]
        if self.kind == "StatefulSet":
            old = before.get("currentRevision", revision)
            current = revision if done or not counted else old
            status.update({"currentRevision": current, "updateRevision": revision})
        else:
            status["conditions"] = [self._progress(before, done, (len(updated), len(counted), len(ready)))]
        if status != before:
            self.changed(spec=False)

    def _progress(self, before: Object, done: bool, now: tuple[int, int, int]) -> Object:
        if now != self._was or before.get("observedGeneration") != self.workload["metadata"]["generation"]:
            self._was, self._progressed = now, self.now
        was = [one for one in before.get("conditions", []) if one["reason"] == "NewReplicaSetAvailable"]
        same = before.get("observedGeneration") == self.workload["metadata"]["generation"]
        name = f'ReplicaSet "{NAME}-{self._revision()}"'
        reason, words, status = "ReplicaSetUpdated", f"{name} is progressing.", "True"
        if done or (was and same):
            reason, words = "NewReplicaSetAvailable", f"{name} has successfully progressed."
        elif self.now - self._progressed > self.workload["spec"]["progressDeadlineSeconds"]:
            reason, words, status = "ProgressDeadlineExceeded", f"{name} has timed out progressing.", "False"
        return {"type": "Progressing", "status": status, "reason": reason, "message": words}

    def _roll(self, replicas: int, revision: str) -> None:
        active = [pod for pod in self.own if not self._gone(pod)]
        staying = [pod for pod in active if not self._going(pod)]
        old = [pod for pod in staying if self._hash(pod) != revision]
        fresh = [pod for pod in staying if self._hash(pod) == revision]
        if len(staying) > replicas:
            self._end(staying[-1])
        elif old and all(self._of(pod).ready for pod in fresh) and len(active) == replicas:
            # As the real ones do: first an old pod that does not work, else the next in turn.
            self._end(next((pod for pod in old if not self._of(pod).ready), old[-1]))
        elif old and any(not self._of(pod).ready for pod in old):
            self._end(next(pod for pod in old if not self._of(pod).ready))
        elif len(active) < replicas:
            self._make(revision)

    def _make(self, revision: str) -> None:
        self._made += 1
        meta, template = self.workload["metadata"], copy.deepcopy(self.workload["spec"]["template"])
        deployment = self.kind == "Deployment"
        taken = {pod["metadata"]["name"] for pod in self.pods}
        ordinal = next(n for n in range(100) if f"{NAME}-{n}" not in taken)
        name = f"{NAME}-{revision}-x{self._made:04d}" if deployment else f"{NAME}-{ordinal}"
        labels = {"pod-template-hash" if deployment else "controller-revision-hash": revision}
        owner = (
            {"kind": "ReplicaSet", "name": f"{NAME}-{revision}", "uid": f"rs-{revision}"}
            if deployment
            else {"kind": "StatefulSet", "name": NAME, "uid": meta["uid"]}
        )
        container = template["spec"]["containers"][0]
        environ = {entry["name"]: entry.get("value", "a secret") for entry in container.get("env") or []}
        argv = [*(container.get("command") or []), *(container.get("args") or [])]
        self.engines[name] = Engine(argv, environ)
        pod = {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": f"pod-{self._made}",
                "creationTimestamp": stamp(self.now),
                "labels": {**template["metadata"]["labels"], **labels},
                "annotations": template["metadata"].get("annotations") or {},
                "ownerReferences": [{"apiVersion": "apps/v1", "controller": True, **owner}],
            },
            "spec": template["spec"],
            "status": {},
            "restarts": 0,
        }
        self.pods.append(pod)
        self._report(pod)

    def _end(self, pod: Object) -> None:
        if not self._going(pod):
            pod["metadata"]["deletionTimestamp"] = stamp(self.now)
            pod["told"] = self.now

    def _kubelet(self, pod: Object) -> None:
        engine = self._of(pod)
        if engine.status == "evicted" and not self._going(pod):
            pass
        elif self._going(pod):
            patient = engine.status == "running" and "--ignore-term" in engine.argv
            if not patient or self.now - pod["told"] >= pod["spec"]["terminationGracePeriodSeconds"]:
                engine.status = "gone"
                self.pods.remove(pod)
                del self.engines[pod["metadata"]["name"]]
                return
        elif self.unschedulable:
            pass
        elif engine.status == "waiting":
            engine.status = "running"
            mark = engine.environ.get("FAKE_ENGINE_MARK")
            words = " ".join(engine.argv[2:])
            engine.write(self.now, f"Initializing a V1 LLM engine {words} marked {mark}")
        elif engine.status == "running" and "--fail" in engine.argv:
            engine.write(self.now, "RuntimeError: it does not fit")
            engine.status, engine.exit_code, engine.ended_at = "ended", 3, self.now
            engine.reason = "OOMKilled" if "--hog" in engine.argv else "Error"
        elif engine.status == "running" and not engine.ready and "--hang" not in engine.argv:
            engine.write(self.now, "Starting vLLM server on http://0.0.0.0:8000")
        elif engine.status == "ended" and self.now - engine.ended_at >= BACKOFF_SECONDS:
            pod["restarts"] += 1
            pod["last"] = self._terminated(engine)
            self.engines[pod["metadata"]["name"]] = Engine(engine.argv, engine.environ)
        self._report(pod)

    def _report(self, pod: Object) -> None:
        engine = self._of(pod)
        container: Object = {
            "name": CONTAINER,
            "image": "registry/vllm-ascend:v0.18",
            "imageID": "",
            "restartCount": pod["restarts"],
            "ready": engine.ready,
            "lastState": pod.get("last", {}),
        }
        phase = "Running"
        if engine.status == "evicted":
            pod["status"] = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
            return
        if self.unschedulable and engine.status == "waiting":
            message = "0/3 nodes are available: 3 Insufficient huawei.com/Ascend910."
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": message,
            }
            pod["status"] = {"phase": "Pending", "conditions": [condition]}
            return
        if engine.status == "waiting":
            phase = "Running" if pod["restarts"] else "Pending"
            container["state"] = {"waiting": {"reason": "ContainerCreating"}}
        elif engine.status == "running":
            container["state"] = {"running": {"startedAt": stamp(engine.lines[0][0])}}
        elif self.now - engine.ended_at < 2:
            container["state"] = self._terminated(engine)
        else:
            message = "back-off 10s restarting failed container"
            container["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
            container["lastState"] = self._terminated(engine)
        pod["status"] = {"phase": phase, "containerStatuses": [container]}

    def _terminated(self, engine: Engine) -> Object:
        return {
            "terminated": {
                "exitCode": engine.exit_code,
                "reason": engine.reason,
                "finishedAt": stamp(engine.ended_at),
            }
        }

    def _stranger(self) -> None:
        """Another owner's pod with the same labels."""
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "qwen-canary-5d4", "uid": "rs-canary"}
        meta = {"name": "qwen-canary-5d4-abcde", "namespace": NAMESPACE, "uid": "pod-canary"}
        labels = {**LABELS, "pod-template-hash": "5d4"}
        pod = {"metadata": {**meta, "labels": labels, "ownerReferences": [owner]}, "spec": {"containers": []}}
        self.pods.append({**pod, "status": {"phase": "Running"}})

    def _going(self, pod: Object) -> bool:
        return "deletionTimestamp" in pod["metadata"]

    def _gone(self, pod: Object) -> bool:
        return self._of(pod).status == "evicted"

    def _hash(self, pod: Object) -> str:
        labels = pod["metadata"]["labels"]
        return str(labels.get("pod-template-hash") or labels.get("controller-revision-hash"))
