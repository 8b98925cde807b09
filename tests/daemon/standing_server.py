"""A stand-in for vLLM's server as a process of its own: its log, its routes, the real plugin, and ways to fail.

What it does is in its settings: `--block-size 16` does not fit into memory, 32 is forced to 128, 96 answers no
request, 48 hangs in the load. On SIGTERM it finishes what it has, as vLLM with a shutdown time-out does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
import types

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

OUT_OF_MEMORY, FORCED, HANGS, MUTE = 16, 32, 48, 96
ANSWER_SECONDS = 0.05
LOAD_SECONDS = 0.5


def say(text: str) -> None:
    """One line of the log."""
    sys.stdout.write(f"(APIServer pid={os.getpid()}) INFO [x.py:1] {text}\n")
    sys.stdout.flush()


def load(settings: argparse.Namespace) -> None:
    """The start-up log, in the shape of a real one."""
    say(f"non-default args: {{'port': {settings.port}}}")
    say("Initializing a V1 LLM engine (v0.32.0) with config: model='m'")
    say("Starting to load model m...")
    while settings.block_size == HANGS:
        time.sleep(0.1)
    time.sleep(LOAD_SECONDS)
    if settings.block_size == OUT_OF_MEMORY:
        sys.exit("RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB")
    say("Loading weights took 0.40 seconds")
    say("Available KV cache memory: 1.00 GiB")
    say("init engine (profile, create kv cache, warmup model) took 0.60 s")
    say(f"Starting vLLM server on http://127.0.0.1:{settings.port}")


class Routes:
    """What a server answers beside the plugin."""

    def __init__(self, settings: argparse.Namespace) -> None:
        self.mute = settings.block_size == MUTE
        self.block_size = 128 if settings.block_size == FORCED else settings.block_size
        self.running = 0

    async def health(self, _: Request) -> Response:
        return Response()

    async def version(self, _: Request) -> Response:
        return JSONResponse({"version": "0.32.0"})

    async def models(self, _: Request) -> Response:
        return JSONResponse({"data": [{"id": "m"}]})

    async def metrics(self, _: Request) -> Response:
        return PlainTextResponse(
            "# TYPE vllm:num_requests_running gauge\n"
            f'vllm:num_requests_running{{engine="0",model_name="m"}} {self.running}\n'
            "# TYPE vllm:num_requests_waiting gauge\n"
            'vllm:num_requests_waiting{engine="0",model_name="m"} 0\n'
            "# TYPE vllm:cache_config_info gauge\n"
            f'vllm:cache_config_info{{block_size="{self.block_size}",engine="0",num_gpu_blocks="512"}} 1\n'
        )

    async def complete(self, request: Request) -> Response:
        await request.json()
        self.running += 1
        try:
            await asyncio.sleep(ANSWER_SECONDS)
        finally:
            self.running -= 1
        if self.mute:
            return JSONResponse({"error": "EngineDeadError"}, 500)
        return JSONResponse({"choices": [{"text": " Paris", "logprobs": {"tokens": [" Paris"]}}]})


def main() -> None:
    """Read the flags as argparse does, load, serve."""
    # Only in the engine's own process, whose path holds the plugin.
    from trimtab_plugin import http as plugin
    from trimtab_plugin.control import Controller
    from trimtab_plugin.ring import Ring
    from trimtab_plugin.settings import TokenFile

    from tests.engine_plugin.fake_engine import FakeClient, FakeScheduler

    parser = argparse.ArgumentParser(prog="vllm")
    parser.add_argument("what", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--block-size", type=int, default=128)
    parser.add_argument("--max-num-seqs", type=int, default=64)
    parser.add_argument("--max-num-batched-tokens", type=int, default=2048)
    parser.add_argument("--gpu-memory-utilization", type=float, default=0.9)
    settings = parser.parse_args()
    load(settings)
    plugin.engine_version = lambda: "0.32.0"
    routes = Routes(settings)
    app = Starlette(
        routes=[
            Route("/health", routes.health),
            Route("/version", routes.version),
            Route("/metrics", routes.metrics),
            Route("/v1/models", routes.models),
            Route("/v1/completions", routes.complete, methods=["POST"]),
        ]
    )
    ring = Ring()
    ring.attached = True
    app.add_middleware(plugin.Middleware, ring=ring, token=TokenFile())
    scheduler = FakeScheduler(batch=settings.max_num_batched_tokens, seqs=settings.max_num_seqs)
    app.state.engine_client = FakeClient(Controller(scheduler, name="x.Scheduler@0"))
    app.state.args = types.SimpleNamespace(host="127.0.0.1", uds=None)
    config = uvicorn.Config(app, host="127.0.0.1", port=settings.port, access_log=False, log_level="info")
    uvicorn.Server(config).run()


if __name__ == "__main__":
    main()
