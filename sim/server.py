"""A simulated node as a server: the engine's own routes, the plugin's, and the cards for `sim.npu_smi`.

`python -m sim.server --scenario default --seed 1 --port 0 --speed 1` prints its address and serves until interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from sim.completions import BadCall, Completions, error_answer
from sim.hand import ENGINE_VERSION
from sim.metrics_page import MODEL_NAME
from sim.node import Node
from sim.npu_smi import Layout, info
from sim.npu_smi_types import details, unsupported, watch
from sim.pace import Pace
from sim.physics import MAX_MODEL_LEN
from sim.plugin_api import PREFIX, PluginApi
from sim.scenario import SCENARIOS

MAX_SPEED = 200.0
MAX_CONNECTIONS = 256
PAGE_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]


def create_app(node: Node, token: str | None, *, pace: Pace | None = None, layout: Layout = "B") -> FastAPI:
    """The server over `node`, which lives at `pace` (real time if None) while the app runs.

    `token` opens changes; None refuses them all. To be served on loopback only: reads ask for no token.
    """
    driver = pace or Pace(node)

    @contextlib.asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        life = asyncio.create_task(driver.run())
        try:
            yield
        finally:
            life.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await life

    app = FastAPI(lifespan=living, docs_url=None, redoc_url=None, openapi_url=None)
    plugin, completions = PluginApi(driver, token), Completions(driver)
    down = error_answer(BadCall(503, "ServiceUnavailableError", "the engine is down"))

    def closed_to(request: Request) -> Response | None:
        """What a request below `/v1` is told instead of an answer, if it is not let in."""
        driver.catch_up()
        if node.control.down:
            return down
        return None if plugin.holds_token(request) else plugin.turned_away()

    @app.post("/v1/completions", response_model=None)
    async def complete(request: Request) -> Response:
        return closed_to(request) or await completions.answer(request)

    @app.get("/v1/models", response_model=None)
    async def models(request: Request) -> Response:
        model = {
            "id": MODEL_NAME,
            "object": "model",
            "created": int(node.start),
            "owned_by": "vllm",
            "root": MODEL_NAME,
            "parent": None,
            "max_model_len": MAX_MODEL_LEN,
        }
        return closed_to(request) or JSONResponse({"object": "list", "data": [model]})

    @app.get("/health", response_model=None)
    async def health() -> Response:
        driver.catch_up()
        return down if node.control.down else Response()

    @app.get("/version", response_model=None)
    async def version() -> Response:
        return JSONResponse({"version": ENGINE_VERSION})

    @app.get("/metrics", response_model=None)
    async def metrics() -> Response:
        driver.catch_up()
        return down if node.control.down else Response(node.metrics_text(), media_type=PAGE_TYPE)

    @app.get("/sim/npu-smi", response_model=None)
    async def npu_smi() -> Response:
        driver.catch_up()
        return PlainTextResponse(info(node, layout))

    @app.get("/sim/npu-smi/watch", response_model=None)
    async def npu_smi_watch(header: bool = True) -> Response:
        driver.catch_up()
        return PlainTextResponse(watch(node, header=header))

    @app.get("/sim/npu-smi/{kind}", response_model=None)
    async def npu_smi_details(kind: str, npu: int, chip: int = 0) -> Response:
        driver.catch_up()
        # The 310P's own types are not told here.
        return PlainTextResponse(details(node, kind, npu, chip) if layout == "B" else unsupported(kind))

    app.add_route(PREFIX, plugin.answer, _METHODS)
    app.add_route(PREFIX + "/{path:path}", plugin.answer, _METHODS)
    return app


def main(arguments: Sequence[str]) -> int:
    """Serve a node on loopback until interrupted; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sim.server", description="Serve one simulated Ascend node."
    )
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), default="default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--speed", type=float, default=1.0, help="simulated seconds a second")
    parser.add_argument("--layout", choices=("A", "B"), default="B", help="of npu-smi's table: 310P or 910B")
    parser.add_argument(
        "--token-file", type=Path, help="its secret opens changes; without it they are refused"
    )
    chosen = parser.parse_args(arguments)
    if not 0 < chosen.speed <= MAX_SPEED:
        parser.error(f"--speed must be above 0 and at most {MAX_SPEED:g}, not {chosen.speed:g}")
    if not 0 <= chosen.port <= 65535:
        parser.error(f"--port must be from 0 to 65535, not {chosen.port}")
    if chosen.seed < 0:
        parser.error(f"--seed must be 0 or more, not {chosen.seed}")
    try:
        token = _token(chosen.token_file)
        listening = socket.create_server(("127.0.0.1", chosen.port))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    with listening:
        node = Node(chosen.scenario, chosen.seed, time.time())
        app = create_app(node, token, pace=Pace(node, speed=chosen.speed), layout=chosen.layout)
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=2,
        )
        uvicorn.Server(config).run(sockets=[listening])
    return 0


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    token = path.read_text().strip()
    if not token:
        raise ValueError(f"the token file {path} is empty: write a secret into it")
    return token


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(0)
