"""The pages: a frame with its data inside, which the scripts draw and keep up to date."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.templating import Jinja2Templates
from pydantic import BaseModel

from change.engine import EngineError
from store import Store
from web import reads, run_reads
from web.api import Id
from web.body import Body
from web.feed import Feed
from web.gatekeeper import inner_path, redirect
from web.plain import plain
from web.sessions import COOKIE, SESSION_SECONDS, Sessions
from web.text import ENGLISH

HERE = Path(__file__).parent
NEXT_PAGE = re.compile(r"(|trials|trials/\d{1,19}|alerts|runs/\d{1,19}|journal|knobs)")
"""Where a sign-in may lead: the pages, so that nobody is sent elsewhere."""

templates = Jinja2Templates(HERE / "templates")


def page_routes(body: Body, store: Store, feed: Feed) -> APIRouter:
    """Build the pages' routes; they are left out of the OpenAPI document."""
    router = APIRouter(include_in_schema=False)

    def show(request: Request, page: str, *, up: str = "./", **data: Any) -> Response:
        context = {
            "page": page,
            "up": up,
            "text": ENGLISH,
            "data": {"live": feed.look_or_say(), **data},
        }
        return templates.TemplateResponse(request, f"{page}.html", context)

    @router.get("/")
    async def live(request: Request) -> Response:
        return show(request, "live", trend=feed.trend.as_columns())

    @router.get("/trials")
    async def newest(request: Request) -> Response:
        return show(request, "trials", **_campaign_data(store, None))

    @router.get("/trials/{id:int}")
    async def trials(request: Request, id: Id) -> Response:
        return show(request, "trials", up="../", **_campaign_data(store, id))

    @router.get("/alerts")
    async def alerts(request: Request) -> Response:
        with store.reading() as session:
            runs = run_reads.runs(session, limit=30, before=None)
        return show(
            request,
            "alerts",
            alerts=plain(body.alerts()),
            runs=_dump(runs),
            playbooks=plain(body.playbooks()),
        )

    @router.get("/runs/{id:int}")
    async def run(request: Request, id: Id) -> Response:
        with store.reading() as session:
            found = run_reads.run(session, id)
        if found is None:
            raise HTTPException(404, f"there is no run {id}")
        return show(request, "run", up="../", run=plain(found.model_dump()))

    @router.get("/journal")
    async def journal(request: Request) -> Response:
        with store.reading() as session:
            entries = reads.journal(session, limit=100, before=None)
        return show(request, "journal", journal=_dump(entries))

    @router.get("/knobs")
    async def knobs(request: Request) -> Response:
        try:
            return show(request, "knobs", knobs=plain(await body.knobs()), problem=None)
        except EngineError as error:
            return show(request, "knobs", knobs=[], problem=str(error))

    return router


def missing_page(request: Request, detail: str, status: int) -> Response:
    """Say on a page of our own that there is nothing here."""
    up = "../" * max(0, inner_path(request.scope).count("/") - 1) or "./"
    context = {"page": "missing", "up": up, "text": ENGLISH, "detail": detail}
    return templates.TemplateResponse(request, "missing.html", context, status_code=status)


def login_routes(sessions: Sessions, root_path: str) -> APIRouter:
    """Build the sign-in form, which changes the token for a cookie."""
    router = APIRouter(include_in_schema=False)

    def form(request: Request, following: str, problem: str | None, status: int) -> Response:
        context = {"page": "login", "up": "./", "text": ENGLISH, "next": following, "problem": problem}
        return templates.TemplateResponse(request, "login.html", context, status_code=status)

    @router.get("/login")
    async def ask(request: Request, next: str = "") -> Response:
        return form(request, next if NEXT_PAGE.fullmatch(next) else "", None, 200)

    @router.post("/login")
    async def sign_in(request: Request) -> Response:
        # Read by hand: a form of one field is no reason for a multipart parser.
        fields = parse_qs((await request.body()).decode("utf-8", "replace"))
        following = fields.get("next", [""])[0]
        if not NEXT_PAGE.fullmatch(following):
            following = ""
        if sessions.locked():
            return form(request, following, ENGLISH["login.locked"], 429)
        if not sessions.token_matches(fields.get("token", [""])[0].strip()):
            sessions.failed()
            return form(request, following, ENGLISH["login.wrong"], 401)
        answer = redirect("./" + following)
        answer.set_cookie(
            COOKIE,
            sessions.issue(),
            max_age=SESSION_SECONDS,
            path=root_path or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    return router


def _campaign_data(store: Store, id: int | None) -> dict[str, Any]:
    with store.reading() as session:
        listed = reads.campaigns(session, limit=50)
        chosen = reads.newest_campaign(session) if id is None else id
        found = None if chosen is None else reads.campaign(session, chosen)
    if id is not None and found is None:
        raise HTTPException(404, f"there is no campaign {id}")
    return {
        "campaigns": _dump(listed),
        "campaign": None if found is None else plain(found.model_dump()),
        "follow": id is None,
    }


def _dump(rows: list[Any]) -> list[dict[str, Any]]:
    return [plain(row.model_dump()) for row in rows if isinstance(row, BaseModel)]
