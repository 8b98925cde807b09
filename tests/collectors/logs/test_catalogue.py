"""Each signature fires on what it is for, not on what looks alike, and never takes long."""

from __future__ import annotations

import time

import pytest
import yaml

from collectors.logs.catalogue import (
    PLAYBOOKS,
    UNRECOGNISED,
    catalogue,
    fault_signature,
    known_signatures,
    parse_catalogue,
)
from collectors.logs.codes import acl_codes
from collectors.logs.events import events_of
from collectors.logs.faults import fault, fault_table
from collectors.logs.line import MAX_LINE
from tests.prepare import ROOT

LINES: dict[str, dict[str, str]] = yaml.safe_load(
    (ROOT / "tests" / "collectors" / "fixtures" / "logs" / "signatures.yaml").read_text()
)
ENTRY = """
signatures:
  - {{id: some_error, literal: some error, meaning: m, cause: c, playbook: {playbook}, severity: error,
     source: s{more}}}
codes: [{code}]
"""


def entry(more: str = "", playbook: str = "engine_dead", code: str = "") -> str:
    return ENTRY.format(more=more, playbook=playbook, code=code)


def fired(line: str) -> str | None:
    signature = catalogue().match(line)
    return signature.id if signature else None


def test_every_signature_has_its_lines() -> None:
    assert list(LINES) == [signature.id for signature in catalogue().signatures]


@pytest.mark.parametrize("name", LINES)
def test_a_signature_fires_on_its_line_only(name: str) -> None:
    assert fired(LINES[name]["fires"]) == name
    assert fired(LINES[name]["near"]) != name


@pytest.mark.parametrize("code", acl_codes())
def test_a_code_fires_behind_its_word_only(code: int) -> None:
    assert fired(f"RuntimeError: ACL stream synchronize failed, error code:{code}") == f"acl_{code}"
    assert fired(f"listening on port {code}") is None
    assert fired(f"RuntimeError: ACL stream synchronize failed, error code:{code}0") is None


@pytest.mark.parametrize("node", fault_table().units)
def test_a_fault_event_fires_by_its_id(node: int) -> None:
    event_id = 1 << 31 | node << 17 | 0x18008
    found = catalogue().match(
        f"[EVENT] TDT(5,tsdaemon):2026-02-03-04:05:06.700.800 Event id=0x{event_id:08x}."
    )
    assert found is not None
    assert found.id == f"fault_{event_id:08x}"
    assert found.meaning == f"{fault_table().units[node]}: multi-bit ECC error"
    assert fired(f"the prevent id=0x{event_id:08x}0") is None


def test_an_event_that_nobody_knows_is_still_an_event() -> None:
    assert fault_signature(fault(0xFFFFFFFF)).id == "fault_event"
    assert fault_signature(fault(1 << 31 | 0x70 << 17 | 0x1FFFF)).id == "fault_event"


def test_ids_are_unique_and_playbooks_used() -> None:
    ids = [signature.id for signature in known_signatures()]
    assert len(set(ids)) == len(ids)
    assert UNRECOGNISED.id in ids
    assert {signature.playbook for signature in known_signatures()} - {None} == set(PLAYBOOKS)


def test_a_code_is_more_telling_than_a_broad_signature() -> None:
    line = "EH9999: [PID: 5] 2026-02-03-04:05:06.700.800 stream failed, runtime result = 207008.[FUNC:Report]"
    assert fired(line) == "acl_207008"


