"""A container as the Docker Engine API describes it, and the description of another that differs in its command only.

Pure functions and types; `daemon.engine.docker` does the calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from change.restart.command import plain
from change.server import LaunchCommand, ServerError
from daemon.engine.stamped_log import NANOSECONDS, nanoseconds

LABEL = "trimtab.container"
"""On every container made here: the name it was made for. One without it is never removed, save the kept one."""
POLICY_LABEL = "trimtab.restart-policy"
"""The engine's own restart policy, JSON: what the container gets once it is kept."""
BEFORE_LABEL = "trimtab.before"
"""Id of the container that is kept for the way back."""
ENVIRON_LABEL = "trimtab.environ"
"""What the variables that Trimtab set held before, JSON; null for one that was not there."""

NO_RESTART: Mapping[str, Any] = {"Name": "no", "MaximumRetryCount": 0}
_NEVER = "0001-01-01"
SHORT_ID = 12
"""Letters of an id that Docker takes for a host name."""
_START_NOTED_LATE_NANOSECONDS = 10 * NANOSECONDS


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _State(_Part):
    Status: str = ""
    Running: bool = False
    Restarting: bool = False
    Paused: bool = False
    OOMKilled: bool = False
    Pid: int = 0
    ExitCode: int = 0
    Error: str = ""
    StartedAt: str = ""
    FinishedAt: str = ""


