"""The recording rules that keep npu-exporter's names alive are made from the collector's table, and they work."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from collectors.npu_exporter.names import ERROR_CODES, MACHINE, NAME, PLACEHOLDERS, ROWS, Row
from tests.prepare import ROOT, find_program

RULES = ROOT / "deploy" / "prometheus" / "npu-exporter-names.yml"
INTRODUCTION = """\
# npu-exporter's names, recorded from Trimtab's: dashboards and alerts made for npu-exporter go on working.
#
# - Load it only where npu-exporter itself is scraped no more, or each series is there twice.
# - In Kubernetes scrape Trimtab with `honor_labels: true`, or `namespace`, `pod` and `container` of a device's user are
#   those of Trimtab's own pod.
# - Not here: npu_chip_info_error_code (use npu_error_active, whose label `code` is the code) and the values -1 and
#   4294967295 for a failed reading (the series is absent). Ports of a 950 are labels (`udie`, `port`), as npu-exporter
#   has them from 26.0, and not parts of names.
# - PCIe, RoCE, HCCS and optical figures are there where Trimtab itself reads an npu-exporter.
#
# Made from the table in collectors/npu_exporter/names.py:
# WRITE_GOLDEN=1 pytest tests/deploy/test_recording_rules.py

"""
SAME = "job, instance, npu, chip"
DEVICE = "id, model_name, pcie_bus_info, vdie_id"
USER = "namespace, pod_name, container_name"
RENAMED = {
    "pod": ("pod_name", "$1"),
    "container": ("container_name", "$1"),
    "pid": ("process_id", "$1"),
    "vnpu": ("v_dev_id", "$1"),
    "die": ("udie", "$1"),
    "stat": ("pcie_bw_type", "${1}PcieBw"),
}


def renamed(expression: str, *names: str) -> str:
    for name in names:
        theirs, value = RENAMED[name]
        expression = f'label_replace({expression}, "{theirs}", "{value}", "{name}", "(.+)")'
    return expression


def identities() -> Iterator[tuple[str, str]]:
    """Two helpers: a device under the exporter's labels, and with who uses it."""
    device = f"topk by ({SAME}) (1, npu_info)"
    for ours, theirs in (
        ("npu", "id"),
        ("phy_id", "id"),
        ("name", "model_name"),
        ("bus_id", "pcie_bus_info"),
    ):
        device = f'label_replace({device}, "{theirs}", "$1", "{ours}", "(.+)")'
    yield "npu_exporter:device", device
    user = renamed(f"topk by ({SAME}) (1, npu_used_by)", "pod", "container")
    joined = f"npu_exporter:device * on ({SAME}) group_left ({USER}) {user}"
    yield "npu_exporter:labels", f"{joined} or on ({SAME}) npu_exporter:device"


def in_their_unit(selector: str, factor: float) -> str:
    if factor == 1.0:
        return selector
    operator, number = ("*", 1 / factor) if factor < 1.0 else ("/", factor)
    return f"{selector} {operator} {round(number)}"


def recorded(row: Row) -> Iterator[tuple[str, str]]:
    """The rules of one row: ports stay labels, links and lanes are in the name."""
    also_ported = {other.ported for other in ROWS if other.canonical == row.canonical}
    for name, more in row.families():
        if {"die", "port"} & {label for label, _ in more}:
            continue
        filters = [f'{label}="{value}"' for label, value in more]
        if also_ported == {True, False}:
            filters.append('die!=""' if row.ported else 'die=""')
        selector = row.canonical + (f"{{{', '.join(filters)}}}" if filters else "")
        kept = DEVICE if row.placed else f"{DEVICE}, {USER}"
        value = f"{in_their_unit(selector, row.factor)} * on ({SAME}) group_left ({kept}) npu_exporter:labels"
        extra = [label for label, present in (("die", row.ported), ("stat", "pcie" in name)) if present]
        if row.placed:
            extra += ["pod", "container"]
            extra += [label for label, stem in (("pid", "process"), ("vnpu", "vnpu")) if stem in name]
        yield name, renamed(value, *extra)


def placeholders() -> Iterator[tuple[str, str]]:
    yield NAME, "npu_exporter:labels"
    for name, ours, theirs in (
        ("npu_chip_info_serial_number", "serial", "serial_number"),
        ("npu_chip_info_product_type", "product", "product_type"),
    ):
        yield name, f'label_replace(npu_exporter:labels{{{ours}!=""}}, "{theirs}", "$1", "{ours}", "(.+)")'
    users = f"npu_used_by * on ({SAME}) group_left ({DEVICE}) npu_exporter:labels"
    joined = f'label_join({users}, "containerName", "_", "namespace", "pod", "container")'
    yield "npu_container_info", f'label_replace({joined}, "npuID", "$1", "id", "(.+)")'
    version = 'label_replace(npu_exporter_info, "exporterVersion", "$1", "version", "(.+)")'
    yield "npu_exporter_version_info", version
    yield "node_base_info", f'label_replace({version}, "driverVersion", "$1", "driver", "(.+)")'
    for theirs, ours in MACHINE.items():
        yield theirs, ours


