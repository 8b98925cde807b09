"""Which labels a device has: sources that know only its number give it the same identity as the others."""

from __future__ import annotations

from collectors.history import History
from collectors.sample import Labels, labels

IDENTITY = ("npu", "chip", "name")


class Identities:
    """Looks devices up in `npu_info`, which npu-smi and npu-exporter fill; without it a number must do.

    An identity that was found once is kept, so that a source that fails does not rename the others' series.
    `awaited` says that `npu_info` is going to be filled: until then a physical id is not taken for a card's number.
    """

    def __init__(self, history: History | None = None, *, awaited: bool = False) -> None:
        self._history = history
        self._awaited = awaited
        self._has_physical_ids: bool | None = None
        self._kept: dict[tuple[tuple[str, str], ...], Labels] = {}

    def of_chip(self, npu: int, chip: int, name: str | None = None) -> Labels:
        """The chip of a card; `name` is used while no other source has named it."""
        known = self._find(npu=str(npu), chip=str(chip))
        if known is not None:
            return known
        return labels(npu=str(npu), chip=str(chip), **({"name": name} if name else {}))

    def of_physical(self, number: int) -> Labels | None:
        """The device of a physical id, which counts chips over all cards (on A3 two to a card).

        None if it cannot be told which it is. Where no device has such an id, each card has one chip and the id is
        the card's number.
        """
        known = self._find(phy_id=str(number))
        if known is not None:
            return known
        if listed := self._listed():
            self._has_physical_ids = any(label == "phy_id" for pairs in listed for label, _ in pairs)
        unclear = self._awaited if self._has_physical_ids is None else self._has_physical_ids
        return None if unclear else self.of_chip(number, 0)

    def _listed(self) -> list[Labels]:
        return self._history.series("npu_info") if self._history is not None else []

    def _find(self, **wanted: str) -> Labels | None:
        key = tuple(sorted(wanted.items()))
        for pairs in self._listed():
            if set(key) <= set(pairs):
                self._kept[key] = tuple(pair for pair in pairs if pair[0] in IDENTITY)
                break
        return self._kept.get(key)
