"""The docker hand on a real Docker daemon."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from change.server import EngineServer, LaunchCommand, ServerError
from daemon.engine.docker import BEFORE, NEXT, DockerServer
from daemon.engine.docker_api import DockerApi
from tests.change.server_contract import GRACE_SECONDS, ServerContract, Stand
from tests.daemon.engine.docker_daemon import IMAGE, DockerDaemon, docker_daemon
from tests.daemon.engine.docker_stand import (
    DECOY,
    GOOD,
    NAME,
    OTHER,
    POLICY,
    body,
    docker_stand,
    in_stand,
    launch,
)

pytestmark = pytest.mark.debian("dockerd", "busybox")


@pytest.fixture(scope="module")
def daemon() -> Iterator[DockerDaemon]:
    with docker_daemon() as one:
        yield one


class TestContract(ServerContract):
    @pytest.fixture(autouse=True)
    def _on(self, daemon: DockerDaemon) -> None:
        self.daemon = daemon

    def stand(self) -> Any:
        return docker_stand(self.daemon)


def test_the_processes_are_those_of_the_container(daemon: DockerDaemon) -> None:
    async def test(stand: Stand, server: EngineServer) -> None:
        state = await server.look()
        assert state.processes[0].pid == daemon.inspect(NAME)["State"]["Pid"]
        await server.stop(grace_seconds=GRACE_SECONDS)
        await server.start(stand.stubborn)
        await stand.writes(server, "Starting vLLM server")
        assert len((await server.look()).processes) >= 3

    in_stand(daemon, test)


UNLIKE = {"Id", "Created", "State", "Name", "Path", "Args", "RestartCount", "NetworkSettings", "LogPath"}
UNLIKE |= {"ResolvConfPath", "HostnamePath", "HostsPath", "GraphDriver", "Config", "HostConfig", "Mounts"}


def plain(found: Mapping[str, Any]) -> dict[str, Any]:
    """A container's description without what belongs to the one run."""
    config = {k: v for k, v in found["Config"].items() if k not in ("Cmd", "Env", "Labels", "Hostname")}
    networks = {
        name: (sorted(set(one["Aliases"] or ()) - {found["Id"][:12]}), one["IPAMConfig"])
        for name, one in found["NetworkSettings"]["Networks"].items()
    }
    # What is mounted counts, and not by which of its lists: an unnamed volume is named from the second time on.
    host = {key: value for key, value in found["HostConfig"].items() if key not in ("Binds", "RestartPolicy")}
    rest = {key: value for key, value in found.items() if key not in UNLIKE}
    mounts = sorted(
        (one["Destination"], one.get("Name", one["Source"]), one["RW"]) for one in found["Mounts"]
    )
    return {"config": config, "host": host, "networks": networks, "mounts": mounts, **rest}


