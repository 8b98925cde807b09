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

ERRORS = {
    "err_dcmi_-8005_g_conLogLevel": ("-8005: inner error", "held by another container", "docker inspect"),
    "err_dcmi_-8005_ret4_exit187": ("-8005: inner error", "held by another container"),
    "err_dcmi_-8020_device-used": ("-8020: the card is held by another container",),
    "err_invalid-card-id": ("Invalid card id", "npu-smi info -m"),
    "info-help_950": ("its usage",),
    "info_25.5.2_broken_no-header_hbm-on-row1": ("without its header rows",),
    "info_empty-output_driver-missing": ("printed nothing", "is the driver installed"),
    "t-product_not-supported": ("does not support querying product",),
    "t-spod-info_950_unsupported": ("does not support querying spod-info",),
}
"""What the reason must say where nothing can be read."""

OTHERS: dict[str, tuple[str, list[dict[str, object]]]] = {
    "l_8npu_head": ("list", [{"npu": 0, "chips": 1}, {"npu": 1, "chips": 1}]),
    "l_950_pcie-card": ("list", [{"npu": 0, "name": "A5 PCIe Card"}]),
    "m_910A_8npu": (
        "mapping",
        [{"npu": n, "chip": 0, "logic_id": n, "name": "Ascend 910A"} for n in range(8)],
    ),
    "m_910B3_25.5.1": (
        "mapping",
        [
            {"npu": 0, "chip": 0, "logic_id": 0, "name": "Ascend 910B3", "controller": False},
            {"npu": 0, "chip": 1, "logic_id": None, "name": "Mcu", "controller": True},
        ],
    ),
    "m_910B_mcu_testfix": (
        "mapping",
        [
            {"npu": 8, "chip": 0, "logic_id": 0, "controller": False},
            {"npu": 8, "chip": 1, "logic_id": None, "controller": True},
            {"npu": 9, "chip": 0, "logic_id": 1, "controller": False},
        ],
    ),
    "m_950_docs_slot-no-logicid": ("mapping", [{"npu": 0, "slot": 0, "chip": 0, "phy": 0, "name": "xxx"}]),
    "t-board_910A_card": (
        "board",
        [{"npu": 0, "chip": None, "software_version": "23.0.5", "bus_id": "0000:61:00.0", "class_id": None}],
    ),
    "t-board_910A_chip0": (
        "board",
        [{"npu": 0, "chip": 0, "chip_name": "910A", "bus_id": "0000:61:00.0", "pcb_id": None}],
    ),
    "t-board_950_docs": (
        "board",
        [{"npu": 0, "chip_name": "xxx", "bus_id": "0000:F1:00.0", "main_board_id": "0x68(1P)"}],
    ),
    "t-common_310P_duo_2chip_mcu": (
        "common",
        [
            {
                "npu": 2944,
                "chip": 0,
                "memory_usage_ratio": 0.02,
                "aicore_usage_ratio": 0.0,
                "temperature_celsius": 45.0,
            },
            {
                "npu": 2944,
                "chip": 1,
                "memory_usage_ratio": 0.03,
                "aicore_usage_ratio": 0.0,
                "temperature_celsius": 47.0,
            },
            {"npu": 2944, "chip": None, "controller": True, "temperature_celsius": 48.0, "power_watts": 42.8},
        ],
    ),
    "t-common_310P_freq-below-rated": (
        "common",
        [{"npu": 1, "chip": 0, "aicore_rated_frequency_hertz": 1080e6, "aicore_frequency_hertz": 960e6}],
    ),
    "t-common_910A_docs_900MHz": (
        "common",
        [{"npu": 0, "chip": 0, "aicore_frequency_hertz": 900e6, "aicores": 30, "power_watts": 71.7}],
    ),
    "t-common_910B_busy-mcu_130W": (
        "common",
        [
            {"npu": 1, "chip": 0, "hbm_usage_ratio": 0.91, "temperature_celsius": 46.0, "power_watts": 130.4},
            {"npu": 1, "chip": None, "controller": True, "temperature_celsius": 40.0},
        ],
    ),
    "t-common_910B_busy_331W_elided": (
        "common",
        [{"npu": 7, "chip": 0, "aicore_usage_ratio": 0.7, "temperature_celsius": 66.0, "power_watts": 331.1}],
    ),
    "t-common_950_docs_curfreq100": (
        "common",
        [{"npu": 0, "chip": None, "aicore_rated_frequency_hertz": 1650e6, "aicore_frequency_hertz": 100e6}],
    ),
    "t-current-fault-event_950_docs": (
        "current-fault-event",
        [{"npu": None, "fault_events": 1, "fault_event_codes": ["81AF8000"]}],
    ),
    "t-ecc-enable_950_docs": ("ecc-enable", [{"hbm_ecc_enabled": "True"}]),
    "t-ecc_910A_ddr-hbm_docs": (
        "ecc",
        [{"npu": 1, "chip": 0, "memory_ecc_single_bit_errors": 0, "hbm_ecc_double_bit_isolated_pages": 0}],
    ),
    "t-ecc_950_docs": ("ecc", [{"npu": 0, "chip": None, "hbm_ecc_double_bit_next_isolated_pages": 0}]),
    "t-flash_950_docs": ("flash", [{"npu": 0, "flash_id": "1730504", "capacity_bytes": 64 * 1024**2}]),
    "t-hccs_910B_excerpt_testfix": (
        "hccs",
        [
            {
                "npu": None,
                "hccs_health": "OK",
                "hccs_tx_bytes": [39860043360, 28688790100, 31775670400],
                "hccs_rx_packets": [2091328898, 760745014, 4126456722],
                "hccs_errors": [0, 0, 0],
            }
        ],
    ),
    "t-hccs_A2_SYNTH_from_source": (
        "hccs",
        [
            {
                "npu": 0,
                "chip": 0,
                "hccs_lane_modes": [4] * 7,
                "hccs_link_lanes": ["1111"] * 7,
                "hccs_link_bits_per_second": [224 * 10**9] * 7,
                "hccs_first_error_lane": None,
            }
        ],
    ),
    "t-health_910A_chip_ok": ("health", [{"npu": None, "health": "OK", "error_codes": []}]),
    "t-health_950_docs": (
        "health",
        [{"npu": 0, "health": "OK", "error_codes": [], "error_information": None}],
    ),
    "t-memory_910B_32G_blog": (
        "memory",
        [{"npu": 1, "chip": 0, "hbm_total_bytes": 32768 * 1024**2, "hbm_temperature_celsius": 35.0}],
    ),
    "t-memory_950_docs": (
        "memory",
        [{"npu": 0, "hbm_total_bytes": 131072 * 1024**2, "hbm_frequency_hertz": 3200e6}],
    ),
    "t-phyid-remap_950_docs_colon-no-space": (
        "phyid-remap",
        [{"npu": 0, "chip": 0, "phy_id": 0, "slot": "0"}],
    ),
    "t-power_910B": ("power", [{"npu": 0, "chip": 0, "power_watts": 103.5}]),
    "t-power_950_docs": ("power", [{"npu": 0, "chip": None, "power_watts": 296.5}]),
    "t-proc-mem_910B3_25.5.1_trunc-name": ("proc-mem", []),
    "t-proc-mem_950_docs": ("proc-mem", []),
    "t-sensors_950_docs": (
        "sensors",
        [{"soc_max_temperature_celsius": 67.0, "sfp_temperature_celsius": None}],
    ),
    "t-sio-info_950_docs": ("sio-info", [{"link_tx_errors": 0, "link_rx_errors": 0}]),
    "t-sys-time_950_docs": ("sys-time", [{"system_time": "Thu Apr  9 10:03:04 2026"}]),
    "t-temp_950_docs": ("temp", [{"npu": 0, "chip": None, "temperature_celsius": 53.0}]),
    "t-temp_mcu_lm75": (
        "temp",
        [
            {"npu": 0, "chip": 0, "controller": False, "temperature_celsius": 39.0},
            {"npu": 0, "chip": None, "controller": True, "lm75a_te_celsius": 36.0, "lm75b_te_celsius": 36.0},
        ],
    ),
    "t-topo_4npu_pxb_testfix": (
        "topo",
        [{"device": "NPU0", "cpus": "144-167"}, {"device": "NPU1", "cpus": "96-119"}],
    ),
    "t-topo_910B_8npu_hccs_A": (
        "topo",
        [
            {"device": f"NPU{n}", "cpus": cpus}
            for n, cpus in enumerate(
                ("144-167", "144-167", "96-119", "96-119", "0-23", "0-23", "48-71", "48-71")
            )
        ],
    ),
    "t-topo_950_docs_1": ("topo", [{"device": "NPU0", "cpus": "0-63,128-191"}]),
    "t-topo_950_docs_2": ("topo", [{"device": "NPU0", "cpus": "0-63,128-191"}]),
    "t-topo_950_docs_3": ("topo", [{"device": "NPU0", "cpus": "0-63,128-191"}]),
    "t-topo_950_nic_no-affinity_testfix": (
        "topo",
        [{"device": "NPU0", "cpus": None}, {"device": "NPU1"}, {"device": "NIC0", "cpus": None}],
    ),
    "t-topo_A3_phyid_2dev_no-affinity": ("topo", [{"device": "Phy-ID12"}, {"device": "Phy-ID13"}]),
    "t-usages_310P_vector-dvpp": (
        "usages",
        [
            {
                "npu": 1,
                "chip": 0,
                "memory_total_bytes": 21534 * 1024**2,
                "ctrlcpu_usage_ratio": 0.13,
                "memory_bandwidth_usage_ratio": 0.51,
                "vector_usage_ratio": 0.0,
                "dvpp_jpegd_usage_ratio": 0.0,
            }
        ],
    ),
    "t-usages_910A": (
        "usages",
        [{"npu": 0, "chip": 0, "memory_usage_ratio": 0.06, "hbm_total_bytes": 31129 * 1024**2}],
    ),
    "t-usages_910A_gpustack": ("usages", [{"npu": 0, "chip": 0, "ctrlcpu_usage_ratio": 0.09}]),
    "t-usages_950_docs": (
        "usages",
        [
            {
                "npu": 0,
                "chip": None,
                "hbm_bandwidth_usage_ratio": 0.03,
                "cube_usage_ratio": 0.0,
                "hbm_usage_ratio": 0.03,
            }
        ],
    ),
    "t-usages_A3_2chip_busy_testfix": (
        "usages",
        [
            {
                "npu": None,
                "chip": 0,
                "aicore_usage_ratio": 0.71,
                "hbm_bandwidth_usage_ratio": 0.33,
                "overall_usage_ratio": 0.7,
            },
            {
                "npu": None,
                "chip": 1,
                "aicore_usage_ratio": 0.69,
                "hbm_bandwidth_usage_ratio": 0.31,
                "overall_usage_ratio": 0.68,
            },
        ],
    ),
    "t-volt_950_docs": ("volt", [{"npu": 0, "voltage_volts": 0.72}]),
    "v_docs": ("version", []),
    "watch_950_8npu_docs_1": (
        "watch",
        [
            {
                "npu": n,
                "chip": None,
                "power_watts": watts,
                "ctrlcpu_usage_ratio": busy,
                "memory_usage_ratio": 0.03,
            }
            for n, (watts, busy) in enumerate(
                [
                    (290.4, 0.16),
                    (292.1, 0.04),
                    (291.2, 0.07),
                    (292.1, 0.03),
                    (291.5, 0.04),
                    (289.5, 0.06),
                    (288.5, 0.08),
                    (289.3, 0.14),
                ]
            )
        ],
    ),
    "watch_950_8npu_docs_3": ("watch", [{"npu": 0, "power_watts": 280.8, "temperature_celsius": 83.0}]),
}
"""Type, and the values of each reading that are checked."""

