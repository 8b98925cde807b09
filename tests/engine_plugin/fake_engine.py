"""A scheduler, engine process and server of vLLM V1's shape, small enough to step by hand.

`FakeScheduler.schedule` follows vLLM's: running requests first, each up to the token budget, then admission
under the running cap, and the assertions at its end that kill a real engine.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from trimtab_plugin.control import Controller
from trimtab_plugin.http import Middleware
from trimtab_plugin.link import EngineLink
from trimtab_plugin.ring import Ring
from trimtab_plugin.settings import TokenFile


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(eq=False)
class FakeRequest:
    """One request: `prompt` tokens to prefill, then `outputs` tokens one by one."""

    prompt: int
    outputs: int
    computed: int = 0
    is_prefill_chunk: bool = False
    spec_token_ids: list[int] = field(default_factory=list)
    starved_steps: int = 0

    @property
    def wants(self) -> int:
        """Tokens that the next step should compute."""
        if self.computed < self.prompt:
            return self.prompt - self.computed
        return 1 + len(self.spec_token_ids)


class FakeScheduler:
    """`ratchet` is vLLM 0.30 and before: one number both admits and is asserted."""

    def __init__(
        self,
        *,
        ratchet: bool = False,
        batch: int = 2048,
        seqs: int = 64,
        spec: int = 0,
        chunked: bool = True,
        watermark: float | None = 0.0,
        max_model_len: int = 2048,
        **more: Any,
    ) -> None:
        self.scheduler_config = types.SimpleNamespace(
            enable_chunked_prefill=chunked,
            long_prefill_token_threshold=0,
            max_num_batched_tokens=batch,
            max_num_seqs=seqs,
            watermark=watermark,
        )
        self.kv_cache_config = types.SimpleNamespace(num_blocks=1000)
        self.kv_cache_manager = FakeCache() if watermark is None else FakeCache(int(watermark * 1000))
        self.max_num_scheduled_tokens = batch
        self.max_num_running_reqs = seqs
        if not ratchet:
            self.max_num_active_reqs = seqs
        self.max_model_len = max_model_len
        self.num_spec_tokens = spec
        self.block_size = 128
        self.running: list[FakeRequest] = []
        self.waiting: list[FakeRequest] = []
        self.finished = 0
        self.steps = 0
        self.__dict__.update(more)

    def schedule(self, throttle_prefills: bool = False) -> dict[str, int]:
        """Schedule one step and compute it; return the tokens of the step."""
        self.steps += 1
        budget = self.max_num_scheduled_tokens
        threshold = self.scheduler_config.long_prefill_token_threshold
        cap = getattr(self, "max_num_active_reqs", self.max_num_running_reqs)
        scheduled: list[tuple[FakeRequest, int]] = []

        def take(request: FakeRequest) -> int:
            tokens = request.wants
            if 0 < threshold < tokens:
                tokens = threshold
            return min(tokens, budget)

        for request in self.running:
            tokens = take(request)
            if tokens == 0:
                request.starved_steps += 1
                continue
            scheduled.append((request, tokens))
            budget -= tokens
        while self.waiting and budget > 0 and len(self.running) < cap:
            if not self.scheduler_config.enable_chunked_prefill and self.waiting[0].wants > budget:
                break
            request = self.waiting.pop(0)
            tokens = take(request)
            self.running.append(request)
            scheduled.append((request, tokens))
            budget -= tokens

        total = sum(tokens for _, tokens in scheduled)
        assert total <= self.max_num_scheduled_tokens
        assert len(self.running) <= self.max_num_running_reqs
        prefill = sum(tokens for request, tokens in scheduled if request.computed < request.prompt)
        for request, tokens in scheduled:
            request.computed += tokens
            request.is_prefill_chunk = request.computed < request.prompt
        done = [request for request in self.running if request.computed >= request.prompt + request.outputs]
        self.running = [request for request in self.running if request not in done]
        self.finished += len(done)
        return {"total": total, "prefill": prefill, "requests": len(scheduled)}


class FakeCache:
    """vLLM's KV cache manager as far as the watermark goes; before 0.24 it has none."""

    def __init__(self, watermark_blocks: int | None = None) -> None:
        if watermark_blocks is not None:
            self.watermark_blocks = watermark_blocks

    def allocate_slots(self) -> None:
        """What a fingerprint reads."""


class FakeClient:
    """vLLM's async client of one or several engine processes; what crosses is plain data, as over msgpack."""

    def __init__(self, *controllers: Controller, api_servers: int = 1, ranks: int | None = None) -> None:
        self.controllers = dict(enumerate(controllers))
        self.core_engines = list(self.controllers)
        self.calls: list[dict[str, Any]] = []
        self.fault: Exception | None = None
        self.before: Callable[[int, dict[str, Any]], None] | None = None
        self.engine_core = self
        self.vllm_config = types.SimpleNamespace(
            parallel_config=types.SimpleNamespace(
                data_parallel_size=ranks or len(controllers), _api_process_count=api_servers
            )
        )

    async def call_utility_async(self, method: str, message: dict[str, Any]) -> Any:
        return await self._call_utility_async(method, message, engine=0)

    async def _call_utility_async(self, method: str, message: dict[str, Any], engine: int) -> Any:
        assert method == "trimtab_call"
        if self.fault is not None:
            raise self.fault
        self.calls.append(message)
        if self.before is not None:
            self.before(engine, message)
        return json.loads(json.dumps(self.controllers[engine].call(json.loads(json.dumps(message)))))


class Server:
    """A vLLM server's app with the plugin's middleware, to be called in-process."""

    def __init__(self, client: Any, token_file: str | None, *, host: str | None = "127.0.0.1") -> None:
        self.ring = Ring()
        self.ring.attached = True
        self.served: list[str] = []
        environment = {} if token_file is None else {"TRIMTAB_TOKEN_FILE": token_file}
        self.app = Starlette(routes=[Route("/{path:path}", self._serve, methods=["GET", "POST"])])
        self.app.add_middleware(Middleware, ring=self.ring, token=TokenFile(environment))
        self.app.state.engine_client = client
        self.app.state.args = types.SimpleNamespace(host=host, uds=None)

    async def _serve(self, request: HttpRequest) -> PlainTextResponse:
        self.served.append(request.url.path)
        return PlainTextResponse("served")

    def client(self, headers: dict[str, str] | None = None, root_path: str = "") -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(app=self.app, root_path=root_path)
        return httpx2.AsyncClient(transport=transport, base_url="http://engine", headers=headers)


def knobs(values: dict[str, Any], if_epoch: int, **more: Any) -> dict[str, Any]:
    """A knobs request as the API process sends it."""
    return {"op": "knobs", "values": values, "if_epoch": if_epoch, "expires": float("inf"), **more}


def link(*controllers: Controller, **more: Any) -> EngineLink:
    return EngineLink(FakeClient(*controllers, **more), timeout=0.2)


def run_until_idle(scheduler: FakeScheduler, steps: int = 10_000) -> Sequence[dict[str, int]]:
    """Step until nothing is left; fails if that takes more than `steps`."""
    done = []
    while scheduler.running or scheduler.waiting:
        done.append(scheduler.schedule(False))
        assert len(done) < steps, "the engine makes no progress"
    return done
