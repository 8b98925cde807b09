"""`trimtab run`: the other commands go through it, and its sudden death leaves no half trial."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml

from tests.daemon.engine_stand import LAUNCH, EngineStand
from tests.daemon.trimtab_command import Trimtab, one_line

WAIT_SECONDS = 180.0


class Daemon:
    """`trimtab run` in a process of its own."""

    def __init__(self, config: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "daemon.cli", "run", "-c", config], stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.search(r"look at (http://\S+)/", line)
        assert found, line + self.process.stderr.read()
        self.url = found[1]

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(WAIT_SECONDS)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code


def test_commands_go_through_the_running_daemon(
    trimtab: Trimtab, config: str, engine: EngineStand, tmp_path: Path
) -> None:
    daemon = Daemon(config)
    try:
        values = tmp_path / "values.yaml"
        values.write_text("max_num_seqs: 64")
        assert trimtab("apply", str(values), "-c", config).code == 0
        assert engine.values["max_num_seqs"] == 64.0
        assert trimtab("history", "--json", "-c", config).json[0]["actor"] == "operator"
        values.write_text("max_num_seqs: 1024")
        told = trimtab("apply", str(values), "-c", config)
        assert told.code == 1
        one_line(told)
        assert trimtab("rollback", "-c", config).code == 0
        assert engine.values == LAUNCH
        assert trimtab("pause", "--json", "-c", config).json["paused"] is True
        told = trimtab("tune", "--mode", "act", "-c", config)
        assert told.code == 1
        assert "paused" in told.err
        assert trimtab("resume", "--json", "-c", config).json["paused"] is False
        told = trimtab("run", "-c", config)
        assert told.code == 2
        assert "another daemon" in told.err
        rows = {row["name"]: row for row in trimtab("doctor", "--json", "-c", config).json}
        assert rows["daemon"]["verdict"] == "ok"
        assert daemon.url in rows["daemon"]["found"]
    finally:
        assert daemon.end(signal.SIGTERM) == 0


def test_a_daemon_killed_in_a_trial_leaves_no_half_trial(
    trimtab: Trimtab, config: str, engine: EngineStand, tmp_path: Path
) -> None:
    settings = yaml.safe_load(Path(config).read_text())
    settings["mode"] = "act"
    Path(config).write_text(yaml.safe_dump(settings))
    code = (
        "import asyncio, os, time\n"
        "from pathlib import Path\n"
        "from change.journal import Journal\n"
        "from daemon import assembly\nfrom daemon.config_file import load\nfrom store import open_store\n"
        "async def trial():\n"
        f"    config = load(Path({config!r}))\n"
        "    journal = Journal(open_store(config.store_url), config.engine.url)\n"
        "    async with assembly.hot_engine(config) as control:\n"
        "        state = await control.state()\n"
        "        journal.open('trial', state.boot_id, 'campaign 1', {'max_num_seqs': 32}, {'max_num_seqs': 256}, 1.0)\n"
        "        await control.set_knobs({'max_num_seqs': 32}, if_epoch=state.epoch, lease_seconds=30)\n"
        "        os.kill(os.getpid(), 9)\n"
        "asyncio.run(trial())\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == -signal.SIGKILL
    assert engine.values["max_num_seqs"] == 32.0
    daemon = Daemon(config)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while engine.values != LAUNCH or engine.lease is not None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        assert daemon.end(signal.SIGINT) == 0
    assert [row["state"] for row in trimtab("history", "--json", "-c", config).json] == ["closed"]
