"""The `npu-smi info -t TYPE` queries as a slow source: a few at each reading, in rotation over types and chips.

Every second question is one of `health`, so that a fault of a chip is soon seen and soon gone on a large node too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from collectors.notes import bounded
from collectors.npu_smi import errors
from collectors.npu_smi.keyed import parse_keyed
from collectors.npu_smi.program import NpuSmi
from collectors.npu_smi.samples import section_samples, unlisted_process_samples
from collectors.sample import CollectorError, Sample

HEALTH = "health"
OTHERS = ("ecc", "common", "usages", "memory", "hccs", "err-count", "volt", "proc-mem")
TYPES = (HEALTH, *OTHERS)
"""What is asked of each chip, the others in this order."""
TABLE_PROCESSES = 8
"""As many processes of a chip the table lists; `proc-mem` lists all."""
KEEP_SECONDS = 900.0
"""Answers are given again for so long, or for two rounds of all questions if those take longer."""
MOST_NOTES = 20


@dataclass(frozen=True, slots=True)
class _Question:
    type: str
    npu: str
    chip: str


class _Rotation:
    """Questions that are asked one after the other, round and round."""

    def __init__(self) -> None:
        self.questions: list[_Question] = []
        self._next = 0

    def next(self) -> _Question:
        at = self._next % len(self.questions)
        self._next = at + 1
        return self.questions[at]


class NpuSmiDetailsCollector:
    """Asks for what neither the table nor the watch shows.

    Each reading goes on for `budget_seconds` and then leaves the rest for the next, so that npu-smi is idle most of
    the time. Answers are given again, with their own times, until asked anew. What a model does not support is not
    asked again.
    """

    name = "npu_smi_details"

    def __init__(
        self,
        program: NpuSmi,
        *,
        interval_seconds: float = 30.0,
        budget_seconds: float = 5.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.interval_seconds = interval_seconds
        self.notes: tuple[str, ...] = ()
        self._program = program
        self._budget = budget_seconds
        self._monotonic = monotonic
        self._answers: dict[_Question, list[Sample]] = {}
        self._told: dict[_Question, tuple[str, ...]] = {}
        self._unsupported: set[tuple[str | None, str]] = set()
        self._health, self._others = _Rotation(), _Rotation()
        self._health_is_next = True
        self._topology_notes: tuple[str, ...] = ()
        self._keep_seconds = KEEP_SECONDS

    async def collect(self, now: float) -> list[Sample]:
        """Ask some questions and give all answers at hand; raises CollectorError when a query cannot be run."""
        await self._program.learn()
        if not self._program.devices:
            raise CollectorError(f"{self._program.name}: no chip to ask about: its table could not be read")
        self._topology_notes = self._topology_notes or await self._program.learn_topology()
        self._health.questions, self._others.questions = self._questions(HEALTH), self._questions(*OTHERS)
        self._forget({*self._health.questions, *self._others.questions}, now)
        began = self._monotonic()
        asked = 0
        for rotation in self._turns():
            await self._ask(rotation.next(), now + self._monotonic() - began)
            asked += 1
            if self._monotonic() - began >= self._budget:
                break
        if asked:
            round_seconds = 2 * len(self._others.questions) / asked * self.interval_seconds
            self._keep_seconds = max(KEEP_SECONDS, 2 * round_seconds)
        self.notes = tuple(
            bounded(
                [*self._topology_notes, *(note for told in self._told.values() for note in told)], MOST_NOTES
            )
        )
        found = [sample for samples in self._answers.values() for sample in samples]
        return self._program.not_watched(found)

    def _turns(self) -> Iterator[_Rotation]:
        """Whose turn it is: by turns, and none asks the same twice in a reading."""
        left = {True: len(self._health.questions), False: len(self._others.questions)}
        while any(left.values()):
            health, self._health_is_next = self._health_is_next, not self._health_is_next
            if left[health]:
                left[health] -= 1
                yield self._health if health else self._others

    def _questions(self, *types: str) -> list[_Question]:
        return [
            _Question(kind, device.npu, device.chip)
            for kind in types
            for device in self._program.devices
            if (device.name, kind) not in self._unsupported
            and (kind != "proc-mem" or len(device.pids) >= TABLE_PROCESSES)
        ]

    def _forget(self, asked: set[_Question], now: float) -> None:
        """Drop answers about what is there no more, and those too old to be of use."""
        for question, samples in list(self._answers.items()):
            if question not in asked or any(now - sample.time > self._keep_seconds for sample in samples):
                del self._answers[question]
        self._told = {question: told for question, told in self._told.items() if question in asked}

    async def _ask(self, question: _Question, now: float) -> None:
        device = self._program.device(question.npu, question.chip)
        if device is None:
            return
        chip = ("-c", question.chip) if device.numbered else ()
        self._answers.pop(question, None)
        self._told.pop(question, None)
        answer = await self._program.query("-t", question.type, "-i", question.npu, *chip)
        now += answer.waited
        asked = f"-t {question.type} of NPU {question.npu} chip {question.chip}"
        if errors.has_no_such_query(answer.said):
            self._unsupported.add((device.name, question.type))
            return
        keyed = parse_keyed(answer.said)
        if not keyed.sections and not keyed.processes:
            if question.type != "proc-mem" or answer.said.strip():
                self._told[question] = (f"{asked}: {errors.of_output(answer.said, answer.code)}",)
            return
        own = [one for one in keyed.sections if not one.controller and one.chip in (None, question.chip)]
        samples = [sample for one in own for sample in section_samples(one, device, now)]
        samples += unlisted_process_samples(keyed.processes, device, now)
        # What the watch gives now is newer: were it kept, it would come up as old news when the watch ends.
        self._answers[question] = self._program.not_watched(samples)
        if keyed.notes:
            self._told[question] = tuple(f"{asked}: {note}" for note in keyed.notes)
