"""The cold lane of an engine in a container: the hand that makes it anew with another command.

A container's command cannot be changed, so a new one is made that differs in its command alone. The one before it
stays, stopped, under a name of its own, as the way back. While both exist neither has a restart policy: whatever
restarts the daemon, no second engine comes up beside the first. Of the two names and the labels it follows what
was under way when a crash came, so that every call can be made again:

    NAME                                        nothing is on trial
    NAME + NAME-trimtab-next                    a new one is being made; it was never started
    NAME-trimtab-before + NAME-trimtab-next     the names are being changed
    NAME + NAME-trimtab-before                  NAME is on trial, or (once it is kept) the other is being removed
    NAME-trimtab-before                         the way back was begun: what was on trial is removed
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from change.restart.command import same
from change.server import LaunchCommand, LogPart, ServerBusy, ServerError, ServerState
from daemon.engine.container_processes import marks
from daemon.engine.docker_api import DockerApi
from daemon.engine.docker_container import BEFORE_LABEL, LABEL, NO_RESTART, SHORT_ID, Container, recreation
from daemon.engine.stamped_log import (
    NANOSECONDS,
    Position,
    framed_lines,
    nanoseconds,
    read_on,
    stamped_lines,
)
from daemon.sections.containers import DockerSection

BEFORE = "-trimtab-before"
"""After the name of the container that is kept for the way back."""
NEXT = "-trimtab-next"
"""After the name of a container that is still being made."""

_changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
"""By container name. Two daemons are kept apart by the engine's lock, two orders in one daemon by these."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The containers of one engine; `main` bears its name."""

    main: Container | None
    before: Container | None
    next: Container | None

    def __iter__(self) -> Iterator[Container]:
        return (one for one in (self.main, self.before, self.next) if one is not None)

    @property
    def alive(self) -> list[Container]:
        """Those that run, or will by themselves."""
        return [one for one in self if one.alive]

    @property
    def latest(self) -> Container | None:
        """The one that runs, else the one that ran last, else the one that bears the name."""
        if self.alive:
            return self.alive[0]
        ran = [one for one in self if one.started_at]
        if ran:
            return max(ran, key=lambda one: nanoseconds(one.started_at) or 0)
        return next(iter(self), None)


