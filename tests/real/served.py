"""A real vLLM server under `trimtab serve` that may restart it, its daemon, and the commands of a person."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import psutil
import yaml

from tests.real.engine import ROOT, START_SECONDS, RealEngine, build_model

SERVE = """
import sys
root, config = sys.argv[1:3]
sys.path.insert(0, root)
from pathlib import Path
from daemon import credentials
from daemon.commands.output import remark
from daemon.commands.serve import environment, guarded_folder
from daemon.config_file import load
from daemon.serve import serve
settings = load(Path(config))
token = credentials.plugin_token_file(settings)
credentials.make_token_file(token)
daemon = [sys.executable, "-c", sys.argv[3], root, "run", "-c", config]
sys.exit(serve(sys.argv[4:], daemon, environment(settings, token), remark, run_dir=guarded_folder(settings)))
"""
"""`trimtab serve`, with the daemon of this source tree in the place of the installed one."""
TRIMTAB = """
import sys
sys.path.insert(0, sys.argv.pop(1))
sys.argv[0] = "trimtab"
from daemon.cli import main
main()
"""
FAULTS = Path(__file__).with_name("faults")
COMMAND_SECONDS = 900.0
ARGUMENTS = ("--max-num-seqs", "32", "--max-num-batched-tokens", "2048", "--block-size", "32")
FAULT_MIDDLEWARE = ("--middleware", "trimtab_faults.Middleware")
WEIGHTS_BYTES = 6 * 1024**3
"""Size of the weights file, of which no byte is there: weights are made up, a memory plan counts it."""


class ServedVllm:
    """The pair from `__enter__` (the engine serves, the daemon answers) to `__exit__` (nothing of it is left).

    `restart` are settings of `engine.restart`; the faults of `trimtab_faults` can be ordered by `max_num_seqs`.
    """

    def __init__(
        self, folder: Path, *, restart: Mapping[str, Any] | None = None, arguments: Sequence[str] = ARGUMENTS
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.engine = RealEngine(folder=folder, arguments=arguments)
        self.url, self.token = self.engine.url, self.engine.token
        self.run_dir = folder / "run"
        self.config = folder / "trimtab.yaml"
        self.output = folder / "output"
        self.document: dict[str, Any] = {
            "engine": {
                "url": self.url,
                "run_dir": str(self.run_dir),
                "token_file": str(self.engine.token_file),
                "server": {"hand": "process", "grace_seconds": 30},
                "restart": {
                    "watch_seconds": 0,
                    "retry_after_seconds": 1,
                    "gate_lease_seconds": 30,
                    "load": {"begin_seconds": 900, "weights_seconds": 60},
                    **(restart or {}),
                },
            },
            "collect": {"npu_smi": {"enabled": False}},
            "web": {"port": 0},
            "store": {"url": f"sqlite:///{folder / 'trimtab.db'}"},
        }
        self._process: psutil.Popen | None = None
        self._owned: dict[int, psutil.Process] = {}

    # ------------------------------------------------------------------ life

    def __enter__(self) -> Self:
        self.configure({})
        environ = self.engine.environment()
        environ["PYTHONPATH"] += f"{os.pathsep}{FAULTS}"
        environ["XDG_STATE_HOME"] = str(self.folder / "state")
        words = [sys.executable, "-c", SERVE, str(ROOT), str(self.config), TRIMTAB, *self.command()]
        with self.output.open("wb") as file:
            self._process = psutil.Popen(
                words, env=environ, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=self.folder
            )
        try:
            self.wait_until_up()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        """End the pair; what does not go is killed, known by its number and start time."""
        assert self._process is not None
        self.remember()
        if self._process.is_running():
            self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(psutil.TimeoutExpired):
            self._process.wait(60)
        for process in [self._process, *self._owned.values()]:
            with contextlib.suppress(psutil.Error):
                process.kill()  # psutil looks at the start time before the signal
        self._process.wait(60)

    def command(self) -> list[str]:
        """The engine's command, on a model of its own whose weights have a size."""
        words = self.engine.command()
        model = self.folder / "model"
        if not model.exists():
            shutil.copytree(build_model(), model)
            with (model / "model.safetensors").open("wb") as file:
                file.truncate(WEIGHTS_BYTES)
        words[words.index("--model") + 1] = str(model)
        # Not in half precision: where the CPU has matrix instructions (AMX), the worker of a server that was started
        # anew was seen to die of SIGILL at its first request, after the first start had served for minutes.
        words[words.index("--dtype") + 1] = "float32"
        # Inside of the plugin's: what is added last is outermost, and the gate is before any fault.
        at = words.index("--middleware")
        return [*words[:at], *FAULT_MIDDLEWARE, *words[at:]]

    def configure(self, more: Mapping[str, Any]) -> None:
        """Write the operator's file with `more` sections over the usual ones."""
        self.config.write_text(yaml.safe_dump({**self.document, **more}))

    def restart_daemon(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the daemon; `serve` starts it again, and it reads the operator's file."""
        daemon = self.daemon()
        daemon.send_signal(number)
        daemon.wait(60)

    # ------------------------------------------------------------------ what is there

    def children(self) -> list[psutil.Process]:
        assert self._process is not None
        return [child for child in self._process.children() if child.status() != psutil.STATUS_ZOMBIE]

    def daemon(self) -> psutil.Process:
        """The daemon."""
        begun = time.monotonic()
        while time.monotonic() - begun < 60:
            for child in self.children():
                with contextlib.suppress(psutil.Error):
                    if TRIMTAB in child.cmdline():
                        return child
            time.sleep(0.1)
        raise AssertionError(f"there is no daemon: {self.tail()}")

    def engines(self) -> list[psutil.Process]:
        """Main processes of engines that `serve` has."""
        found = []
        for child in self.children():
            with contextlib.suppress(psutil.Error):  # it may end just now
                if "vllm.entrypoints.openai.api_server" in child.cmdline() and TRIMTAB not in child.cmdline():
                    found.append(child)
        return found

    def family(self) -> dict[int, float]:
        """Every process of the engines, number to start time."""
        found = {}
        for engine in self.engines():
            with contextlib.suppress(psutil.Error):
                for one in [engine, *engine.children(recursive=True)]:
                    found[one.pid] = one.create_time()
        return found

    def remember(self) -> None:
        """Note what runs below `serve`, so that it can be ended whatever becomes of its parents."""
        assert self._process is not None
        with contextlib.suppress(psutil.Error):
            for child in self._process.children(recursive=True):
                self._owned.setdefault(child.pid, child)

    def healthy(self) -> bool:
        """Whether the engine says that it is well."""
        try:
            return httpx2.get(f"{self.url}/health", trust_env=False, timeout=5.0).status_code == 200
        except httpx2.HTTPError:
            return False

    def answers(self) -> bool:
        """Whether a request without the token is let in and answered."""
        body = {"model": "tiny", "prompt": "1", "max_tokens": 1}
        try:
            url = f"{self.url}/v1/completions"
            return httpx2.post(url, json=body, trust_env=False, timeout=60.0).status_code == 200
        except httpx2.HTTPError:
            return False

    def gate(self) -> str | None:
        """`open`, `closed`, or None where no plugin answers."""
        try:
            answer = httpx2.get(
                f"{self.url}/trimtab/v1/state", headers=self.engine.headers, trust_env=False, timeout=10.0
            )
            return str(answer.json()["gate"]) if answer.status_code == 200 else None
        except (httpx2.HTTPError, ValueError, KeyError):
            return None

    def block_size(self) -> int:
        """The block size in force, by the engine's own metrics page."""
        page = httpx2.get(f"{self.url}/metrics", trust_env=False, timeout=30.0).text
        return int(page.partition(',block_size="')[2].partition('"')[0])

    def tail(self) -> str:
        """The end of what the pair wrote."""
        return self.output.read_text(errors="replace")[-4000:]

    # ------------------------------------------------------------------ orders

    def trimtab(self, *words: str) -> tuple[int, Any]:
        """Run a command with --json; its exit code, and its answer or what it complained of."""
        done = subprocess.run(
            self.words(*words),
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
            cwd=self.folder,
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def words(self, *words: str) -> list[str]:
        """The argument list of a command."""
        return [sys.executable, "-c", TRIMTAB, str(ROOT), *words, "-c", str(self.config), "--json"]

    def environment(self) -> dict[str, str]:
        """The environment of a command."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRIMTAB_")}
        return {**kept, "XDG_STATE_HOME": str(self.folder / "state")}

    def settings(self, **settings: Any) -> Path:
        """A file for `apply`."""
        path = self.folder / "settings.yaml"
        path.write_text(yaml.safe_dump(settings))
        return path

    def apply(self, **settings: Any) -> tuple[int, Any]:
        """`trimtab apply FILE --restart`."""
        self.remember()
        return self.trimtab("apply", str(self.settings(**settings)), "--restart")

    def newest(self) -> dict[str, Any]:
        """The newest entry of the journal."""
        _, told = self.trimtab("history", "-n", "1")
        return dict(told[0]) if isinstance(told, list) and told else {}

    def wait_until_up(self, seconds: float = 2 * START_SECONDS) -> None:
        """Wait until the engine serves and its daemon answers."""
        begun = time.monotonic()
        while time.monotonic() - begun < seconds:
            assert self._process is not None
            assert self._process.poll() is None, self.tail()
            if self.healthy() and self.gate() == "open" and self.watched():
                return
            time.sleep(0.5)
        raise AssertionError(f"not up after {seconds:g} s: {self.tail()}")

    def watched(self) -> bool:
        """Whether a daemon has said where it is, and lives."""
        for path in self.run_dir.glob("daemon-*.json"):
            with contextlib.suppress(ValueError, OSError, KeyError, psutil.Error):
                return psutil.Process(json.loads(path.read_text())["pid"]).is_running()
        return False
