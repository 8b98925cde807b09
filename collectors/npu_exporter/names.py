"""npu-exporter's metric names and what each becomes, of its versions 5 to 26.

Names and units are those of MindCluster's NPU Exporter metrics reference, but for `npu_chip_link_speed`: it is in
Mbit/s, as the help text on the page says and hccn_tool prints it. MB of memory are MiB; MB and GB of a bandwidth are
10^6 and 10^9 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from collectors.sample import Labels, labels

MEBIBYTE = 1024.0**2
FAILED = frozenset((float(2**32 - 1), float(2**64 - 1)))
"""Besides anything negative: what the exporter prints for a call that failed."""

LINKS, LANES, DIES, PORTS = range(8), range(4), range(2), range(36)
"""Numbers that names may end in: HCCS links, lanes of an optical module, dies and their UB ports."""


@dataclass(frozen=True, slots=True)
class Row:
    """A canonical name and the exporter's.

    A value times `factor` is in base units; one above `highest` (of the exporter's unit) is no reading, nor is
    another than 0 and 1 of a `flag`. `theirs` with `{link}` or `{lane}` stands for a name per number. `ported` names
    may end in `_DIE_PORT` (950), or carry the labels `udie` and `port` (from 26.0). `placed` samples say whose they
    are: namespace, pod and container.
    """

    canonical: str
    theirs: str
    factor: float = 1.0
    highest: float = math.inf
    more: Labels = ()
    flag: bool = False
    ported: bool = False
    placed: bool = False

    def convert(self, value: float) -> float | None:
        """The value in base units, or None for a failed reading."""
        if self.flag:
            return value if value in (0.0, 1.0) else None
        sound = 0.0 <= value <= self.highest and value < math.inf and value not in FAILED
        return value * self.factor if sound else None

    def families(self) -> Iterator[tuple[str, Labels]]:
        """Every name on a page that this row stands for, and the labels that the name itself gives."""
        for place, numbers in (("link", LINKS), ("lane", LANES)):
            if f"{{{place}}}" in self.theirs:
                named = [
                    (self.theirs.format(**{place: str(number)}), (*self.more, (place, str(number))))
                    for number in numbers
                ]
                break
        else:
            named = [(self.theirs, self.more)]
        for name, more in named:
            yield name, more
            if self.ported:
                for die, port in product(DIES, PORTS):
                    yield f"{name}_{die}_{port}", (*more, ("die", str(die)), ("port", str(port)))


def _percent(canonical: str, theirs: str, *, placed: bool = False) -> Row:
    return Row(canonical, theirs, 0.01, 100.0, placed=placed)


def _mebibytes(canonical: str, theirs: str, *, placed: bool = False) -> Row:
    return Row(canonical, theirs, MEBIBYTE, 1e7, placed=placed)


def _plain(canonical: str, theirs: str, **more: str) -> Row:
    return Row(canonical, theirs, 1.0, 1e6, labels(**more))


def _flag(canonical: str, theirs: str, *, ported: bool = False) -> Row:
    return Row(canonical, theirs, flag=True, ported=ported)


def _count(canonical: str, theirs: str, *, ported: bool = False, **more: str) -> Row:
    return Row(f"npu_{canonical}_total", theirs, more=labels(**more), ported=ported)


def _both_ways(
    canonical: str, theirs: str, factor: float = 1.0, *, ported: bool = False, **more: str
) -> list[Row]:
    """A row for rx and one for tx, where `theirs` holds `{way}`."""
    return [
        Row(
            canonical, theirs.replace("{way}", way), factor, more=labels(direction=way, **more), ported=ported
        )
        for way in ("rx", "tx")
    ]


UB_PACKETS = {
    "ub_ipv4_pkt": "ipv4",
    "ub_ipv6_pkt": "ipv6",
    "unic_ipv4_pkt": "unic_ipv4",
    "unic_ipv6_pkt": "unic_ipv6",
    "ub_compact_pkt": "compact",
    "ub_umoc_ctph": "umoc_ctph",
    "ub_umoc_ntph": "umoc_ntph",
    "ub_mem_pkt": "mem",
    "unknown_pkt": "unknown",
}
"""Parts of the exporter's names for kinds of UB packets, and ours."""

ROWS: tuple[Row, ...] = (
    _flag("npu_health_ok", "npu_chip_info_health_status"),
    _flag("npu_network_ok", "npu_chip_info_network_status"),
    _percent("npu_aicore_usage_ratio", "npu_chip_info_utilization"),
    _percent("npu_vector_usage_ratio", "npu_chip_info_vector_utilization"),
    _percent("npu_cube_usage_ratio", "npu_chip_info_cube_utilization"),
    _percent("npu_overall_usage_ratio", "npu_chip_info_overall_utilization"),
    Row("npu_aicore_frequency_hertz", "npu_chip_info_aicore_current_freq", 1e6, 1e5),
    _mebibytes("npu_hbm_used_bytes", "npu_chip_info_hbm_used_memory"),
    _mebibytes("npu_hbm_total_bytes", "npu_chip_info_hbm_total_memory"),
    _percent("npu_hbm_usage_ratio", "npu_chip_info_hbm_utilization"),
    _percent("npu_hbm_bandwidth_usage_ratio", "npu_chip_info_hbm_bandwidth_utilization"),
    _plain("npu_hbm_temperature_celsius", "npu_chip_info_hbm_temperature"),
    _flag("npu_hbm_ecc_enabled", "npu_chip_info_hbm_ecc_enable_flag"),
    _count("hbm_ecc_errors", "npu_chip_info_hbm_ecc_single_bit_error_cnt", bits="single"),
    _count("hbm_ecc_errors", "npu_chip_info_hbm_ecc_double_bit_error_cnt", bits="double"),
    _count("hbm_ecc_lifetime_errors", "npu_chip_info_hbm_ecc_total_single_bit_error_cnt", bits="single"),
    _count("hbm_ecc_lifetime_errors", "npu_chip_info_hbm_ecc_total_double_bit_error_cnt", bits="double"),
    _plain("npu_hbm_isolated_pages", "npu_chip_info_hbm_ecc_single_bit_isolated_pages_cnt", bits="single"),
    _plain("npu_hbm_isolated_pages", "npu_chip_info_hbm_ecc_double_bit_isolated_pages_cnt", bits="double"),
    _mebibytes("npu_memory_used_bytes", "npu_chip_info_used_memory"),
    _mebibytes("npu_memory_total_bytes", "npu_chip_info_total_memory"),
    _plain("npu_temperature_celsius", "npu_chip_info_temperature"),
    _plain("npu_power_watts", "npu_chip_info_power"),
    _plain("npu_voltage_volts", "npu_chip_info_voltage"),
    _plain("npu_processes", "npu_chip_info_process_info_num"),
    _mebibytes("npu_process_memory_bytes", "npu_chip_info_process_info", placed=True),
    _percent("npu_container_aicore_usage_ratio", "container_npu_utilization", placed=True),
    _mebibytes("npu_container_memory_used_bytes", "container_npu_used_memory", placed=True),
    _mebibytes("npu_container_memory_total_bytes", "container_npu_total_memory", placed=True),
    _percent("npu_vnpu_aicore_usage_ratio", "vnpu_pod_aicore_utilization", placed=True),
    Row("npu_vnpu_memory_used_bytes", "vnpu_pod_used_memory", 1024.0, 1e10, placed=True),
    Row("npu_vnpu_memory_total_bytes", "vnpu_pod_total_memory", 1024.0, 1e10, placed=True),
    # The network port.
    _flag("npu_link_up", "npu_chip_info_link_status", ported=True),
    Row("npu_link_speed_bytes_per_second", "npu_chip_link_speed", 125e3),
    Row("npu_link_speed_bytes_per_second", "npu_chip_info_link_speed", 125e6, ported=True),
    _count("link_ups", "npu_chip_link_up_num"),
    *_both_ways("npu_network_bytes_per_second", "npu_chip_info_bandwidth_{way}", 1e6, ported=True),
    *_both_ways("npu_mac_pause_frames_total", "npu_chip_mac_{way}_pause_num"),
    *_both_ways("npu_mac_pfc_frames_total", "npu_chip_mac_{way}_pfc_pkt_num"),
    *_both_ways("npu_mac_bad_packets_total", "npu_chip_mac_{way}_bad_pkt_num"),
    *_both_ways("npu_mac_bad_bytes_total", "npu_chip_mac_{way}_bad_oct_num"),
    *_both_ways("npu_mac_pause_frames_total", "npu_chip_info_core_mib_{way}pausepkts", ported=True),
    *_both_ways("npu_mac_pfc_frames_total", "npu_chip_info_core_mib_{way}pfcpkts", ported=True),
    *_both_ways("npu_mac_bad_packets_total", "npu_chip_info_core_mib_{way}badpkts", ported=True),
    *_both_ways("npu_mac_bad_bytes_total", "npu_chip_info_core_mib_{way}badoctets", ported=True),
    _count("mac_fcs_errors", "npu_chip_info_rx_fcs_num"),
    *_both_ways("npu_roce_packets_total", "npu_chip_roce_{way}_all_pkt_num"),
    *_both_ways("npu_roce_error_packets_total", "npu_chip_roce_{way}_err_pkt_num"),
    *_both_ways("npu_roce_cnp_packets_total", "npu_chip_roce_{way}_cnp_pkt_num"),
    _count("roce_ecn_packets", "npu_chip_info_rx_ecn_num"),
    _count("roce_retries", "npu_chip_roce_new_pkt_rty_num"),
    _count("roce_unexpected_acks", "npu_chip_roce_unexpected_ack_num"),
    _count("roce_out_of_order", "npu_chip_roce_out_of_order_num"),
    _count("roce_verification_errors", "npu_chip_roce_verification_err_num"),
    _count("roce_qp_status_errors", "npu_chip_roce_qp_status_err_num"),
    _flag("npu_optical_present", "npu_chip_optical_state"),
    *_both_ways("npu_optical_power_watts", "npu_chip_optical_{way}_power_{lane}", 1e-3),
    *_both_ways("npu_optical_power_watts", "npu_chip_info_optical_{way}_power_{lane}", 1e-3, ported=True),
    Row("npu_optical_lanes", "npu_chip_info_optical_index_num", highest=1e3, ported=True),
    Row("npu_optical_voltage_volts", "npu_chip_optical_vcc", 1e-3, 1e6),
    _plain("npu_optical_temperature_celsius", "npu_chip_optical_temp"),
    # Links within the machine.
    *_both_ways("npu_hccs_bytes_per_second", "npu_chip_info_hccs_bandwidth_info_total_{way}", 1e9),
    *_both_ways("npu_hccs_link_bytes_per_second", "npu_chip_info_hccs_bandwidth_info_{way}_{link}", 1e9),
    Row("npu_hccs_sampling_seconds", "npu_chip_info_hccs_bandwidth_info_profiling_time", 1e-3, 1e6),
    *_both_ways("npu_hccs_packets_total", "npu_chip_info_hccs_statistic_info_{way}_cnt_{link}"),
    _count("hccs_crc_errors", "npu_chip_info_hccs_statistic_info_crc_err_cnt_{link}"),
    *_both_ways("npu_pcie_bytes_per_second", "npu_chip_info_pcie_{way}_p_bw", 1e9, kind="posted"),
    *_both_ways("npu_pcie_bytes_per_second", "npu_chip_info_pcie_{way}_np_bw", 1e9, kind="non_posted"),
    *_both_ways("npu_pcie_bytes_per_second", "npu_chip_info_pcie_{way}_cpl_bw", 1e9, kind="completion"),
    *_both_ways("npu_sio_crc_errors_total", "npu_chip_info_sio_crc_{way}_err_cnt"),
    *(
        row
        for stem, kind in UB_PACKETS.items()
        for row in _both_ways(
            "npu_ub_packets_total", f"npu_chip_info_{stem}_cnt_{{way}}", ported=True, kind=kind
        )
    ),
    *(
        _count("ub_routed_packets", f"npu_chip_info_to_{target}_pkt_cnt_rx", ported=True, target=target)
        for target in ("host", "imp", "mar", "link", "noc")
    ),
    _count("ub_routed_packets", "npu_chip_info_lpbk_ind_cnt_tx", ported=True, target="loopback"),
    *_both_ways("npu_ub_bad_packets_total", "npu_chip_info_drop_ind_cnt_{way}", ported=True, kind="dropped"),
    *_both_ways("npu_ub_bad_packets_total", "npu_chip_info_err_ind_cnt_{way}", ported=True, kind="error"),
    *_both_ways("npu_ub_bad_packets_total", "npu_chip_info_out_err_cnt_{way}", ported=True, kind="bad"),
    *_both_ways("npu_ub_bad_packets_total", "npu_chip_info_length_err_cnt_{way}", ported=True, kind="length"),
    _count("ub_bad_packets", "npu_chip_info_route_err_cnt_rx", ported=True, direction="rx", kind="route"),
    *_both_ways("npu_ub_bytes_total", "npu_chip_info_{way}_busi_flit_num", ported=True),
    _count("ub_ack_bytes", "npu_chip_info_rx_send_ack_flit", ported=True, direction="rx"),
    _count("ub_ack_bytes", "npu_chip_info_tx_recv_ack_flit", ported=True, direction="tx"),
    _count("ub_retries", "npu_chip_info_retry_req_sum", ported=True, kind="request"),
    _count("ub_retries", "npu_chip_info_retry_ack_sum", ported=True, kind="response"),
    _count("ub_crc_errors", "npu_chip_info_crc_error_sum", ported=True),
)
"""Readings of a device."""

MACHINE = {"machine_card_nums": "npu_cards", "machine_npu_nums": "npu_chips"}
"""Readings of the machine, without a device."""

ERROR_CODES = frozenset(
    {"npu_chip_info_error_code", *(f"npu_chip_info_error_code_{number}" for number in range(1, 128))}
)
"""The value is the code; it becomes a label of `npu_error_active`."""

NAME, SERIAL, PRODUCT = "npu_chip_info_name", "npu_chip_info_serial_number", "npu_chip_info_product_type"
CONTAINER = "npu_container_info"
VERSIONS = ("npu_exporter_version_info", "node_base_info")
PLACEHOLDERS = {
    NAME: "a device of `npu_info`",
    SERIAL: "the label `serial` of `npu_info`",
    PRODUCT: "the label `product` of `npu_info`",
    CONTAINER: "`npu_used_by`",
    VERSIONS[0]: "the label `version` of `npu_exporter_info`",
    VERSIONS[1]: "the label `driver` of `npu_exporter_info`",
}
"""Series whose value means nothing (always 1): what is taken from their labels. No series is left out."""
