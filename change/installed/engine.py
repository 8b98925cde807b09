"""The arguments of an installed engine, as its source says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from change.catalogue.knob import Engine


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the command line.

    `spellings` are all of it, dashes and not underscores; `negatives` switch it off. `takes_value` is None where the
    source does not tell. `choices` is empty where any text goes. `default` is the source of the default.
    """

    spellings: tuple[str, ...]
    negatives: tuple[str, ...] = ()
    takes_value: bool | None = None
    choices: tuple[str, ...] = ()
    default: str | None = None


@dataclass(frozen=True)
class InstalledEngine:
    """An engine on disk: `source` is the folder of its package, `version` None if it does not say.

    `additional_keys` are the top keys of vllm-ascend's `--additional-config` and `quantizations` what it registers;
    both None where vllm-ascend is not there or could not be read.
    """

    engine: Engine
    source: str
    version: str | None
    arguments: tuple[Argument, ...]
    additional_keys: frozenset[str] | None = None
    quantizations: frozenset[str] | None = None
    ascend_version: str | None = None

    @cached_property
    def spellings(self) -> Mapping[str, Argument]:
        """Every spelling, the negative ones too, with its argument."""
        return {word: each for each in self.arguments for word in (*each.spellings, *each.negatives)}

    def has(self, *spellings: str) -> bool:
        """Whether it takes an argument by any of these spellings."""
        return any(word in self.spellings for word in spellings)
