"""What a person reads in each captured output, written down by hand.

A device is one line: NPU, chip, physical id, name, health, bus id, W, C, AICore %, DDR used/total MB, HBM used/total
MB, huge pages used/total. `-` is what the output does not show, or not wholly. A process is NPU, chip, pid, pid in the
container, name, MB.
"""

from __future__ import annotations

TABLES: dict[str, tuple[str | None, str, str, str]] = {
    "info_21.0.3.1_310_2chip_no-hugepages": (
        "21.0.3.1",
        "A",
        """1 0 - 310 OK 0000:01:00.0 12.8 49 0 2621/8192 - -
           1 1 - 310 OK 0000:02:00.0 12.8 49 0 2621/8192 - -""",
        "",
    ),
    "info_22.0.0_310P3_hdr-version-mismatch": (
        "22.0.0",
        "A",
        "0 0 - 310P3 OK 0000:87:00.0 17.1 55 0 927/23054 - 0/0",
        "",
    ),
    "info_22.0.4_310P3_npu7_dash-rule_misaligned": (
        "22.0.4",
        "A",
        "7 0 - 310P3 OK 0000:00:07.0 - 28 0 1805/21527 - 0/0",
        "",
    ),
    "info_23.0.0_310B4_alarm_no-bus-id": (
        "23.0.0",
        "A",
        "0 0 - 310B4 Alarm - 0.0 65 0 3628/15609 - 15/15",
        "",
    ),
    "info_23.0.2.1_910B2C_2npu_proc_trailing-space": (
        "23.0.2.1",
        "B",
        """0 0 - 910B2C OK 0000:5A:00.0 88.6 51 0 0/0 20701/65536 0/0
           1 0 - 910B2C OK 0000:19:00.0 99.6 50 0 0/0 20687/65536 0/0""",
        "0 0 124528 - python3.8 17400",
    ),
    "info_23.0.2_910A_xxx_docs_ddr-nonzero": (
        "23.0.2",
        "B",
        """0 0 - xxx OK 0000:C1:00.0 0.0 40 0 882/15169 0/32768 0/0
           1 0 - xxx OK 0000:81:00.0 0.0 35 0 1603/15169 0/32768 0/0""",
        "",
    ),
    "info_24.1.0.3_910B2_cut": (
        "24.1.0.3",
        "B",
        """0 0 - 910B2 OK 0000:C1:00.0 96.4 37 0 0/0 3397/65536 0/0
           1 0 - 910B2 OK 0000:C2:00.0 88.7 37 0 0/0 3395/65536 0/0
           2 0 - 910B2 OK 0000:81:00.0 92.6 37 0 0/0 - 0/0""",
        "",
    ),
    "info_24.1.0_910B2_promptpaste_cut": (
        "24.1.0",
        "B",
        """0 0 - 910B2 OK 0000:C1:00.0 99.6 37 0 0/0 59891/65536 0/0
           1 0 - 910B2 OK - 93.4 38 - - - 0/0""",
        "",
    ),
    "info_24.1.0_910ProB_ddr-nonzero_hbm18_cut": (
        "24.1.0",
        "B",
        """0 0 - 910ProB OK 0000:C1:00.0 78.0 38 0 2387/13553 18/32768 0/0
           1 0 - 910ProB OK 0000:81:00.0 75.8 38 0 1840/15665 8/32768 0/0""",
        "",
    ),
    "info_24.1.0_handmade_bad-rules": (
        "24.1.0",
        "A",
        """0 0 - 910B3 OK 0000:C1:00.0 95.4 42 0 4428/311295 - 0/0
           7 7 - 910B3 Alarm 0000:C8:00.0 310.5 88 96 310000/311295 - 0/0""",
        "",
    ),
    "info_24.1.rc2_910B3_container_npu4-5": (
        "24.1.rc2",
        "B",
        """4 0 - 910B3 OK 0000:01:00.0 96.6 54 0 0/0 13281/65536 0/0
           5 0 - 910B3 OK 0000:02:00.0 95.7 53 0 0/0 13260/65536 0/0""",
        "",
    ),
    "info_24.1.rc2_910B4_busy30G": (
        "24.1.rc2",
        "B",
        """0 0 - 910B4 OK 0000:C1:00.0 99.1 43 0 0/0 30209/32768 0/0
           1 0 - 910B4 OK 0000:C2:00.0 92.1 41 0 0/0 30208/32768 0/0""",
        "",
    ),
    "info_24.1.rc2_docs_handmade_units-dropped": (
        "24.1.rc2",
        "B",
        "0 0 - 910B1 OK 0000:C1:00.0 88.4 41 0 0/0 3/65536 -",
        "",
    ),
    "info_24.1.rc2_rag_310P_powerNA_cut": (
        "24.1.rc2",
        "A",
        "7 0 - xxx OK 0000:83:00.0 - 44 0 1851/21527 - 0/0",
        "",
    ),
    "info_24.x_A3_no-title_cut": (
        None,
        "B'",
        """0 0 0 Ascend910 OK 0000:9D:00.0 178.5 36 0 0/0 3416/65536 0/0
           0 1 1 Ascend910 OK 0000:9F:00.0 - 36 0 0/0 3195/65536 0/0
           1 0 2 Ascend910 OK 0000:99:00.0 186.3 36 0 0/0 3415/65536 0/0""",
        "",
    ),
    "info_25.0.rc1.1_310P3_OCR_0K": (
        "25.0.rc1.1",
        "B",
        """0 0 - 310P3 OK 0000:81:00.0 89.2 39 0 0/0 1460/44280 0/0
           1 0 - 310P3 OK 0000:41:00.0 87.7 40 0 0/0 1479/43693 0/0
           2 0 - 310P3 OK 0000:82:00.0 88.6 38 0 0/0 1259/44216 0/0
           3 0 - 310P3 OK 0000:42:00.0 86.2 40 0 0/0 1643/43757 0/0""",
        "",
    ),
    "info_25.2.0_310P3_duo_same-bus-id": (
        "25.2.0",
        "A",
        """2 0 - 310P3 OK 0000:01:00.0 - 45 0 1529/44280 - 0/0
           2 1 - 310P3 OK 0000:01:00.0 - 43 0 1412/43693 - 0/0""",
        "",
    ),
    "info_25.2.0_A3_2npu_2chip_proc_no-running": (
        "25.2.0",
        "B'",
        """0 0 0 Ascend910 OK 0000:9C:00.0 162.8 37 0 0/0 3133/65536 0/0
           0 1 1 Ascend910 OK 0000:9E:00.0 - 37 0 0/0 2876/65536 0/0
           1 0 2 Ascend910 OK 0000:37:00.0 167.1 38 0 0/0 3116/65536 0/0
           1 1 3 Ascend910 OK 0000:39:00.0 - 38 0 0/0 10568/65536 0/0""",
        "1 1 990711 - python 7746",
    ),
    "info_25.3.rc1_A3_cut": (
        "25.3.rc1",
        "B'",
        """0 0 0 Ascend910 OK 0000:9D:00.0 163.6 30 0 0/0 3180/65536 0/0
           0 1 1 Ascend910 OK 0000:9F:00.0 - 30 0 0/0 2896/65536 0/0
           1 0 2 Ascend910 OK 0000:99:00.0 164.5 29 0 - - 0/0""",
        "",
    ),
    "info_25.5.0_910B2_2npu_cut": (
        "25.5.0",
        "B",
        """0 0 - 910B2 OK 0000:C1:00.0 98.4 37 0 0/0 3431/65536 0/0
           1 0 - 910B2 OK 0000:C2:00.0 94.7 37 0 0/0 3429/65536 0/0""",
        "",
    ),
    "info_25.5.0_910B4_qwen_busyhbm_idleaicore_cut": (
        "25.5.0",
        "B",
        """0 0 - 910B4 OK 0000:C1:00.0 88.5 34 0 0/0 28220/32768 0/0
           1 0 - 910B4 OK 0000:C2:00.0 82.5 32 0 0/0 28045/32768 0/0""",
        "",
    ),
    "info_25.5.2_910B4_npu5_one-card-in-container": (
        "25.5.2",
        "B",
        "5 0 - 910B4 OK 0000:41:00.0 89.9 39 0 0/0 2922/32768 0/0",
        "",
    ),
    "info_25.6.rc1.b218_950DT_3npu_warning": (
        "25.6.rc1.b218",
        "C",
        """0 - - Ascend950DT OK - 398.6 46 - 0/0 4765/98304 0/0
           1 - - Ascend950DT OK - 401.0 51 - 0/0 4764/98304 0/0
           7 - - Ascend950DT Warning - 397.5 61 - 0/0 91000/98304 0/0""",
        "",
    ),
    "info_26.0.rc1_910B4_1npu_truncated-process-table": (
        "26.0.rc1",
        "B",
        "0 0 - 910B4 OK 0000:C1:00.0 82.6 32 0 0/0 2871/32768 0/0",
        "",
    ),
    "info_26.0.rc1_A3_2npu_2chip_proc_container-pid": (
        "26.0.rc1",
        "B'",
        """0 0 0 Ascend910 OK 0000:9D:00.0 204.0 43 100 0/0 59807/65536 0/0
           0 1 1 Ascend910 OK 0000:9F:00.0 - 40 60 0/0 59536/65536 0/0
           5 0 10 Ascend910 OK 0000:89:00.0 159.6 39 0 0/0 3140/65536 0/0
           5 1 11 Ascend910 OK 0000:8B:00.0 - 40 0 0/0 2882/65536 0/0""",
        """0 0 1774110 - VLLMWorker_PP 56684
           0 1 1777209 - VLLMWorker_PP 56684""",
    ),
    "info_26.0.rc2_A3_idle_cut": (
        "26.0.rc2",
        "B'",
        """0 0 0 Ascend910 OK 0000:9D:00.0 162.6 34 0 0/0 3419/65536 0/0
           0 1 1 Ascend910 OK 0000:9F:00.0 - 34 0 0/0 2874/65536 0/0""",
        "",
    ),
    "info_26.x_910B3_8npu_proc_container-pid": (
        "26.0.rc1",
        "B",
        """0 0 - 910B3 OK 0000:C1:00.0 100.0 50 0 0/0 8676/65536 0/0
           1 0 - 910B3 OK 0000:C2:00.0 94.8 48 0 0/0 3403/65536 0/0
           2 0 - 910B3 OK 0000:81:00.0 90.0 49 0 0/0 3403/65536 0/0
           3 0 - 910B3 OK 0000:82:00.0 96.5 48 0 0/0 3407/65536 0/0
           4 0 - 910B3 OK 0000:01:00.0 96.5 52 0 0/0 3403/65536 0/0
           5 0 - 910B3 OK 0000:02:00.0 97.4 49 0 0/0 3402/65536 0/0
           6 0 - 910B3 OK 0000:41:00.0 97.8 49 0 0/0 3402/65536 0/0
           7 0 - 910B3 OK 0000:42:00.0 93.3 51 0 0/0 3403/65536 0/0""",
        "0 0 485946 - pytest 5175",
    ),
    "info_xxx_950_docs_1npu": (
        "x.x.x",
        "C",
        "0 - - xxx OK 0000:91:00.0 204.4 56 - 0/0 4439/86016 0/0",
        "",
    ),
}
"""Tool version, layout, devices, processes."""

