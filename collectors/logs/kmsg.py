"""Reads the kernel's log from /dev/kmsg, record by record, without ever waiting for one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from collectors.logs.kernel import parse_kmsg
from collectors.logs.line import bounded

PASS_RECORDS = 5000
"""Records read in one pass; the kernel keeps the others for the next one."""
BUFFER_RECORDS = 1_000_000
"""Records passed over at the very first start; the kernel's buffer holds fewer."""
_RECORD_BYTES = 16 * 1024  # the kernel refuses buffers that are smaller than the record

_MENDS = {
    errno.EACCES: "run the daemon as root or with CAP_SYSLOG, or use the journal (collect.logs.journald)",
    errno.EPERM: "it needs CAP_SYSLOG where kernel.dmesg_restrict is 1; or use the journal (collect.logs.journald)",
    errno.ENOENT: "map the device into the container, or use the journal (collect.logs.journald)",
}


@dataclass(slots=True)
class KernelReading:
    """What one pass gave; `notes` and `remarks` as for files."""

    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


class KernelLog:
    """Follows /dev/kmsg.

    `boot_id` and `seq` are those of an earlier reader: records up to `seq` of the same boot are passed over. Without
    them what is in the buffer is passed over, since it is not news. `read` reads a descriptor (os.read).
    """

    def __init__(
        self,
        path: Path = Path("/dev/kmsg"),
        *,
        boot_id: str | None = None,
        seq: int | None = None,
        boot_id_path: Path = Path("/proc/sys/kernel/random/boot_id"),
        read: Callable[[int, int], bytes] = os.read,
    ) -> None:
        self._path = path
        self._boot_id_path = boot_id_path
        self._read_record = read
        self._descriptor: int | None = None
        self._passing_over = False
        self.boot_id: str | None = boot_id
        self.seq: int | None = seq

    def close(self) -> None:
        """Give the device back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def read(self) -> KernelReading:
        """Read the records that came since the last pass."""
        reading = KernelReading()
        try:
            descriptor = self._descriptor if self._descriptor is not None else self._open()
        except OSError as failure:
            mend = _MENDS.get(failure.errno or 0, "use the journal (collect.logs.journald)")
            reading.notes.append(f"{self._path}: cannot be read: {failure.strerror}; {mend}")
            return reading
        for _ in range(BUFFER_RECORDS if self._passing_over else PASS_RECORDS):
            try:
                record = self._read_record(descriptor, _RECORD_BYTES)
            except BlockingIOError:
                self._passing_over = False
                break
            except InterruptedError:
                continue
            except OSError as failure:
                if failure.errno == errno.EPIPE:  # the kernel goes on at the oldest record it still has
                    reading.remarks.append(f"{self._path}: records were overwritten before they were read")
                    continue
                reading.notes.append(f"{self._path}: cannot be read: {failure.strerror}")
                self.close()
                break
            if not record:
                self._passing_over = False
                break
            self._take(record, reading)
        return reading

    def _take(self, record: bytes, reading: KernelReading) -> None:
        parsed = parse_kmsg(record.decode(errors="backslashreplace"))
        if parsed is None:
            reading.remarks.append(f"{self._path}: a record could not be read: {record[:80]!r}")
            return
        if self.seq is not None and parsed.seq <= self.seq:
            return
        self.seq = parsed.seq
        if not self._passing_over:
            reading.lines.append(bounded(f"[{parsed.seconds:12.6f}] {parsed.text}"))

    def _open(self) -> int:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            boot_id = self._boot_id_path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            boot_id = None
        # Without a boot's name the numbers say nothing. Nothing was followed before, or nobody can tell: not news.
        self._passing_over = self.seq is None or boot_id is None
        if boot_id is None or boot_id != self.boot_id or self.seq is None:
            self.seq = -1  # numbers begin anew at a boot, and all of a new boot is news
        self.boot_id = boot_id
        self._descriptor = descriptor
        return descriptor
