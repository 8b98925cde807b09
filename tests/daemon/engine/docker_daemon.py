"""Debian's own Docker daemon, started for a test in a folder of its own: no network of its own, no iptables.

Its one image is a static busybox and a script that behaves like an engine's server.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.prepare import find_program

IMAGE = "engine:1"
START_SECONDS = 60.0

VLLM = """#!/bin/sh
words=" $* "
has() { case "$words" in *" $1 "*) true ;; *) false ;; esac; }
if has --ignore-term; then trap '' TERM; else trap 'echo Shutting down; exit 0' TERM; fi
echo "Initializing a V1 LLM engine $* marked $FAKE_ENGINE_MARK"
if has --workers; then sleep 1000 & sleep 1001 & fi
if has --fail; then echo "RuntimeError: it does not fit" >&2; exit 3; fi
if has --long; then i=0; while [ $i -lt 4000 ]; do echo -n "0123456789"; i=$((i + 1)); done; echo; fi
if has --hog; then head -c 300000000 /dev/zero | tail; exit 9; fi
echo "Starting vLLM server on http://127.0.0.1:8000"
n=0
while true; do
    sleep 0.05
    if [ -e /mark/say ]; then rm /mark/say; n=$((n + 1)); echo "said $n"; fi
done
"""
APPLETS = ("sh", "sleep", "rm", "head", "tail")


class DockerDaemon:
    """A daemon with its socket, log and data in `folder`; it is spoken to without the code under test."""

    def __init__(self, folder: Path, program: str) -> None:
        self.socket = folder / "socket"
        self._folder = folder
        self._command = [
            program,
            f"--host=unix://{self.socket}",
            f"--data-root={folder}/data",
            f"--exec-root={folder}/exec",
            f"--pidfile={folder}/pid",
            f"--config-file={folder}/config.json",
            "--iptables=false",
            "--ip6tables=false",
            "--ip-forward=false",
            "--ip-masq=false",
            "--bridge=none",
            "--storage-driver=vfs",
        ]
        (folder / "config.json").write_text("{}")
        self._process: subprocess.Popen[bytes] | None = None
        self._http = httpx2.Client(
            transport=httpx2.HTTPTransport(uds=str(self.socket)),
            base_url="http://docker",
            timeout=60,
            trust_env=False,
        )

    def start(self) -> str | None:
        """Start it and wait until it answers; the answer says why it does not, or is None."""
        log = self._folder / "log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = log.read_text(errors="replace").strip().splitlines()
                return said[-1] if said else "it says nothing"
            time.sleep(0.1)
        return None

    def stop(self) -> None:
        """End it as a host does that shuts down: its containers are stopped first."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def call(self, method: str, path: str, *, status: int | None = None, **how: Any) -> Any:
        """Call the API; the answer must have `status` if one is given, else be no error."""
        answer = self._http.request(method, path, **how)
        good = answer.is_success if status is None else answer.status_code == status
        assert good, f"{method} {path}: {answer.status_code} {answer.text[:300]}"
        return answer.json() if answer.content and "json" in answer.headers.get("content-type", "") else None

    def answers(self) -> bool:
        """Whether it is up."""
        # Tried bare first: the client leaves the sockets of refused connections to the garbage collector.
        with socket.socket(socket.AF_UNIX) as bare:
            try:
                bare.connect(str(self.socket))
            except OSError:
                return False
        return self._http.get("/_ping").is_success

    def containers(self, *, running: bool) -> list[dict[str, Any]]:
        """The containers there are, or those that run."""
        found = self.call("GET", "/containers/json", params={"all": "false" if running else "true"})
        assert isinstance(found, list)
        return found

    def inspect(self, name: str) -> dict[str, Any]:
        """Everything about a container."""
        found = self.call("GET", f"/containers/{name}/json")
        assert isinstance(found, dict)
        return found

    def run(self, name: str, body: dict[str, Any]) -> str:
        """Create a container and start it."""
        made = self.call("POST", "/containers/create", params={"name": name}, json=body)
        self.call("POST", f"/containers/{made['Id']}/start")
        return str(made["Id"])

    def overlapped(self, since: float, *, but: str) -> bool:
        """Whether two containers ran at one time since a Unix time, one of them left out, as the daemon saw it."""
        answer = self._http.get(
            "/events",
            params={
                "since": f"{since:.9f}",
                "until": f"{time.time():.9f}",
                "filters": '{"type":["container"],"event":["start","die"]}',
            },
        )
        running: set[str] = set()
        for event in map(json.loads, answer.text.splitlines()):
            if event["id"] == but:
                continue
            if event["Action"] == "die":
                running.discard(event["id"])
                continue
            running.add(event["id"])
            if len(running) > 1:
                return True
        return False

    def load(self) -> None:
        """Make the image."""
        busybox = find_program("busybox")
        assert busybox is not None
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as archive:
            for folder in ("bin", "mark", "tmp"):
                entry = tarfile.TarInfo(folder)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
            archive.add(Path(busybox).resolve(), "bin/busybox")
            for applet in APPLETS:
                entry = tarfile.TarInfo(f"bin/{applet}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                archive.addfile(entry)
            script = tarfile.TarInfo("vllm")
            script.size, script.mode = len(VLLM), 0o755
            archive.addfile(script, io.BytesIO(VLLM.encode()))
        self.call(
            "POST",
            "/images/create",
            params={"fromSrc": "-", "repo": "engine", "tag": "1"},
            content=tar.getvalue(),
            headers={"Content-Type": "application/x-tar"},
        )

    def clear(self) -> None:
        """Remove every container."""
        for container in self.containers(running=False):
            self.call("DELETE", f"/containers/{container['Id']}", params={"force": "true", "v": "true"})

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


@contextmanager
def docker_daemon() -> Iterator[DockerDaemon]:
    """Start a daemon, or skip the test with the reason."""
    dockerd = find_program("dockerd")
    assert dockerd is not None
    if os.geteuid() != 0:
        pytest.skip("a Docker daemon of one's own needs root")
    # The path of a Unix socket is short: pytest's own folders are too deep.
    folder = Path(tempfile.mkdtemp(prefix="trimtab-docker-"))
    daemon = DockerDaemon(folder, dockerd)
    try:
        why = daemon.start()
        if why is not None:
            pytest.skip(f"no Docker daemon can be started here: {why}")
        daemon.load()
        yield daemon
        daemon.clear()
    finally:
        daemon.close()
        daemon.stop()
        _unmount(folder)
        shutil.rmtree(folder, onerror=_writable)


def _unmount(folder: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in sorted((one for one in mounts if one.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", mount], check=True)


def _writable(function: Any, path: str, _: object) -> None:
    Path(path).chmod(stat.S_IRWXU)
    function(path)
