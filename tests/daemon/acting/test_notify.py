"""Telling people: where it arrived, and where not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from daemon.acting.deed import RunContext
from daemon.acting.notify import Notify
from daemon.notices import Notices
from rules.actions import Action, ActionRefused, Outcome

RUN = RunContext("run-3", "queue_over_100")


class Sink:
    def __init__(self, answers: Mapping[str, str | None]) -> None:
        self.answers = answers
        self.told: list[str] = []

    async def notify(self, text: str, now: float) -> Mapping[str, str | None]:
        self.told.append(text)
        return self.answers


def tell(sink: Sink | None, text: object = "look at card 3") -> tuple[Outcome, Notices]:
    notices = Notices(lambda: 0.0)
    deed = Notify(notices, sink)
    action = Action("notify", {"text": text})

    async def story() -> Outcome:
        plan = await deed.plan(action, RUN, 0.0)
        assert (plan.blast, plan.reversible) == ("none", False)
        return await deed.act(action, plan, RUN, 0.0)

    return asyncio.run(story()), notices


def test_every_webhook_and_the_page_are_told_for_which_run() -> None:
    sink = Sink({"ops": None, "ding": None})
    done, notices = tell(sink)
    assert done.ok
    assert sink.told == ["run-3 of playbook queue_over_100 (engine): look at card 3"]
    assert [notice.text for notice in notices.standing()] == sink.told


def test_one_that_fails_is_named_and_the_others_count() -> None:
    done, _ = tell(Sink({"ops": None, "ding": "HTTP 500"}))
    assert done.ok
    assert done.figures == {"webhooks": {"ops": "told", "ding": "HTTP 500"}}


def test_when_none_took_it_it_failed() -> None:
    done, _ = tell(Sink({"ding": "HTTP 500"}))
    assert not done.ok
    assert "HTTP 500" in done.text


def test_without_webhooks_the_page_is_told() -> None:
    done, _ = tell(None)
    assert done.ok
    assert "page" in done.text


@pytest.mark.parametrize("text", [None, "", "  ", 7])
def test_nothing_to_say_is_refused(text: object) -> None:
    with pytest.raises(ActionRefused, match="needs a text"):
        tell(None, text)


def test_control_characters_are_not_sent() -> None:
    sink = Sink({"ops": None})
    tell(sink, "card\x1b[31m 3\x00")
    assert "\x1b" not in sink.told[0]
    assert "\x00" not in sink.told[0]
