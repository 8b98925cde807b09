"""Taking a rule file apart: each key is taken once as what it should be, and every mistake is kept with its line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rules import template
from rules.alert_state import encodable
from rules.durations import seconds_of
from rules.expression import Expression, ExpressionError, parse
from rules.rule import ALERT_NAME, DEFAULT_SEVERITY, LABEL_NAME, SEVERITIES, Rule
from rules.template import Template, TemplateError
from rules.yaml_reading import Document, Path

LONGEST_NAME = 200
LONGEST_TEXT = 4096
SHOWN = 60


@dataclass(frozen=True, slots=True)
class Page:
    """One file that is read, and the mistakes found in it so far."""

    name: str
    document: Document
    mistakes: list[str] = field(default_factory=list)

    def source(self, path: Path) -> str:
        """Where a part of it stands: `file:line`."""
        line = self.document.line(path)
        return f"{self.name}:{line}" if line else self.name

    def mistake(self, path: Path, text: str) -> None:
        """Note a mistake with its place."""
        self.mistakes.append(f"{self.source(path)}: {text}")


class Fields:
    """One mapping of the file; `what` is how mistakes call it. Each `take` of a key makes it a known one."""

    def __init__(self, page: Page, path: Path, values: Any, what: str) -> None:
        self.page = page
        self.path = path
        self.what = what
        self._known: list[str] = []
        self._good = isinstance(values, dict)
        self.values: Mapping[str, Any] = values if isinstance(values, dict) else {}
        if not self._good:
            page.mistake(path, f"{what}: must be keys and values, not {shown(values)}")

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def wrong(self, key: str | None, text: str) -> None:
        """Note a mistake of a key, or of the whole."""
        path = self.path if key is None else (*self.path, key)
        self.page.mistake(path, f"{self.what}: {text}" if key is None else f"{self.what}: {key}: {text}")

    def take(self, key: str) -> Any:
        """The value of a key as it stands, None where there is none."""
        self._known.append(key)
        return self.values.get(key)

    def text(self, key: str, *, needed: bool = False, longest: int = LONGEST_TEXT) -> str | None:
        """A text that is not empty; None where there is none or it is wrong."""
        value = self.take(key)
        if value is None:
            if needed and self._good:
                self.wrong(None, f"has no {key}")
            return None
        if not isinstance(value, str) or not value.strip():
            self.wrong(key, f"must be a text, not {shown(value)}")
            return None
        if len(value) > longest:
            self.wrong(key, f"is {len(value)} characters long: at most {longest} are read")
            return None
        if not encodable(value):
            self.wrong(key, f"{shown(value)} holds half a character (a lone surrogate): write it out")
            return None
        return value

    def name(self, key: str) -> str | None:
        """The text by which a rule or group goes: one line, without control characters."""
        value = self.text(key, needed=True, longest=LONGEST_NAME)
        if value is not None and not value.isprintable():
            self.wrong(key, f"{shown(value)} holds control characters: a name is one plain line")
            return None
        return value

    def duration(
        self, key: str, default: float = 0.0, least: float = 0.0, most: float = 31 * 86400.0
    ) -> float:
        """A duration in seconds."""
        value = self.take(key)
        if value is None:
            return default
        try:
            seconds = seconds_of(value)
        except ValueError as error:
            self.wrong(key, str(error))
            return default
        if not least <= seconds <= most:
            self.wrong(key, f"{shown(value)} is out of range: from {least:g} s to {most:g} s")
            return default
        return seconds

    def items(self, key: str) -> list[Any]:
        """A list; empty where there is none."""
        value = self.take(key)
        if value is None or isinstance(value, list):
            return value or []
        self.wrong(key, f"must be a list, not {shown(value)}")
        return []

    def templates(self, key: str) -> dict[str, Template]:
        """Texts by name, which may hold `{{ $labels.x }}` and `{{ $value }}`."""
        value = self.take(key)
        if value is None:
            return {}
        made: dict[str, Template] = {}
        inner = Fields(self.page, (*self.path, key), value, f"{self.what}: {key}")
        for name, given in inner.values.items():
            if not LABEL_NAME.fullmatch(name):
                inner.wrong(None, f"{shown(name)} is no name of a label: letters, digits and _ only")
            elif isinstance(given, bool) or not isinstance(given, str | int | float):
                inner.wrong(name, f"must be a text, not {shown(given)}")
            else:
                found = inner.template(name, str(given))
                if found is not None:
                    made[name] = found
        return made

    def template(self, key: str, text: str) -> Template | None:
        """A text with substitutions; None if it is wrong."""
        if len(text) > LONGEST_TEXT:
            self.wrong(key, f"is {len(text)} characters long: at most {LONGEST_TEXT} are read")
            return None
        if not encodable(text):
            self.wrong(key, f"{shown(text)} holds half a character (a lone surrogate): write it out")
            return None
        try:
            return template.parse(text)
        except TemplateError as error:
            self.wrong(key, str(error))
            return None

    def done(self) -> None:
        """Every key that nobody took is a mistake."""
        for key in self.values:
            if key not in self._known:
                self.page.mistake(
                    (*self.path, key), f"{self.what}: unknown key {shown(key)}{nearest(key, self._known)}"
                )


def expression(fields: Fields, key: str, text: str) -> Expression | None:
    """The expression of a rule; None if it is wrong."""
    try:
        return parse(text)
    except ExpressionError as error:
        fields.wrong(key, str(error))
        return None


def rule(
    fields: Fields,
    name: str,
    condition: Expression,
    seconds: float,
    playbook: str | None,
    severity: object = None,
) -> Rule:
    """Make a rule of its fields that both forms have: labels, annotations, description, keep_firing_for.

    `severity` is what stands outside of the labels, None where nothing does.
    """
    labels = fields.templates("labels")
    if severity is not None:
        if "severity" in labels:
            fields.wrong("severity", "stands in the labels too: leave one of them out")
        if not isinstance(severity, str):
            fields.wrong("severity", f"must be {', '.join(SEVERITIES)}, not {shown(severity)}")
        else:
            labels["severity"] = Template(severity, (severity,), ())
    for label, found in labels.items():
        if label == ALERT_NAME or label.startswith("__"):
            fields.wrong("labels", f"{label} is set by the engine: choose another name")
        if found.uses_value:
            fields.wrong(
                "labels", f"{label} holds {{{{ $value }}}}: with every change it would be another alert"
            )
        if not found.text.isprintable():
            fields.wrong("labels", f"{label} holds control characters")
    chosen = labels.setdefault("severity", template.parse(DEFAULT_SEVERITY)).text
    if chosen not in SEVERITIES:
        fields.wrong("labels", f"severity is {', '.join(SEVERITIES)}, not {shown(chosen)}")
    annotations = fields.templates("annotations")
    description = fields.text("description")
    for key, text in (("description", description), ("playbook", playbook)):
        if text is not None and key in annotations and annotations[key].text != text:
            fields.wrong(key, "stands in the annotations too, with another text: leave one of them out")
        elif text is not None and (made := fields.template(key, text)) is not None:
            annotations[key] = made
    if "playbook" in labels and _playbook_again(labels["playbook"], annotations):
        del labels["playbook"]
    told = annotations.get("description")
    named = annotations.get("playbook")
    return Rule(
        name,
        condition,
        seconds,
        fields.duration("keep_firing_for"),
        labels,
        annotations,
        None if named is None else named.text,
        "" if told is None else told.text,
        fields.page.source(fields.path),
    )


def _playbook_again(label: Template, annotations: Mapping[str, Template]) -> bool:
    """Whether the label says no more than the annotation: so the export writes it for Alertmanager's routes."""
    return "playbook" in annotations and annotations["playbook"].text == label.text


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about a word that is not known: what may have been meant."""
    choices = list(known)
    near = difflib.get_close_matches(word[:LONGEST_NAME], choices, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known here: {', '.join(choices)}" if len(choices) <= 16 else ""


def shown(value: object) -> str:
    """A value as a mistake shows it: short, on one line, whatever it holds."""
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else f"{value!r}"[: 4 * SHOWN]
    short = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    return ascii(short) if not short.isprintable() else repr(short)
