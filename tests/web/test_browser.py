"""The pages in a real browser: drawn, in both themes, without an error, and kept up to date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, expect

from daemon.knob_rows import knob_rows
from store import Store
from tests.web.fake_body import FakeBody
from tests.web.seeded import NOW, add_pair, fill
from tests.web.seeded_cold import BEST, fill_cold
from tests.web.serving import served
from web.app import create_app

pytestmark = pytest.mark.debian("chromium")


@pytest.fixture
def site(body: FakeBody, read_store: Store) -> Iterator[str]:
    with served(create_app(body, read_store, None, clock=lambda: NOW)) as address:
        yield address


def luminance(page: Page) -> float:
    colour = page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
    return (red + green + blue) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 900, 390])
def test_both_pages_are_drawn_and_fit(visit: Any, site: str, scheme: str, width: int) -> None:
    one = visit(width=width, scheme=scheme)
    for name, path, sign in (("live", "/", "#devices tbody tr"), ("trials", "/trials", "tbody.confirming")):
        one.page.goto(site + path)
        expect(one.page.locator(sign).first).to_be_visible()
        expect(one.page.locator("#stream")).to_have_text("live")
        assert one.page.evaluate("document.documentElement.scrollWidth") <= width
        assert (luminance(one.page) > 128) == (scheme == "light")
        one.picture(f"{name}-{width}-{scheme}")


def test_the_live_page_says_what_is_unknown_and_writes_units(visit: Any, site: str) -> None:
    page = visit().page
    page.goto(site)
    expect(page.locator("h1")).to_have_text("Campaign 3: confirming")
    dark = page.locator("#devices tr", has_text="NPU 3 · 1")
    expect(dark.locator("td .unknown, td.unknown")).to_have_count(4)
    expect(dark).not_to_contain_text("0 %")
    expect(page.locator("#devices")).to_contain_text("24.1 / 32.0 GiB")
    expect(page.locator("#tiles")).to_contain_text("tokens/s")
    expect(page.locator("#signs li", has_text="apart from the other cards")).to_contain_text(
        "NPU 2 · 0 · temperature"
    )
    expect(page.locator("#signs li .dot")).to_have_count(1)
    expect(page.locator("#config tr", has_text="batch_max_tokens")).to_contain_text("5632")


def test_the_live_page_says_how_many_alerts_fire_and_what_the_adaptive_mode_does(
    visit: Any, site: str, body: FakeBody
) -> None:
    mode = {"active": True, "off": None, "values": {"max_num_seqs": 96}}
    body.changes = {"alerts_firing": 2, "adaptive": mode}
    page = visit().page
    page.goto(site)
    link = page.locator("#banners a")
    expect(link).to_have_text("2 alerts fire")
    expect(link).to_have_attribute("href", re.compile(r"/alerts$|^alerts$"))
    expect(page.locator("[data-key=adaptive]")).to_contain_text("max_num_seqs 96")
    body.changes = {"alerts_firing": 0, "adaptive": None}
    expect(page.locator("#banners a, [data-key=adaptive]")).to_have_count(0)


def test_figures_move_without_a_reload(visit: Any, site: str, body: FakeBody) -> None:
    page = visit().page
    page.goto(site)
    expect(page.locator("h1")).to_contain_text("Campaign 3")
    body.changes = {
        "campaign": None,
        "paused": True,
        "queue": {"running": 7, "waiting": None, "kv_usage": None},
    }
    expect(page.locator("h1")).to_have_text("Paused: nothing is tried")
    expect(page.locator("[data-key=queue] .figure")).to_contain_text("7 running")
    expect(page.locator("[data-key=kv] .figure")).to_have_text("unknown")


def test_a_new_pair_appears_on_the_trials_page_without_a_reload(
    visit: Any, body: FakeBody, store: Store
) -> None:
    with served(create_app(body, store, None, clock=lambda: NOW)) as address:
        page = visit().page
        page.goto(address + "/trials")
        dots = page.locator("tbody[data-trial='4'] .effects .pair.confirm")
        before = dots.count()
        assert before > 0
        page.evaluate("window.untouched = true")
        block = add_pair(store)
        expect(dots).to_have_count(before + 1)
        expect(page.locator(f".strip [data-block='{block}']")).to_have_count(1)
        assert page.evaluate("window.untouched") is True


def test_trials_are_in_order_and_tell_only_what_differs(
    visit: Any, browser: Browser, empty_store: Store
) -> None:
    fill(empty_store, running=False)
    with served(create_app(FakeBody(), empty_store, None, clock=lambda: NOW)) as address:
        one = visit()
        page = one.page
        page.goto(address + "/trials")
        expect(page.locator("#sentence")).to_contain_text("Trial 4 proved better")
        numbers = page.locator("#plot .unfold .n").all_inner_texts()
        assert numbers == ["4", "5", "1", "2", "6", "7", "3", "8"]
        changes = page.locator("tbody[data-trial='1'] .changes li").all_inner_texts()
        assert changes == ["batch_max_tokens 2048 → 4096"]
        row = page.locator("tbody[data-trial='4']")
        assert row.locator(".effects .pair.confirm").count() == 18
        assert row.locator(".effects .interval").count() == 1
        row.locator("button.unfold").press("Enter")
        expect(row.locator(".detail")).to_contain_text("ttft_p50_seconds")
        expect(row.locator("button.unfold")).to_be_focused()
        one.picture("trials-promoted")
        page.goto(address + "/trials/2")
        expect(page.locator("#sentence")).to_contain_text("The incumbent stays")


def test_an_empty_store_explains_how_to_begin(visit: Any, empty_store: Store) -> None:
    body = FakeBody(devices=[], campaign=None, pending=None, notices=[], mode="observe")
    with served(create_app(body, empty_store, None, clock=lambda: NOW)) as address:
        one = visit()
        page = one.page
        page.goto(address + "/trials")
        expect(page.locator("#none")).to_contain_text("trimtab tune")
        one.picture("trials-empty")
        page.goto(address)
        expect(page.locator("#campaign")).to_contain_text("No campaign is running")
        expect(page.locator("#devices")).to_contain_text("missing, not zero")
        one.picture("live-empty")


def test_a_daemon_that_knows_nothing_is_shown_as_unknown(visit: Any, site: str, body: FakeBody) -> None:
    page = visit().page
    body.broken = RuntimeError("gone wrong")
    page.goto(site)
    expect(page.locator("h1")).to_have_text("The engine's state is unknown")
    expect(page.locator("#tiles .figure.unknown")).to_have_count(6)


def test_an_approval_is_answered_from_the_page(visit: Any, site: str, body: FakeBody) -> None:
    page = visit().page
    page.goto(site)
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#toast")).to_have_text("Approved.")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    assert body.orders == [("approve", "promotion-3-4")]


def test_a_dangerous_order_is_asked_twice_and_its_refusal_is_shown(visit: Any, site: str) -> None:
    one = visit()
    page = one.page
    page.goto(site)
    page.get_by_role("button", name="Detach").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("launch values")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Detach").click()
    page.get_by_role("dialog").get_by_role("button", name="Detach").click()
    expect(page.locator("#toast")).to_have_text("nobody answers at http://127.0.0.1:8000")
    # The browser itself writes the 503 to its console.
    assert one.complaints == [
        "error: Failed to load resource: the server responded with a status of 503 (Service Unavailable)"
    ]
    one.complaints.clear()


def test_a_campaign_is_started_from_the_page(visit: Any, body: FakeBody, store: Store) -> None:
    body.changes = {"campaign": None}
    with served(create_app(body, store, None, clock=lambda: NOW)) as address:
        page = visit().page
        page.goto(address)
        page.get_by_role("button", name="Start a campaign").click()
        page.get_by_role("dialog").get_by_label("At most, in minutes").fill("45")
        page.get_by_role("dialog").get_by_label("Restarts at most").fill("4")
        page.get_by_role("dialog").get_by_role("button", name="Start").click()
        expect(page.locator("#toast")).to_have_text("The campaign starts.")
    assert body.orders == [("tune", "act", 45.0, 4)]


def test_a_cold_campaign_shows_its_restarts_and_what_ran_inside(
    visit: Any, body: FakeBody, store: Store
) -> None:
    cold = fill_cold(store)
    with served(create_app(body, store, None, clock=lambda: NOW)) as address:
        one = visit()
        page = one.page
        page.goto(f"{address}/trials")
        expect(page.locator("#sentence")).to_have_text(
            "Trial 2's start-up settings serve: goodput +41.0\u00a0%"
        )
        expect(page.locator("#because")).to_contain_text("not error-controlled")
        expect(page.locator("#plot")).to_be_hidden()
        winner = page.locator('tr[data-key="cold-2"]')
        expect(winner.locator(".changes li")).to_have_count(3)
        expect(winner).to_contain_text("block_size 128 → 64")
        expect(winner).to_contain_text("2 alternations")
        expect(page.locator('tr[data-key="cold-1"]')).to_contain_text("no multiple of 16")
        expect(page.locator('tr[data-key="cold-1"]')).to_contain_text("not measured")
        expect(page.locator('tr[data-key="cold-3"]')).to_contain_text("off → on")
        expect(page.locator("#facts")).to_contain_text("38\u00a0minof 1\u00a0h")
        expect(page.locator("#restarts tbody tr")).to_have_count(4)
        expect(page.locator("#restarts tbody tr").first).to_contain_text("load 9 min")
        one.picture("trials-cold")
        winner.get_by_role("link", name=f"Campaign {cold + 2}").click()
        expect(page.locator("#because a")).to_contain_text(f"inside campaign {cold}")
        expect(page.locator("#plot")).to_be_visible()
        expect(page.locator("#cold-trials")).to_be_hidden()
        page.goto(f"{address}/journal")
        entry = page.locator("#entries tr").first
        expect(entry.locator(".lane")).to_have_text("cold")
        expect(entry).to_contain_text("block_size 128 → 64")
        one.picture("journal")


@pytest.mark.parametrize("width", [1440, 390])
def test_a_restart_under_way_is_told_with_its_phase_and_for_how_long(
    visit: Any, body: FakeBody, store: Store, width: int
) -> None:
    cold = fill_cold(store, running=True)
    spent = {"trial": 2, "settings": BEST, "restarting": True, "restarts": 3, "lost_minutes": 28.0}
    body.changes = {
        "campaign": {"id": cold, "phase": "alternate", "trials": 9, "started": NOW - 14_000, "cold": spent},
        "restart": {
            "actor": f"campaign {cold}", "kind": "trial", "settings": {"block_size": 64}, "phase": "load",
            "seconds": 200.0, "phase_seconds": 130.0, "line": "weights loaded after 128 s",
        },
        "pending": {"id": "1", "kind": "promotion", "text": "keep the start-up settings of trial 2", "since": NOW},
        "host": {"values": {"placement": "split:4"}, "seen": NOW - 65},
    }  # fmt: skip
    with served(create_app(body, store, None, clock=lambda: NOW)) as address:
        one = visit(width=width)
        page = one.page
        page.goto(address)
        expect(page.locator("h1")).to_have_text("The engine restarts: load")
        banner = page.locator(".banner.restarts")
        expect(banner).to_contain_text(f"Restart of campaign {cold}: load for 2 min")
        expect(banner).to_contain_text("weights loaded after 128 s")
        expect(banner).to_contain_text("to block_size 64")
        expect(page.locator("#campaign .here")).to_have_text("alternate")
        expect(page.locator("#campaign")).to_contain_text("3 restarts, 28 min of lost capacity")
        expect(page.get_by_role("button", name="Approve")).to_be_visible()
        expect(page.locator('tr[data-key="host-placement"]')).to_contain_text("split:4")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        one.picture(f"live-restart-{width}")
        page.goto(f"{address}/trials/{cold}")
        expect(page.locator("#sentence")).to_contain_text("take turns once more")
        expect(page.locator('tr[data-key="cold-2"]')).to_contain_text("serves now")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        one.picture(f"trials-cold-{width}")


def test_the_theme_is_chosen_and_kept(visit: Any, site: str) -> None:
    page = visit(scheme="light").page
    page.goto(site)
    switch = page.locator("#theme")
    switch.click()
    switch.click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert luminance(page) < 128
    page.goto(site + "/knobs")
    assert luminance(page) < 128


def test_knobs_say_what_is_in_force_and_what_may_be_tried(visit: Any, store: Store, body: FakeBody) -> None:
    body.rows = knob_rows(
        "vllm-ascend", "0.23.0", None, {}, {}, settings={"block_size": 128, "enforce_eager": True}
    )
    with served(create_app(body, store, None, clock=lambda: NOW)) as address:
        one = visit(width=1440)
        page = one.page
        page.goto(address + "/knobs")
        block = page.locator('tr[data-key="block_size"]')
        expect(block).to_contain_text("16, 32, 64, 128, 256")
        expect(block).to_contain_text("cache_config_info block_size")
        expect(block.locator("td.number").first).to_have_text("128")
        expect(page.locator('tr[data-key="enforce_eager"] td.number').first).to_have_text("on")
        expect(page.locator('tr[data-key="quantization"]')).to_contain_text(
            "may be tried if the configuration names it, after an accuracy check"
        )
        expect(page.locator('tr[data-key="swap_space"]')).to_contain_text("npu_kv_offload_bytes on ascend")
        one.picture("knobs")


def behind_a_proxy(app: FastAPI, prefix: str) -> Any:
    """Strip the sub-path, as a reverse proxy does."""

    async def proxy(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            assert scope["path"].startswith(prefix), scope["path"]
            scope = dict(scope, path=scope["path"].removeprefix(prefix))
        await app(scope, receive, send)

    proxy.state = app.state  # type: ignore[attr-defined]
    return proxy


def test_behind_a_sub_path_with_a_token_everything_is_reached(
    visit: Any, body: FakeBody, store: Store
) -> None:
    app = create_app(body, store, "secret", root_path="/npu/trimtab", clock=lambda: NOW)
    with served(behind_a_proxy(app, "/npu/trimtab")) as address:
        one = visit()
        page = one.page
        page.goto(address + "/npu/trimtab/trials/2")
        page.get_by_label("Token").fill("secret")
        one.picture("login")
        page.get_by_role("button", name="Sign in").click()
        expect(page).to_have_url(address + "/npu/trimtab/trials/2")
        expect(page.locator("#stream")).to_have_text("live")
        for name in ("Knobs", "Journal", "Live"):
            page.get_by_role("link", name=name, exact=True).click()
            expect(page.locator("#stream")).to_have_text("live")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#toast")).to_contain_text("Paused")
