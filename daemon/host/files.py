"""Writes files of /proc and /sys below a root, and says what went wrong in terms of what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from change.host import HostError
from collectors.host.files import SystemFiles

_MEND = {
    errno.EACCES: "run Trimtab as root, or write it by hand",
    errno.EPERM: "run Trimtab as root, or write it by hand",
    errno.EROFS: "it is mounted read-only, as in a container: run Trimtab on the host (deployment: node)",
    errno.EIO: "the kernel manages it itself",
    errno.EINVAL: "this kernel does not take that value",
    errno.ENOENT: "this kernel does not have it",
    errno.EBUSY: "it is in use",
}


class HostFiles(SystemFiles):
    """The files below `root`, for reading and for writing settings."""

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__(root)
        self.root = root

    def write(self, path: str, value: str) -> None:
        """Write a setting that exists already; raises `HostError` with the path, the reason and the mend."""
        try:
            # Never O_CREAT: a setting this kernel does not have must not become a file of a laid tree either.
            handle = os.open(self.root / path.lstrip("/"), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
            try:
                os.write(handle, f"{value}\n".encode())
            finally:
                os.close(handle)
        except OSError as failure:
            raise FileRefused(path, value, failure) from failure


class FileRefused(HostError):
    """A setting that could not be written; `errno` is the kernel's reason."""

    def __init__(self, path: str, value: str, failure: OSError) -> None:
        code = failure.errno or 0
        mend = _MEND.get(code, "see the kernel's log")
        super().__init__(f"{path}: {value!r} could not be written: {failure.strerror} ({mend})")
        self.errno = code