class _Config(_Part):
    Env: list[str] = Field(default_factory=list)
    Entrypoint: list[str] = Field(default_factory=list)
    Cmd: list[str] = Field(default_factory=list)
    Image: str = ""
    Labels: dict[str, str] = Field(default_factory=dict)
    Tty: bool = False

    @field_validator("Env", "Entrypoint", "Cmd", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        # Null where there is none; Podman has been seen to answer an entry point as one word.
        return [] if value is None else [value] if isinstance(value, str) else value

    @field_validator("Labels", mode="before")
    @classmethod
    def _dict(cls, value: object) -> object:
        return {} if value is None else value


class _HostConfig(_Part):
    RestartPolicy: dict[str, Any] = Field(default_factory=dict)
    AutoRemove: bool = False
    NetworkMode: str = ""


class _Inspect(_Part):
    Id: str = Field(min_length=1)
    Name: str
    Image: str
    State: _State
    Config: _Config
    HostConfig: _HostConfig


@dataclass(frozen=True, slots=True)
class Container:
    """One container; `raw` is everything that the daemon answered."""

    view: _Inspect
    raw: Mapping[str, Any]

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Container:
        """Read the answer to an inspection; raises `ServerError` for anything else than one."""
        try:
            return cls(_Inspect.model_validate(raw), raw)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"][:4])
            raise ServerError(
                f"the container daemon described a container in an unknown way ({where}: {first['msg']}): "
                "is it Docker's socket, or a newer version than this one knows?"
            ) from error

    @property
    def id(self) -> str:
        """Its id."""
        return self.view.Id

    @property
    def started_at(self) -> str:
        """When its last run began, RFC 3339; empty if it was never started."""
        at = self.view.State.StartedAt
        return "" if at.startswith(_NEVER) else at

    @property
    def log_begins(self) -> int:
        """Nanoseconds of the Unix time from which on its log is of its last run.

        The daemon notes the start only after the process is on its way, so the first lines are older than it. While
        a container runs, the end of the run before is still known, and is the border.
        """
        started, finished = nanoseconds(self.started_at) or 0, nanoseconds(self.view.State.FinishedAt) or 0
        if self.alive and finished < started:
            return finished
        return max(0, started - _START_NOTED_LATE_NANOSECONDS)

    @property
    def running(self) -> bool:
        """Whether its main process runs; one that the daemon restarts over and over counts as not running."""
        return self.view.State.Running and not self.view.State.Restarting

    @property
    def alive(self) -> bool:
        """Whether it runs, or will run again by itself."""
        return self.view.State.Running or self.view.State.Restarting

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels, those of its image among them."""
        return self.view.Config.Labels

    @property
    def policy(self) -> Mapping[str, Any]:
        """Its restart policy at present."""
        found = self.view.HostConfig.RestartPolicy
        # Podman leaves the name empty where there is none.
        return {**NO_RESTART, **found, "Name": found.get("Name") or "no"}

    @property
    def wanted_policy(self) -> Mapping[str, Any] | None:
        """The engine's own restart policy as its label has it, or None on a container not made here."""
        found = _json_object(self.labels.get(POLICY_LABEL))
        return found or None

    @property
    def environ(self) -> dict[str, str]:
        """Its environment."""
        pairs = (entry.partition("=") for entry in self.view.Config.Env)
        return {name: value for name, _, value in pairs}

    @property
    def command(self) -> LaunchCommand:
        """How it was started: entry point and arguments, and the variables that Trimtab set."""
        config, environ = self.view.Config, self.environ
        changed = _json_object(self.labels.get(ENVIRON_LABEL))
        ours = {name: environ[name] for name in changed if name in environ}
        return LaunchCommand((*config.Entrypoint, *config.Cmd), ours)

    def fits(self, command: LaunchCommand) -> bool:
        """Whether it can be started as this command; if that has no gate, the one it was made with does not matter."""
        own = self.command if command != plain(command) else plain(self.command)
        return own.argv == command.argv and dict(own.environ) == dict(command.environ)


def recreation(
    source: Container, command: LaunchCommand, *, name: str, image: str, policy: Mapping[str, Any]
) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """What to create so that it differs from `source` in command and environment only.

    `image` is what to make it of, `policy` the engine's own restart policy: it is kept in a label, and the new
    container has none until it is kept. Returns the body and the further networks, each with its endpoint:
    daemons before 25.0 take one network at a creation.
    """
    config = dict(source.raw["Config"])
    host = dict(source.raw["HostConfig"])
    entrypoint = source.view.Config.Entrypoint
    argv = list(command.argv)
    if entrypoint and argv[: len(entrypoint)] == entrypoint:
        config["Entrypoint"], config["Cmd"] = entrypoint, argv[len(entrypoint) :]
    elif entrypoint:
        # The change lies in the entry point itself: the same words run, the cut between the two is all that moves.
        config["Entrypoint"], config["Cmd"] = argv[:1], argv[1:]
    else:
        # An empty word keeps the image's entry point out, as it was kept out of the source.
        config["Entrypoint"], config["Cmd"] = [""], argv
    config["Env"], changed = _environment(source, command.environ)
    config["Labels"] = {
        **{key: value for key, value in source.labels.items() if not key.startswith("trimtab.")},
        LABEL: name,
        POLICY_LABEL: json.dumps(dict(policy)),
        BEFORE_LABEL: source.id,
        ENVIRON_LABEL: json.dumps(changed),
    }
    config["Image"] = image
    host["RestartPolicy"] = dict(NO_RESTART)
    # Podman answers RLIMIT_NOFILE and takes nofile only.
    host["Ulimits"] = [
        {**limit, "Name": str(limit.get("Name")).removeprefix("RLIMIT_").lower()}
        for limit in host.get("Ulimits") or []
    ]
    host["Binds"] = [*(host.get("Binds") or []), *_unnamed_volumes(source.raw, host)]
    first, others = _networks(source)
    mode = source.view.HostConfig.NetworkMode
    if config.get("Hostname") == source.id[:SHORT_ID] or mode == "host" or mode.startswith("container:"):
        # Drawn from the old id, or that of the host or of the other container: not somebody's choice.
        config.pop("Hostname", None)
    if mode.startswith("container:"):
        for key in ("Domainname", "ExposedPorts", "MacAddress"):
            config.pop(key, None)
        host.pop("PortBindings", None)
    return {**config, "HostConfig": host, "NetworkingConfig": {"EndpointsConfig": first}}, others


def _environment(source: Container, wanted: Mapping[str, str]) -> tuple[list[str], dict[str, str | None]]:
    """The source's variables as they were before Trimtab, with the wanted ones over them, and what those held."""
    environ = source.environ
    for key, value in _json_object(source.labels.get(ENVIRON_LABEL)).items():
        if isinstance(value, str):
            environ[key] = value
        else:
            environ.pop(key, None)
    changed = {key: environ.get(key) for key in wanted}
    environ.update(wanted)
    return [f"{key}={value}" for key, value in environ.items()], changed


def _unnamed_volumes(raw: Mapping[str, Any], host: Mapping[str, Any]) -> list[str]:
    """The volumes that the image or `-v /path` made: without their name the new container would get empty ones."""
    named = {bind.split(":")[1] for bind in host.get("Binds") or [] if ":" in bind}
    named |= {mount.get("Target") for mount in host.get("Mounts") or []}
    found = []
    for mount in raw.get("Mounts") or []:
        if mount.get("Type") == "volume" and mount.get("Name") and mount.get("Destination") not in named:
            mode = "" if mount.get("RW", True) else ":ro"
            found.append(f"{mount['Name']}:{mount['Destination']}{mode}")
    return found


def _networks(source: Container) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    mode = source.view.HostConfig.NetworkMode
    if mode in ("host", "none") or mode.startswith("container:"):
        return {}, []
    attached = (source.raw.get("NetworkSettings") or {}).get("Networks") or {}
    endpoints = {name: _endpoint(source, settings or {}) for name, settings in attached.items()}
    first = next(
        (n for n, settings in attached.items() if mode in (n, (settings or {}).get("NetworkID"))), None
    )
    if first is None and mode in ("", "default", "bridge"):
        first = "bridge" if "bridge" in endpoints else None
    chosen = {} if first is None else {first: endpoints.pop(first)}
    return chosen, list(endpoints.items())


def _endpoint(source: Container, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What somebody chose of an endpoint; addresses that were drawn are drawn anew."""
    kept = {key: settings[key] for key in ("IPAMConfig", "Links", "DriverOpts") if settings.get(key)}
    aliases = [name for name in settings.get("Aliases") or [] if name != source.id[:SHORT_ID]]
    return {**kept, "Aliases": aliases} if aliases else kept


def _json_object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
