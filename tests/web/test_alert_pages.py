"""The pages about alerts, playbooks and runs in a real browser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from playwright.sync_api import expect

from store import Store
from tests.web.fake_body import FakeBody
from tests.web.seeded import NOW
from tests.web.seeded_runs import ALERTS, PLAYBOOKS, fill_runs
from tests.web.serving import served
from web.app import create_app

pytestmark = pytest.mark.debian("chromium")

QUESTION = {
    "id": "run-2-relieve",
    "kind": "playbook",
    "text": "Halve max_num_seqs for NPU 2?",
    "since": NOW - 60,
}


class Watching(FakeBody):
    """A daemon beside a hot card."""

    def alerts(self) -> dict[str, Any]:
        """Answer from the table."""
        return ALERTS

    def playbooks(self) -> list[dict[str, Any]]:
        """Answer from the table."""
        return PLAYBOOKS

    async def approve(self, id: str) -> dict[str, Any]:
        """Take any yes."""
        self.changes["approvals"] = []
        return self._ordered("approve", id)

    async def run_playbook(self, name: str, labels: Mapping[str, str], *, dry_run: bool) -> dict[str, Any]:
        """Begin a run."""
        return self._ordered("run_playbook", name, dry_run) | {
            "run": 3,
            "state": "queued",
            "dry_run": dry_run,
        }


@pytest.fixture
def watching() -> Watching:
    return Watching(approvals=[QUESTION])


@pytest.fixture
def site(empty_store: Store, watching: Watching) -> Iterator[str]:
    fill_runs(empty_store)
    with served(create_app(watching, empty_store, None, clock=lambda: NOW)) as address:
        yield address


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_pages_are_drawn_and_fit(visit: Any, site: str, scheme: str, width: int) -> None:
    one = visit(width=width, scheme=scheme)
    for name, path, sign in (("alerts", "/alerts", "#alert-rows tr"), ("run", "/runs/1", "#event-rows tr")):
        one.page.goto(site + path)
        expect(one.page.locator(sign).first).to_be_visible()
        expect(one.page.locator("#stream")).to_have_text("live")
        assert one.page.evaluate("document.documentElement.scrollWidth") <= width
        one.picture(f"{name}-{width}-{scheme}")


def test_what_fires_is_told_first_and_the_unknown_is_not_zero(visit: Any, site: str) -> None:
    page = visit().page
    page.goto(site + "/alerts")
    expect(page.locator("h1")).to_have_text("1 alert fires")
    hot, busy = page.locator("#alert-rows tr").all()
    expect(hot).to_contain_text("NPU 2 is at 91 degrees")
    expect(hot).to_contain_text("npu 2")
    expect(busy).to_contain_text("<b>busy</b>")
    expect(busy.locator("td.number")).to_have_text("unknown")
    expect(page.locator("#groups")).to_contain_text("cannot be evaluated: many-to-many matching")


def test_a_run_tells_every_step_with_its_figures_and_its_way_back(visit: Any, site: str) -> None:
    page = visit().page
    page.goto(site + "/alerts")
    page.locator("#run-rows a", has_text="1").click()
    expect(page.locator("h1")).to_have_text("thermal_throttling on npu 2")
    expect(page.locator("#event-rows tr")).to_have_count(5)
    expect(page.locator("#event-rows")).to_contain_text("npu_temperature_celsius 80")
    expect(page.locator("#act-rows")).to_contain_text("max_num_seqs 256 -> 128")
    expect(page.locator("#act-rows")).to_contain_text("written down")
    expect(page.locator("#standing")).to_contain_text("succeeded")


def test_a_question_of_a_run_is_answered_from_its_page(visit: Any, site: str, watching: Watching) -> None:
    page = visit().page
    page.goto(site + "/runs/2")
    page.locator(".banner.asks button.primary").click()
    expect(page.locator("#toast")).to_have_text("Approved.")
    assert ("approve", "run-2-relieve") in watching.orders
    expect(page.locator(".banner.asks")).to_have_count(0)


def test_a_playbook_is_walked_from_the_page_after_a_second_yes(
    visit: Any, site: str, watching: Watching
) -> None:
    page = visit().page
    page.goto(site + "/alerts")
    page.locator("#playbooks summary").click()
    page.locator("[data-order=dry]").click()
    page.locator("dialog button[value=yes]").click()
    expect(page.locator("#toast")).to_have_text("The playbook walks.")
    assert ("run_playbook", "thermal_throttling", True) in watching.orders


def test_a_quiet_node_says_so(visit: Any, empty_store: Store) -> None:
    body = Watching()
    body.alerts = lambda: {"enabled": True, "alerts": [], "groups": [], "trouble": None}  # type: ignore[method-assign]
    body.playbooks = list  # type: ignore[method-assign]
    with served(create_app(body, empty_store, None, clock=lambda: NOW)) as address:
        page = visit().page
        page.goto(address + "/alerts")
        expect(page.locator("h1")).to_have_text("Nothing is wrong that a rule knows of")
        for sign in ("#quiet", "#no-runs", "#no-playbooks", "#no-rules"):
            expect(page.locator(sign)).to_be_visible()


def test_a_run_that_is_not_there_has_a_page_that_says_so(visit: Any, site: str) -> None:
    one = visit()
    assert one.page.goto(site + "/runs/99").status == 404
    expect(one.page.locator("main")).to_contain_text("there is no run 99")
    one.complaints.clear()  # a browser complains of every 404
