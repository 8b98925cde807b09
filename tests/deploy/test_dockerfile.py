"""The sidecar's image, as far as it can be judged without building it."""

from __future__ import annotations

import tomllib

import pytest

from tests.deploy.dockerfile import parse, problems
from tests.prepare import ROOT

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


def test_the_image_is_built_as_we_ask() -> None:
    assert problems(DOCKERFILE) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("python:3.11-slim-bookworm", "python", "not pinned"),
        ("python:3.11-slim-bookworm", "python:latest", "not pinned"),
        ("USER 10001:10001", "USER root", "other than root"),
        ("USER 10001:10001", "", "other than root"),
        ('CMD ["run"]', "CMD trimtab run", "not in exec form"),
        ("COPY store store", "ADD store store", "use COPY"),
        ('"-c", "requirements.lock", ', "", "not held to the lock"),
        ("HEALTHCHECK", "LABEL", "no HEALTHCHECK"),
    ],
)
def test_a_worse_image_is_told_apart(before: str, after: str, said: str) -> None:
    assert before in DOCKERFILE
    assert any(said in problem for problem in problems(DOCKERFILE.replace(before, after)))


def test_every_room_is_in_the_image() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    rooms = {name.rstrip("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    copied = {word for i in parse(DOCKERFILE) if i.word == "COPY" for word in i.rest.split()[:-1]}
    assert rooms | {"engine_plugin", "requirements.lock", "pyproject.toml", "LICENSE"} <= copied


def test_the_image_asks_its_own_health_page() -> None:
    check = next(i for i in parse(DOCKERFILE) if i.word == "HEALTHCHECK")
    assert "http://127.0.0.1:9470/api/v1/health" in check.rest


def test_the_image_has_no_torch_and_no_driver() -> None:
    steps = " ".join(i.rest for i in parse(DOCKERFILE)).lower()
    assert not [word for word in ("torch", "vllm", "/usr/local/ascend", "davinci") if word in steps]
