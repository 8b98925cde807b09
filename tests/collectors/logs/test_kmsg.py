"""The kernel's log is followed record by record, over a restart and a boot."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.logs.kmsg import KernelLog


class Device:
    """What reading /dev/kmsg gives: records one by one, then that it would have to wait."""

    def __init__(self, *records: bytes | OSError) -> None:
        self.waiting: list[bytes | OSError] = list(records)

    def __call__(self, descriptor: int, size: int) -> bytes:
        if not self.waiting:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        first = self.waiting.pop(0)
        if isinstance(first, OSError):
            raise first
        return first


def followed(kmsg: Path, device: Device) -> KernelLog:
    """A kernel log that has passed over what was there at first."""
    coming, device.waiting = device.waiting, []
    log = kernel_log(kmsg, device)
    assert log.read().lines == []
    device.waiting = coming
    return log


def record(seq: int, text: str = "text") -> bytes:
    return f"5,{seq},{seq * 1_000_000},-;{text} {seq}\n SUBSYSTEM=pci\n".encode()


@pytest.fixture
def kmsg(tmp_path: Path) -> Path:
    (tmp_path / "kmsg").touch()
    (tmp_path / "boot_id").write_text("boot-1\n")
    return tmp_path / "kmsg"


def kernel_log(
    kmsg: Path,
    read: Callable[[int, int], bytes] = os.read,
    *,
    boot_id: str | None = None,
    seq: int | None = None,
) -> KernelLog:
    return KernelLog(kmsg, boot_id=boot_id, seq=seq, boot_id_path=kmsg.parent / "boot_id", read=read)


def test_records_become_lines_of_dmesg(kmsg: Path) -> None:
    log = followed(kmsg, Device(record(7), record(8, "[ascend] [ERROR] x")))
    reading = log.read()
    assert reading.lines == ["[    7.000000] text 7", "[    8.000000] [ascend] [ERROR] x 8"]
    assert (log.boot_id, log.seq, reading.notes, reading.remarks) == ("boot-1", 8, [], [])
    log.close()


def test_the_first_time_what_is_there_is_not_news(kmsg: Path) -> None:
    kmsg.write_bytes(b"6,1,1,-;old\n")
    log = kernel_log(kmsg)
    assert log.read().lines == []
    with kmsg.open("ab") as file:
        file.write(b"6,2,1,-;new\n")
    assert log.read().lines == ["[    0.000001] new"]
    log.close()


def test_a_restart_before_the_first_new_record_misses_none(kmsg: Path) -> None:
    log = kernel_log(kmsg, Device(record(7)))
    assert log.read().lines == []
    again = kernel_log(kmsg, Device(record(7), record(8)), boot_id=log.boot_id, seq=log.seq)
    assert again.read().lines == ["[    8.000000] text 8"]
    empty = kernel_log(kmsg, Device())
    empty.read()
    again = kernel_log(kmsg, Device(record(0)), boot_id=empty.boot_id, seq=empty.seq)
    assert again.read().lines == ["[    0.000000] text 0"]


def test_after_a_restart_only_later_records_count(kmsg: Path) -> None:
    log = kernel_log(kmsg, Device(record(6), record(7), record(8)), boot_id="boot-1", seq=7)
    assert log.read().lines == ["[    8.000000] text 8"]
    log.close()


def test_after_a_boot_all_records_count(kmsg: Path) -> None:
    log = kernel_log(kmsg, Device(record(1), record(2)), boot_id="boot-0", seq=7)
    assert len(log.read().lines) == 2
    assert (log.boot_id, log.seq) == ("boot-1", 2)
    log.close()


def test_where_the_boot_has_no_name_old_records_are_no_news(kmsg: Path) -> None:
    (kmsg.parent / "boot_id").unlink()
    device = Device(record(1))
    log = kernel_log(kmsg, device, boot_id="boot-1", seq=7)
    assert log.read().lines == []
    device.waiting = [record(2)]
    assert log.read().lines == ["[    2.000000] text 2"]
    log.close()


def test_overwritten_records_are_said(kmsg: Path) -> None:
    device = Device(record(1), OSError(errno.EPIPE, "Broken pipe"), InterruptedError(), record(9))
    log = followed(kmsg, device)
    reading = log.read()
    assert len(reading.lines) == 2
    assert reading.remarks == [f"{kmsg}: records were overwritten before they were read"]
    log.close()


def test_garbage_is_said(kmsg: Path) -> None:
    log = followed(kmsg, Device(b"\xff\xfe", b"6,1,2,-;caf\xff"))
    reading = log.read()
    assert reading.lines == ["[    0.000002] caf\\xff"]
    assert len(reading.remarks) == 1
    log.close()


@pytest.mark.parametrize(
    ("failure", "mend"),
    [
        (errno.EPERM, "CAP_SYSLOG"),
        (errno.EACCES, "CAP_SYSLOG"),
        (errno.ENOENT, "map the device"),
        (errno.EIO, "journal"),
    ],
)
def test_a_device_that_cannot_be_opened_is_a_note(
    kmsg: Path, monkeypatch: pytest.MonkeyPatch, failure: int, mend: str
) -> None:
    def refuse(path: Path, flags: int) -> int:
        raise OSError(failure, os.strerror(failure))

    monkeypatch.setattr(os, "open", refuse)
    reading = kernel_log(kmsg).read()
    assert len(reading.notes) == 1
    assert mend in reading.notes[0]
    assert os.strerror(failure) in reading.notes[0]


def test_a_device_that_fails_is_opened_anew(kmsg: Path) -> None:
    device = Device(record(1), OSError(errno.EIO, "Input/output error"))
    log = followed(kmsg, device)
    reading = log.read()
    assert reading.lines == ["[    1.000000] text 1"]
    assert reading.notes == [f"{kmsg}: cannot be read: Input/output error"]
    device.waiting = [record(1), record(2)]
    assert log.read().lines == ["[    2.000000] text 2"]
    log.close()