def test_all_but_command_and_environment_is_as_it_was(daemon: DockerDaemon) -> None:
    mark = Path(tempfile.mkdtemp(prefix="trimtab-mark-"))
    for network, subnet in (("front", "10.93.1.0/24"), ("back", "10.93.2.0/24")):
        ipam = {"Config": [{"Subnet": subnet}]}
        daemon.call("POST", "/networks/create", json={"Name": network, "IPAM": ipam})
    full = body(
        mark,
        NetworkMode="front",
        ShmSize=128 * 1024 * 1024,
        Ulimits=[{"Name": "nofile", "Soft": 4096, "Hard": 8192}],
        CapAdd=["SYS_NICE"],
        Devices=[{"PathOnHost": "/dev/null", "PathInContainer": "/dev/davinci0", "CgroupPermissions": "rwm"}],
        Mounts=[{"Type": "volume", "Source": "weights", "Target": "/weights", "ReadOnly": True}],
        Tmpfs={"/scratch": "size=1m"},
        ExtraHosts=["registry:10.0.0.1"],
        CpusetCpus="0",
        Memory=512 * 1024 * 1024,
        SecurityOpt=["seccomp=unconfined"],
        LogConfig={"Type": "json-file", "Config": {"max-size": "1m", "max-file": "2"}},
    )
    full |= {"Labels": {"team": "search"}, "Volumes": {"/unnamed": {}}, "StopSignal": "SIGTERM"}
    front = {"Aliases": ["llm"], "IPAMConfig": {"IPv4Address": "10.93.1.9"}}
    full["NetworkingConfig"] = {"EndpointsConfig": {"front": front}}
    made = daemon.call("POST", "/containers/create", params={"name": NAME}, json=full)["Id"]
    back = {"Container": made, "EndpointConfig": {"Aliases": ["api"]}}
    daemon.call("POST", "/networks/back/connect", json=back)
    daemon.call("POST", f"/containers/{made}/start")

    async def within() -> None:
        server = DockerServer(DockerApi(daemon.socket, timeout=60), NAME)
        try:
            before = daemon.inspect(NAME)
            await server.stop(grace_seconds=GRACE_SECONDS)
            await server.start(OTHER)
            during = daemon.inspect(NAME)
            assert during["HostConfig"]["RestartPolicy"]["Name"] == "no"
            assert daemon.inspect(NAME + BEFORE)["HostConfig"]["RestartPolicy"]["Name"] == "no"
            await server.keep(OTHER)
            after = daemon.inspect(NAME)
            assert after["Id"] != before["Id"]
            assert plain(after) == plain(before)
            assert after["HostConfig"]["RestartPolicy"] == POLICY
            assert after["Config"]["Labels"]["team"] == "search"
            assert after["Config"]["Env"][0] == "KEPT=as it was"
            daemon.call("GET", f"/containers/{NAME}{BEFORE}/json", status=404)
            # The second change starts from what Trimtab made, and takes its own variable away again.
            await server.stop(grace_seconds=GRACE_SECONDS)
            await server.start(GOOD)
            await server.keep(GOOD)
            last = daemon.inspect(NAME)
            assert plain(last) == plain(before)
            assert last["Config"]["Env"] == before["Config"]["Env"]
            assert last["Config"]["Cmd"] == before["Config"]["Cmd"]
        finally:
            await server.close()

    try:
        asyncio.run(within())
    finally:
        daemon.clear()
        for network in ("front", "back"):
            daemon.call("DELETE", f"/networks/{network}")
        shutil.rmtree(mark)


class Crash(BaseException):
    """The daemon's end, at one of its calls."""


class CrashingApi(DockerApi):
    """Dies before the call that comes after `left` changes; before the next one is after the last one."""

    left: int | None = None

    async def _call(self, method: str, path: str, **how: Any) -> bytes:
        if method != "GET" and self.left is not None:
            if self.left == 0:
                raise Crash
            self.left -= 1
        return await super()._call(method, path, **how)


async def one_is_there(daemon: DockerDaemon, command: LaunchCommand) -> None:
    """The engine runs as at first, and nothing of Trimtab is left beside it."""
    found = daemon.inspect(NAME)
    assert found["State"]["Running"]
    assert tuple(found["Config"]["Cmd"]) == command.argv[2:]
    assert found["HostConfig"]["RestartPolicy"] == POLICY
    assert {one["Names"][0] for one in daemon.containers(running=False)} == {f"/{NAME}", f"/{DECOY}"}


async def restart(server: EngineServer, command: LaunchCommand) -> None:
    await server.stop(grace_seconds=GRACE_SECONDS)
    await server.start(command)


@pytest.mark.parametrize("what", ["first", "second", "return", "keep"])
def test_a_crash_anywhere_can_be_mended(daemon: DockerDaemon, what: str) -> None:
    """A first change, a second one on top, a return, a promotion: the caller dies at each of their calls."""

    async def attempt(at: int) -> bool:
        async with docker_stand(daemon) as stand:
            api = CrashingApi(daemon.socket, timeout=60)
            server = DockerServer(api, NAME)
            crashed = False
            try:
                if what != "first":
                    await restart(server, OTHER)
                api.left = at
                match what:
                    case "first":
                        await restart(server, OTHER)
                    case "second":
                        await restart(server, launch("--block-size", "32"))
                    case "return":
                        await restart(server, GOOD)
                    case _:
                        await server.keep(OTHER)
            except Crash:
                crashed = True
            finally:
                await api.close()
            fresh = stand.server()
            assert await stand.engines() <= 1
            assert (await fresh.command()).argv, "a crash leaves the engine known"
            await restart(fresh, GOOD)
            await fresh.keep(GOOD)
            await stand.serves(fresh)
            await one_is_there(daemon, GOOD)
            assert not stand.overlapped()
            return crashed

    at = 0
    while asyncio.run(attempt(at)):
        at += 1
    assert at == {"first": 6, "second": 5, "return": 5, "keep": 2}[what], "it died at each of its calls"


