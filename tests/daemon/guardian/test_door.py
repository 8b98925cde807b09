"""The guardian's socket: bounded, never waiting, and no request ends it."""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.guardian.door import CONNECTIONS, IDLE_SECONDS, Door, DoorError
from daemon.guardian.wire import (
    REQUEST_BYTES,
    Answer,
    Command,
    Keep,
    Log,
    Look,
    Peer,
    Request,
    Start,
    Stop,
    read_answer,
    read_request,
    written,
)
from daemon.process_mark import process_mark


class House:
    """A door with its selector and a clock of its own."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.now = 0.0
        self.asked: list[tuple[Request, Peer]] = []
        self.selector = selectors.DefaultSelector()
        self.door = Door(run_dir, self.selector, self._serve, lambda: self.now)

    def _serve(self, request: Request, peer: Peer) -> Answer:
        self.asked.append((request, peer))
        if isinstance(request, Stop):
            raise RuntimeError("a fault")
        return Answer(gone=True)

    def turn(self, times: int = 5) -> None:
        for _ in range(times):
            for key, _ in self.selector.select(0.01):
                key.data()

    def visit(self) -> socket.socket:
        visitor = socket.socket(socket.AF_UNIX)
        visitor.settimeout(5)
        visitor.connect(str(self.run_dir / "serve.sock"))
        self.turn(1)
        return visitor

    def say(self, line: bytes) -> bytes:
        with self.visit() as visitor:
            visitor.setblocking(False)
            sent, got = 0, b""
            for _ in range(2000):
                try:
                    if sent < len(line):
                        sent += visitor.send(line[sent:])
                    else:
                        data = visitor.recv(65536)
                        if not data:
                            break
                        got += data
                except BlockingIOError:
                    pass
                except OSError:
                    break
                self.turn(1)
            return got


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.door.close()
    made.selector.close()


def test_a_request_is_answered_and_the_asker_known(house: House) -> None:
    assert read_answer(house.say(written(Look()))).gone
    [(request, peer)] = house.asked
    assert request == Look()
    assert peer.pid == os.getpid()
    assert peer.mark == process_mark(os.getpid())


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"[1]\n", b'{"order": "kill"}\n', b"\xff\xfe\n"])
def test_what_is_no_request_is_said_and_not_served(house: House, line: bytes) -> None:
    answer = read_answer(house.say(line))
    assert answer.error is not None
    assert "not understood" in answer.error
    assert house.asked == []


def test_a_fault_in_the_guardian_is_told_and_ends_nothing(house: House) -> None:
    answer = read_answer(house.say(written(Stop(grace_seconds=1))))
    assert answer.error == "the guardian failed: RuntimeError: a fault"
    assert read_answer(house.say(written(Look()))).gone


def test_a_request_without_an_end_is_cut_off(house: House) -> None:
    assert house.say(b"x" * (REQUEST_BYTES + 100_000)) == b""
    assert house.asked == []


def test_who_says_nothing_is_shown_out(house: House) -> None:
    visitor = house.visit()
    house.now = IDLE_SECONDS + 1
    house.door.sweep()
    assert visitor.recv(1) == b""
    visitor.close()


def test_more_visitors_than_there_is_room_for_are_turned_away(house: House) -> None:
    visitors = [house.visit() for _ in range(CONNECTIONS + 1)]
    assert visitors[-1].recv(1) == b""
    for visitor in visitors:
        visitor.close()
    house.turn()
    assert read_answer(house.say(written(Look()))).gone


def test_a_socket_left_by_one_that_died_is_replaced(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "serve.sock"))
    left.close()
    made = House(tmp_path)
    assert read_answer(made.say(written(Look()))).gone
    with pytest.raises(DoorError, match="another `trimtab serve`"):
        House(tmp_path)
    made.door.close()
    made.selector.close()


def test_a_path_that_no_socket_can_have_is_said(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    with selectors.DefaultSelector() as selector, pytest.raises(DoorError, match=r"engine\.run_dir"):
        Door(folder, selector, lambda request, peer: Answer(), lambda: 0.0)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
COMMANDS = st.builds(
    lambda argv, environ: Command(argv=argv, environ=environ),
    st.lists(TEXT, min_size=1, max_size=5),
    st.dictionaries(TEXT, TEXT, max_size=3),
)
REQUESTS = st.one_of(
    st.just(Look()),
    st.builds(lambda seconds: Stop(grace_seconds=seconds), st.floats(0, 86400)),
    st.builds(lambda command: Start(command=command), COMMANDS),
    st.builds(lambda command: Keep(command=command), COMMANDS),
    st.builds(lambda position: Log(position=position), st.none() | TEXT),
)


@given(REQUESTS)
def test_every_request_is_one_line_and_read_back_as_it_was(request: Request) -> None:
    line = written(request)
    assert line.count(b"\n") == 1
    assert read_request(line) == request


@given(st.binary(max_size=200))
def test_no_bytes_break_the_parsers(line: bytes) -> None:
    for parse in (read_request, read_answer):
        try:
            parse(line)
        except ValueError:
            continue
