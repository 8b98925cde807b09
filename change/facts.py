"""What is known of an engine and the machine below it when its settings are judged; None is unknown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from change.catalogue.knob import Engine, Platform
from change.installed.engine import InstalledEngine

Family = Literal["A1", "A2", "A3", "A5", "310P", "310"]

_FAMILIES: tuple[tuple[str, Family], ...] = (
    (r"910_?93\d*|910_?C|A3", "A3"),
    (r"910B\d[A-Z]?|A2", "A2"),
    (r"950|A5", "A5"),
    (r"910(?:A|B|PRO|PREMIUM)?", "A1"),
    (r"310P\d?", "310P"),
    (r"310B?\d?", "310"),
)


@dataclass(frozen=True, slots=True)
class Facts:
    """An engine of one version on a machine.

    `chip` is as npu-smi names it (910B4, Ascend910_9392); `cards` counts the devices that this engine may use, dies on
    A3. `ascend_version` is vllm-ascend's, where it is not the engine's own. `installed` is what its source says it
    takes, `model_type` what the model's config.json calls it.
    """

    engine: Engine
    version: str | None = None
    platform: Platform | None = None
    chip: str | None = None
    cards: int | None = None
    installed: InstalledEngine | None = None
    ascend_version: str | None = None
    model_type: str | None = None

    @property
    def family(self) -> Family | None:
        """The generation of the chip, or None if its name is not known."""
        return None if self.chip is None else family(self.chip)

    @property
    def ascend_release(self) -> str | None:
        """The version of vllm-ascend, which follows the engine's."""
        return self.ascend_version or (
            self.version if self.installed is None else self.installed.ascend_version or self.version
        )


def family(chip: str) -> Family | None:
    """The generation of a chip by its name: 910B1 to 910B4 are A2, and 910B alone is the old 910 (A1)."""
    name = chip.upper().removeprefix("ASCEND").strip(" _-")
    return next(
        (found for pattern, found in _FAMILIES if re.match(rf"(?:{pattern})(?![A-Z0-9])", name)), None
    )
