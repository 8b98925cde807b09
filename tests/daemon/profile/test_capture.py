"""A recording is bounded in time and disk, and ended in any case."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from change.profiler import ProfilerAbsent, ProfilerError
from daemon.profile.capture import Bounds, first_way, record
from daemon.profile.engine_endpoints import EngineProfiler
from daemon.profile.folders import forget_old, new_folder, size_of
from daemon.profile.msprof import DynamicMsprof, SystemMsprof
from tests.daemon.profile.profilers import Engine, script, simulated

SHORT = Bounds(seconds=0.2, finish_seconds=20, quota_bytes=1024**2, keep=2)
URL = "http://127.0.0.1:9"


def engine_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "engine"
    folder.mkdir()
    (folder / "from_before").write_bytes(b"x" * 5000)
    return folder


# Through the engine.


def test_the_engine_records_and_only_what_is_new_is_the_result(tmp_path: Path) -> None:
    engine = Engine(engine_folder(tmp_path))

    async def scene() -> None:
        async with engine.client() as client:
            taken = await record(EngineProfiler(client, URL, engine.results), tmp_path / "captures", SHORT)
        assert taken.folders == (engine.results / "rank0_ascend_pt",)
        assert taken.size_bytes == 1000
        assert taken.seconds >= 0.2
        assert engine.called == ["/start_profile", "/stop_profile"]
        assert list((tmp_path / "captures").iterdir()) == []

    asyncio.run(scene())


def test_an_engine_without_a_profiler_is_absent_with_the_flag_that_it_needs(tmp_path: Path) -> None:
    engine = Engine(engine_folder(tmp_path), status=404)

    async def scene() -> None:
        async with engine.client() as client:
            with pytest.raises(ProfilerAbsent, match="--profiler-config"):
                await record(EngineProfiler(client, URL, engine.results), tmp_path / "captures", SHORT)
        assert engine.called == ["/start_profile"]

    asyncio.run(scene())


def test_an_engine_whose_folder_is_not_known_is_not_even_asked(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    a_file = tmp_path / "file"
    a_file.write_text("of somebody")

    async def scene() -> None:
        async with engine.client() as client:
            for folder in (None, tmp_path / "nowhere" / "profiles", a_file):
                with pytest.raises(ProfilerAbsent, match=r"capture\.engine_folder"):
                    await record(EngineProfiler(client, URL, folder), tmp_path / "captures", SHORT)
        assert engine.called == []

    asyncio.run(scene())


def test_results_over_the_quota_end_the_recording_early_and_the_engines_are_named(tmp_path: Path) -> None:
    engine = Engine(engine_folder(tmp_path), size=2 * 1024**2, grows=True)

    async def scene() -> None:
        async with engine.client() as client:
            with pytest.raises(
                ProfilerError, match=r"over 1 .*left where it is: \S*growing, \S*rank0_ascend_pt$"
            ):
                await record(
                    EngineProfiler(client, URL, engine.results),
                    tmp_path / "captures",
                    Bounds(seconds=60, finish_seconds=20, quota_bytes=1024**2),
                )

    asyncio.run(asyncio.wait_for(scene(), 20))
    assert engine.called == ["/start_profile", "/stop_profile"]
    assert len(list(engine.results.iterdir())) == 3


def test_results_that_outgrow_the_quota_while_they_are_written_are_given_up(tmp_path: Path) -> None:
    engine = Engine(engine_folder(tmp_path), size=2 * 1024**2, never_stops=True)

    async def scene() -> None:
        async with engine.client() as client:
            with pytest.raises(ProfilerError, match=r"took 2 MiB, over 1 "):
                await record(EngineProfiler(client, URL, engine.results), tmp_path / "captures", SHORT)

    asyncio.run(asyncio.wait_for(scene(), 10))


def test_what_others_wrote_into_the_engines_folder_stays(tmp_path: Path) -> None:
    engine = Engine(engine_folder(tmp_path), status=500)

    async def scene() -> None:
        async with engine.client() as client:
            profiler = EngineProfiler(client, URL, engine.results)
            assert profiler.discard() == ()
            with pytest.raises(ProfilerError, match="answers start_profile with HTTP 500"):
                await profiler.start(tmp_path, 1.0)
            others = engine.results / "of_somebody_else"
            others.mkdir()
            assert profiler.discard() == (others,)
            assert others.is_dir()

    asyncio.run(scene())


def test_an_engine_that_is_slow_to_start_is_recorded_for_the_whole_time(tmp_path: Path) -> None:
    engine = Engine(engine_folder(tmp_path), start_seconds=0.3)

    async def scene() -> float:
        async with engine.client() as client:
            profiler = EngineProfiler(client, URL, engine.results)
            await record(profiler, tmp_path / "captures", SHORT)
        return engine.times["/stop_profile"] - engine.times["/start_profile"]

    assert asyncio.run(scene()) >= 0.3 + SHORT.seconds


def test_an_interrupted_recording_stops_the_engines_profiler(tmp_path: Path) -> None:
    engine = Engine(engine_folder(tmp_path))

    async def scene() -> None:
        async with engine.client() as client:
            profiler = EngineProfiler(client, URL, engine.results)
            running = asyncio.create_task(
                record(profiler, tmp_path / "captures", Bounds(seconds=60, quota_bytes=1024))
            )
            await engine.asked.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(scene())
    assert engine.called == ["/start_profile", "/stop_profile"]


def test_an_interrupted_recording_does_not_wait_for_an_engine_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.profile.capture.INTERRUPTED_SECONDS", 0.1)
    engine = Engine(engine_folder(tmp_path), never_stops=True)

    async def scene() -> None:
        async with engine.client() as client:
            profiler = EngineProfiler(client, URL, engine.results)
            running = asyncio.create_task(
                record(profiler, tmp_path / "captures", Bounds(quota_bytes=1024**2))
            )
            await engine.asked.wait()
            running.cancel()
            with pytest.raises(ProfilerError, match=r"within 0\.1 s"):
                await asyncio.wait_for(running, 30)

    asyncio.run(scene())
    assert engine.called == ["/start_profile", "/stop_profile"]


def test_a_disk_without_room_for_the_quota_is_not_begun_on(tmp_path: Path) -> None:
    engine = Engine(engine_folder(tmp_path))

    async def scene() -> None:
        async with engine.client() as client:
            with pytest.raises(ProfilerError, match="free some space"):
                await record(
                    EngineProfiler(client, URL, engine.results),
                    tmp_path / "captures",
                    Bounds(quota_bytes=2**60),
                )

    asyncio.run(scene())
    assert engine.called == []
    assert [path.name for path in engine.results.iterdir()] == ["from_before"]


def test_the_room_that_counts_is_where_the_engine_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(engine_folder(tmp_path))
    asked: list[Path] = []
    usage = shutil.disk_usage

    def looked(path: Path) -> object:
        asked.append(path)
        return usage(path)

    monkeypatch.setattr(shutil, "disk_usage", looked)

    async def scene() -> None:
        async with engine.client() as client:
            profiler = EngineProfiler(client, URL, engine.results / "not_made_yet")
            with pytest.raises(ProfilerError, match=r"not_made_yet has .* free"):
                await record(profiler, tmp_path / "captures", Bounds(quota_bytes=2**60))

    asyncio.run(scene())
    assert asked == [engine.results]


# Through msprof.


def prepared(tmp_path: Path, environment: bytes = b"A=1\0PROFILING_MODE=dynamic\0") -> Path:
    place = tmp_path / "root" / "proc" / "4117"
    place.mkdir(parents=True)
    (place / "environ").write_bytes(environment)
    return tmp_path / "root"


def test_msprof_attaches_to_a_prepared_process(tmp_path: Path) -> None:
    profiler = DynamicMsprof(simulated(tmp_path), [4117], prepared(tmp_path))
    taken = asyncio.run(record(profiler, tmp_path / "captures", SHORT))
    (folder,) = taken.folders
    assert [path.name for path in folder.rglob("*.csv")] == ["op_summary_1.csv"]
    assert taken.size_bytes == size_of(folder) > 1000


@pytest.mark.parametrize(
    ("environment", "pids", "words"),
    [
        (b"A=1\0", [4117], "PROFILING_MODE=dynamic"),
        (b"PROFILING_MODE=dynamic\0", [4118], "no process 4118"),
        (b"", [], "--pid"),
    ],
)
def test_a_process_that_was_not_prepared_is_left_alone(
    tmp_path: Path, environment: bytes, pids: list[int], words: str
) -> None:
    profiler = DynamicMsprof(script(tmp_path, f"touch {tmp_path}/ran"), pids, prepared(tmp_path, environment))
    with pytest.raises(ProfilerAbsent, match=words):
        asyncio.run(record(profiler, tmp_path / "captures", SHORT))
    assert not (tmp_path / "ran").exists()


def test_msprof_records_the_devices_of_the_node(tmp_path: Path) -> None:
    taken = asyncio.run(
        record(
            SystemMsprof(simulated(tmp_path), [0, 3]),
            tmp_path / "captures",
            Bounds(seconds=1, finish_seconds=30, quota_bytes=1024**2),
        )
    )
    (folder,) = taken.folders
    assert len(list(folder.rglob("op_summary_1.csv"))) == 2


def test_two_dies_of_a_card_are_not_recorded_at_once(tmp_path: Path) -> None:
    profiler = SystemMsprof(script(tmp_path, "sleep 5"), [4, 5], {4: "2", 5: "2", 6: "3"})
    with pytest.raises(ProfilerError, match="two dies of card 2"):
        asyncio.run(record(profiler, tmp_path / "captures", SHORT))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("echo '[ERROR] no permission to the device'; exit 3", "no permission to the device"),
        ("sleep 2; exit 4", "ended with 4"),
        ("sleep 2", "recorded nothing"),
    ],
)
def test_a_tool_that_fails_is_said_in_its_own_words_and_leaves_nothing(
    tmp_path: Path, body: str, words: str
) -> None:
    profiler = SystemMsprof(script(tmp_path, body), [0])
    with pytest.raises(ProfilerError, match=words):
        asyncio.run(record(profiler, tmp_path / "captures", SHORT))
    assert list((tmp_path / "captures").iterdir()) == []


def test_msprof_that_is_interrupted_while_it_starts_is_ended_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ran")
    profiler = SystemMsprof(script(tmp_path, f"echo > {tmp_path}/ran; exec sleep 600"), [0])

    async def scene() -> None:
        running = asyncio.create_task(record(profiler, tmp_path / "captures", Bounds(seconds=300)))
        await asyncio.to_thread((tmp_path / "ran").read_bytes)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 10)

    asyncio.run(scene())
    assert list((tmp_path / "captures").iterdir()) == []


def test_a_tool_that_is_not_there_is_absent(tmp_path: Path) -> None:
    with pytest.raises(ProfilerAbsent, match=r"capture\.msprof"):
        asyncio.run(record(SystemMsprof(str(tmp_path / "no"), [0]), tmp_path / "captures", SHORT))


def test_a_tool_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    body = f"trap '' TERM; sleep 600 & echo $! > {tmp_path}/child; wait; sleep 600"
    profiler = SystemMsprof(script(tmp_path, body), [0])
    with pytest.raises(ProfilerError, match=r"did not write its results down within 1\.5 s"):
        asyncio.run(
            record(
                profiler,
                tmp_path / "captures",
                Bounds(seconds=0.1, finish_seconds=1.5, quota_bytes=1024**2),
            )
        )
    child = int((tmp_path / "child").read_text())
    status = Path(f"/proc/{child}/status")
    assert not status.exists() or "State:\tZ" in status.read_text()


def test_the_first_way_there_is_records_and_if_there_is_none_every_reason_is_said(tmp_path: Path) -> None:
    absent = DynamicMsprof("msprof", [])
    there = SystemMsprof(simulated(tmp_path), [0])
    bounds = Bounds(seconds=1, finish_seconds=30, quota_bytes=1024**2)
    taken = asyncio.run(first_way((absent, there), tmp_path / "captures", bounds))
    assert taken.way == "msprof-system"
    with pytest.raises(ProfilerError, match=r"(?s)msprof-dynamic: .*msprof-system: "):
        asyncio.run(first_way((absent, SystemMsprof("msprof", [])), tmp_path / "captures", bounds))


# The folders.


def test_old_recordings_make_room_and_nothing_else_is_touched(tmp_path: Path) -> None:
    made = [new_folder(tmp_path, "engine", 1.7e9 + k) for k in range(4)]
    (tmp_path / "notes").mkdir()
    (made[0] / "deep").mkdir()
    assert forget_old(tmp_path, 2) == made[:2]
    assert sorted(path.name for path in tmp_path.iterdir()) == [made[2].name, made[3].name, "notes"]
    assert forget_old(tmp_path / "nowhere", 2) == []


def test_links_are_not_followed_when_sizes_are_summed(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "big").write_bytes(b"x" * 4000)
    near = tmp_path / "near"
    near.mkdir()
    (near / "own").write_bytes(b"x" * 10)
    (near / "link").symlink_to(tmp_path / "far")
    assert size_of(near) < 200
