"""The contract of `EngineServer`, for every hand: subclass it, name the class `Test...`, and give it a stand.

In the stand one engine runs, started with `good`, and nobody else starts or stops it.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import pytest

from change.restart.command import closed, plain, same
from change.server import EngineServer, LaunchCommand, ServerError, ServerState

WAIT_SECONDS = 60.0
GRACE_SECONDS = 20.0
SHORT_GRACE_SECONDS = 0.3


async def _a_moment() -> None:
    await asyncio.sleep(0.02)


@dataclass(frozen=True)
class Stand:
    """A running engine to try the hand on.

    Commands: `good` runs now; `other` serves too, with an environment variable of its own where the hand can give
    one; `stubborn` ends only when it is killed, and has workers; `failing` writes a line that holds `last_words`
    and ends with code 3. `server` makes a fresh hand, as a restarted daemon does.

    Facts found without the hand: `engines` counts the main processes (containers, pods) that run now, `leftovers`
    everything an engine began and left; `overlapped` tells whether two ever ran at one time; `next_start` is what
    starts if whoever keeps the engine up (systemd, Docker, Kubernetes, the parent) starts it again on its own;
    `bystanders_live` tells whether what is not ours still runs. `say` has the engine write one line more.
    `moment` lets a little time pass.
    """

    server: Callable[[], EngineServer]
    good: LaunchCommand
    other: LaunchCommand
    stubborn: LaunchCommand
    failing: LaunchCommand
    engines: Callable[[], Awaitable[int]]
    leftovers: Callable[[], Awaitable[int]]
    overlapped: Callable[[], bool]
    next_start: Callable[[], Awaitable[LaunchCommand]]
    bystanders_live: Callable[[], bool]
    say: Callable[[], Awaitable[None]]
    last_words: str = "it does not fit"
    moment: Callable[[], Awaitable[None]] = field(default=_a_moment)

    async def when(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait until `condition` holds."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not await condition():
                await self.moment()
        assert await condition(), what

    async def serves(self, server: EngineServer) -> ServerState:
        """Wait until exactly one engine runs and the hand says so."""

        async def up() -> bool:
            return (await server.look()).running and await self.engines() == 1

        await self.when(up, "one engine runs")
        return await server.look()

    async def writes(self, server: EngineServer, text: str, position: str | None = None) -> list[str]:
        """Read the log until a line holds `text`; returns what was read, or fails."""
        lines: list[str] = []
        async with asyncio.timeout(WAIT_SECONDS):
            while not any(text in line for line in lines):
                part = await server.log(position)
                lines += part.lines
                position = part.position
                await self.moment()
        return lines


class ServerContract(ABC):
    """What every hand does; `stand` builds a fresh engine that runs."""

    @abstractmethod
    def stand(self) -> AbstractAsyncContextManager[Stand]:
        """Build a fresh engine, running `good`."""

    def run(self, test: Callable[[Stand, EngineServer], Awaitable[None]]) -> None:
        async def within() -> None:
            async with self.stand() as stand:
                server = stand.server()
                await stand.serves(server)
                await test(stand, server)
                assert not stand.overlapped(), "two engines ran at one time"
                assert await stand.engines() <= 1
                assert stand.bystanders_live(), "something that is not ours was touched"

        asyncio.run(within())

    def test_a_look_tells_the_run_and_a_fresh_hand_tells_the_same(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            state = await server.look()
            assert state.running
            assert state.identity
            assert state.exit_code is None
            again = await stand.server().look()
            assert again.identity == state.identity
            assert again.processes[:1] == state.processes[:1]

        self.run(test)

    def test_the_command_is_how_the_engine_was_started(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            assert (await server.command()).argv == stand.good.argv
            await server.stop(grace_seconds=GRACE_SECONDS)
            assert (await stand.server().command()).argv == stand.good.argv
            await server.start(stand.other)
            found = await stand.server().command()
            assert found.argv == stand.other.argv
            assert stand.other.environ.items() <= found.environ.items()

        self.run(test)

    def test_no_start_while_one_runs(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            before = await server.look()
            with pytest.raises(ServerError):
                await server.start(stand.other)
            after = await server.look()
            assert after.running
            assert after.identity == before.identity
            assert await stand.engines() == 1
            assert (await server.command()).argv == stand.good.argv

        self.run(test)

    def test_nothing_is_in_the_way_of_a_restart_here_and_asking_changes_nothing(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            before = await server.look()
            assert await server.objections() == []
            assert await stand.server().objections() == []
            assert (await server.look()).identity == before.identity
            assert await stand.engines() == 1

        self.run(test)

    def test_after_a_stop_nothing_is_left_and_a_second_stop_does_nothing(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            before = await server.look()
            await server.stop(grace_seconds=GRACE_SECONDS)
            assert await stand.engines() == 0
            assert await stand.leftovers() == 0
            state = await server.look()
            assert not state.running
            assert state.processes == ()
            assert state.identity in (before.identity, None)
            await server.stop(grace_seconds=GRACE_SECONDS)
            await stand.server().stop(grace_seconds=GRACE_SECONDS)
            await stand.moment()
            assert await stand.engines() == 0

        self.run(test)

    def test_a_start_is_another_run_with_its_own_command_and_environment(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            first = await server.look()
            await server.stop(grace_seconds=GRACE_SECONDS)
            begun = await server.start(stand.other)
            assert begun.running
            second = await stand.serves(server)
            assert second.identity
            assert second.identity != first.identity
            text = "\n".join(await stand.writes(server, "Starting vLLM server"))
            assert stand.other.argv[-1] in text
            for value in stand.other.environ.values():
                assert value in text

        self.run(test)

    def test_one_that_will_not_end_is_killed_after_the_grace_with_all_it_began(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            await server.stop(grace_seconds=GRACE_SECONDS)
            await server.start(stand.stubborn)
            await stand.serves(server)
            await stand.writes(server, "Starting vLLM server")
            await server.stop(grace_seconds=SHORT_GRACE_SECONDS)
            assert await stand.engines() == 0
            assert await stand.leftovers() == 0
            assert not (await server.look()).running

        self.run(test)

    def test_a_failed_start_tells_its_exit_code_and_its_last_words(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            await server.stop(grace_seconds=GRACE_SECONDS)
            await server.start(stand.failing)

            async def ended() -> bool:
                return not (await server.look()).running

            await stand.when(ended, "the start failed")
            assert (await server.look()).exit_code == 3
            await stand.writes(server, stand.last_words)
            # Nobody else tries it again meanwhile, and the way back is open.
            await server.stop(grace_seconds=GRACE_SECONDS)
            await server.start(stand.good)
            await stand.serves(server)
            assert (await server.look()).exit_code is None

        self.run(test)

    def test_the_log_goes_on_from_its_position(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            await stand.writes(server, "Starting vLLM server")
            part = await server.log(None)
            assert any("Initializing" in line for line in part.lines)
            await stand.say()
            lines = await stand.writes(server, "said 1", part.position)
            assert not any("Initializing" in line or "Starting" in line for line in lines)
            whole = await stand.server().log(None)
            assert any("Initializing" in line for line in whole.lines)
            assert any("said 1" in line for line in whole.lines)

        self.run(test)

    def test_the_log_of_a_new_run_is_its_own_whatever_the_position(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            await stand.say()
            await stand.writes(server, "said 1")
            old = (await server.log(None)).position
            await server.stop(grace_seconds=GRACE_SECONDS)
            await server.start(stand.other)
            lines = await stand.writes(server, "Starting vLLM server", old)
            assert any("Initializing" in line for line in lines)
            assert not any("said 1" in line for line in (await server.log(None)).lines)

        self.run(test)

    def test_what_is_kept_is_what_the_next_start_uses(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            await server.stop(grace_seconds=GRACE_SECONDS)
            await server.start(stand.other)
            before = await stand.serves(server)
            await server.keep(stand.other)
            await stand.server().keep(stand.other)
            after = await server.look()
            assert after.running
            assert after.identity == before.identity
            following = await stand.next_start()
            assert following.argv == stand.other.argv
            assert stand.other.environ.items() <= following.environ.items()

        self.run(test)

    def test_what_started_with_its_gate_closed_is_kept_without_and_can_be_restarted(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            await server.stop(grace_seconds=GRACE_SECONDS)
            await server.start(closed(stand.other, 1000.0))
            await stand.serves(server)
            await server.keep(stand.other)
            await stand.server().keep(stand.other)
            assert plain(await stand.next_start()).argv == stand.other.argv
            first = await server.look()
            await server.stop(grace_seconds=GRACE_SECONDS)
            await server.start(closed(stand.good, 2000.0))
            second = await stand.serves(server)
            assert second.identity != first.identity
            # A failed change: back to what was kept, behind a closed gate as well.
            await server.stop(grace_seconds=GRACE_SECONDS)
            await server.start(closed(stand.other, 3000.0))
            await stand.serves(server)
            await server.keep(stand.other)
            assert same(await server.command(), stand.other)
            assert (await stand.next_start()).argv == stand.other.argv

        self.run(test)

    def test_a_return_and_its_keep_leave_the_first_command(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            first = await server.command()
            await server.stop(grace_seconds=GRACE_SECONDS)
            await server.start(stand.other)
            await stand.serves(server)
            await server.stop(grace_seconds=GRACE_SECONDS)
            await server.start(first)
            await stand.serves(server)
            await server.keep(first)
            assert (await server.command()).argv == stand.good.argv
            assert (await stand.next_start()).argv == stand.good.argv
            assert not stand.other.environ.keys() & (await server.command()).environ.keys()

        self.run(test)

    def test_a_stop_whose_caller_died_can_be_made_again(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            await server.stop(grace_seconds=GRACE_SECONDS)
            await server.start(stand.stubborn)
            await stand.serves(server)
            await stand.writes(server, "Starting vLLM server")
            stopping = asyncio.ensure_future(server.stop(grace_seconds=GRACE_SECONDS))
            await stand.moment()
            stopping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await stopping
            await stand.server().stop(grace_seconds=SHORT_GRACE_SECONDS)
            assert await stand.engines() == 0
            assert await stand.leftovers() == 0

        self.run(test)

    def test_two_starts_at_once_are_one_engine(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            await server.stop(grace_seconds=GRACE_SECONDS)
            results = await asyncio.gather(
                server.start(stand.other), stand.server().start(stand.other), return_exceptions=True
            )
            refused = [result for result in results if isinstance(result, BaseException)]
            assert all(isinstance(result, ServerError) for result in refused), refused
            assert len(refused) == 1
            await stand.serves(server)

        self.run(test)

    def test_a_start_whose_caller_died_is_found_by_the_next(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            await server.stop(grace_seconds=GRACE_SECONDS)
            begun = await server.start(stand.other)
            fresh = stand.server()
            state = await stand.serves(fresh)
            assert state.identity == begun.identity
            with pytest.raises(ServerError):
                await fresh.start(stand.good)
            await fresh.stop(grace_seconds=GRACE_SECONDS)
            assert await stand.engines() == 0

        self.run(test)
