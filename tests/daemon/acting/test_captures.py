"""Captures of a playbook: what is kept, without secrets and bounded, and what could not be had."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from change.lock import LockHeld
from change.profiler import Capture, ProfilerError
from collectors.logs.find import Pattern
from collectors.sample import CollectorError
from daemon.acting.captures import Captures
from daemon.acting.evidence import FOLDER, KEPT_FOLDERS, MOST_FILE_BYTES
from daemon.doctor.bundle import Redactor
from rules.actions import CaptureKind, Outcome

NOW = 1_900_000_000.0


class Here:
    def __init__(self, folder: Path, **more: Any) -> None:
        self.folder = folder / "captures"
        self.seconds: list[float] = []
        self.failure: Exception | None = None
        self.ends = asyncio.Event()
        self.ends.set()
        self.npu_smi: str | Exception = "a table of cards"
        self.captures = Captures(
            self.folder,
            Redactor(["s3cr3t-t0ken"]),
            profile=self.profile,
            patterns=lambda: [Pattern("engine", str(folder / "*.log"))],
            kmsg=more.get("kmsg"),
            engine_pid=more.get("engine_pid", os.getpid),
            npus=self.npus,
        )

    async def profile(self, seconds: float) -> Capture:
        self.seconds.append(seconds)
        await self.ends.wait()
        if self.failure is not None:
            raise self.failure
        return Capture("msprof-system", (self.folder / "p",), seconds, 4096)

    async def npus(self) -> str:
        if isinstance(self.npu_smi, Exception):
            raise self.npu_smi
        return self.npu_smi

    def take(self, kind: CaptureKind, seconds: float = 10.0, now: float = NOW) -> Outcome:
        return asyncio.run(self.captures.take(kind, seconds, now))


def summary(done: Outcome) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((Path(done.figures["folder"]) / "summary.json").read_text())
    return values


def test_the_ends_of_logs_are_kept_with_their_signatures_and_without_secrets(tmp_path: Path) -> None:
    here = Here(tmp_path)
    log = tmp_path / "vllm.log"
    line = "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB"
    log.write_text("x" * 400_000 + f"\nkey s3cr3t-t0ken was used\n{line}\n")
    os.utime(log, (NOW - 5, NOW - 5))
    done = here.take("plog")
    assert done.ok, done.text
    folder = Path(done.figures["folder"])
    assert folder.parent == here.folder / FOLDER
    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    (text,) = [path.read_text() for path in folder.glob("*.txt")]
    assert line in text
    assert "s3cr3t-t0ken" not in text
    assert len(text) < MOST_FILE_BYTES
    assert summary(done)["signatures"] == done.figures["signatures"] == {"npu_out_of_memory": 1}


def test_without_any_log_there_is_nothing_and_it_is_said(tmp_path: Path) -> None:
    done = Here(tmp_path).take("plog")
    assert not done.ok
    assert "no log file" in done.text


def test_the_memory_of_the_engines_processes_is_read(tmp_path: Path) -> None:
    here = Here(tmp_path)
    done = here.take("memory")
    assert done.ok, done.text
    assert done.figures["resident_bytes"] > 1e6
    assert os.getpid() in [row["pid"] for row in done.figures["processes"]]
    assert (Path(done.figures["folder"]) / "npu-smi.txt").read_text() == "a table of cards"


def test_what_npu_smi_does_not_say_is_a_note(tmp_path: Path) -> None:
    here = Here(tmp_path)
    here.npu_smi = CollectorError("npu-smi: cannot be run")
    done = here.take("memory")
    assert done.ok
    assert "npu-smi: cannot be run" in done.figures["notes"]


def test_an_engine_that_is_not_seen_has_no_memory_of_zero(tmp_path: Path) -> None:
    here = Here(tmp_path, engine_pid=lambda: None)
    done = here.take("memory")
    assert done.figures["resident_bytes"] is None
    assert any("cannot be seen" in note for note in done.figures["notes"])


def test_the_kernels_log_is_read_to_its_end(tmp_path: Path) -> None:
    kmsg = tmp_path / "kmsg"
    kmsg.write_bytes(b"6,1,100000,-;ascend: card 3 is over temperature\n")
    # A file is no device: it gives one record and then its end.
    done = Here(tmp_path, kmsg=kmsg).take("dmesg")
    assert done.ok, done.text
    assert "over temperature" in (Path(done.figures["folder"]) / "dmesg.txt").read_text()


@pytest.mark.parametrize("kmsg", [None, Path("/nowhere/kmsg")])
def test_a_kernel_log_that_may_not_be_read_is_said(tmp_path: Path, kmsg: Path | None) -> None:
    done = Here(tmp_path, kmsg=kmsg).take("dmesg")
    assert not done.ok
    assert "kernel" in done.text or "cannot be read" in done.text


def test_a_profile_is_taken_within_its_bounds(tmp_path: Path) -> None:
    here = Here(tmp_path)
    done = here.take("msprof", 1e9)
    assert done.ok
    assert here.seconds == [300.0]
    assert done.figures["folder"] == str(here.folder / "p")


def test_evidence_does_not_wait_for_a_profile(tmp_path: Path) -> None:
    here = Here(tmp_path)
    here.ends = asyncio.Event()

    async def story() -> Outcome:
        profile = asyncio.create_task(here.captures.take("msprof", 10.0, NOW))
        await asyncio.sleep(0)
        assert here.seconds == [10.0]
        async with asyncio.timeout(10):
            done = await here.captures.take("memory", 10.0, NOW)
        assert not profile.done()
        here.ends.set()
        await profile
        return done

    assert asyncio.run(story()).ok


@pytest.mark.parametrize(
    "failure", [ProfilerError("nothing can record here"), LockHeld("an order of operator")]
)
def test_a_profile_that_cannot_be_taken_is_told(tmp_path: Path, failure: Exception) -> None:
    here = Here(tmp_path)
    here.failure = failure
    done = here.take("msprof")
    assert not done.ok
    assert str(failure) in done.text


def test_old_evidence_makes_room_and_profiles_of_people_stay(tmp_path: Path) -> None:
    here = Here(tmp_path)
    own = here.folder / "20300101T000000.000-msprof-system"
    own.mkdir(parents=True)
    for number in range(KEPT_FOLDERS + 3):
        here.take("memory", now=NOW + number)
    assert len(list((here.folder / FOLDER).iterdir())) == KEPT_FOLDERS
    assert own.exists()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    here = Here(tmp_path)
    here.folder.mkdir()
    (here.folder / FOLDER).write_text("a file")
    done = here.take("memory")
    assert not done.ok
    assert "could not be taken" in done.text
