"""Descriptions of containers in the shape that Docker 20.10 and Podman answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from change.restart.command import closed
from change.server import LaunchCommand, ServerError
from daemon.engine.docker_container import BEFORE_LABEL, ENVIRON_LABEL, LABEL, Container, recreation
from daemon.engine.stamped_log import nanoseconds

ID = "0d0619d2a61be9a14c9b916bd3fc2af0b589d5bf26ff430a439f5ab66c4d5120"


def container(
    *, config: dict[str, Any] | None = None, host: dict[str, Any] | None = None, **more: Any
) -> Container:
    raw = {
        "Id": ID,
        "Name": "/engine",
        "Image": "sha256:43f1",
        "State": {
            "Status": "running",
            "Running": True,
            "StartedAt": "2026-11-30T03:09:48.544543471Z",
            "Pid": 7,
        },
        "Config": {
            "Hostname": ID[:12],
            "Env": ["PATH=/bin", "HF_TOKEN=secret"],
            "Cmd": ["m", "--block-size", "128"],
            "Entrypoint": ["vllm", "serve"],
            "Image": "vllm:1",
            "Labels": {"team": "search"},
            **(config or {}),
        },
        "HostConfig": {"NetworkMode": "default", "RestartPolicy": {"Name": "always"}, **(host or {})},
        **more,
    }
    return Container.read(json.loads(json.dumps(raw)))


def made(
    source: Container, command: LaunchCommand
) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    return recreation(source, command, name="engine", image="vllm:1", policy={"Name": "always"})


def anew(source: Container, command: LaunchCommand) -> Container:
    body, _ = made(source, command)
    config = {key: value for key, value in body.items() if key not in ("HostConfig", "NetworkingConfig")}
    return container(config=config, host=body["HostConfig"])


def test_a_container_with_a_gate_can_be_started_as_its_command_without_one_and_not_the_other_way_round() -> (
    None
):
    command = LaunchCommand(("vllm", "serve", "m", "--block-size", "128"))
    shut = closed(command, 1000.0)
    gated = anew(container(), shut)
    assert gated.fits(command)
    assert gated.fits(shut)
    assert not gated.fits(closed(command, 2000.0))
    assert container().fits(command)
    assert not container().fits(shut)


@pytest.mark.parametrize(
    ("entrypoint", "argv", "cut"),
    [
        (["vllm", "serve"], ("vllm", "serve", "m", "-x"), (["vllm", "serve"], ["m", "-x"])),
        (["vllm", "serve"], ("vllm", "bench", "m"), (["vllm"], ["bench", "m"])),
        (None, ("vllm", "serve"), ([""], ["vllm", "serve"])),
        (["vllm", "serve"], ("vllm", "serve"), (["vllm", "serve"], [])),
    ],
)
def test_the_words_that_run_are_the_commands(
    entrypoint: list[str] | None, argv: tuple[str, ...], cut: tuple[list[str], list[str]]
) -> None:
    body, _ = made(container(config={"Entrypoint": entrypoint}), LaunchCommand(argv))
    assert (body["Entrypoint"], body["Cmd"]) == cut


def test_a_variable_is_set_and_taken_back_over_several_containers() -> None:
    first = container()
    second = anew(first, LaunchCommand(("vllm", "serve"), {"NEW": "1", "PATH": "/opt"}))
    assert second.command.environ == {"NEW": "1", "PATH": "/opt"}
    third = anew(second, LaunchCommand(("vllm", "serve"), {"NEW": "2"}))
    assert third.environ == {"PATH": "/bin", "HF_TOKEN": "secret", "NEW": "2"}
    fourth = anew(third, LaunchCommand(("vllm", "serve")))
    assert fourth.environ == first.environ
    assert fourth.command.environ == {}


def test_no_label_holds_a_variable_that_was_not_changed() -> None:
    body, _ = made(container(), LaunchCommand(("vllm",), {"NEW": "1"}))
    assert "secret" not in json.dumps(body["Labels"])
    assert json.loads(body["Labels"][ENVIRON_LABEL]) == {"NEW": None}


def test_labels_say_whose_it_is_and_the_others_stay() -> None:
    labels = anew(anew(container(), LaunchCommand(("a",))), LaunchCommand(("b",))).labels
    assert labels["team"] == "search"
    assert labels[LABEL] == "engine"
    assert labels[BEFORE_LABEL] == ID


def test_it_has_no_restart_policy_until_it_is_kept_and_remembers_the_engines() -> None:
    second = anew(container(), LaunchCommand(("a",)))
    assert second.policy["Name"] == "no"
    assert second.wanted_policy == {"Name": "always"}


def test_unnamed_volumes_are_carried_over() -> None:
    mounts = [
        {"Type": "volume", "Name": "f00d", "Destination": "/cache", "RW": True},
        {"Type": "volume", "Name": "weights", "Destination": "/weights", "RW": False},
        {"Type": "volume", "Name": "beef", "Destination": "/read", "RW": False},
        {"Type": "bind", "Source": "/srv", "Destination": "/srv", "RW": True},
    ]
    host = {"Binds": ["/srv:/srv"], "Mounts": [{"Type": "volume", "Source": "weights", "Target": "/weights"}]}
    body, _ = made(container(host=host, Mounts=mounts), LaunchCommand(("a",)))
    assert body["HostConfig"]["Binds"] == ["/srv:/srv", "f00d:/cache", "beef:/read:ro"]


def test_a_name_drawn_from_the_old_id_is_drawn_anew_and_a_chosen_one_stays() -> None:
    networks = {"front": {"Aliases": ["llm", ID[:12]], "NetworkID": "n1", "IPAddress": "10.0.0.2"}}
    source = container(host={"NetworkMode": "front"}, NetworkSettings={"Networks": networks})
    body, others = made(source, LaunchCommand(("a",)))
    assert "Hostname" not in body
    assert body["NetworkingConfig"]["EndpointsConfig"] == {"front": {"Aliases": ["llm"]}}
    assert others == []
    body, _ = made(container(config={"Hostname": "chosen"}), LaunchCommand(("a",)))
    assert body["Hostname"] == "chosen"


def test_further_networks_are_connected_afterwards() -> None:
    networks = {"back": {"IPAMConfig": {"IPv4Address": "10.0.1.9"}}, "front": None}
    source = container(host={"NetworkMode": "front"}, NetworkSettings={"Networks": networks})
    body, others = made(source, LaunchCommand(("a",)))
    assert body["NetworkingConfig"]["EndpointsConfig"] == {"front": {}}
    assert others == [("back", {"IPAMConfig": {"IPv4Address": "10.0.1.9"}})]


@pytest.mark.parametrize("mode", ["host", "none", f"container:{ID}"])
def test_a_borrowed_network_is_borrowed_again(mode: str) -> None:
    config = {"Hostname": "node-7", "ExposedPorts": {"8000/tcp": {}}}
    host = {"NetworkMode": mode, "PortBindings": {"8000/tcp": []}}
    source = container(config=config, host=host, NetworkSettings={"Networks": {"host": {}}})
    body, others = made(source, LaunchCommand(("a",)))
    assert body["NetworkingConfig"] == {"EndpointsConfig": {}}
    assert others == []
    assert ("Hostname" in body) == (mode == "none")
    assert ("PortBindings" in body["HostConfig"]) == (not mode.startswith("container:"))


def test_one_that_is_restarted_over_and_over_is_alive_and_does_not_run() -> None:
    state = {"Status": "restarting", "Running": True, "Restarting": True, "ExitCode": 1}
    source = container(State=state)
    assert source.alive
    assert not source.running
    assert source.started_at == ""


def test_limits_as_podman_words_them_are_worded_as_it_takes_them() -> None:
    limits = [{"Name": "RLIMIT_MEMLOCK", "Soft": -1, "Hard": -1}, {"Name": "nofile", "Soft": 1, "Hard": 2}]
    body, _ = made(container(host={"Ulimits": limits}), LaunchCommand(("a",)))
    assert [limit["Name"] for limit in body["HostConfig"]["Ulimits"]] == ["memlock", "nofile"]
    assert body["HostConfig"]["Ulimits"][0]["Soft"] == -1


@pytest.mark.parametrize("policy", [None, {}, {"Name": "", "MaximumRetryCount": 0}, {"Name": "no"}])
def test_no_restart_policy_is_said_in_several_ways(policy: dict[str, Any] | None) -> None:
    host = {} if policy is None else {"RestartPolicy": policy}
    source = container(host={"RestartPolicy": {}, **host})
    assert source.policy == {"Name": "no", "MaximumRetryCount": 0}


def test_the_log_of_a_run_begins_where_the_one_before_ended() -> None:
    def state(**more: Any) -> Container:
        at = {"StartedAt": "2026-11-30T03:09:48.5Z", "FinishedAt": "2026-11-30T03:09:40Z"}
        return container(State={"Running": True, **at, **more})

    first = container(
        State={"Running": True, "StartedAt": "2026-11-30T03:09:48.5Z", "FinishedAt": "0001-01-01T00:00:00Z"}
    )
    ended = state(Running=False, FinishedAt="2026-11-30T03:10:00Z")
    assert first.log_begins == 0
    assert state().log_begins == nanoseconds("2026-11-30T03:09:40Z")
    # Then the end before it is forgotten, and a first line may be a little older than the noted start.
    assert ended.log_begins == nanoseconds("2026-11-30T03:09:38.5Z")


def test_an_entry_point_in_one_word_is_read() -> None:
    assert container(config={"Entrypoint": "vllm", "Labels": None}).command.argv[0] == "vllm"


@pytest.mark.parametrize("raw", [{}, {"Id": "x"}, {"Id": "", "Name": "a"}, {"Id": "x", "State": []}])
def test_something_else_than_a_container_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(ServerError, match="is it Docker's socket"):
        Container.read(raw)
