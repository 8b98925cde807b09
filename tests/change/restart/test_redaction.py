"""Secrets in an engine's own log: taken out before it is kept or said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from change.restart.redaction import redactor
from change.server import LaunchCommand
from tests.change.restart.stand import Stand

COMMAND = LaunchCommand(
    ("vllm", "serve", "m", "--api-key", "sk-one-secret", "--port", "8000"), {"HF_TOKEN": "hf_abcdef"}
)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "non-default args: {'port': 8000, 'api_key': ['sk-1', 'sk-2']}",
            "{'port': 8000, 'api_key': '<secret>'}",
        ),
        ("got sk-one-secret and hf_abcdef", "got <secret> and <secret>"),
        ('{"password": "pass word", "x": 1}', '{"password": \'<secret>\', "x": 1}'),
        ("Namespace(api_key='zzz', port=1)", "Namespace(api_key='<secret>', port=1)"),
        ("HF_TOKEN=hf_other vllm", "HF_TOKEN='<secret>' vllm"),
        ("api_key=None, max_token=512", "api_key=None, max_token=512"),
        (
            "skip_tokenizer_init=False, max_num_batched_tokens=8192",
            "skip_tokenizer_init=False, max_num_batched_tokens=8192",
        ),
    ],
)
def test_what_is_secret_is_not_shown_and_all_else_is(line: str, shown: str) -> None:
    assert shown in redactor(COMMAND)(line)


def test_a_secret_behind_its_flag_is_known_alone_and_the_flag_stays() -> None:
    redacted = redactor(LaunchCommand(("vllm", "serve", "m", "--api-key=sk-behind"), {}))
    assert redacted("refused --api-key: sk-behind is too short") == "refused --api-key: <secret> is too short"
    assert redacted("sk-behind") == "<secret>"


def test_a_failed_start_tells_no_secret_of_its_log() -> None:
    stand = Stand()
    stand.server.faults = ["out_of_memory"]
    real = stand.server.start

    async def start(command: LaunchCommand) -> object:
        await real(command)
        now = stand.clock.now()
        said = (now, "INFO non-default args: {'api_key': ['sk-simulated', 'sk-two'], 'port': 8000}")
        stand.server.run = replace(stand.server.run, lines=(said, *stand.server.run.lines))
        return await stand.server.look()

    stand.server.start = start  # type: ignore[assignment, method-assign]
    result = stand.restart(block_size=64)
    assert result.outcome == "returned"
    (entry,) = stand.entries()
    kept = str([entry.effective, entry.reason, result.log, stand.said, stand.alerts])
    assert "non-default args" in kept
    assert "sk-" not in kept
