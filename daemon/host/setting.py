"""A node-wide setting that is a file, or the same file for each of several parts of the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from change.host import HostError, HostReading
from change.host_knobs import HOST_KNOBS
from collectors.host.settings import parse_choice
from daemon.host.files import HostFiles

MIXED = "mixed"


class Setting:
    """One knob whose value is a file's text.

    `paths` gives the files there are now; all of them are set alike. With `chosen`, the file lists the words and marks
    the one in force as `[word]`. `trials` are the values worth a trial; `offered` limits them to what a file offers.
    """

    def __init__(
        self,
        files: HostFiles,
        knob: str,
        paths: Callable[[], Sequence[str]],
        trials: Sequence[str],
        *,
        chosen: bool = False,
        offered: Callable[[], Sequence[str] | None] = lambda: None,
    ) -> None:
        self.knob = knob
        self._files = files
        self._paths = paths
        self._trials = tuple(trials)
        self._chosen = chosen
        self._offered = offered

    def values(self) -> tuple[str, ...]:
        """The values worth a trial that this host offers."""
        if not self._texts():
            return ()
        offered = self._offered()
        return tuple(value for value in self._trials if offered is None or value in offered)

    def read(self, *, undo: bool = True) -> HostReading:
        """Read every file; `mixed` if they differ."""
        texts = self._texts()
        if not texts:
            place = HOST_KNOBS[self.knob].read_back
            return HostReading(
                self.knob, "node", None, f"this host does not have it, or does not show it: {place}"
            )
        values = set(texts.values())
        value = values.pop() if len(values) == 1 else MIXED
        return HostReading(self.knob, "node", value, undo={"files": texts} if undo else None)

    def write(self, value: str) -> None:
        """Set every file that differs."""
        self._put(dict.fromkeys(self._texts(), value))

    def restore(self, undo: Mapping[str, Any]) -> None:
        """Put each file's own text back."""
        self._put(undo["files"])

    def preview(self, value: str) -> list[str]:
        """What `write` would do, in words."""
        changed = {path: text for path, text in self._texts().items() if text != value}
        if not changed:
            return [f"nothing: it is {value}"]
        path, text = next(iter(changed.items()))
        more = f", and {len(changed) - 1} more like it" if len(changed) > 1 else ""
        return [f"{path}: {text} becomes {value}{more}"]

    def _put(self, wanted: Mapping[str, str]) -> None:
        now = self._texts()
        for path, value in wanted.items():
            if now.get(path) == value:
                continue
            if path not in now:
                raise HostError(f"{path} is gone: {self.knob} cannot be set to {value} there")
            self._files.write(path, value)

    def _texts(self) -> dict[str, str]:
        found = {}
        for path in self._paths():
            text = self._files.text(path) if self._files.readable(path) else None
            word = None if text is None else text.strip()
            if self._chosen and word:
                # A laid tree keeps the bare word that was written; the kernel always shows all with a mark.
                word = parse_choice(word) or (word if word.isalpha() else None)
            if word:
                found[path] = word
        return found
