"""The ground of a restart on this machine's own processes, and cards as npu-smi's table names them."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from change.server import ProcessMark
from collectors.npu_smi.cells import Usage
from collectors.npu_smi.table import Chip, Process, Table
from collectors.sample import CollectorError
from daemon.engine.ground import HostGround, ReadTable
from daemon.process_mark import lives, process_mark

GIB = 1024.0**3
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"])
child.wait()
"""


def mark(pid: int) -> ProcessMark:
    found = process_mark(pid)
    assert found is not None
    return found


@contextmanager
def parent_and_child() -> Iterator[tuple[ProcessMark, ProcessMark]]:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (child,) = psutil.Process(process.pid).children()
        marks = mark(process.pid), mark(child.pid)
        try:
            yield marks
        finally:
            for one in marks:
                try:
                    found = psutil.Process(one.pid)
                    if lives(one):
                        found.kill()
                except psutil.Error:
                    pass


def ground(
    tmp_path: Path, read: ReadTable | None = None, own: bool | None = True, port: int = 1
) -> HostGround:
    return HostGround(f"http://127.0.0.1:{port}", tmp_path, read, lambda npu: own)


def table(*processes: Process) -> ReadTable:
    async def read() -> Table:
        chips = (
            Chip("0", "0", name="910B3", hbm=Usage(28 * GIB, 64 * GIB)),
            Chip("1", "0", name="910B3", hbm=Usage(None, 64 * GIB)),
        )
        return Table("B", None, None, chips, processes, ())

    return read


def test_the_family_is_the_process_with_its_descendants_and_only_living_ones(tmp_path: Path) -> None:
    below = ground(tmp_path)
    with parent_and_child() as (parent, child):
        assert set(asyncio.run(below.family([parent]))) == {parent, child}
        reused = replace(parent, started=parent.started - 100.0)
        assert asyncio.run(below.family([reused])) == ()
        assert asyncio.run(below.living([parent, child, reused])) == (parent, child)


def test_only_the_process_of_that_start_time_is_killed(tmp_path: Path) -> None:
    below = ground(tmp_path)
    with parent_and_child() as (parent, child):
        asyncio.run(below.reap([replace(child, started=child.started - 100.0)]))
        assert asyncio.run(below.living([child])) == (child,)
        asyncio.run(below.reap([child, child]))
        psutil.wait_procs([psutil.Process(parent.pid)], timeout=10)
        assert asyncio.run(below.living([parent, child])) == ()


def test_who_listens_at_the_engines_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        holder = asyncio.run(ground(tmp_path, port=port).port_holder())
        assert holder is not None
        assert holder.mark is not None
        assert holder.mark.pid == os.getpid()
    assert asyncio.run(ground(tmp_path, port=port).port_holder()) is None


def test_cards_and_their_holders(tmp_path: Path) -> None:
    me = psutil.Process()
    below = ground(tmp_path, table(Process("0", "0", str(me.pid), me.name()[:15], 27 * GIB)))
    (card,) = asyncio.run(below.cards())
    assert (card.name, card.total_bytes, card.free_bytes) == ("NPU 0 chip 0", 64 * GIB, 36 * GIB)
    (holder,) = asyncio.run(below.holders())
    assert (holder.mark, holder.card) == (mark(me.pid), "NPU 0 chip 0")


def test_a_number_of_another_namespace_is_nobodys(tmp_path: Path) -> None:
    below = ground(tmp_path, table(Process("0", "0", str(os.getpid()), "VLLM::EngineCor", GIB)))
    (holder,) = asyncio.run(below.holders())
    assert (holder.mark, holder.name) == (None, "VLLM::EngineCor")


def test_where_nobody_says_whose_a_card_is_it_is_the_engines_that_is_on_it(tmp_path: Path) -> None:
    me = psutil.Process()
    below = ground(tmp_path, table(Process("0", "0", str(me.pid), me.name()[:15], GIB)), own=None)
    assert asyncio.run(below.cards()) == []
    asyncio.run(below.family([mark(me.pid)]))
    assert [card.name for card in asyncio.run(below.cards())] == ["NPU 0 chip 0"]
    assert asyncio.run(ground(tmp_path, table(), own=False).cards()) == []


@pytest.mark.parametrize("read", [None, "fails"])
def test_unknown_cards_are_none_at_all(tmp_path: Path, read: str | None) -> None:
    async def fails() -> Table:
        raise CollectorError("npu-smi hangs")

    below = ground(tmp_path, fails if read else None)
    assert list(asyncio.run(below.cards())) == []
    assert list(asyncio.run(below.holders())) == []


def test_the_disk(tmp_path: Path) -> None:
    assert asyncio.run(ground(tmp_path).disk_free_bytes())
    assert asyncio.run(ground(tmp_path / "gone").disk_free_bytes()) is None


def test_one_that_shares_the_port_with_the_engine_is_named(tmp_path: Path) -> None:
    """The engine's own socket at 127.0.0.1 and another process's at every address, as SO_REUSEPORT allows."""
    other = (
        "import socket, sys\ns = socket.socket()\ns.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
        "s.bind((sys.argv[1], int(sys.argv[2])))\ns.listen()\nprint('listens', flush=True)\nsys.stdin.read()\n"
    )
    with socket.socket() as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        own.bind(("127.0.0.1", 0))
        own.listen()
        port = own.getsockname()[1]
        for address, found in (("0.0.0.0", True), ("127.0.0.2", False)):
            with subprocess.Popen(
                [sys.executable, "-c", other, address, str(port)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as child:
                assert child.stdout is not None
                child.stdout.readline()
                below = ground(tmp_path, port=port)
                asyncio.run(below.family([mark(os.getpid())]))
                below._family = frozenset(
                    {os.getpid()}
                )  # the child is this test's, and stands for a stranger
                holder = asyncio.run(below.port_holder())
                assert holder is not None
                assert holder.mark is not None
                assert holder.mark.pid == (child.pid if found else os.getpid())
                child.communicate()


def test_the_fuller_of_both_disks_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store"
    room = {tmp_path: 50, store: 7}

    def usage(folder: Path) -> SimpleNamespace:
        return SimpleNamespace(free=room[folder])

    monkeypatch.setattr("daemon.engine.ground.shutil.disk_usage", usage)
    both = HostGround("http://127.0.0.1:1", tmp_path, None, lambda npu: None, store)
    assert asyncio.run(both.disk_free_bytes()) == 7
    room[store] = 70
    assert asyncio.run(both.disk_free_bytes()) == 50