class DockerServer:
    """The engine in one named container; an `EngineServer`."""

    keeps_original = True

    def __init__(self, api: DockerApi, container: str, *, host_name: str = "") -> None:
        """Prepare a hand for one container; `host_name` is this machine's, the short id of the container it may be."""
        self._api = api
        self._host_name = host_name
        self._name = container
        self._alone = _changing.setdefault(container, asyncio.Lock())

    @property
    def way(self) -> str:
        """`docker`."""
        return "docker"

    async def command(self) -> LaunchCommand:
        """Return entry point and arguments of the container that runs or ran last; see `EngineServer`."""
        return self._there(await self._find()).command

    async def look(self) -> ServerState:
        """Say what runs; see `EngineServer`. `reason` tells a container that was killed for its memory."""
        container = (await self._find()).latest
        if container is None or not container.started_at:
            return ServerState(running=False, identity=None)
        if container.running:
            pid = container.view.State.Pid
            processes = await asyncio.to_thread(marks, pid, container.id)
            return ServerState(running=True, identity=_run(container), processes=processes)
        state = container.view.State
        return ServerState(
            running=False, identity=_run(container), exit_code=state.ExitCode, reason=_reason(container)
        )

    async def objections(self) -> list[str]:
        """Say if the container would vanish with its end, or Trimtab with it; see `EngineServer`."""
        found = await self._find()
        for container in found.alive or [self._there(found)]:
            try:
                self._refuse_unsafe(container)
            except ServerError as error:
                return [str(error)]
        return []

    async def attend(self) -> None:
        """Do nothing: nobody else puts the engine back here."""

    async def stop(self, *, grace_seconds: float) -> None:
        """Stop the container; see `EngineServer`.

        Raises before it stops one that would vanish with its end, or Trimtab with it.
        """
        alive = (await self._find()).alive
        for container in alive:
            self._refuse_unsafe(container)
        for container in alive:
            if container.view.State.Paused:
                await self._api.unpause(container.id)
            await self._api.stop(container.id, math.ceil(max(grace_seconds, 0.0)))
        for container in (await self._find()).alive:
            raise ServerError(
                f"the container {container.view.Name.lstrip('/')} still runs after it was stopped and killed: "
                "a process of it hangs in the kernel (state D); look at `dmesg` and at the device's driver"
            )

    async def start(self, command: LaunchCommand) -> ServerState:
        """Start a container that runs `command`; see `EngineServer`."""
        async with self._alone:
            for container in (await self._find()).alive:
                raise ServerError(
                    f"the container {container.view.Name.lstrip('/')} runs already: stop it before another is started"
                )
            main = await self._arrange(command)
            await self._api.start(main.id)
        return await self.look()

    async def log(self, position: str | None) -> LogPart:
        """Read what the container has written in its present run; see `EngineServer`."""
        container = (await self._find()).latest
        if container is None or not container.started_at:
            return LogPart((), position or "")
        after = Position.parse(position, _run(container))
        since = max(after.stamp, container.log_begins)
        body = await self._api.log(container.id, f"{since // NANOSECONDS}.{since % NANOSECONDS:09d}")
        try:
            lines = (
                stamped_lines(body.decode("utf-8", "replace"))
                if container.view.Config.Tty
                else framed_lines(body)
            )
            # What an earlier run of the same container wrote comes first in its log. Podman's stamps are whole seconds.
            whole = since - since % NANOSECONDS
            here = (one for one in lines if one.stamp >= (since if one.stamp % NANOSECONDS else whole))
            return read_on(here, after)
        except ValueError as error:
            raise ServerError(
                f"the log of {self._name} cannot be read ({error}): its log driver must let `docker logs` read it"
            ) from error

    async def keep(self, command: LaunchCommand) -> None:
        """Give the container its restart policy and remove the one before it; see `EngineServer`.

        Raises `ServerError` if a container with another command runs.
        """
        async with self._alone:
            await self._keep(command)

    async def close(self) -> None:
        """Close the connections to the daemon."""
        await self._api.close()

    async def _keep(self, command: LaunchCommand) -> None:
        found = await self._find()
        main = found.main
        if found.alive and (main is None or not main.alive or not same(main.command, command)):
            raise ServerError(
                f"{self._name} runs with another command than the one to keep: stop it, or start that command"
            )
        if not found.alive:
            main = await self._arrange(command)
            found = await self._find()
        assert main is not None
        if found.next is not None:
            await self._discard(found.next)
        if found.before is not None:
            self._own(main, found.before)
            await self._set_policy(main, main.wanted_policy)
            await self._api.remove(found.before.id)

    async def _find(self) -> _Found:
        main, before, after = [
            None if raw is None else Container.read(raw)
            for raw in (
                await self._api.inspect(self._name),
                await self._api.inspect(self._name + BEFORE),
                await self._api.inspect(self._name + NEXT),
            )
        ]
        for container in (main, before, after):
            if container is not None and container.view.State.Status == "removing":
                raise ServerBusy(f"{container.view.Name.lstrip('/')} is being removed: try again")
        return _Found(main, before, after)

    def _there(self, found: _Found) -> Container:
        if found.latest is None:
            raise ServerError(
                f"{self._api} has no container {self._name}: start the engine once as you are used to, or mend "
                "the name in the configuration"
            )
        return found.latest

    async def _settle(self) -> _Found:
        """Bring what a crash left to one of the two states of rest; nothing runs."""
        found = await self._find()
        self._there(found)
        main, before, after = found.main, found.before, found.next
        if after is not None and (main is not None or before is None):
            if main is not None and before is None:
                await self._set_policy(main, after.wanted_policy)
            if main is None:
                await self._api.rename(after.id, self._name)
            else:
                await self._discard(after)
        elif after is not None:
            await self._api.rename(after.id, self._name)
        elif main is None and before is not None:
            await self._api.rename(before.id, self._name)
        return await self._find() if after is not None or main is None else found

    async def _arrange(self, command: LaunchCommand) -> Container:
        """Have a stopped container under the engine's name that runs `command`, and what is needed to go back."""
        if not command.argv:
            raise ServerError(f"there is no command to start {self._name} with: it needs at least a program")
        found = await self._settle()
        main, before = found.main, found.before
        assert main is not None
        if before is not None:
            self._own(main, before)
        if before is not None and before.fits(command):
            # The policy first: its record goes with the container that is removed.
            await self._set_policy(before, main.wanted_policy)
            await self._api.remove(main.id)
            await self._api.rename(before.id, self._name)
            return await self._main()
        if main.fits(command):
            return main
        source = before or main
        self._refuse_unsafe(source)
        policy = (main.wanted_policy if before is not None else None) or main.policy
        await self._make(source, command, policy)
        if before is None:
            await self._set_policy(main, NO_RESTART)
            await self._api.rename(main.id, self._name + BEFORE)
        else:
            await self._api.remove(main.id)
        await self._api.rename(self._name + NEXT, self._name)
        return await self._main()

    async def _make(self, source: Container, command: LaunchCommand, policy: Mapping[str, Any]) -> None:
        image = source.view.Config.Image
        if await self._api.image_id(image) != source.view.Image:
            # The tag was moved to another image since; the engine stays what it is.
            image = source.view.Image
        body, networks = recreation(source, command, name=self._name, image=image, policy=policy)
        made = await self._api.create(self._name + NEXT, body)
        for network, endpoint in networks:
            await self._api.connect(network, made, endpoint)

    async def _main(self) -> Container:
        found = await self._api.inspect(self._name)
        if found is None:
            raise ServerBusy(f"the container {self._name} was taken away meanwhile: try again")
        return Container.read(found)

    async def _set_policy(self, container: Container, policy: Mapping[str, Any] | None) -> None:
        if policy is not None and dict(policy) != dict(container.policy):
            await self._api.set_restart_policy(container.id, policy)

    async def _discard(self, container: Container) -> None:
        if container.labels.get(LABEL) != self._name:
            raise ServerError(
                f"the container {self._name}{NEXT} was not made by Trimtab: rename or remove it, the name is needed"
            )
        await self._api.remove(container.id)

    def _refuse_unsafe(self, container: Container) -> None:
        if container.view.HostConfig.AutoRemove:
            raise ServerError(
                f"the container {self._name} was started with --rm: it would vanish with its end, and with it the "
                "way back; start it without --rm"
            )
        if container.id[:SHORT_ID] == self._host_name:
            raise ServerError(
                f"Trimtab itself runs in the container {self._name} and would end with it: give it a container of "
                "its own, or use the hand process"
            )

    def _own(self, main: Container, before: Container) -> None:
        """Refuse a pair that did not come about here: somebody made the engine's container anew meanwhile."""
        if main.labels.get(LABEL) != self._name or main.labels.get(BEFORE_LABEL) != before.id:
            raise ServerError(
                f"{self._name}{BEFORE} is not what was before {self._name}, which somebody made anew: keep the one "
                f"you want under the name {self._name} and remove the other"
            )


def _run(container: Container) -> str:
    return f"{container.id}@{container.started_at}"


def _reason(container: Container) -> str | None:
    state = container.view.State
    if state.OOMKilled:
        return "OOMKilled"
    if state.Restarting:
        return "restarted over and over by its restart policy"
    return state.Error or None


def docker_server(section: DockerSection) -> DockerServer:
    """The hand for the container that the configuration names."""
    assert section.container is not None, "the section was checked"
    api = DockerApi(section.socket, timeout=section.timeout_seconds)
    return DockerServer(api, section.container, host_name=socket.gethostname())
