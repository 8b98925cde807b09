"""The engine's output: a file of each run, copied whole, read from any position, kept short."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.guardian.output import EngineOutput


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    yield reader, writer
    for descriptor in (reader, writer):
        os.close(descriptor)


Made = Callable[..., EngineOutput]


@pytest.fixture
def made() -> Iterator[Made]:
    outputs: list[EngineOutput] = []

    def make(path: Path, copy_to: int | None, **sizes: int) -> EngineOutput:
        outputs.append(EngineOutput(path, copy_to, **sizes))
        return outputs[-1]

    yield make
    for output in outputs:
        output.close()


def taken(reader: int) -> bytes:
    found = b""
    while True:
        try:
            data = os.read(reader, 65536)
        except BlockingIOError:
            return found
        if not data:
            return found
        found += data


def test_what_is_written_is_copied_once(made: Made, tmp_path: Path, pipe: tuple[int, int]) -> None:
    output = made(tmp_path / "engine.log", pipe[1])
    file = output.begin()
    file.write(b"one\n")
    output.copy()
    file.write(b"two\n")
    output.copy()
    output.copy()
    assert taken(pipe[0]) == b"one\ntwo\n"


def test_a_reader_that_does_not_read_stops_nothing_and_loses_nothing(
    made: Made, tmp_path: Path, pipe: tuple[int, int]
) -> None:
    output = made(tmp_path / "engine.log", pipe[1])
    file = output.begin()
    whole = b"".join(b"line %d\n" % number for number in range(40_000))
    file.write(whole)
    got = b""
    output.copy()
    while len(got) < len(whole):
        part = taken(pipe[0])
        assert part
        got += part
        output.copy()
    assert got == whole


def test_a_full_file_is_emptied_once_it_is_copied_and_positions_go_on(
    made: Made, tmp_path: Path, pipe: tuple[int, int]
) -> None:
    output = made(tmp_path / "engine.log", pipe[1], full_bytes=100)
    file = output.begin()
    file.write(b"a" * 60 + b"\n")
    output.copy()
    first = output.read(None, ended=False)
    file.write(b"b" * 60 + b"\n")
    output.copy()
    assert (tmp_path / "engine.log").stat().st_size == 0
    file.write(b"after\n")
    output.copy()
    assert output.read(first.position, ended=False).lines == ("after",)
    assert output.read(None, ended=False).lines == ("after",)
    assert taken(pipe[0]) == b"a" * 60 + b"\n" + b"b" * 60 + b"\nafter\n"


def test_a_file_that_nobody_reads_is_emptied_at_twice_the_size(
    made: Made, tmp_path: Path, pipe: tuple[int, int]
) -> None:
    output = made(tmp_path / "engine.log", pipe[1], full_bytes=100_000)
    file = output.begin()
    for _ in range(50):
        file.write(b"c" * 9_999 + b"\n")
        output.copy()
        assert (tmp_path / "engine.log").stat().st_size <= 210_000


def test_a_closed_stdout_is_no_reason_to_stop(made: Made, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    output = made(tmp_path / "engine.log", writer)
    output.begin().write(b"one\n")
    output.copy()
    os.close(writer)
    output.copy()
    assert output.read(None, ended=False).lines == ("one",)


def test_half_a_line_waits_for_its_end_or_the_runs(made: Made, tmp_path: Path) -> None:
    output = made(tmp_path / "engine.log", None)
    file = output.begin()
    file.write(b"whole\nhal")
    part = output.read(None, ended=False)
    assert part.lines == ("whole",)
    assert output.read(part.position, ended=True).lines == ("hal",)
    file.write(b"f\n")
    assert output.read(part.position, ended=False).lines == ("half",)


def test_a_line_without_an_end_comes_in_pieces(made: Made, tmp_path: Path) -> None:
    output = made(tmp_path / "engine.log", None)
    output.begin().write(b"x" * 700_000)
    read, position = 0, None
    for _ in range(2):
        part = output.read(position, ended=False)
        read, position = read + len(part.lines[0]), part.position
    assert read == 2 * 256 * 1024
    assert len(output.read(position, ended=True).lines[0]) == 700_000 - read


def test_the_run_before_is_kept_and_its_positions_are_no_more(made: Made, tmp_path: Path) -> None:
    output = made(tmp_path / "engine.log", None)
    output.begin().write(b"first\n")
    old = output.read(None, ended=False).position
    output.begin().write(b"second\n")
    assert (tmp_path / "engine.log.1").read_bytes() == b"first\n"
    assert output.read(old, ended=False).lines == ("second",)


@given(st.text(max_size=40))
@settings(deadline=None)
def test_no_position_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, position: str) -> None:
    with closing(EngineOutput(tmp_path_factory.mktemp("output") / "engine.log", None)) as output:
        output.begin().write(b"one\n")
        assert output.read(position, ended=False).lines == ("one",)
        run = output.read(None, ended=False).position.partition(":")[0]
        assert "one" in "".join(output.read(f"{run}:x{position}", ended=False).lines)
        output.read(f"{run}:{position}", ended=False)
