"""A command line tells the engine and its role, or that it does not tell."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.engines.launch import Launch, find_launch, read_argv

SERVE = ["/opt/venv/bin/python3", "/opt/venv/bin/vllm", "serve", "/models/q"]
MODULE = ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "/models/q"]
SGLANG = ["python", "-m", "sglang.launch_server", "--model-path", "/models/q"]
PRODUCER = '{"kv_connector":"MooncakeConnectorV1","kv_role":"kv_producer","kv_port":"30000"}'


@pytest.mark.parametrize("argv", [SERVE, ["vllm", "serve", "/models/q"], MODULE, SGLANG])
def test_an_engine_without_such_options_does_all_of_a_request(argv: list[str]) -> None:
    found = read_argv(argv)
    assert found is not None and found.role == "both"
    assert found.kind == ("sglang" if argv == SGLANG else "vllm")


@pytest.mark.parametrize(
    ("options", "role"),
    [
        (["--kv-transfer-config", PRODUCER], "prefill"),
        ([f"--kv-transfer-config={PRODUCER}"], "prefill"),
        (["--kv_transfer_config", PRODUCER.replace("producer", "consumer")], "decode"),
        (["--kv-transfer-config", PRODUCER.replace("producer", "both")], "both"),
        (["--kv-transfer-config.kv_role", "kv_consumer"], "decode"),
        (["--kv-transfer-config", '{"kv_connector":"X"}'], None),
        (["--kv-transfer-config", PRODUCER.replace("producer", "other")], None),
        (["--kv-transfer-config", "[1]"], None),
        (["--headless", "--data-parallel-start-rank", "2"], "headless"),
        (["--headless", "--kv-transfer-config", PRODUCER], "headless"),
        (["--config", "/etc/vllm.yaml"], None),
        (["--config", "/etc/vllm.yaml", "--kv-transfer-config", PRODUCER], "prefill"),
    ],
)
def test_the_role_of_a_vllm(options: list[str], role: str | None) -> None:
    for argv in (SERVE, MODULE):
        found = read_argv([*argv, *options, "--port", "8000"])
        assert found is not None and (found.kind, found.role) == ("vllm", role)


@pytest.mark.parametrize(
    ("options", "role"),
    [
        (["--disaggregation-mode", "prefill"], "prefill"),
        (["--disaggregation-mode=decode"], "decode"),
        (["--disaggregation-mode", "null"], "both"),
        (["--disaggregation-mode", "sideways"], None),
        (["--config", "a.yaml"], None),
    ],
)
def test_the_role_of_an_sglang(options: list[str], role: str | None) -> None:
    found = read_argv([*SGLANG, *options])
    assert found is not None and (found.kind, found.role) == ("sglang", role)


def test_a_transfer_config_that_cannot_be_read_is_noted() -> None:
    found = read_argv([*SERVE, "--kv-transfer-config", "{kv_role: kv_producer}"])
    assert found is not None and found.role is None
    assert found.note is not None and found.note.startswith("--kv-transfer-config is not JSON")


def test_mindies_server_is_known_by_its_name() -> None:
    assert read_argv(["./bin/mindieservice_daemon"]) == Launch("mindie")


@pytest.mark.parametrize(
    "argv", [[], [""], ["bash", "-c", "vllm serve m"], ["vllm", "bench", "serve"], ["python3", "vllm"]]
)
def test_anything_else_is_no_engine(argv: list[str]) -> None:
    assert read_argv(argv) is None


@given(
    st.lists(st.sampled_from([*SERVE, *SGLANG, "-m", "--", "--=", "--kv-transfer-config", "{}", "=", "\x00"]))
)
def test_no_command_line_breaks_the_reader(argv: list[str]) -> None:
    read_argv(argv)


def test_an_engine_is_found_below_the_script_that_started_it() -> None:
    below = [sys.executable, "-c", "import sys; sys.stdin.read()", "-m", "sglang.launch_server"]
    above = (
        "import subprocess, sys; child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE);"
        "print('up', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", above, *below, "--disaggregation-mode", "decode"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as shell:
        assert shell.stdout is not None and shell.stdout.readline() == b"up\n"
        found = find_launch(shell.pid)
    assert found == Launch("sglang", "decode")


def test_a_process_that_is_no_engine_or_gone_is_none() -> None:
    assert find_launch(os.getpid()) is None
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    assert find_launch(ended.pid) is None
