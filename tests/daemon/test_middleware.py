"""The plugin's middleware is added to vLLM's server, where the plugin is, and nowhere else."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from daemon.middleware import MIDDLEWARE, addition, has_plugin


def script(folder: Path, name: str, first: str) -> str:
    path = folder / name
    path.write_text(first + "\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_the_middleware_is_added_to_vllms_server_where_the_plugin_is(tmp_path: Path) -> None:
    asked: list[str] = []

    def there(python: str) -> bool:
        asked.append(python)
        return True

    vllm = script(tmp_path, "vllm", "#!/opt/venv/bin/python3")
    assert addition([vllm, "serve", "model"], there).arguments == ("--middleware", MIDDLEWARE)
    assert (
        addition(["python", "-m", "vllm.entrypoints.openai.api_server"], there).arguments[0] == "--middleware"
    )
    assert asked == ["/opt/venv/bin/python3", "python"]
    (tmp_path / "other").mkdir()
    by_env = script(tmp_path / "other", "vllm", "#!/usr/bin/env -S python3.11")
    assert addition([by_env, "serve"], there).arguments
    assert asked[-1] == "python3.11"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["sleep", "5"], "no vLLM server"),
        (["vllm", "bench"], "no vLLM server"),
        (
            [
                "python",
                "-m",
                "vllm.entrypoints.openai.api_server",
                "--middleware",
                "trimtab_plugin.http.Middleware",
            ],
            "already",
        ),
        (
            [
                "python",
                "-m",
                "vllm.entrypoints.openai.api_server",
                "--middleware=trimtab_plugin.http.Middleware",
            ],
            "already",
        ),
    ],
)
def test_nothing_is_added_elsewhere_and_why_is_said(command: list[str], why: str) -> None:
    added = addition(command, lambda _: True)
    assert added.arguments == ()
    assert why in added.text


def test_nothing_is_added_without_the_plugin() -> None:
    added = addition(["python", "-m", "vllm.entrypoints.openai.api_server"], lambda _: False)
    assert added.arguments == ()
    assert "not installed" in added.text


def test_the_named_middleware_is_the_plugins_own() -> None:
    module, _, name = MIDDLEWARE.rpartition(".")
    source = Path(__file__).parents[2] / "engine_plugin" / Path(*module.split(".")).with_suffix(".py")
    assert f"class {name}:" in source.read_text()


def test_an_interpreter_without_the_plugin_or_that_is_none_has_none(tmp_path: Path) -> None:
    assert not has_plugin(str(tmp_path / "python"))
    assert not has_plugin("/bin/false")
