"""Lists of NPUs and chips."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collectors.npu_smi.listing import Listed, parse_list, parse_mapping

LIST = """
        Total Count                    : 2

        NPU ID                         : 5
        Product Name                   : A card
        Serial Number                  : NA
        Chip Count                     : 2

        NPU ID                         : 2944
        Chip Count                     : 1
"""
MAPPING = """
NPU ID                         Chip ID                        Chip Logic ID                  Chip Name
5                              0                              0                              Ascend 310P3
5                              1                              1                              Ascend 310P3
5                              2                              -                              Mcu
"""


def test_a_list_of_npus() -> None:
    listing = parse_list(LIST)
    assert listing.notes == ()
    assert listing.rows == (Listed("5", name="A card", chips=2), Listed("2944", chips=1))


def test_a_list_that_lacks_npus_is_told() -> None:
    assert parse_list(LIST.replace(": 2\n", ": 8\n", 1)).notes == ("Total Count is 8, 2 can be read",)
    assert parse_list("NPU ID : x\n").notes == ("NPU ID is 'x': not a number",)
    assert "before any NPU" in parse_list("Chip Count : 1\n").notes[0]


def test_a_mapping_goes_by_header_and_the_controller_is_no_chip() -> None:
    listing = parse_mapping(MAPPING)
    assert listing.notes == ()
    assert [(row.npu, row.chip, row.logic_id, row.controller) for row in listing.rows] == [
        ("5", "0", "0", False),
        ("5", "1", "1", False),
        ("5", "2", None, True),
    ]
    assert listing.rows[0].name == "Ascend 310P3"


def test_a_mapping_with_slots_and_physical_ids() -> None:
    [row] = parse_mapping("NPU ID  Slot ID  Chip ID  Chip Phy-ID  Chip Name\n3 1 0 7 950 DT\n").rows
    assert row == Listed("3", "0", slot="1", phy_id="7", name="950 DT")


def test_rows_that_do_not_fit_are_told() -> None:
    notes = parse_mapping(MAPPING + "5 x 0 name\n7\n- 0 0 name\n").notes
    assert [note.split(":")[1].strip() for note in notes] == [
        "not a row of the list",
        "not a row of the list",
        "a row without an NPU",
    ]
    assert parse_mapping("5 0 0 Ascend\n").rows == (), "without a header nothing is what it seems"


@given(st.text(st.sampled_from("NPU IDChip NameMcu0123-: \n"), max_size=200))
def test_garbage_is_told(text: str) -> None:
    for page in (text, LIST + text, MAPPING + text):
        parse_list(page)
        parse_mapping(page)
