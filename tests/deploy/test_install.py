"""The image's own steps, carried out in a clean folder: what they install is whole, and it starts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy.dockerfile import parse
from tests.prepare import ROOT

pytestmark = pytest.mark.install


@dataclass(frozen=True, slots=True)
class Image:
    """Where the steps put things."""

    root: Path

    @property
    def bin(self) -> Path:
        """Programs of Trimtab's environment."""
        return self.root / "opt" / "trimtab" / "bin"

    @property
    def plugin(self) -> Path:
        """The engine's plugin, ready to be copied."""
        return self.root / "opt" / "trimtab-plugin"

    @property
    def environment(self) -> dict[str, str]:
        """As in the image: its programs first, the state in its folder, nothing of the caller's Python."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TRIMTAB", "VIRTUAL_ENV"))}
        return kept | {"PATH": f"{self.bin}:{os.environ['PATH']}", "XDG_STATE_HOME": str(self.root / "state")}

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the image's environment, in its root."""
        return subprocess.run(
            command,
            cwd=self.root,
            env=self.environment | more,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Carry out the first stage of the Dockerfile below a temporary folder."""
    built = Image(tmp_path_factory.mktemp("image"))
    source = built.root / "src"
    source.mkdir()
    (built.root / "opt").mkdir()
    stage = [i for i in parse((ROOT / "deploy" / "Dockerfile").read_text()) if i.stage == 0]
    for instruction in stage:
        if instruction.word == "COPY":
            *names, target = instruction.rest.split()
            for name in names:
                _copy(ROOT / name, source / target)
        if instruction.word == "RUN" and instruction.argv is not None:
            argv = [part.replace("/opt/", f"{built.root}/opt/") for part in instruction.argv]
            argv[0] = sys.executable if argv[0] == "python" else argv[0]
            done = subprocess.run(
                argv, cwd=source, env=built.environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{' '.join(argv)}\n{done.stdout}\n{done.stderr}"
    return built


def _copy(source: Path, target: Path) -> None:
    """As COPY does: a folder's content into the target, a file into the folder."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    else:
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def test_the_program_says_its_version(image: Image) -> None:
    done = image.run("trimtab", "--version")
    assert done.returncode == 0, done.stderr
    assert "0.1.0" in done.stdout


@pytest.mark.parametrize("module", ["torch", "vllm", "trimtab_plugin", "pytest", "mypy"])
def test_what_the_daemon_does_without_is_not_there(image: Image, module: str) -> None:
    assert "ModuleNotFoundError" in image.run(str(image.bin / "python"), "-c", f"import {module}").stderr


def test_the_shipped_configuration_is_valid(image: Image, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("not-a-real-token\n")
    shipped = (ROOT / "deploy" / "trimtab.yaml").read_text()
    config = tmp_path / "config.yaml"
    config.write_text(shipped.replace("/run/secrets/trimtab_token", str(token)))
    done = image.run("trimtab", "config", "check", "-c", str(config))
    assert done.returncode == 0, done.stdout + done.stderr


GROUPS = ["vllm.general_plugins", "vllm.stat_logger_plugins"]
LOOK = f"""
import importlib.metadata as metadata, json, of_the_image, trimtab_plugin
values = {{group: [e.value for e in metadata.entry_points(group=group)] for group in {GROUPS}}}
print(json.dumps({{"at": trimtab_plugin.__file__, "values": values}}))
"""


def test_the_plugin_lands_where_the_engine_looks(image: Image, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    for _ in range(2):  # an upgrade copies over what is there
        done = image.run("install-plugin", str(volume), str(image.plugin))
        assert done.returncode == 0, done.stderr
    assert len(list(volume.glob("*.dist-info"))) == 1

    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "of_the_image.py").write_text("")
    seen = image.run(str(volume / "with-trimtab"), sys.executable, "-c", LOOK, PYTHONPATH=str(kept))
    assert seen.returncode == 0, seen.stderr
    answer = json.loads(seen.stdout)
    assert Path(answer["at"]).is_relative_to(volume)
    for group in GROUPS:
        assert [v.partition(".")[0] for v in answer["values"][group]] == ["trimtab_plugin"], group


def test_a_folder_of_something_else_is_not_emptied(image: Image, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    done = image.run("install-plugin", str(tmp_path), str(image.plugin))
    assert done.returncode == 1
    assert "something else" in done.stderr
    assert (tmp_path / "precious").read_text() == "mine"


def test_every_dependency_has_a_wheel_for_the_hosts_of_this_field(tmp_path: Path) -> None:
    # Kylin V10 has glibc 2.28, and nothing may have to be compiled beside an engine.
    wanted = ["--python-platform", "aarch64-manylinux_2_28", "--only-binary", ":all:"]
    lock = ["-r", str(ROOT / "requirements.lock")]
    command = ["-m", "uv", "pip", "install", "--dry-run", "--target", str(tmp_path), *wanted, *lock]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _get(url: str) -> str | None:
    """The page, or None while nobody listens yet."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError:
        raise
    except OSError:
        return None


def test_the_installed_daemon_serves_its_pages_and_ends_when_asked(image: Image, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "config.yaml"
    config.write_text(f"engine: {{url: 'http://127.0.0.1:9'}}\nweb: {{port: {port}}}\n")
    daemon = subprocess.Popen(
        [str(image.bin / "trimtab"), "run", "-c", str(config)],
        cwd=tmp_path,
        env=image.environment | {"XDG_STATE_HOME": str(tmp_path / "state")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.monotonic() + 30
        while _get(f"http://127.0.0.1:{port}/api/v1/health") is None and daemon.poll() is None:
            assert time.monotonic() < deadline, "the health page did not come up"
            time.sleep(0.1)
        assert daemon.poll() is None, daemon.communicate()[0]
        for path in ("/", "/trials", "/metrics"):
            assert _get(f"http://127.0.0.1:{port}{path}")
        daemon.send_signal(signal.SIGTERM)
        output, _ = daemon.communicate(timeout=20)
        assert daemon.returncode == 0, output
    finally:
        if daemon.poll() is None:
            daemon.kill()
            daemon.communicate()
