"""A device has one identity, whichever source speaks of it."""

from __future__ import annotations

from collectors.history import History
from collectors.identity import Identities
from collectors.sample import Sample, labels

DIE = labels(npu="2", chip="1", name="Ascend910")


def known() -> Identities:
    history = History()
    pairs = labels(**dict(DIE), phy_id="5", bus_id="0000:0B:00.0")
    history.add([Sample("npu_info", 1.0, 10.0, pairs)], "npu_smi")
    return Identities(history)


def test_another_source_names_the_device() -> None:
    assert known().of_chip(2, 1, "910C") == DIE
    assert known().of_physical(5) == DIE


def test_until_then_its_numbers_do() -> None:
    assert Identities().of_chip(2, 1, "910C") == labels(npu="2", chip="1", name="910C")
    assert Identities().of_chip(2, 1) == labels(npu="2", chip="1")
    assert Identities().of_physical(6) == labels(npu="6", chip="0")


def test_a_physical_id_is_no_cards_number_while_or_where_ids_are_to_tell() -> None:
    history = History()
    identities = Identities(history, awaited=True)
    assert identities.of_physical(1) is None
    history.add([Sample("npu_info", 1.0, 0.0, labels(npu="0", chip="1", name="Ascend910", phy_id="1"))])
    assert identities.of_physical(1) == labels(npu="0", chip="1", name="Ascend910")
    assert identities.of_physical(0) is None, "its row could not be read: it may be any"


def test_without_physical_ids_it_is_the_cards_number_also_when_the_table_fails_later() -> None:
    history = History()
    identities = Identities(history, awaited=True)
    history.add([Sample("npu_info", 1.0, 0.0, labels(npu="1", chip="0", name="910B3"))], "npu_smi")
    assert identities.of_physical(1) == labels(npu="1", chip="0", name="910B3")
    history.end("npu_smi")
    assert identities.of_physical(1) == labels(npu="1", chip="0", name="910B3")


def test_a_source_that_fails_renames_no_device() -> None:
    history = History()
    history.add([Sample("npu_info", 1.0, 10.0, DIE)], "npu_smi")
    identities = Identities(history)
    assert identities.of_chip(2, 1) == DIE
    history.end("npu_smi")
    assert identities.of_chip(2, 1) == DIE
    assert Identities(history).of_chip(2, 1) == labels(npu="2", chip="1")
