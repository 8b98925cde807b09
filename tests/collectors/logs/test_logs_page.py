"""docs/logs.md shows the catalogue as it is."""

from __future__ import annotations

import os
from collections.abc import Iterator

from collectors.logs.catalogue import Signature, catalogue
from collectors.logs.codes import acl_codes
from collectors.logs.faults import fault_table
from tests.prepare import ROOT

PAGE = ROOT / "docs" / "logs.md"
TABLE = "| signature | severity | what it means | likely cause | playbook | known from |\n|---|---|---|---|---|---|\n"


def row(signature: Signature) -> str:
    playbook = f"`{signature.playbook}`" if signature.playbook else ""
    cells = (signature.severity, signature.meaning, signature.cause or "", playbook, signature.source)
    return f"| `{signature.id}` | {' | '.join(cells)} |"


def written() -> Iterator[str]:
    """Everything from the table of the catalogue to the end of the page."""
    yield TABLE + "\n".join(row(signature) for signature in catalogue().signatures)
    yield (
        "\n## ACL's codes\n\n"
        "A code counts behind a word that says it is one: `error code:N`, `error code is N`, `ErrCode=N`,\n"
        "`runtime result = N`, `ret = N`, and not in lines of level info or debug. Its signature is `acl_N`. The "
        "severity and,\nfor codes that operators meet, cause and playbook stand in the same catalogue.\n"
    )
    yield TABLE + "\n".join(row(signature) for signature in catalogue().codes.values())
    table = fault_table()
    yield (
        "\n## Fault events\n\n"
        "The device management's event ids are taken apart: the unit that failed and what happened to it. The "
        f"signature is\n`fault_ID`. {len(table.units)} units, {len(table.kinds)} kinds of fault and "
        f"{len(table.special)} ids with a meaning of their own are known.\n"
    )
    yield "| bits 17 to 30 | unit |\n|---|---|\n" + "\n".join(
        f"| `{number:x}` | {name} |" for number, name in table.units.items()
    )
    yield "\n| bits 0 to 16 | what happened | severity |\n|---|---|---|\n" + "\n".join(
        f"| `{number:05x}` | {kind.meaning} | {kind.severity} |" for number, kind in table.kinds.items()
    )
    yield "\n| whole id | what happened | severity |\n|---|---|---|\n" + "\n".join(
        f"| `{number:08x}` | {kind.meaning} | {kind.severity} |" for number, kind in table.special.items()
    )


def test_the_page_shows_the_catalogue() -> None:
    text = "\n".join(written()) + "\n"
    before = PAGE.read_text().partition(TABLE)[0]
    if os.environ.get("WRITE_GOLDEN"):
        PAGE.write_text(before + text)
    assert PAGE.read_text() == before + text, "run it with WRITE_GOLDEN=1 to write the page anew"


def test_all_of_acl_is_there() -> None:
    assert len(acl_codes()) == 237
