"""The Alertmanager file that is shipped is one that Alertmanager takes, and it leads to Trimtab's door."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from daemon.alerting.addressee import ENGINE_LABEL, sent_with
from daemon.config import Config
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


@pytest.mark.debian("amtool")
@pytest.mark.parametrize(
    ("engine", "expected"), [("north-1", {"trimtab-north-1", "people"}), ("north-2", {"people"})]
)
def test_it_leads_an_alert_to_the_trimtab_of_its_engine(engine: str, expected: set[str]) -> None:
    page = (ROOT / "docs" / "alertmanager.md").read_text()
    shown = yaml.safe_load(page.split("```yaml\n")[1].split("```")[0])["rules"]["external_labels"]
    config = Config.model_validate({"rules": {"external_labels": {**shown, ENGINE_LABEL: engine}}})
    assert shown[ENGINE_LABEL] == "north-1"
    # `engine` is a rank of it, as on alerts about one.
    own = {"alertname": "EngineStalled", "playbook": "engine_stall", "engine": "0", **sent_with(config)}
    program = find_program("amtool")
    assert program is not None
    tested = subprocess.run(
        [program, "config", "routes", "test", f"--config.file={FILE}", *(f"{k}={v}" for k, v in own.items())],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(tested.stdout.strip().split(",")) == expected


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
