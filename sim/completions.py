"""The OpenAI completions API of a simulated node: clients' requests join the traffic that is already there."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse

from sim.metrics_page import MODEL_NAME
from sim.pace import Pace
from sim.physics import MAX_MODEL_LEN
from sim.plugin_api import read_body
from sim.request import Request

MAX_BODY_BYTES = 1024 * 1024
DEFAULT_MAX_TOKENS = 16
BYTES_PER_TOKEN = 4
"""A text's tokens are its UTF-8 bytes by this, rounded up; a prompt of token ids is as long as it says."""
_WORDS = (
    " a",
    " trim",
    " tab",
    " steers",
    " the",
    " rudder",
    ",",
    " the",
    " rudder",
    " steers",
    " the",
    " ship",
    ".",
)


class BadCall(Exception):
    """A request that cannot be served: HTTP status, vLLM's name for it, text."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Call:
    """One request for a completion, checked."""

    prompt_tokens: int
    max_tokens: int
    stream: bool
    include_usage: bool


class Completions:
    """Answers `POST /v1/completions`."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    async def answer(self, http: HttpRequest) -> Response:
        """Serve one request to its end, or begin its stream."""
        try:
            try:
                data = await read_body(http, MAX_BODY_BYTES)
            except ClientDisconnect:
                raise BadCall(400, "BadRequestError", "the body ended early") from None
            if data is None:
                raise BadCall(413, "BadRequestError", f"the body is over {MAX_BODY_BYTES} bytes")
            call = read_call(data)
            node = self._pace.node
            self._pace.catch_up()
            if node.control.down:
                raise BadCall(503, "ServiceUnavailableError", "the engine is down")
        except BadCall as bad:
            return error_answer(bad)
        answer = _Answer(self._pace, node.submit(call.prompt_tokens, call.max_tokens), call)
        if call.stream:
            return StreamingResponse(answer.events(), media_type="text/event-stream")
        return await answer.whole()


class _Answer:
    """What one request's client gets as its tokens come out."""

    def __init__(self, pace: Pace, request: Request, call: Call) -> None:
        self._pace = pace
        self._request = request
        self._call = call
        self._boot_id = pace.node.control.boot_id
        self._created = int(pace.node.now)

    async def _tokens(self) -> AsyncIterator[int]:
        """How many tokens are out, each time that grows; ends early if the engine dies."""
        node, request = self._pace.node, self._request
        seen = 0
        while node.control.boot_id == self._boot_id:
            now = node.engine.generated(request)
            if now > seen:
                seen = now
                yield seen
            if request.finish is not None:
                return
            await self._pace.moved()

    async def whole(self) -> Response:
        async for _ in self._tokens():
            pass
        if self._request.finish is None:
            return error_answer(BadCall(500, "InternalServerError", "the engine died"))
        text = "".join(map(_word, range(self._call.max_tokens)))
        return JSONResponse({**self._body([self._choice(text, "length")]), "usage": self._usage()})

    async def events(self) -> AsyncIterator[str]:
        sent = 0
        async for now in self._tokens():
            for index in range(sent, now):
                last = self._request.finish is not None and index == self._call.max_tokens - 1
                body = self._body([self._choice(_word(index), "length" if last else None)])
                yield _event(body)
            sent = now
        if self._request.finish is None:
            yield _event(_error_body(BadCall(500, "InternalServerError", "the engine died")))
        elif self._call.include_usage:
            yield _event({**self._body([]), "usage": self._usage()})
        yield "data: [DONE]\n\n"

    def _body(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"cmpl-{self._request.number:032x}",
            "object": "text_completion",
            "created": self._created,
            "model": MODEL_NAME,
            "choices": choices,
        }

    @staticmethod
    def _choice(text: str, reason: str | None) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": reason, "stop_reason": None}

    def _usage(self) -> dict[str, Any]:
        prompt, output = self._call.prompt_tokens, self._call.max_tokens
        return {"prompt_tokens": prompt, "total_tokens": prompt + output, "completion_tokens": output}


def read_call(data: bytes) -> Call:
    """Check a request's body; raises `BadCall`."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadCall(400, "BadRequestError", f"the body is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadCall(400, "BadRequestError", "the body must be a JSON object")
    model = body.get("model", MODEL_NAME)
    if model != MODEL_NAME:
        raise BadCall(404, "NotFoundError", f"The model `{str(model)[:80]}` does not exist.")
    if body.get("n") not in (None, 1):
        raise BadCall(400, "BadRequestError", "n must be 1 in this simulation")
    prompt = _prompt_tokens(body.get("prompt"))
    most = DEFAULT_MAX_TOKENS if body.get("max_tokens") is None else body["max_tokens"]
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise BadCall(400, "BadRequestError", f"max_tokens must be at least 1, got {str(most)[:80]}.")
    if prompt + most > MAX_MODEL_LEN:
        raise BadCall(
            400,
            "BadRequestError",
            f"This model's maximum context length is {MAX_MODEL_LEN} tokens: the prompt has {prompt} and "
            f"{most} more are asked for.",
        )
    stream = body.get("stream") or False
    options = body.get("stream_options") or {}
    if not isinstance(stream, bool) or not isinstance(options, dict):
        raise BadCall(400, "BadRequestError", "stream must be true or false, and stream_options an object")
    return Call(prompt, most, stream, options.get("include_usage") is True)


def _prompt_tokens(prompt: Any) -> int:
    if isinstance(prompt, str) and prompt:
        return math.ceil(len(prompt.encode(errors="replace")) / BYTES_PER_TOKEN)
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        return len(prompt)
    raise BadCall(
        400,
        "BadRequestError",
        "prompt must be one text or one list of token ids, not empty, in this simulation",
    )


def error_answer(bad: BadCall) -> Response:
    """The answer to a bad call, in vLLM's shape."""
    return JSONResponse(_error_body(bad), bad.status)


def _error_body(bad: BadCall) -> dict[str, Any]:
    return {"error": {"message": str(bad), "type": bad.kind, "param": None, "code": bad.status}}


def _event(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body, separators=(',', ':'))}\n\n"


def _word(index: int) -> str:
    return _WORDS[index % len(_WORDS)]
