"""Which labels a device has: sources that know only its number give it the same identity as the others."""

from __future__ import annotations

from collectors.history import History
from collectors.sample import Labels, labels

IDENTITY = ("npu", "chip", "name")


class Identities:
    """Looks devices up in `npu_info`, which npu-smi and npu-exporter fill; without it a number must do.

    An identity that was found once is kept, so that a source that fails does not rename the others' series.
    """

    def __init__(self, history: History | None = None) -> None:
        self._history = history
        self._kept: dict[tuple[tuple[str, str], ...], Labels] = {}

    def of_chip(self, npu: int, chip: int, name: str | None = None) -> Labels:
        """The chip of a card; `name` is used while no other source has named it."""
        known = self._find(npu=str(npu), chip=str(chip))
        if known is not None:
            return known
        return labels(npu=str(npu), chip=str(chip), **({"name": name} if name else {}))

    def of_physical(self, number: int) -> Labels:
        """The device of a physical id, which counts chips over all cards (on A3 two to a card)."""
        known = self._find(phy_id=str(number))
        return known if known is not None else self.of_chip(number, 0)

    def _find(self, **wanted: str) -> Labels | None:
        key = tuple(sorted(wanted.items()))
        for pairs in self._history.series("npu_info") if self._history is not None else []:
            if set(key) <= set(pairs):
                self._kept[key] = tuple(pair for pair in pairs if pair[0] in IDENTITY)
                break
        return self._kept.get(key)
