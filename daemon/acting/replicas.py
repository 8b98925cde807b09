"""More replicas, and traffic away from this one: by the operator's hooks, or by Kubernetes' scale."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from change.server import ServerError
from daemon.acting.deed import RunContext
from daemon.acting.hook_program import Ran, run_hook
from daemon.acting.values import number
from daemon.doctor.bundle import Redactor
from daemon.sections.containers import KubernetesSection
from daemon.sections.playbooks import HooksSection, ScaleSection
from rules.actions import Action, ActionRefused, Outcome, Plan

ALONE = (
    "leaving this replica within 30 s is impossible: no second replica is known here that could take its traffic; name "
    "the program that switches it over in playbooks.hooks.traffic_away"
)
"""What a run says where there is nowhere for the traffic to go."""
LEAVE_SECONDS = 30.0


class Scale(Protocol):
    """The replicas of one object of a cluster. Every call raises `ServerError`."""

    async def replicas(self) -> int:
        """How many it is to have."""
        ...

    async def set_replicas(self, count: int, expected: int) -> None:
        """Have it have so many, and leave it where it is not to have `expected` any more."""
        ...


class _Hooked:
    """Runs one of the operator's programs, and tells how it went."""

    def __init__(self, hooks: HooksSection, redactor: Redactor) -> None:
        self._hooks = hooks
        self._redactor = redactor

    async def run(self, argv: list[str], context: RunContext, seconds: float) -> Outcome:
        ran = await run_hook(argv, context, min(seconds, self._hooks.timeout_seconds))
        figures: dict[str, Any] = {"seconds": round(ran.seconds, 3), "exit_code": ran.code}
        if ran.output:
            figures["output"] = self._redactor.clean(ran.output)[-2000:]
        return Outcome(ran.code == 0, self._text(argv[0], ran), figures)

    def _text(self, program: str, ran: Ran) -> str:
        if ran.trouble is not None:
            return self._redactor.clean(ran.trouble)
        said = self._redactor.clean(ran.last_line)
        if ran.code == 0:
            return f"{program} is done in {ran.seconds:.1f} s" + (f": {said}" if said else "")
        return f"{program} ended with code {ran.code}: {said or 'it said nothing'}"


class TrafficAway:
    """`traffic_away`: this replica gets no new requests; the way back is the other hook."""

    preempts = False

    def __init__(self, hooks: HooksSection, redactor: Redactor) -> None:
        self._hooks = hooks
        self._hooked = _Hooked(hooks, redactor)

    async def plan(self, action: Action, context: RunContext, now: float) -> Plan:
        """Refused where nothing could take the traffic."""
        if not self._hooks.traffic_away:
            raise ActionRefused(ALONE)
        back = bool(self._hooks.traffic_back)
        how = "" if back else "; there is no playbooks.hooks.traffic_back: nobody but you brings it back"
        text = f"send new requests to another replica ({self._hooks.traffic_away[0]}){how}"
        return Plan(text, "service", back, {"hook": "traffic_back"} if back else None)

    async def act(self, action: Action, plan: Plan, context: RunContext, now: float) -> Outcome:
        """Run the hook."""
        done = await self._hooked.run(self._hooks.traffic_away, context, action.timeout_seconds)
        within = done.ok and done.figures["seconds"] <= LEAVE_SECONDS
        return Outcome(done.ok, done.text, {**done.figures, "within_30_seconds": within})

    async def undo(self, undo: Mapping[str, Any], context: RunContext, now: float) -> Outcome:
        """Run the other hook."""
        if not self._hooks.traffic_back:
            return Outcome(
                False, "playbooks.hooks.traffic_back is not configured any more: bring it back by hand"
            )
        return await self._hooked.run(self._hooks.traffic_back, context, self._hooks.timeout_seconds)


