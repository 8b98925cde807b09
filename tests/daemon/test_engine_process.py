"""Which process the engine is: the one that was told, else the one that listens at its address."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from collectors.history import History
from daemon import assembly
from daemon.config import Config
from daemon.engine_process import LOOK_AGAIN_SECONDS, EngineProcess, listener

LISTEN = (
    "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1])));"
    "print(s.getsockname()[1], flush=True); sys.stdin.read()"
)


def nobody() -> None:
    return None


def listening(port: int = 0, program: str = sys.executable) -> tuple[subprocess.Popen[bytes], int]:
    child = subprocess.Popen(
        [program, "-c", LISTEN, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    return child, int(child.stdout.readline())


def end(child: subprocess.Popen[bytes]) -> None:
    child.communicate(timeout=10)


def test_it_is_who_listens_at_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert listener(url) == os.getpid()
        assert EngineProcess(url, told=nobody).pid() == os.getpid()
    assert listener(url) is None
    assert listener("http://192.0.2.1:80") is None


def test_what_was_told_comes_first() -> None:
    assert EngineProcess("http://192.0.2.1:80", told=lambda: 7).pid() == 7


def test_one_that_only_passes_on_is_not_the_engine(tmp_path: Path) -> None:
    proxy = tmp_path / "docker-proxy"
    proxy.write_text(f'#!{sys.executable}\nimport sys\nexec(sys.argv[2].replace("argv[1]", "argv[3]"))\n')
    proxy.chmod(0o755)
    child, port = listening(program=str(proxy))
    try:
        assert listener(f"http://127.0.0.1:{port}") is None
    finally:
        end(child)


def test_it_is_looked_for_once_and_again_when_it_ended() -> None:
    now = 0.0
    first, port = listening()
    process = EngineProcess(f"http://127.0.0.1:{port}", told=nobody, clock=lambda: now)
    assert process.pid() == first.pid
    end(first)
    assert process.pid() is None
    second, _ = listening(port)
    try:
        assert process.pid() is None, "a search is dear: not at every reading"
        now += LOOK_AGAIN_SECONDS
        assert process.pid() == second.pid
    finally:
        end(second)


def test_beside_an_engine_that_it_did_not_start_the_daemon_reads_its_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TRIMTAB_ENGINE_PID", raising=False)
    child, port = listening()
    try:
        config = Config.model_validate({"engine": {"url": f"http://127.0.0.1:{port}"}})
        sources = {source.name: source for source in assembly.collectors(config, History(), lasting=False)}
        found = [
            sample.name
            for name in ("host", "engine_processes", "engine_threads")
            for sample in asyncio.run(sources[name].collect(1.0))
        ]
    finally:
        end(child)
    assert {
        "trimtab_engine_process_resident_bytes",
        "trimtab_engine_processes",
        "trimtab_engine_threads",
    } <= set(found)
