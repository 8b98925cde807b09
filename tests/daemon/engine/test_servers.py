"""The hand is the one that the configuration names, and none unless it names one."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from daemon.commands.serve import guarded_folder
from daemon.config import Config
from daemon.engine.servers import engine_server
from daemon.errors import ConfigError
from tests.daemon.engine.cluster_stand import kubeconfig


def configured(**server: object) -> Config:
    return Config.model_validate({"engine": {"server": server}})


def test_nobody_restarts_the_engine_unless_a_hand_is_named() -> None:
    assert engine_server(Config()) is None
    assert guarded_folder(Config()) is None


@pytest.mark.parametrize(
    "server",
    [
        {"hand": "process"},
        {"hand": "systemd", "systemd": {"unit": "vllm@0.service"}},
        {"hand": "docker", "docker": {"container": "vllm-0"}},
        {"hand": "hook", "hook": {"look": ["/l"], "start": ["/s"], "stop": ["/e"]}},
    ],
)
def test_the_named_hand_is_made(server: dict[str, object]) -> None:
    made = engine_server(configured(**server))
    assert made is not None
    assert made.way == server["hand"]


def test_the_cluster_is_the_one_of_the_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    server = {"hand": "kubernetes", "kubernetes": {"name": "qwen", "kubeconfig": str(file)}}
    with pytest.raises(ConfigError, match=r"engine.server.kubernetes: the kubeconfig .* mend the file"):
        engine_server(configured(**server))
    file.write_text(yaml.safe_dump(kubeconfig("http://127.0.0.1:1")))
    made = engine_server(configured(**server))
    assert made is not None
    assert made.way == "kubernetes"


def test_serve_takes_orders_only_in_a_folder_that_nobody_else_can_write(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    config = Config.model_validate({"engine": {"run_dir": str(folder), "server": {"hand": "process"}}})
    assert guarded_folder(config) == folder
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match="writable for nobody else"):
        guarded_folder(config)
