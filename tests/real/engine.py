"""A real vLLM server with the plugin, on a free loopback port, and traffic to put on it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import httpx2

from tests.real.setup_vllm import CACHE, MAIN, PYTHON, SECOND, VENV, target

ROOT = Path(__file__).resolve().parent.parent.parent
PLUGIN_SOURCE = ROOT / "engine_plugin"
PLUGIN = CACHE / "plugin"
MODEL = CACHE / "model"
MODEL_NAME = "tiny"
MIDDLEWARE = "trimtab_plugin.http.Middleware"
TOKEN_HEADER = "X-Trimtab-Token"

START_SECONDS = 240.0
STOP_SECONDS = 15.0

PROMPTS = ((128, 0.5), (512, 0.3), (1024, 0.2))
"""Prompt tokens and their share of the requests."""
OUTPUTS = (16, 64)
"""Output tokens, uniform, both ends included."""
VOCABULARY = 1024
SPECIAL_TOKENS = 3


def build_model(folder: Path = MODEL) -> Path:
    """Make the tiny model's folder unless it is there; `setup_vllm.py` must have run."""
    if not (folder / "config.json").exists():
        script = Path(__file__).with_name("model.py")
        subprocess.run([str(PYTHON), str(script), str(folder)], stdin=subprocess.DEVNULL, check=True)
    return folder


def install_plugin(folder: Path = PLUGIN) -> Path:
    """Install `engine_plugin/` into `folder` as it is put beside an engine, anew if its source has changed."""
    digest = hashlib.sha256()
    for path in sorted([*PLUGIN_SOURCE.glob("trimtab_plugin/*.py"), PLUGIN_SOURCE / "pyproject.toml"]):
        digest.update(path.name.encode() + path.read_bytes())
    stamp = folder / ".source"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return folder
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "plugin"
        shutil.copytree(
            PLUGIN_SOURCE, copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
        )
        shutil.rmtree(folder, ignore_errors=True)
        command = [
            str(PYTHON),
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "install",
        ]
        command += ["--no-deps", "--no-build-isolation", "--target", str(folder), str(copy)]
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True)
    stamp.write_text(digest.hexdigest())
    return folder


