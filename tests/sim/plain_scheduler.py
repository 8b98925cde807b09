"""The engine model told again, token by token and without any short cut: what the fast one is held against."""

from __future__ import annotations

from dataclasses import dataclass, field

from change.engine import Values
from sim.physics import KV_BLOCK_TOKENS, Physics, tables
from sim.queue import Order, rank

Arrival = tuple[float, int, int]
"""Time in seconds, prompt and output tokens."""


@dataclass
class PlainRequest:
    arrival: float
    prompt: int
    output: int
    todo: int
    done: int = 0
    out: int = 0
    blocks: int = 0
    preemptions: int = 0
    tokens: list[float] = field(default_factory=list)

    @property
    def decodes(self) -> bool:
        return self.todo == 0


def serve(
    physics: Physics, values: Values, arrivals: list[Arrival], order: Order = "fcfs"
) -> tuple[list[PlainRequest], list[tuple[int, int]]]:
    """Serve all arrivals; the requests in order of arrival, and each step's (prefill tokens, decodes)."""
    cost = tables(physics)

    def place(request: PlainRequest) -> tuple[int, float]:
        return rank(order, request.prompt), request.arrival

    everyone = [PlainRequest(time, prompt, output, prompt) for time, prompt, output in arrivals]
    coming, waiting, running = list(everyone), list[PlainRequest](), list[PlainRequest]()
    free = physics.kv_blocks
    reserved = int(values["watermark"] * physics.kv_blocks)
    now = 0.0
    steps: list[tuple[int, int]] = []
    while coming or waiting or running:
        if not waiting and not running:
            now = max(now, coming[0].arrival)
        while coming and coming[0].arrival <= now:
            waiting.append(coming.pop(0))
        if order != "fcfs":
            waiting.sort(key=place)

        # Decodes first; who finds no block makes the last admitted go.
        preempted = False
        for request in sorted((r for r in running if r.decodes), key=everyone.index):
            if request not in running or request.done < request.blocks * KV_BLOCK_TOKENS:
                continue
            while free == 0:
                victim = running[-1] if order == "fcfs" else max(running, key=place)
                running.remove(victim)
                free += victim.blocks
                victim.blocks = victim.done = 0
                victim.todo = victim.prompt + victim.out
                victim.preemptions += 1
                waiting.insert(0, victim)
                preempted = True
                if order != "fcfs":
                    waiting.sort(key=place)
                if victim is request:
                    break
            else:
                free -= 1
                request.blocks += 1
        decodes = [r for r in running if r.decodes]
        room = int(values["batch_max_tokens"])
        if values["max_prefill_tokens"]:
            room = min(room, len(decodes) + int(values["max_prefill_tokens"]))
        room -= len(decodes)
        limit = int(values["long_prefill_tokens"]) or room
        if len(running) + len(waiting) == 1:
            limit = room
        chunks: list[tuple[PlainRequest, int]] = []
        for request in running:
            if not request.decodes and room > 0:
                size = min(request.todo, limit, room)
                chunks.append((request, size))
                room -= size
        while not preempted and waiting and room > 0 and len(running) < values["max_num_seqs"]:
            request = waiting[0]
            need = -(-request.todo // KV_BLOCK_TOKENS)
            if free - need < reserved and (running or free < need):
                break
            waiting.pop(0)
            running.append(request)
            request.blocks = need
            free -= need
            size = min(request.todo, limit, room)
            chunks.append((request, size))
            room -= size

        prefill = sum(size for _, size in chunks)
        read = sum(r.done for r in decodes) + sum(r.done for r, _ in chunks)
        now += (
            cost.tokens[len(decodes) + prefill]
            + cost.sequences[len(decodes) + len(chunks)]
            + cost.thrash[prefill]
            + physics.kv_read_seconds * read
            + physics.attention_seconds * sum(size * (r.done + 0.5 * size) for r, size in chunks)
        )
        steps.append((prefill, len(decodes)))
        for request, size in chunks:
            request.todo -= size
            request.done += size
        for request in decodes:
            request.done += 1
        for request in [*decodes, *(r for r, _ in chunks if r.decodes)]:
            request.out += 1
            request.tokens.append(now)
            if request.out == request.output:
                running.remove(request)
                free += request.blocks
                request.blocks = 0
    assert free == physics.kv_blocks
    return everyone, steps
