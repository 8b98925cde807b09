"""The whole way of a restart with real processes: the guardian, the daemon, the hand, the plugin, HTTP, the CLI.

The engine is a stand-in, and its clients honour `Retry-After` and try a refused connection again.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
import yaml

from tests.daemon.standing_server import FORCED, HANGS, MUTE, OUT_OF_MEMORY
from tests.prepare import ROOT

pytestmark = pytest.mark.campaign
TRIMTAB = (sys.executable, "-m", "daemon.cli")
SERVE = """
import sys
from pathlib import Path
from daemon import credentials
from daemon.commands.serve import environment, guarded_folder
from daemon.config_file import load
from daemon.serve import serve
split = sys.argv.index("--")
settings = load(Path(sys.argv[1]))
token = credentials.plugin_token_file(settings)
credentials.make_token_file(token)
say = lambda text: print("trimtab:", text, file=sys.stderr, flush=True)
environ = environment(settings, token)
sys.exit(serve(sys.argv[2:split], sys.argv[split + 1 :], environ, say, run_dir=guarded_folder(settings)))
"""
"""`trimtab serve`, but for the daemon's import path, which there is that of the installed program."""
PATIENCE_SECONDS = 60.0


class Clients:
    """Steady requests, each tried until it is answered; `lost` are those that were not, `longest` the longest wait."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answered = 0
        self.lost: list[str] = []
        self.longest = 0.0
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._ask_on) for _ in range(3)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _ask_on(self) -> None:
        # A new connection each: one that was kept idle may close just as it is used, which no server can help.
        limits = httpx2.Limits(max_keepalive_connections=0)
        with httpx2.Client(trust_env=False, timeout=20.0, limits=limits) as http:
            while not self._end.is_set():
                begun = time.monotonic()
                self._ask(http, begun)
                self.longest = max(self.longest, time.monotonic() - begun)
                time.sleep(0.05)

    def _ask(self, http: httpx2.Client, begun: float) -> None:
        while time.monotonic() - begun < PATIENCE_SECONDS:
            try:
                answer = http.post(f"{self.url}/v1/completions", json={"prompt": "x", "max_tokens": 1})
            except httpx2.ConnectError:
                time.sleep(0.1)
                continue
            except httpx2.HTTPError as error:
                self.lost.append(repr(error))
                return
            if answer.status_code == 503 and "Retry-After" in answer.headers:
                time.sleep(min(0.2, float(answer.headers["Retry-After"])))
                continue
            if answer.status_code == 200:
                self.answered += 1
            else:
                self.lost.append(f"HTTP {answer.status_code}")
            return
        self.lost.append("never answered")


class Whole:
    """`trimtab serve` with its engine and its daemon, and the commands of a person."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        program = folder / "vllm"
        program.write_text(f"#!{sys.executable}\nfrom tests.daemon.standing_server import main\nmain()\n")
        program.chmod(0o755)
        self.config = folder / "trimtab.yaml"
        self.config.write_text(
            yaml.safe_dump(
                {
                    "engine": {
                        "url": self.url,
                        "run_dir": str(folder / "run"),
                        "server": {"hand": "process", "grace_seconds": 5},
                        "restart": {
                            "watch_seconds": 0,
                            "retry_after_seconds": 1,
                            "release_seconds": 10,
                            "drain_seconds": 20,
                            "load": {"weights_seconds": 3},
                        },
                    },
                    "collect": {"npu_smi": {"enabled": False}},
                    "web": {"port": 0},
                    "store": {"url": f"sqlite:///{folder / 'trimtab.db'}"},
                }
            )
        )
        path = f"{ROOT}:{ROOT / 'engine_plugin'}"
        self.environ = {**os.environ, "PYTHONPATH": path, "XDG_STATE_HOME": str(folder / "state")}
        self.output = folder / "output"
        engine = [str(program), "serve", "m", "--port", str(self.port), "--block-size", "128"]
        daemon = [*TRIMTAB, "run", "-c", str(self.config)]
        with self.output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVE, str(self.config), *engine, "--", *daemon],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )

    def trimtab(self, *words: str) -> tuple[int, Any]:
        done = subprocess.run(
            [*TRIMTAB, *words, "-c", str(self.config), "--json"],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS * 2,
            check=False,
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def apply(self, **settings: Any) -> tuple[int, Any]:
        path = self.folder / "settings.yaml"
        path.write_text(yaml.safe_dump(settings))
        return self.trimtab("apply", str(path), "--restart")

    def block_size(self) -> str:
        page = httpx2.get(f"{self.url}/metrics", trust_env=False).text
        return page.partition('block_size="')[2].partition('"')[0]

    def engines(self) -> list[int]:
        return [child.pid for child in self._children(f"{self.folder}/vllm")]

    def daemon(self) -> psutil.Process:
        (found,) = self._children("daemon.cli")
        return found

    def _children(self, word: str) -> list[psutil.Process]:
        found = []
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.Error):  # it may end just now
                if word in child.cmdline():
                    found.append(child)
        return found

    def up(self) -> None:
        """Wait until the engine serves and its daemon answers."""
        begun = time.monotonic()
        while time.monotonic() - begun < PATIENCE_SECONDS:
            assert self.process.poll() is None, self.output.read_text()[-2000:]
            try:
                httpx2.get(f"{self.url}/health", trust_env=False)
                if self.trimtab("history")[0] == 0 and list((self.folder / "run").glob("daemon-*.json")):
                    return
            except httpx2.HTTPError:
                pass
            time.sleep(0.2)
        raise AssertionError(self.output.read_text()[-2000:])

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    stand = Whole(tmp_path_factory.mktemp("whole"))
    try:
        stand.up()
        yield stand
    finally:
        stand.end()