def free_port() -> int:
    """Return a loopback port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RealEngine:
    """A vLLM server of its own process group, from `__enter__` (ready) to `__exit__` (gone).

    `version` is "0.32.0" or "0.28.0", `arguments` are more command line arguments, `environment` more variables.
    The server listens on 127.0.0.1 only; its log is `log_file`, its token `token`, in `token_file`.
    """

    def __init__(
        self,
        version: str = MAIN,
        arguments: Sequence[str] = (),
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        port: int | None = None,
        plugin: bool = True,
    ) -> None:
        if version not in (MAIN, SECOND):
            raise ValueError(f"version must be {MAIN} or {SECOND}, not {version}")
        self.version = version
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._scratch = None if folder else tempfile.TemporaryDirectory(prefix="engine-")
        self.folder = folder or Path(self._scratch.name if self._scratch else "")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log_file = self.folder / f"vllm-{version}.log"
        self.token = secrets.token_urlsafe(24)
        self.token_file = self.folder / "token"
        self.token_file.write_text(self.token + "\n")
        self.token_file.chmod(0o600)
        self._plugin = plugin
        self._arguments = list(arguments)
        self._more_environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    @property
    def pid(self) -> int:
        """The server's process id, which is also its process group's."""
        if self._process is None:
            raise RuntimeError("the engine is not started")
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def headers(self) -> dict[str, str]:
        """What opens the plugin."""
        return {TOKEN_HEADER: self.token}

    def command(self) -> list[str]:
        """Return the command line that starts the server."""
        command = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(build_model()), "--served-model-name", MODEL_NAME]
        command += ["--load-format", "dummy", "--enforce-eager", "--max-model-len", "2048"]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        if self._plugin:
            command += ["--middleware", MIDDLEWARE]
        return command + self._arguments

    def environment(self) -> dict[str, str]:
        """Return the environment that starts the server."""
        path = [str(install_plugin())] if self._plugin else []
        if self.version != MAIN:
            path.insert(0, str(target(self.version)))
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("TRIMTAB_", "VLLM_"))
        }
        kept.pop("PYTHONWARNINGS", None)
        return {
            **kept,
            "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYTHONPATH": os.pathsep.join(path),
            "HF_HUB_OFFLINE": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "TRIMTAB_TOKEN_FILE": str(self.token_file),
            **self._more_environment,
        }

    def start(self) -> None:
        """Start the server and wait until it is ready; raises `RuntimeError` with the log's end if it is not."""
        command, environment = self.command(), self.environment()
        self._log = self.log_file.open("ab")
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=self.folder,
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        with httpx2.Client(base_url=self.url, timeout=2.0, trust_env=False) as client:
            while time.monotonic() < deadline:
                if not self.alive:
                    raise RuntimeError(f"the engine ended while it started:\n{self.log_tail()}")
                try:
                    if client.get("/health").status_code == 200:
                        return
                except httpx2.TransportError:
                    pass  # it does not listen yet
                time.sleep(0.3)
        raise RuntimeError(f"the engine was not ready within {START_SECONDS:g} s:\n{self.log_tail()}")

    def log_tail(self, lines: int = 40) -> str:
        """Return the end of the log."""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    def kill(self) -> None:
        """SIGKILL the whole group at once, as a machine would."""
        self._signal_group(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(STOP_SECONDS)

    def stop(self) -> None:
        """End the server: SIGTERM, and after a while SIGKILL to its own process group."""
        if self._process is not None:
            if self.alive:
                self._process.terminate()
                # If it takes longer, the group's SIGKILL below ends it.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(STOP_SECONDS)
            self._signal_group(signal.SIGKILL)
            self._process.wait(STOP_SECONDS)
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def _signal_group(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        # The group is the one this object made: start_new_session gave it the server's own pid. No such
        # process means that all of it has ended.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._scratch is not None:
            self._scratch.cleanup()


@dataclass
class TrafficReport:
    """What became of the requests; times are seconds."""

    sent: int = 0
    succeeded: int = 0
    failures: list[str] = field(default_factory=list)
    output_tokens: int = 0
    ttft: list[float] = field(default_factory=list)
    e2e: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)


class Traffic:
    """An open-loop load: Poisson arrivals at `rate` per second, the mix of `PROMPTS` and `OUTPUTS`, all by `seed`.

    Every request sent is either succeeded or a failure with its reason: another status than 200, a broken
    stream, fewer tokens than asked for, or no end within `patience` seconds.
    """

    def __init__(
        self,
        engine: RealEngine,
        rate: float,
        *,
        seed: int = 1,
        stream: bool = True,
        patience: float = 60.0,
        prompts: Sequence[tuple[int, float]] = PROMPTS,
        outputs: tuple[int, int] = OUTPUTS,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._url = f"{engine.url}/v1/completions"
        self._rate = rate
        self._random = random.Random(seed)
        self._stream = stream
        self._patience = patience
        self._prompts = tuple(prompts)
        self._outputs = outputs
        self._headers = dict(headers or {})
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[TrafficReport] | None = None

    async def run(self, seconds: float) -> TrafficReport:
        """Send for `seconds`, wait for the answers, and report."""
        report = TrafficReport()
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        loop = asyncio.get_running_loop()
        pending: set[asyncio.Task[None]] = set()
        async with httpx2.AsyncClient(
            timeout=self._patience, limits=limits, trust_env=False, headers=self._headers
        ) as client:
            begin = loop.time()
            due = begin
            while True:
                due += self._random.expovariate(self._rate)
                if due > begin + seconds:
                    break
                body = self._body()
                try:
                    await asyncio.wait_for(self._stopping.wait(), max(0.0, due - loop.time()))
                    break
                except TimeoutError:
                    pass  # not asked to stop: time for the next request
                task = asyncio.create_task(self._one(client, body, report))
                pending.add(task)
                task.add_done_callback(pending.discard)
            if pending:
                await asyncio.wait(pending)
        return report

    async def __aenter__(self) -> Self:
        """Run in the background, at most ten minutes, until the block ends."""
        self._task = asyncio.create_task(self.run(600.0))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        if self._task is not None:
            await self._task

    @property
    def report(self) -> TrafficReport:
        """What became of a background run that has ended."""
        if self._task is None:
            raise RuntimeError("the traffic was not run in the background")
        return self._task.result()

    def _body(self) -> dict[str, object]:
        lengths = [length for length, _ in self._prompts]
        length = self._random.choices(lengths, [share for _, share in self._prompts])[0]
        return {
            "model": MODEL_NAME,
            "prompt": [self._random.randrange(SPECIAL_TOKENS, VOCABULARY) for _ in range(length)],
            "max_tokens": self._random.randint(*self._outputs),
            "ignore_eos": True,
            "temperature": 0,
            "stream": self._stream,
            **({"stream_options": {"include_usage": True}} if self._stream else {}),
        }

    async def _one(self, client: httpx2.AsyncClient, body: dict[str, object], report: TrafficReport) -> None:
        report.sent += 1
        try:
            async with asyncio.timeout(self._patience):
                tokens = await (self._streamed if self._stream else self._whole)(client, body, report)
        except (httpx2.HTTPError, TimeoutError, ValueError, KeyError) as error:
            report.failures.append(f"{type(error).__name__}: {error}"[:300])
            return
        if tokens != body["max_tokens"]:
            report.failures.append(f"{tokens} tokens instead of {body['max_tokens']}")
            return
        report.succeeded += 1
        report.output_tokens += tokens

    async def _whole(self, client: httpx2.AsyncClient, body: dict[str, object], report: TrafficReport) -> int:
        begin = time.monotonic()
        response = await client.post(self._url, json=body)
        if response.status_code != 200:
            raise ValueError(f"HTTP {response.status_code}: {response.text[:200]}")
        report.e2e.append(time.monotonic() - begin)
        return int(response.json()["usage"]["completion_tokens"])

    async def _streamed(
        self, client: httpx2.AsyncClient, body: dict[str, object], report: TrafficReport
    ) -> int:
        begin = last = time.monotonic()
        first: float | None = None
        gaps: list[float] = []
        usage = 0
        async with client.stream("POST", self._url, json=body) as response:
            if response.status_code != 200:
                raise ValueError(f"HTTP {response.status_code}: {(await response.aread())[:200]!r}")
            async for line in response.aiter_lines():
                if not line.startswith("data: "):
                    continue
                data = line[6:]
                if data == "[DONE]":
                    report.e2e.append(time.monotonic() - begin)
                    report.gaps += gaps
                    if first is not None:
                        report.ttft.append(first)
                    return usage
                event = json.loads(data)
                if "error" in event:
                    raise ValueError(f"the stream reports {event['error']}")
                if event.get("usage"):
                    usage = int(event["usage"]["completion_tokens"])
                if event["choices"]:
                    now = time.monotonic()
                    if first is None:
                        first = now - begin
                    else:
                        gaps.append(now - last)
                    last = now
        raise ValueError("the stream ended without [DONE]")


async def warm_up(engine: RealEngine, seconds: float = 10.0) -> None:
    """Put light traffic on a fresh server, whose first requests can take 15 s; raises if one fails."""
    report = await Traffic(engine, 4.0, seed=0, stream=False).run(seconds)
    if report.failures:
        raise RuntimeError(f"the warm-up failed: {report.failures[0]}\n{engine.log_tail()}")
