"""An engine without any traffic model: knobs, epochs, leases, gate and a clock that tests move by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from change.engine import (
    EngineError,
    EngineState,
    EngineUnreachable,
    KnobAnswer,
    RequestPage,
    RequestRecord,
    StaleEpoch,
    Values,
)

LAUNCH: Mapping[str, float] = {
    "batch_max_tokens": 2048,
    "max_prefill_tokens": 0,
    "long_prefill_tokens": 0,
    "max_num_seqs": 256,
    "watermark": 0.0,
}
CEILINGS: Mapping[str, float] = {
    "batch_max_tokens": 8192,
    "max_prefill_tokens": 8192,
    "long_prefill_tokens": 8192,
    "max_num_seqs": 256,
    "watermark": 0.5,
}
FLOORS: Mapping[str, float] = {
    "batch_max_tokens": 256,
    "max_prefill_tokens": 16,
    "long_prefill_tokens": 16,
    "max_num_seqs": 1,
    "watermark": 0.0,
}
ZERO_IS_OFF = ("max_prefill_tokens", "long_prefill_tokens")


@dataclass
class PlainEngine:
    """An `EngineControl` that tests can spoil.

    `ignores` names knobs that it takes and does not honour, `refuses` is why it refuses every change, `meanwhile`
    runs before a change is looked at, and `answering` may replace an answer, or raise, once it was carried out.
    """

    boot: int = 1
    now: float = 1_700_000_000.0
    epoch: int = 0
    values: dict[str, float] = field(default_factory=lambda: dict(LAUNCH))
    launch: dict[str, float] = field(default_factory=lambda: dict(LAUNCH))
    ceilings: dict[str, float] = field(default_factory=lambda: dict(CEILINGS))
    scheduler_known: bool = True
    refuses: str | None = None
    ignores: frozenset[str] = frozenset()
    down: bool = False
    meanwhile: Callable[[], None] | None = None
    answering: Callable[[KnobAnswer], KnobAnswer] | None = None
    revert_to: dict[str, float] = field(default_factory=dict)
    deadline: float | None = None
    gate_until: float = 0.0
    records: list[RequestRecord] = field(default_factory=list)
    mark: str = ""
    revert_mark: str = ""

    @property
    def boot_id(self) -> str:
        return f"boot-{self.boot}"

    def restart(self, **flags: float) -> None:
        """Start again with the launch values, some of them by other flags, which are ceilings too."""
        self.boot += 1
        self.launch.update(flags)
        self.ceilings.update({name: max(value, CEILINGS[name]) for name, value in flags.items()})
        self.values, self.epoch, self.deadline, self.gate_until = dict(self.launch), 0, None, 0.0
        self.mark = self.revert_mark = ""
        self.records.clear()

    def finish_requests(self, count: int) -> None:
        for seq in itertools.islice(itertools.count(len(self.records) + 1), count):
            self.now += 1.0
            self.records.append(
                RequestRecord(
                    seq=seq,
                    arrival=self.now - 0.5,
                    first_token=self.now - 0.25,
                    finish=self.now,
                    epoch_arrival=self.epoch,
                    epoch_first_token=self.epoch,
                    epoch_finish=self.epoch,
                    prompt_tokens=100,
                    output_tokens=2,
                    cached_tokens=0,
                    queued_seconds=0.0,
                    prefill_seconds=0.25,
                    decode_seconds=0.25,
                    preemptions=0,
                    reason="stop",
                )
            )

    async def state(self) -> EngineState:
        self._expire()
        return EngineState(
            plugin="0.1.0",
            engine="vllm",
            engine_version="0.32.0",
            boot_id=self.boot_id,
            epoch=self.epoch,
            values=dict(self.values),
            ceilings=dict(self.ceilings),
            floors=floors(self.values),
            lease_remaining_seconds=None if self.deadline is None else self.deadline - self.now,
            gate="closed" if self.now < self.gate_until else "open",
            dp_ranks=1,
            api_servers=1,
            scheduler="plain",
            scheduler_known=self.scheduler_known,
            mark=self.mark,
        )

    async def set_knobs(
        self,
        values: Values,
        *,
        if_epoch: int,
        lease_seconds: float | None,
        revert_to: Values | None = None,
        mark: str | None = None,
    ) -> KnobAnswer:
        if self.meanwhile is not None:
            self.meanwhile()
        answer = self._set(values, if_epoch, lease_seconds, revert_to, mark)
        return answer if self.answering is None else self.answering(answer)

    def _set(
        self,
        values: Values,
        if_epoch: int,
        lease_seconds: float | None,
        revert_to: Values | None,
        mark: str | None,
    ) -> KnobAnswer:
        self._expire()
        if if_epoch != self.epoch:
            raise StaleEpoch(f"epoch {if_epoch} is stale", self.epoch)
        self._check({**self.values, **values}, set(values))
        self._check({**self.values, **(revert_to or {})}, set(revert_to or {}))
        if self.refuses is not None:
            return KnobAnswer(self.epoch, dict(values), self._of(values), "refused", self.refuses)
        if mark is not None and not (len(mark) <= 64 and mark.isprintable()):
            raise EngineError("mark must be printable text of at most 64 characters")
        before = dict(self.values) if self.deadline is None else self.revert_to
        before_mark = self.mark if self.deadline is None else self.revert_mark
        if mark is None:
            mark = before_mark if lease_seconds is None else self.mark
        base = before if lease_seconds is None else self.values
        self.revert_to = {**before, **(revert_to or {})}
        self.revert_mark = mark if lease_seconds is None else before_mark
        self.deadline = None if lease_seconds is None else self.now + lease_seconds
        self._serve({**base, **{k: v for k, v in values.items() if k not in self.ignores}}, mark)
        return KnobAnswer(self.epoch, dict(values), self._of(values), "applied")

    async def requests(self, since: int) -> RequestPage:
        self._expire()
        new = tuple(record for record in self.records if record.seq > since)
        last = self.records[-1].seq if self.records else 0
        return RequestPage(self.now, last, 0, new, {0: {160: len(self.records)}})

    async def gate(
        self, state: Literal["open", "closed"], *, lease_seconds: float, retry_after: float
    ) -> None:
        self._expire()
        if not 0 < lease_seconds <= 120 or retry_after < 0:
            raise EngineError(f"lease_seconds is {lease_seconds}: at most 120")
        self.gate_until = self.now + lease_seconds if state == "closed" else 0.0

    def _of(self, values: Values) -> dict[str, float]:
        return {name: self.values[name] for name in values}

    def _check(self, values: Values, names: set[str]) -> None:
        for name in names:
            value = values[name]
            if name not in self.values:
                raise EngineError(f"unknown knob {name!r}")
            if name in ZERO_IS_OFF and value == 0:
                continue
            low, high = floors(values)[name], self.ceilings[name]
            if not low <= value <= high:
                raise EngineError(f"{name} must be from {low:g} to {high:g}, not {value:g}")
            if name != "watermark" and value != int(value):
                raise EngineError(f"{name} must be a whole number, not {value:g}")

    def _serve(self, values: dict[str, float], mark: str) -> None:
        if (values, mark) != (self.values, self.mark):
            self.values, self.mark = values, mark
            self.epoch += 1

    def _expire(self) -> None:
        if self.down:
            raise EngineUnreachable("the engine is down")
        if self.deadline is not None and self.now >= self.deadline:
            self.deadline = None
            self._serve(dict(self.revert_to), self.revert_mark)


def floors(values: Values) -> dict[str, float]:
    """Bounds below beside a whole config: every request that may run needs a token of the budget."""
    return {**FLOORS, "batch_max_tokens": max(16, values["max_num_seqs"])}
