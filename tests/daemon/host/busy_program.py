"""A program with named threads, private and shared memory: says its threads' numbers, lives until its input ends."""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
import threading
import time
from multiprocessing.shared_memory import SharedMemory

NAMES = ("acl_thread", "release_thread", "hccl_watchdog", "pt_autograd_0", "python3", "tokenizer")
_SET_NAME = 15
_LIBC = ctypes.CDLL(None)


def named(name: str, numbers: dict[str, int], started: threading.Barrier, over: threading.Event) -> None:
    """A thread that the kernel knows by a name."""
    _LIBC.prctl(_SET_NAME, name.encode(), 0, 0, 0)
    numbers[name] = threading.get_native_id()
    started.wait()
    over.wait()


def breeding(over: threading.Event) -> None:
    """A thread that has short-lived children all the time."""
    while not over.wait(0.01):
        child = threading.Thread(target=time.sleep, args=(0.02,))
        child.start()
        child.join()


def main() -> None:
    """Live."""
    memory = mmap.mmap(-1, 16 * 1024 * 1024, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for offset in range(0, len(memory), 4096):
        memory[offset] = 1
    shared = SharedMemory(create=True, size=1024 * 1024)
    if shared.buf is not None:
        shared.buf[:] = bytes(shared.size)
    numbers: dict[str, int] = {}
    over, started = threading.Event(), threading.Barrier(len(NAMES) + 1)
    threads = [threading.Thread(target=named, args=(name, numbers, started, over)) for name in NAMES]
    if "calm" not in sys.argv:
        threads.append(threading.Thread(target=breeding, args=(over,)))
    for thread in threads:
        thread.start()
    started.wait()
    sys.stdout.write(json.dumps(numbers) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join()
    shared.close()
    shared.unlink()


if __name__ == "__main__":
    main()
