"""Times switches of a real engine from a process of its own, where the load's own work does not delay them.

Run as `python -m tests.real.switches URL TOKEN_FILE COUNT PAUSE`; prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx2

from daemon.engine.hot import HotEngine
from tests.real.engine import PATIENCE_SECONDS, ROOT, RealEngine


@dataclass
class Switches:
    """How long switches took, and beside each a request that the API process answers alone, in seconds."""

    took: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)


async def timed_switches(hot: HotEngine, url: str, count: int, pause: float) -> Switches:
    """Switch the budget to and fro, and check each answer."""
    times = Switches()
    async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE_SECONDS) as client:
        for number in range(count):
            value = 256 if number % 2 == 0 else 4096
            epoch = (await hot.state()).epoch
            begin = time.monotonic()
            answer = await hot.set_knobs({"batch_max_tokens": value}, if_epoch=epoch, lease_seconds=30)
            times.took.append(time.monotonic() - begin)
            assert answer.status == "applied"
            assert answer.effective == {"batch_max_tokens": value}
            assert (await hot.state()).values["batch_max_tokens"] == value
            await asyncio.sleep(pause / 2)
            begin = time.monotonic()
            assert (await client.get("/version")).status_code == 200
            times.beside.append(time.monotonic() - begin)
            await asyncio.sleep(pause / 2)
    return times


async def switches_beside(engine: RealEngine, count: int, pause: float) -> Switches:
    """Run `timed_switches` in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "tests.real.switches",
        engine.url,
        str(engine.token_file),
        str(count),
        str(pause),
    ]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0, "the switches failed, see above"
    return Switches(**json.loads(output))


async def main(url: str, token: str, count: int, pause: float) -> None:
    """Print the times as JSON and leave the engine on its launch budget."""
    async with HotEngine(url, token=token, timeout=PATIENCE_SECONDS) as hot:
        launch = (await hot.state()).values["batch_max_tokens"]
        times = await timed_switches(hot, url, count, pause)
        state = await hot.state()
        await hot.set_knobs({"batch_max_tokens": launch}, if_epoch=state.epoch, lease_seconds=None)
    sys.stdout.write(json.dumps(asdict(times)))


if __name__ == "__main__":
    address, token_path, switches, seconds = sys.argv[1:]
    asyncio.run(main(address, Path(token_path).read_text(), int(switches), float(seconds)))