READ_IN_PART = {"l_8npu_head": ("Total Count is 8, 2 can be read",)}
LINKS = {
    "t-topo_4npu_pxb_testfix": {("NPU0", "NPU1"): "PXB", ("NPU0", "NPU2"): "SYS", ("NPU2", "NPU3"): "PXB"},
    "t-topo_910B_8npu_hccs_A": {("NPU0", "NPU7"): "HCCS"},
    "t-topo_950_docs_1": {("NPU0", "NPU7"): "SYS"},
    "t-topo_950_docs_2": {("NPU0", "NPU1"): "UB", ("NPU1", "NPU2"): "SYS", ("NPU6", "NPU7"): "UB"},
    "t-topo_950_docs_3": {("NPU0", "NPU3"): "UB", ("NPU3", "NPU4"): "SYS"},
    "t-topo_950_nic_no-affinity_testfix": {("NPU0", "NPU1"): "UB", ("NPU0", "NIC0"): None},
    "t-topo_A3_phyid_2dev_no-affinity": {("Phy-ID12", "Phy-ID13"): "SIO"},
}
PROCESSES = {
    "t-proc-mem_910B3_25.5.1_trunc-name": "- - 207795 - VLLMEngineCor 55436",
    "t-proc-mem_950_docs": "0 - 395864 - power_test 5118",
}
