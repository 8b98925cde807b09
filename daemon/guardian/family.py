"""All that an engine began: its process group, and descendants that left it, each by number and start time."""

from __future__ import annotations

import os
import signal

import psutil

from change.server import ProcessMark
from daemon.process_mark import mark_of


class Family:
    """Remembers every process seen below `main`, so that one whose parent died is still known as ours.

    `main` must not be buried while this is asked: until then its number, which is its group's too, is nobody else's.
    """

    def __init__(self, main: int) -> None:
        self._main = main
        self._seen: dict[int, psutil.Process] = {}

    def look(self) -> None:
        """Add the processes that are there now."""
        for pid in psutil.pids():
            if pid not in self._seen and pid != self._main and _group(pid) == self._main:
                self._add(pid)
        for process in [_process(self._main), *self._seen.values()]:
            if process is not None:
                for child in _children(process):
                    self._seen.setdefault(child.pid, child)
        self._seen = {pid: process for pid, process in self._seen.items() if _lives(process)}

    def living(self) -> list[ProcessMark]:
        """Those that still run, without the main one."""
        marks = [mark_of(process) for process in self._seen.values() if _lives(process)]
        return [mark for mark in marks if mark is not None]

    def kill(self) -> None:
        """Kill those that still run, without the main one."""
        for process in self._seen.values():
            if _lives(process):
                try:
                    # psutil compares the start time before it sends.
                    process.send_signal(signal.SIGKILL)
                except psutil.Error:
                    continue

    def _add(self, pid: int) -> None:
        process = _process(pid)
        if process is not None:
            self._seen[pid] = process


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