class ScaleUp:
    """`scale_up`: more replicas, by the hook where there is one, else by the Deployment's scale."""

    preempts = False

    def __init__(
        self,
        hooks: HooksSection,
        section: ScaleSection,
        redactor: Redactor,
        scale: Callable[[], AbstractAsyncContextManager[Scale]] | None = None,
    ) -> None:
        """`scale` opens the object that `section` names."""
        self._hooks = hooks
        self._section = section
        self._hooked = _Hooked(hooks, redactor)
        self._scale = scale

    async def plan(self, action: Action, context: RunContext, now: float) -> Plan:
        """Say by what, and from how many to how many where that is known."""
        if self._hooks.scale_up:
            back = bool(self._hooks.scale_down)
            how = "" if back else "; there is no playbooks.hooks.scale_down: nobody but you takes it away"
            text = f"start one more replica ({self._hooks.scale_up[0]}){how}"
            return Plan(text, "service", back, {"hook": "scale_down"} if back else None)
        if self._section.deployment is None or self._scale is None:
            raise ActionRefused(
                "nothing here can start a replica: name a program in playbooks.hooks.scale_up, or a Deployment in "
                "playbooks.scale.deployment"
            )
        more = int(number("replicas", action.arguments.get("replicas", 1)))
        if more < 1:
            raise ActionRefused(f"replicas {more}: expected 1 or more")
        try:
            async with self._scale() as scale:
                there = await scale.replicas()
        except ServerError as error:
            raise ActionRefused(str(error)) from error
        wanted = min(there + more, self._section.most_replicas)
        if wanted <= there:
            raise ActionRefused(
                f"there are {there} replicas, and playbooks.scale.most_replicas is {self._section.most_replicas}"
            )
        name = f"Deployment {self._section.namespace}/{self._section.deployment}"
        undo = {"replicas": there, "set": wanted}
        return Plan(f"scale {name} from {there} to {wanted} replicas", "service", True, undo)

    async def act(self, action: Action, plan: Plan, context: RunContext, now: float) -> Outcome:
        """Run the hook, or set the replicas that the plan said."""
        if self._hooks.scale_up:
            return await self._hooked.run(self._hooks.scale_up, context, action.timeout_seconds)
        undo = plan.undo or {}
        return await self._set(undo["replicas"], undo["set"], "there are {set} replicas now, as asked")

    async def undo(self, undo: Mapping[str, Any], context: RunContext, now: float) -> Outcome:
        """Take it away again, unless somebody has scaled since."""
        if "hook" in undo:
            if not self._hooks.scale_down:
                return Outcome(
                    False, "playbooks.hooks.scale_down is not configured any more: scale down by hand"
                )
            return await self._hooked.run(self._hooks.scale_down, context, self._hooks.timeout_seconds)
        return await self._set(undo["set"], undo["replicas"], "back at {set} replicas")

    async def _set(self, before: int, after: int, told: str) -> Outcome:
        if self._scale is None:
            return Outcome(False, "playbooks.scale.deployment is not configured any more: scale it by hand")
        try:
            async with self._scale() as scale:
                there = await scale.replicas()
                if there == after:
                    return Outcome(True, f"there are {after} replicas already", {"replicas": there})
                await scale.set_replicas(after, before)
        except ServerError as error:
            return Outcome(False, str(error))
        return Outcome(True, told.format(set=after), {"replicas": after, "before": before})


def kubernetes_scale(
    section: ScaleSection, access: KubernetesSection
) -> Callable[[], AbstractAsyncContextManager[Scale]] | None:
    """What opens the Deployment that `section` names, reached as the engine's own cluster is; None where none is."""
    name = section.deployment
    if name is None:
        return None

    @asynccontextmanager
    async def opened() -> AsyncIterator[Scale]:
        # Here and not above: its models take a while to load, and few want them.
        from daemon.acting.kubernetes_scale import DeploymentScale
        from daemon.engine.kubernetes_api import KubernetesApi, cluster

        api = KubernetesApi(
            cluster(access.kubeconfig, access.context),
            namespace=section.namespace,
            timeout=access.timeout_seconds,
        )
        try:
            yield DeploymentScale(api, name)
        finally:
            await api.close()

    return opened
