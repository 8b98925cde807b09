"""A Dockerfile as a list of instructions, and what we ask of one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its word in capitals, the rest of the line, and the stage it stands in (from 0)."""

    word: str
    rest: str
    stage: int

    @property
    def argv(self) -> list[str] | None:
        """The exec form's arguments, or None if the instruction is in another form."""
        found = re.search(r"\[.*\]$", self.rest)
        if found is None:
            return None
        try:
            return [str(part) for part in json.loads(found.group())]
        except json.JSONDecodeError:
            return None


def parse(text: str) -> list[Instruction]:
    """Split a Dockerfile into instructions; comments go, continued lines are joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    found: list[Instruction] = []
    stage = -1
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if not line.strip():
            continue
        word, _, rest = line.strip().partition(" ")
        stage += word.upper() == "FROM"
        found.append(Instruction(word.upper(), rest.strip(), stage))
    return found


def problems(text: str) -> list[str]:
    """What is wrong with a Dockerfile, one sentence each."""
    instructions = parse(text)
    last = max(i.stage for i in instructions)
    found = [
        f"{i.word} is not in exec form: {i.rest}"
        for i in instructions
        if i.word in ("RUN", "CMD", "ENTRYPOINT") and i.argv is None
    ]
    found += [
        f"ADD fetches or unpacks by itself, use COPY: {i.rest}" for i in instructions if i.word == "ADD"
    ]
    defaults = dict(i.rest.partition("=")[::2] for i in instructions if i.word == "ARG")
    for i in instructions:
        if i.word == "FROM":
            image = re.sub(r"\$\{(\w+)\}", lambda name: defaults.get(name.group(1), ""), i.rest.split()[0])
            if not re.search(r":\d[\w.-]*$|@sha256:", image):
                found.append(f"base image is not pinned to a version: {image}")
    users = [i.rest for i in instructions if i.word == "USER" and i.stage == last]
    if not users or not re.fullmatch(r"[1-9]\d*(:[1-9]\d*)?", users[-1]):
        found.append(f"the last stage does not end as a numeric user other than root: {users}")
    checks = [i for i in instructions if i.word == "HEALTHCHECK" and i.stage == last]
    if not checks or checks[-1].argv is None:
        found.append("no HEALTHCHECK in exec form in the last stage")
    installs = [i.argv for i in instructions if i.word == "RUN" and i.argv and "install" in i.argv]
    for argv in installs:
        if (
            argv[0].endswith("pip")
            and "--no-deps" not in argv
            and ("-c", "requirements.lock") not in pairwise(argv)
        ):
            found.append(f"an install that is not held to the lock: {' '.join(argv)}")
    return found
