"""What a person reads in each captured output that is not the table, written down by hand.

A process is NPU, chip, pid, pid in the container, name, MB; `-` is what the output does not show.
"""

from __future__ import annotations

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
LINKS: dict[str, dict[tuple[str, str], str | None]] = {
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