@pytest.mark.parametrize("policy", ["always", "unless-stopped"])
def test_a_reboot_in_a_trial_brings_up_no_engine_and_one_that_is_kept_comes_back(
    daemon: DockerDaemon, policy: str
) -> None:
    async def reboot() -> None:
        await asyncio.to_thread(daemon.stop)
        assert await asyncio.to_thread(daemon.start) is None

    async def test(stand: Stand, server: EngineServer) -> None:
        daemon.call("POST", f"/containers/{DECOY}/update", json={"RestartPolicy": {"Name": "always"}})
        await restart(server, OTHER)
        await reboot()
        assert await stand.engines() == 0
        await restart(stand.server(), GOOD)
        await stand.server().keep(GOOD)
        await reboot()
        await stand.serves(stand.server())
        assert tuple(daemon.inspect(NAME)["Config"]["Cmd"]) == GOOD.argv[2:]

    in_stand(daemon, test, RestartPolicy={"Name": policy, "MaximumRetryCount": 0})


def test_a_container_that_somebody_else_made_anew_is_not_touched(daemon: DockerDaemon) -> None:
    async def test(stand: Stand, server: EngineServer) -> None:
        await server.stop(grace_seconds=GRACE_SECONDS)
        await server.start(OTHER)
        mounts = daemon.inspect(NAME)["HostConfig"]["Binds"]
        daemon.call("DELETE", f"/containers/{NAME}", params={"force": "true"})
        theirs = daemon.call(
            "POST", "/containers/create", params={"name": NAME}, json=body(Path(mounts[0].split(":")[0]))
        )["Id"]
        with pytest.raises(ServerError, match="somebody made anew"):
            await server.start(launch("--block-size", "16"))
        assert daemon.inspect(NAME)["Id"] == theirs
        assert daemon.inspect(NAME + BEFORE)["Config"]["Cmd"] == list(GOOD.argv[2:])

    in_stand(daemon, test)


def test_a_name_that_is_taken_by_another_is_left_to_it(daemon: DockerDaemon) -> None:
    async def test(stand: Stand, server: EngineServer) -> None:
        theirs = daemon.call(
            "POST", "/containers/create", params={"name": NAME + NEXT}, json={"Image": IMAGE, "Cmd": ["x"]}
        )["Id"]
        await server.stop(grace_seconds=GRACE_SECONDS)
        with pytest.raises(ServerError, match="not made by Trimtab"):
            await server.start(OTHER)
        assert daemon.inspect(NAME + NEXT)["Id"] == theirs
        daemon.call("POST", f"/containers/{NAME}/start")

    in_stand(daemon, test)


def test_one_that_would_vanish_with_its_end_is_not_stopped(daemon: DockerDaemon) -> None:
    async def test(stand: Stand, server: EngineServer) -> None:
        with pytest.raises(ServerError, match="--rm"):
            await server.stop(grace_seconds=GRACE_SECONDS)
        assert "--rm" in (await server.objections())[0]
        assert await stand.engines() == 1

    in_stand(daemon, test, AutoRemove=True, RestartPolicy={"Name": "no", "MaximumRetryCount": 0})


def test_trimtabs_own_container_is_not_stopped(daemon: DockerDaemon) -> None:
    async def test(stand: Stand, server: EngineServer) -> None:
        api = DockerApi(daemon.socket, timeout=60)
        within = DockerServer(api, NAME, host_name=daemon.inspect(NAME)["Id"][:12])
        with pytest.raises(ServerError, match="Trimtab itself runs in the container engine"):
            await within.stop(grace_seconds=GRACE_SECONDS)
        await api.close()
        assert await stand.engines() == 1

    in_stand(daemon, test)


