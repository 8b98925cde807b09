"""ACL's codes are found behind the words that announce one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.logs.codes import acl_codes, codes_in


@pytest.mark.parametrize(
    "text",
    [
        "failed, error code:507014",
        "failed, error code: 507014, next",
        "failed, error code is 507014",
        "NPU warning, error code is 507014[Error]:",
        "wait failed, runtime result = 507014.[FUNC:Report]",
        "rtQueue:ErrCode=507014, desc=[x]",
        "errcode: 507014",
        "ret=507014",
        "ret[507014]",
        "ret code 507014",
        "return code is 507014",
        "returned 507014",
        "(error_code=507014)",
        "Error Code:507014",
    ],
)
def test_a_spelling(text: str) -> None:
    assert codes_in(text) == (507014,)


@pytest.mark.parametrize(
    "text",
    [
        "507014",
        "port 507014",
        "pid=507014, ret=0",
        "error code:5070140",
        "error code:999999",
        "error code:507014x",
        "error code: 0.507014",
        "size:507014 error code",
        "error code:" + " " * 40 + "507014",
    ],
)
def test_what_is_no_code(text: str) -> None:
    assert codes_in(text) == ()


def test_each_once_in_order() -> None:
    assert codes_in("ErrCode=507015, runtime result = 207001, error code is 507015") == (507015, 207001)


def test_every_code_has_a_meaning_of_its_own() -> None:
    meanings = [code.meaning for code in acl_codes().values()]
    assert len(set(meanings)) == len(meanings)
    assert all(code.name.startswith("ACL_ERROR_") for code in acl_codes().values())


@given(st.text())
def test_any_text(text: str) -> None:
    assert set(codes_in(f"ret {text} ErrCode={text}")) <= set(acl_codes())
