"""A real vLLM server with the plugin, on a free loopback port."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import httpx2
import psutil

from daemon.engine.hot import HotEngine
from tests.real.setup_vllm import CACHE, MAIN, PYTHON, SECOND, VENV, target
from tests.real.traffic import MODEL_NAME, Traffic, TrafficReport, warm_up

__all__ = ["RealEngine", "Traffic", "TrafficReport", "build_model", "free_port", "install_plugin", "warm_up"]

ROOT = Path(__file__).resolve().parent.parent.parent
PLUGIN_SOURCE = ROOT / "engine_plugin"
PLUGIN = CACHE / "plugin"
MODEL = CACHE / "model"
MIDDLEWARE = "trimtab_plugin.http.Middleware"
TOKEN_HEADER = "X-Trimtab-Token"

START_SECONDS = 240.0
STOP_SECONDS = 15.0
PATIENCE_SECONDS = 30.0
"""For one answer: where the load fills all cores, a server may answer nothing for longer than operators should wait."""


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


def precision() -> str:
    """Return the number format in which this CPU is fastest.

    Half precision is emulated, and five times slower, on a CPU without its instructions; with them it is twice as fast.
    """
    return "bfloat16" if "avx512_bf16" in Path("/proc/cpuinfo").read_text() else "float32"


def free_port() -> int:
    """Return a loopback port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cores(server: psutil.Process) -> list[psutil.Process]:
    """Return the processes below a server that step; raises `RuntimeError` if there are none."""
    found = [one for one in server.children(recursive=True) if "EngineCore" in _title(one)]
    if not found:
        raise RuntimeError(f"no EngineCore below process {server.pid}")
    return found


def _title(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.name()} {' '.join(process.cmdline())}"
    return ""


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
        command += ["--dtype", precision()]
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

    def hot(self) -> HotEngine:
        """Return a client of its plugin that outwaits a stalled machine."""
        return HotEngine(self.url, token=self.token, timeout=PATIENCE_SECONDS)

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
