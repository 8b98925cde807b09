"""Playbooks and their runs in the JSON API under `/api/v1`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Query
from fastapi.responses import JSONResponse

from store import Store
from web import run_reads, run_shapes
from web.api import ABSENT, MAX_ID, PROBLEMS, REFUSALS, Id, Limit
from web.body import Body
from web.plain import plain

Name = Annotated[str, Path(pattern=r"^[a-z][a-z0-9_]{0,63}$")]


def reading_run_routes(body: Body, store: Store) -> APIRouter:
    """Build the routes that change nothing."""
    router = APIRouter(prefix="/api/v1", tags=["read"], responses=PROBLEMS)

    @router.get("/playbooks", responses={200: {"model": list[run_shapes.Playbook]}})
    async def playbooks() -> JSONResponse:
        """List the playbooks."""
        return JSONResponse(plain(body.playbooks()))

    @router.get("/runs")
    async def runs(
        limit: Limit = 50, before: Annotated[int | None, Query(ge=1, le=MAX_ID)] = None
    ) -> list[run_shapes.Run]:
        """List walks of playbooks, newest first."""
        with store.reading() as session:
            return run_reads.runs(session, limit, before)

    @router.get("/runs/{id}", responses=ABSENT)
    async def run(id: Id) -> run_shapes.RunDetail:
        """Return one walk with its audit and its acts."""
        with store.reading() as session:
            found = run_reads.run(session, id)
        if found is None:
            raise HTTPException(404, f"there is no run {id}")
        return found

    return router


def writing_run_routes(body: Body) -> APIRouter:
    """Build the route that orders a walk."""
    router = APIRouter(prefix="/api/v1", tags=["write"], responses=PROBLEMS | REFUSALS)

    @router.post("/playbooks/{name}/run", responses={200: {"model": run_shapes.Begun}, **ABSENT})
    async def run_playbook(name: Name, order: run_shapes.RunOrder) -> JSONResponse:
        """Have a playbook walk."""
        return JSONResponse(plain(await body.run_playbook(name, order.labels, dry_run=order.dry_run)))

    return router
