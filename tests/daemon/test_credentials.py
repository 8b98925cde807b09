"""Secrets come from files or the environment and are never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon import credentials
from daemon.config import Config, WebSection
from daemon.errors import ConfigError
from daemon.sections.engine import EngineSection


def with_engine(**keys: object) -> Config:
    return Config(engine=EngineSection.model_validate(keys))


def test_a_file_is_read_without_its_line_end(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sk-123\n")
    assert credentials.engine_api_key(with_engine(api_key_file=str(file)), {}) == "sk-123"


def test_the_environment_is_the_second_place(tmp_path: Path) -> None:
    environ = {"TRIMTAB_ENGINE_API_KEY": "from-env", "TRIMTAB_WEB_TOKEN": "web-env"}
    assert credentials.engine_api_key(Config(), environ) == "from-env"
    assert credentials.web_token(Config(), environ) == "web-env"
    assert credentials.web_token(Config(), {}) is None
    file = tmp_path / "web"
    file.write_text("from-file")
    assert credentials.web_token(Config(web=WebSection(token_file=file)), environ) == "from-file"


def test_the_plugins_token_is_where_the_plugin_reads_it(tmp_path: Path) -> None:
    config = with_engine(run_dir=str(tmp_path))
    assert credentials.plugin_token(config, {}) is None
    assert credentials.plugin_token_file(config, {}) == tmp_path / "token"
    (tmp_path / "token").write_text("in-run-dir")
    assert credentials.plugin_token(config, {}) == "in-run-dir"
    other = tmp_path / "other"
    other.write_text("named")
    assert credentials.plugin_token(config, {"TRIMTAB_TOKEN_FILE": str(other)}) == "named"
    assert credentials.plugin_token(config, {"TRIMTAB_TOKEN": "inline"}) == "inline"


@pytest.mark.parametrize("content", [b"", b"  \n", b"two words", b"a\nb", b"\xff\xfe", b"tab\there"])
def test_what_is_no_secret_is_refused_without_being_shown(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"engine\.api_key_file") as failure:
        credentials.engine_api_key(with_engine(api_key_file=str(file)), {})
    assert "two words" not in str(failure.value)


def test_a_missing_file_is_said_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"engine\.token_file: .*does not exist"):
        credentials.plugin_token(with_engine(token_file=str(tmp_path / "nowhere")), {})


def test_a_made_token_is_private_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "run" / "token"
    credentials.make_token_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    token = path.read_text()
    assert len(token.strip()) >= 32
    credentials.make_token_file(path)
    assert path.read_text() == token


def test_a_token_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"set engine\.token_file or engine\.run_dir"):
        credentials.make_token_file(tmp_path / "file" / "token")
