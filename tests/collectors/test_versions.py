"""Versions are read of the installers' files; what is not there is unknown with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.versions import (
    PACKAGES,
    parse_metadata,
    parse_version_info,
    present,
    read_versions,
)
from sim.host_tree import HostTree

DRIVER = "Version=25.2.1\nascendhal_version=7.35.23\naicpu_version=1.0\ncompatible_version=[V100R001C15]\n"
FIRMWARE = "Version=7.7.0.6.236\nfirmware_version=1.0\npackage_version=25.2.1\n"
TOOLKIT = (
    "package_name=Ascend-cann-toolkit\nversion=8.3.RC1\ninnerversion=V100R001C23SPC001B234\narch=aarch64\n"
)
CONFIG = "# version: 1.0\nruntime_running_version=[7.6.0.1.220:8.0.0]\ntoolkit_installed_version=[7.6.0.1.220:8.0.0]\n"
LIBRARY = (
    "    Ascend-cann-atb : 8.3.RC1\n    Ascend-cann-atb Version : 8.3.RC1.B100\n    Platform : aarch64\n"
)
SITE = Path("/usr/local/python3.11/lib/python3.11/site-packages")


def found(root: Path, *folders: Path) -> dict[str, str | None]:
    return {one.component: one.number for one in read_versions(root, folders)}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (DRIVER, "25.2.1"),
        (FIRMWARE, "7.7.0.6.236"),
        (TOOLKIT, "8.3.RC1"),
        (CONFIG, "8.0.0"),
        (LIBRARY, "8.3.RC1"),
        ("Version=\n", None),
        ("", None),
        ("compatible_version=[7.0]\n", None),
    ],
)
def test_each_kind_of_file(text: str, number: str | None) -> None:
    assert parse_version_info(text) == number


def test_the_whole_matrix(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.write("/usr/local/Ascend/driver/version.info", DRIVER)
    tree.write("/usr/local/Ascend/firmware/version.info", FIRMWARE)
    tree.write("/usr/local/Ascend/ascend-toolkit/latest/aarch64-linux/ascend_toolkit_install.info", TOOLKIT)
    tree.write("/usr/local/Ascend/nnal/atb/latest/version.info", LIBRARY)
    for folder, name, number in (
        ("torch_npu-2.7.1.dist-info", "torch-npu", "2.7.1"),
        ("vllm_ascend-0.13.0.dist-info", "vllm_ascend", "0.13.0"),
        ("vllm-0.13.0+empty.dist-info", "vllm", "0.13.0+empty"),
        ("torch-2.7.1+cpu.dist-info", "torch", "2.7.1+cpu"),
    ):
        tree.write(
            f"{SITE}/{folder}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n\nName: x\n",
        )
    assert found(tmp_path, SITE) == {
        "driver": "25.2.1",
        "firmware": "7.7.0.6.236",
        "CANN": "8.3.RC1",
        "NNAL": "8.3.RC1",
        "torch": "2.7.1+cpu",
        "torch-npu": "2.7.1",
        "vllm-ascend": "0.13.0",
        "vllm": "0.13.0+empty",
        "sglang": None,
    }
    firmware = next(one for one in read_versions(tmp_path) if one.component == "firmware")
    assert (firmware.package, firmware.path) == ("25.2.1", "/usr/local/Ascend/firmware/version.info")


def test_newer_places_come_first_and_a_driver_of_another_folder_is_found(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.write("/etc/ascend_install.info", "UserName=HwHiAiUser\nDriver_Install_Path_Param=/opt/Ascend/\n")
    tree.write("/opt/Ascend/driver/version.info", DRIVER)
    tree.write("/usr/local/Ascend/driver/version.info", DRIVER.replace("25.2.1", "23.0.0"))
    tree.write("/usr/local/Ascend/firmware/version.info", FIRMWARE)
    tree.write(
        "/usr/local/Ascend/cann/x86_64-linux/ascend_toolkit_install.info", TOOLKIT.replace("8.3.RC1", "8.5.0")
    )
    tree.write("/usr/local/Ascend/ascend-toolkit/latest/version.cfg", CONFIG)
    assert found(tmp_path) | dict.fromkeys(PACKAGES) == {
        "driver": "25.2.1",
        "firmware": "7.7.0.6.236",
        "CANN": "8.5.0",
        "NNAL": None,
    } | dict.fromkeys(PACKAGES)


def test_what_is_unknown_says_why(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.write("/usr/local/Ascend/driver/version.info", "\0\xff garbage")
    tree.write("/usr/local/Ascend/nnal/atb/latest/version.info/oops", "")
    why = {one.component: one.why for one in read_versions(tmp_path, [SITE])}
    assert why["driver"] == "/usr/local/Ascend/driver/version.info names no version"
    assert why["firmware"] == "no /usr/local/Ascend/firmware/version.info to be seen"
    assert why["CANN"] == "no /usr/local/Ascend/cann/*-linux/ascend_toolkit_install.info to be seen"
    assert why["NNAL"] == "/usr/local/Ascend/nnal/atb/latest/version.info: Is a directory"
    assert why["vllm"] == f"not in {SITE}"
    assert read_versions(tmp_path)[-1].why == "the engine's site-packages folder is not known"


def test_vllm_ascend_is_not_taken_for_vllm(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.write(f"{SITE}/vllm-ascend-0.13.0.dist-info/METADATA", "Name: vllm-ascend\nVersion: 0.13.0\n")
    assert found(tmp_path, SITE)["vllm"] is None
    assert found(tmp_path, SITE)["vllm-ascend"] == "0.13.0"


def test_metadata_needs_name_and_version() -> None:
    assert parse_metadata("Name: Torch_NPU\nVersion: 2.7\n") == ("torch-npu", "2.7")
    assert parse_metadata("Name: torch\n\nVersion: 9\n") is None


def test_configuration_files(tmp_path: Path) -> None:
    HostTree(tmp_path).write("/etc/hccn.conf", "address_0=192.0.2.1\n")
    assert present(tmp_path) == {"/etc/hccn.conf": True, "/etc/npu.conf": False}


@given(st.text(max_size=200))
def test_any_text_has_a_version_of_one_word_or_none(text: str) -> None:
    for found in (parse_version_info(text), (parse_metadata(text) or ("", None))[1]):
        assert found is None or (found and not any(character.isspace() for character in found))


def test_the_packages_of_this_very_environment() -> None:
    import psutil

    folder = Path(psutil.__file__).parents[1]
    assert all(one.number or one.why for one in read_versions(Path("/"), [folder]))
