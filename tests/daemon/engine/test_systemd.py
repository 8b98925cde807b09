"""The hand `systemd` keeps the contract, against programs in systemd's own shapes and real processes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from change.server import LaunchCommand, ServerBusy, ServerError
from daemon.engine.drop_in import DropIns
from daemon.engine.systemd import SystemdServer
from daemon.engine.unit_words import exec_start
from tests.change.server_contract import ServerContract, Stand
from tests.change.standing_engine import EngineHouse
from tests.daemon.engine.standing_systemd import StandingSystemd

UNIT = "vllm-a.service"


@asynccontextmanager
async def systemd_stand(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stand]:
    house = EngineHouse(folder / "house")
    systemd = StandingSystemd(folder / "root", UNIT, exec_start(house.good.argv))
    for name, value in systemd.environ(house.environ).items():
        monkeypatch.setenv(name, value)
    server = SystemdServer(UNIT, root=systemd.root)

    async def engines() -> int:
        return len(house.living("engine"))

    async def leftovers() -> int:
        return len(house.living("engine")) + len(house.living("worker"))

    async def next_start() -> LaunchCommand:
        # A reboot forgets /run.
        assert not DropIns(UNIT, systemd.root).try_file.exists()
        call("daemon-reload")
        loaded = json.loads((systemd.root / "loaded.json").read_text())
        return LaunchCommand(tuple(loaded["argv"]), loaded["environ"])

    async def say() -> None:
        house.say()

    try:
        call("daemon-reload")
        call("start", "--no-block", UNIT)
        yield Stand(
            server=lambda: SystemdServer(UNIT, root=systemd.root),
            good=house.good,
            other=house.command("--block-size", "256", mark='100% "sure" \\ of $HOME, {"a": 1}'),
            stubborn=house.command("--ignore-term", "--workers"),
            failing=house.command("--fail"),
            engines=engines,
            leftovers=leftovers,
            overlapped=lambda: house.overlapped,
            next_start=next_start,
            bystanders_live=lambda: house.decoy_lives,
            say=say,
        )
        assert all(UNIT in line for line in systemd.calls() if "systemctl" in line and "reload" not in line)
    finally:
        await server.stop(grace_seconds=1.0)
        house.close()


def call(*words: str) -> None:
    subprocess.run(["systemctl", *words], check=True, timeout=60)


class TestSystemdServer(ServerContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = tmp_path
        self.monkeypatch = monkeypatch

    def stand(self) -> AbstractAsyncContextManager[Stand]:
        return systemd_stand(self.folder, self.monkeypatch)

    def test_a_try_is_forgotten_by_a_reboot_and_not_started_again_by_itself(self) -> None:
        async def test(stand: Stand, server: object) -> None:
            hand = stand.server()
            await hand.stop(grace_seconds=20)
            await hand.start(stand.other)
            files = DropIns(UNIT, self.folder / "root")
            assert "Restart=no" in files.try_file.read_text()
            assert not files.kept_file.exists()
            await hand.keep(stand.other)
            assert not files.try_file.exists()
            assert "Restart" not in files.kept_file.read_text()

        self.run(test)

    def test_back_at_the_units_own_command_no_file_is_left(self) -> None:
        async def test(stand: Stand, server: object) -> None:
            hand = stand.server()
            first = await hand.command()
            await hand.stop(grace_seconds=20)
            await hand.start(stand.other)
            await hand.keep(stand.other)
            await hand.stop(grace_seconds=20)
            await hand.start(first)
            await hand.keep(first)
            files = DropIns(UNIT, self.folder / "root")
            assert not files.try_file.exists()
            assert not files.kept_file.exists()

        self.run(test)

    def test_what_cannot_be_written_is_said_before_anything_is_stopped(self) -> None:
        async def test(stand: Stand, server: object) -> None:
            hand = stand.server()
            folder = self.folder / "root/etc/systemd/system" / f"{UNIT}.d"
            assert await hand.objections() == []
            assert not folder.exists()
            folder.write_text("in the way")
            [text] = await hand.objections()
            assert str(folder) in text
            assert "must be root" in text

        self.run(test)

    def test_an_operators_later_edit_of_the_command_is_not_passed_over(self) -> None:
        async def test(stand: Stand, server: object) -> None:
            hand = stand.server()
            await hand.stop(grace_seconds=20)
            await hand.start(stand.other)
            await hand.keep(stand.other)
            unit = self.folder / "root/etc/systemd/system" / UNIT
            text = unit.read_text()
            unit.write_text(text + "# a remark\nNice=5\n")
            assert await hand.objections() == []
            unit.write_text(text.replace("ExecStart=", "ExecStart=/usr/bin/env "))
            [said] = await stand.server().objections()
            assert "was edited after Trimtab kept a command" in said
            assert "90-trimtab.conf" in said
            DropIns(UNIT, self.folder / "root").kept_file.unlink()
            assert await hand.objections() == []

        self.run(test)

    def test_what_is_written_is_for_its_owner_alone(self) -> None:
        async def test(stand: Stand, server: object) -> None:
            hand = stand.server()
            await hand.stop(grace_seconds=20)
            await hand.start(stand.other)
            files = DropIns(UNIT, self.folder / "root")
            assert files.try_file.stat().st_mode & 0o777 == 0o600
            await hand.keep(stand.other)
            assert files.kept_file.stat().st_mode & 0o777 == 0o600

        self.run(test)


def answering(folder: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> SystemdServer:
    """A hand whose programs are one-line shell scripts."""
    for name, line in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return SystemdServer(UNIT, root=folder / "root")


SHOWN = (
    "LoadState={load}\\nActiveState=inactive\\nSubState=dead\\nMainPID=0\\nExecMainPID=0\\nExecMainCode=0\\n"
)
SHOWN += "ExecMainStatus=0\\nInvocationID=\\nControlGroup=\\n"


def test_a_unit_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hand = answering(tmp_path, monkeypatch, systemctl=f"printf '{SHOWN.format(load='not-found')}'")
    with pytest.raises(ServerError, match="is not-found"):
        asyncio.run(hand.look())


def test_a_unit_that_never_ran_has_no_run_and_no_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = answering(tmp_path, monkeypatch, systemctl=f"printf '{SHOWN.format(load='loaded')}'")
    state = asyncio.run(hand.look())
    assert (state.running, state.identity, state.exit_code, state.processes) == (False, None, None, ())


def test_another_job_in_the_queue_is_busy_and_other_words_are_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    destructive = "Failed to stop vllm-a.service: Transaction for vllm-a.service/stop is destructive"
    hand = answering(tmp_path, monkeypatch, systemctl=f"echo '{destructive}' >&2; exit 4")
    with pytest.raises(ServerBusy, match="destructive"):
        asyncio.run(hand.stop(grace_seconds=1))
    hand = answering(
        tmp_path, monkeypatch, systemctl="echo 'Failed to connect to bus: no such file' >&2; exit 1"
    )
    with pytest.raises(ServerError, match="Failed to connect to bus"):
        asyncio.run(hand.stop(grace_seconds=1))


def test_a_user_of_whom_systemd_takes_no_orders_is_told_so_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = "Failed to reset failed state of unit: Interactive authentication required."
    script = (
        f"case $1 in show) printf '{SHOWN.format(load='loaded')}';; *) echo '{refused}' >&2; exit 1;; esac"
    )
    hand = answering(tmp_path, monkeypatch, systemctl=script)
    [text] = asyncio.run(hand.objections())
    assert "Interactive authentication required" in text


def test_a_unit_with_several_commands_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = '{"type":"a(sasbttttuii)","data":[["/a",["/a"],false,0],["/b",["/b"],false,0]]}'
    hand = answering(tmp_path, monkeypatch, busctl=f"echo '{two}'")
    with pytest.raises(ServerError, match="not one plain command"):
        asyncio.run(hand.command())


def test_a_drop_in_changed_by_hand_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = answering(tmp_path, monkeypatch)
    files = DropIns(UNIT, tmp_path / "root")
    files.kept_file.parent.mkdir(parents=True)
    files.kept_file.write_text("[Service]\nExecStart=\nExecStart=/usr/bin/vllm serve mine\n")
    with pytest.raises(ServerError, match="changed by another hand"):
        asyncio.run(hand.command())
