"""The Alertmanager file that is shipped is one that Alertmanager takes, and it leads to Trimtab's door."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from store import open_store
from tests.prepare import ROOT, find_program
from tests.web.fake_body import FakeBody
from web.app import create_app

FILE = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"


@pytest.mark.debian("amtool")
def test_alertmanager_takes_it() -> None:
    program = find_program("amtool")
    assert program is not None
    checked = subprocess.run(
        [program, "check-config", str(FILE)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_it_posts_to_where_trimtab_listens() -> None:
    receivers = {one["name"]: one for one in yaml.safe_load(FILE.read_text())["receivers"]}
    (webhook,) = receivers["trimtab-north-1"]["webhook_configs"]
    path = "/" + webhook["url"].split("/", 3)[3]
    store = open_store("sqlite:///:memory:")
    try:
        assert path in create_app(FakeBody(), store, None).openapi()["paths"]
    finally:
        store.close()
    assert webhook["max_alerts"] <= 1000


def test_the_page_shows_the_same_receiver() -> None:
    page = (ROOT / "docs" / "alertmanager.md").read_text()
    text = FILE.read_text()
    receiver = text[text.index("  - name: trimtab-north-1") : text.index("\ninhibit_rules")]
    assert receiver.strip() in page