def test_a_paused_engine_is_stopped_too(daemon: DockerDaemon) -> None:
    async def test(stand: Stand, server: EngineServer) -> None:
        daemon.call("POST", f"/containers/{NAME}/pause")
        await server.stop(grace_seconds=GRACE_SECONDS)
        assert await stand.engines() == 0
        assert (await server.look()).exit_code == 0

    in_stand(daemon, test)


def test_a_moved_tag_does_not_change_the_engine(daemon: DockerDaemon) -> None:
    async def test(stand: Stand, server: EngineServer) -> None:
        image = daemon.inspect(NAME)["Image"]
        made = daemon.call(
            "POST", "/commit", params={"container": NAME, "repo": "engine", "tag": "2"}, json={}
        )
        params = {"repo": "engine", "tag": "1"}
        daemon.call("POST", f"/images/{made['Id']}/tag", params=params)
        try:
            await server.stop(grace_seconds=GRACE_SECONDS)
            await server.start(OTHER)
            assert daemon.inspect(NAME)["Image"] == image
        finally:
            daemon.call("POST", f"/images/{image}/tag", params=params)

    in_stand(daemon, test)


def test_one_killed_for_its_memory_says_so(daemon: DockerDaemon) -> None:
    async def test(stand: Stand, server: EngineServer) -> None:
        await server.stop(grace_seconds=GRACE_SECONDS)
        await server.start(launch("--hog"))

        async def ended() -> bool:
            return not (await server.look()).running

        await stand.when(ended, "it was killed")
        state = await server.look()
        assert state.reason == "OOMKilled", state

    in_stand(daemon, test, Memory=64 * 1024 * 1024, MemorySwap=64 * 1024 * 1024)


def test_a_program_that_is_not_there_is_said_and_the_way_back_is_open(daemon: DockerDaemon) -> None:
    async def test(stand: Stand, server: EngineServer) -> None:
        await server.stop(grace_seconds=GRACE_SECONDS)
        with pytest.raises(ServerError, match="vlm"):
            await server.start(LaunchCommand(("/vlm", "serve")))
        assert not (await server.look()).running
        await server.start(GOOD)
        await stand.serves(server)

    in_stand(daemon, test)


def test_a_line_longer_than_dockers_pieces_is_one_line(daemon: DockerDaemon) -> None:
    async def test(stand: Stand, server: EngineServer) -> None:
        await server.stop(grace_seconds=GRACE_SECONDS)
        await server.start(launch("--long"))
        lines = await stand.writes(server, "Starting vLLM server")
        assert "0123456789" * 4000 in lines

    in_stand(daemon, test)


def test_the_log_of_the_same_container_started_again_is_of_its_last_run(daemon: DockerDaemon) -> None:
    async def test(stand: Stand, server: EngineServer) -> None:
        await stand.say()
        await stand.writes(server, "said 1")
        await server.stop(grace_seconds=GRACE_SECONDS)
        await server.start(GOOD)
        await stand.writes(server, "Starting vLLM server")
        lines = (await server.log(None)).lines
        assert [line.split()[0] for line in lines] == ["Initializing", "Starting"]

    in_stand(daemon, test)


def test_a_terminals_log_is_read_too(daemon: DockerDaemon) -> None:
    mark = Path(tempfile.mkdtemp(prefix="trimtab-mark-"))
    daemon.run(NAME, {**body(mark), "Tty": True})

    async def within() -> None:
        server = DockerServer(DockerApi(daemon.socket, timeout=60), NAME)
        try:
            found: tuple[str, ...] = ()
            async with asyncio.timeout(30):
                while len(found) < 2:
                    found = (await server.log(None)).lines
            assert found[0].startswith("Initializing a V1 LLM engine")
            assert found[1] == "Starting vLLM server on http://127.0.0.1:8000"
        finally:
            await server.close()

    try:
        asyncio.run(within())
    finally:
        daemon.clear()
        with suppress(OSError):
            shutil.rmtree(mark)