DAMAGED: dict[str, tuple[str, ...]] = {
    "info_23.0.2_910A_xxx_docs_ddr-nonzero": ("the table is cut off",),
    "info_24.1.0.3_910B2_cut": (
        "line 1: not a row",
        "line 15: a row that is cut off",
        "the table is cut off",
    ),
    "info_24.1.0_910B2_promptpaste_cut": (
        "line 16: a row that is cut off",
        "line 2: not a row of the table: cat",
    ),
    "info_24.1.0_910ProB_ddr-nonzero_hbm18_cut": ("line 14: NPU 2 has no readable second row",),
    "info_24.1.rc2_910B3_container_npu4-5": ("line 1: not a row of the table: NPU:", "the table is cut off"),
    "info_24.1.rc2_910B4_busy30G": ("the table is cut off",),
    "info_24.1.rc2_docs_handmade_units-dropped": (
        "column 'Hugepages' is not known",
        "column 'HBM-Usage' shows no unit",
        "line 10: a device row that cannot be read",
    ),
    "info_24.1.rc2_rag_310P_powerNA_cut": ("line 10: NPU 8 has no readable second row",),
    "info_24.x_A3_no-title_cut": ("line 14: NPU 1 has no readable second row", "the table is cut off"),
    "info_25.0.rc1.1_310P3_OCR_0K": ("line 8: Health is '0K', taken for OK", "line 17: Health is '0K'"),
    "info_25.2.0_310P3_duo_same-bus-id": ("the table is cut off",),
    "info_25.3.rc1_A3_cut": ("line 14: a row that is cut off", "the table is cut off"),
    "info_25.5.0_910B2_2npu_cut": ("line 1: not a row of the table: NPU:", "the table is cut off"),
    "info_25.5.0_910B4_qwen_busyhbm_idleaicore_cut": ("line 14: NPU 2 has no readable second row",),
    "info_26.0.rc1_910B4_1npu_truncated-process-table": ("the table is cut off",),
    "info_26.0.rc2_A3_idle_cut": ("line 1: not a row of the table: NPU:", "the table is cut off"),
}
"""What must be said of a damaged table; of the others nothing is."""