@pytest.mark.parametrize(
    "form",
    [
        "INFO 02-03 04:05:06 [logger.py:5] Received request chatcmpl-1: prompt: '{}', params: x",
        "DEBUG 02-03 04:05:06 [logger.py:5] Request chatcmpl-1 details: prompt: '{}', prompt_token_ids: [1]",
        "INFO 02-03 04:05:06 [logger.py:5] Generated response chatcmpl-1: output: '{}', finish_reason: stop",
        "INFO 02-03 04:05:06 [logger.py:5] Generated response cmpl-1 (streaming complete): output: '{}', a: 1",
        "[2026-02-03 04:05:06 TP0] Receive: obj=GenerateReqInput(text='{}')",
        "[2026-02-03 04:05:06] Receive OpenAI: obj={{'messages': '{}'}}",
        "[2026-02-03 04:05:06] Finish: obj=GenerateReqInput(text='x'), out={{'text': '{}'}}",
        'INFO:     10.0.0.7:50122 - "GET /v1/models?q={} HTTP/1.1" 404 Not Found',
    ],
)
def test_what_a_user_wrote_is_no_sign(form: str) -> None:
    for line in LINES.values():
        assert events_of([form.format(line["fires"])], catalogue()) == []


@pytest.mark.parametrize(
    "line",
    [
        "INFO status: 200000",
        "INFO 02-03 04:05:06 [x.py:5] the result is 507014",
        "[DEBUG] RUNTIME(71,python):2026-02-03-04:05:06.700.800 [api.cc:5]88 ret=507014",
    ],
)
def test_a_code_in_a_line_that_tells_of_no_fault_is_none(line: str) -> None:
    assert fired(line) is None
    assert fired(line.replace("INFO", "ERROR").replace("DEBUG", "ERROR")) is not None


def test_a_kernel_that_did_not_end_in_time_is_known_without_its_code_too() -> None:
    assert fired("[Error]: The aicore execution times out.") == "ai_core_timeout"
    assert (
        fired("       rtMemcpyAsync execution failed, reason=aicore timeout[FUNC:FuncErrorReason]")
        == "ai_core_timeout"
    )
    assert fired("[ERROR] RUNTIME(71,):x rtSync:ErrCode=507014, desc=[aicore timeout]") == "acl_507014"


def test_a_narrowed_search_finds_the_same() -> None:
    lines = [LINES[name][which] for name in LINES for which in ("fires", "near")]
    matcher = catalogue().narrowed("\n".join(lines))
    assert [matcher.match(line) for line in lines] == [catalogue().match(line) for line in lines]


@pytest.mark.parametrize(
    "unit",
    [
        "Node Type=0x70; ",
        "Node Type=0x70; Sensor Type=0xc; ",
        "error code is ",
        "507014 ",
        "Task {",
        "Free memory on device ",
        "EDAC MC1: ",
        "hcclComm ",
        "task ",
        "(Worker pid=1) ",
        "[ascend] [a] ",
        "Loading safetensors checkpoint shards:   ",
    ],
)
def test_no_line_takes_long(unit: str) -> None:
    literals = " ".join(line["fires"] for line in LINES.values())[: MAX_LINE // 2]
    line = (unit * MAX_LINE)[: MAX_LINE // 2] + literals
    matcher = catalogue().narrowed("\n".join(text["fires"] for text in LINES.values()))
    began = time.process_time()
    matcher.match(line)
    assert time.process_time() - began < 0.5


def test_a_sound_catalogue_is_taken() -> None:
    assert [signature.id for signature in parse_catalogue(entry()).signatures] == ["some_error"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (entry(playbook="pray"), "playbook"),
        (entry(more=", pattern: 'some error.*'"), "how often at most"),
        (entry(more=", pattern: '(some+) error'"), "how often at most"),
        (entry(more=", pattern: 'some error('"), "unterminated"),
        (entry(more=", colour: red"), "colour"),
        (entry(code="{code: 7, cause: c, playbook: engine_dead, severity: error}"), "no ACL codes"),
        (
            entry().replace(
                "codes:",
                "  - {id: some_error, literal: other, meaning: m, cause: c,"
                " playbook: engine_dead, severity: info, source: s}\ncodes:",
            ),
            "twice",
        ),
    ],
)
def test_an_unsound_catalogue_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_catalogue(text)