def written() -> str:
    rules = [*identities(), *placeholders()]
    for row in ROWS:
        rules += recorded(row)
    lines = ["groups:", "  - name: npu-exporter-names", "    rules:"]
    for record, expression in rules:
        lines += [f"      - record: {record}", f"        expr: {yaml.dump(expression, width=10_000).strip()}"]
    return INTRODUCTION + "\n".join(lines).replace("\n...", "") + "\n"


def test_the_file_is_made_from_the_table() -> None:
    if os.environ.get("WRITE_GOLDEN"):
        RULES.write_text(written())
    assert RULES.read_text() == written(), "run it with WRITE_GOLDEN=1 to write the file anew"


def test_every_name_is_recorded() -> None:
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    names = [rule["record"] for rule in rules]
    assert len(names) == len(set(names))
    plain = {
        name
        for row in ROWS
        for name, more in row.families()
        if not {"die", "port"} & {label for label, _ in more}
    }
    wanted = plain | {*MACHINE, *PLACEHOLDERS}
    assert wanted - set(names) == set()
    assert not set(names) & ERROR_CODES


def promtool(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    program = find_program("promtool")
    assert program is not None
    return subprocess.run([program, *arguments], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.debian("promtool")
def test_prometheus_accepts_the_rules() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES), cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


TARGET = {"job": "trimtab", "instance": "n1:9470"}
FIRST = {**TARGET, "npu": "0", "chip": "0", "name": "910B3"}
SECOND = {**TARGET, "npu": "0", "chip": "1", "name": "Ascend910"}
THEIRS = {"id": "0", "model_name": "910B3", "pcie_bus_info": "0000:C1:00.0", "vdie_id": "A-0"}
ENGINE = {"namespace": "llm", "pod_name": "engine-0", "container_name": "engine"}


def series(name: str, pairs: dict[str, str]) -> str:
    return name + "{" + ", ".join(f'{key}="{value}"' for key, value in sorted(pairs.items())) + "}"


@pytest.mark.debian("promtool")
def test_the_old_names_have_their_old_values_and_labels(tmp_path: Path) -> None:
    used = {**FIRST, "namespace": "llm", "pod": "engine-0", "container": "engine"}
    given = {
        series("npu_info", {**FIRST, "bus_id": "0000:C1:00.0", "vdie_id": "A-0"}): 1,
        series("npu_info", {**SECOND, "phy_id": "1"}): 1,
        series("npu_used_by", used): 1,
        series("npu_power_watts", FIRST): 287.5,
        series("npu_aicore_usage_ratio", FIRST): 0.75,
        series("npu_hbm_used_bytes", FIRST): 2**30,
        series("npu_aicore_frequency_hertz", SECOND): 1.8e9,
        series("npu_process_memory_bytes", {**used, "pid": "4211"}): 2**21,
        series("npu_hccs_crc_errors_total", {**FIRST, "link": "3"}): 17,
        series("npu_link_speed_bytes_per_second", FIRST): 25e9,
        series(
            "npu_pcie_bytes_per_second", {**FIRST, "direction": "rx", "kind": "posted", "stat": "avg"}
        ): 4e9,
        series("npu_link_up", {**SECOND, "die": "1", "port": "5"}): 1,
        series("npu_chips", TARGET): 2,
    }
    power = {**FIRST, **THEIRS, **ENGINE}
    second = {**SECOND, "id": "1", "model_name": "Ascend910"}
    expected = {
        "npu_chip_info_power": (power, 287.5),
        "npu_chip_info_utilization": (power, 75),
        "npu_chip_info_hbm_used_memory": (power, 1024),
        "npu_chip_info_aicore_current_freq": (second, 1800),
        "npu_chip_info_process_info": (
            {
                **used,
                **THEIRS,
                "pid": "4211",
                "process_id": "4211",
                "pod_name": "engine-0",
                "container_name": "engine",
            },
            2,
        ),
        "npu_chip_info_hccs_statistic_info_crc_err_cnt_3": ({**power, "link": "3"}, 17),
        "npu_chip_link_speed": (power, 200000),
        "npu_chip_info_pcie_rx_p_bw": (
            {**power, "direction": "rx", "kind": "posted", "stat": "avg", "pcie_bw_type": "avgPcieBw"},
            4,
        ),
        "npu_chip_info_link_status": ({**second, "die": "1", "udie": "1", "port": "5"}, 1),
        "machine_npu_nums": (TARGET, 2),
        "npu_container_info": (
            {**used, **THEIRS, "npuID": "0", "containerName": "llm_engine-0_engine"},
            1,
        ),
    }
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": one, "values": f"{value:.17g} {value:.17g}"} for one, value in given.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": name,
                        "eval_time": "1m",
                        "exp_samples": [{"labels": series(name, pairs), "value": value}],
                    }
                    for name, (pairs, value) in expected.items()
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))
    done = promtool("test", "rules", "test.yml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