def test_a_restart_on_order_loses_no_request_and_a_rollback_takes_it_back(whole: Whole) -> None:
    with Clients(whole.url) as clients:
        code, told = whole.apply(block_size=64)
        assert (code, told["outcome"], told["lane"]) == (0, "done", "cold"), told
        assert told["effective"]["block_size"] == 64
        assert whole.block_size() == "64"
        assert told["own_seconds"] < told["down_seconds"] < PATIENCE_SECONDS
        code, told = whole.trimtab("rollback")
        assert (code, told["outcome"], told["kind"]) == (0, "done", "rollback"), told
        assert whole.block_size() == "128"
    assert clients.lost == []
    assert clients.answered > 20
    assert clients.longest >= told["down_seconds"] - 1.0
    assert len(whole.engines()) == 1


@pytest.mark.parametrize(
    ("block_size", "phase", "says"),
    [
        (OUT_OF_MEMORY, "load", "NPU out of memory"),
        (HANGS, "load", "was not reached within 3 s"),
        (MUTE, "probe", "HTTP 500"),
        (FORCED, "effective", f"block_size is 128, not {FORCED} as asked"),
    ],
)
def test_a_start_that_fails_costs_one_start_and_one_return(
    whole: Whole, block_size: int, phase: str, says: str
) -> None:
    with Clients(whole.url) as clients:
        code, told = whole.apply(block_size=block_size)
    assert (code, told["outcome"], told["phase"]) == (1, "undone", phase), told
    assert says in told["reason"]
    assert whole.block_size() == "128"
    assert clients.lost == []
    assert len(whole.engines()) == 1


def test_a_bad_value_stops_nothing(whole: Whole) -> None:
    before = whole.engines()
    code, told = whole.apply(block_size="many")
    assert code == 1
    assert "block_size" in told
    assert whole.engines() == before


def test_a_daemon_killed_in_the_middle_leaves_the_last_known_good(whole: Whole) -> None:
    path = whole.folder / "settings.yaml"
    path.write_text(yaml.safe_dump({"block_size": HANGS}))
    before = whole.engines()
    with subprocess.Popen(
        [*TRIMTAB, "apply", str(path), "--restart", "-c", str(whole.config)],
        env=whole.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as order:
        begun = time.monotonic()
        while whole.engines() == before or not whole.engines():
            assert time.monotonic() - begun < PATIENCE_SECONDS
            time.sleep(0.05)
        whole.daemon().kill()
        order.wait(PATIENCE_SECONDS)
    begun = time.monotonic()
    while time.monotonic() - begun < PATIENCE_SECONDS:
        newest = whole.trimtab("history", "-n", "1")[1][0]
        if newest["state"] == "closed":
            break
        time.sleep(0.3)
    assert (newest["lane"], newest["outcome"]) == ("cold", "recovered"), newest
    assert whole.block_size() == "128"
    assert len(whole.engines()) == 1
    answer = httpx2.post(f"{whole.url}/v1/completions", json={"prompt": "x"}, trust_env=False)
    assert answer.status_code == 200
