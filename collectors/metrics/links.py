"""Rows of the table of canonical names about a device's links: network port, optics, HCCS, PCIe, SIO and UB.

`direction` is rx or tx, `die` and `port` tell the ports of a device that has several (950), `link` is an HCCS link,
`lane` a lane of an optical module.
"""

from __future__ import annotations

from collectors.metrics.row import Kind, Metric, device_metric

_PORT = ("die", "port")
_WAY = ("direction",)


def _count(name: str, help: str, unit: str, more: tuple[str, ...]) -> Metric:
    kind: Kind = "counter"
    return device_metric(f"{name}_total", help, unit, kind, more=more, detail=True)


LINK_ROWS = (
    device_metric(
        "network_ok", "1 if the device's network answers, 0 if not; absent if unknown.", "1", combine="min"
    ),
    device_metric(
        "link_up",
        "1 if the device's network port is up, 0 if down; absent if unknown.",
        "1",
        combine="min",
        more=_PORT,
    ),
    device_metric(
        "network_state", "1 for the word the device reports of its network.", "1", "gauge", "max", ("state",)
    ),
    device_metric(
        "tls_enabled",
        "1 if the device's network speaks TLS; ports that differ cannot connect.",
        "1",
        combine="max",
    ),
    device_metric("ping_seconds", "Mean round trip to an address.", "seconds", "gauge", "max", ("address",)),
    device_metric(
        "ping_lost_ratio",
        "Share of the pings to an address that were lost.",
        "ratio",
        combine="max",
        more=("address",),
    ),
    device_metric(
        "link_speed_bytes_per_second",
        "Rated speed of the network port.",
        "bytes per second",
        combine="min",
        more=_PORT,
        detail=True,
    ),
    _count("link_ups", "Times the network port came up.", "times", ()),
    device_metric(
        "network_bytes_per_second",
        "Bytes through the network port.",
        "bytes per second",
        more=_WAY + _PORT,
        detail=True,
    ),
    _count("mac_pause_frames", "PAUSE frames of the network port.", "frames", _WAY + _PORT),
    _count("mac_pfc_frames", "Priority flow control frames of the network port.", "frames", _WAY + _PORT),
    _count("mac_bad_packets", "Bad packets of the network port.", "packets", _WAY + _PORT),
    _count("mac_bad_bytes", "Bytes in bad packets of the network port.", "bytes", _WAY + _PORT),
    _count("mac_fcs_errors", "Packets received with a wrong check sum (FCS).", "packets", ()),
    _count("roce_packets", "RoCE packets.", "packets", _WAY),
    _count("roce_error_packets", "RoCE packets with an error.", "packets", _WAY),
    _count("roce_cnp_packets", "Congestion notification packets.", "packets", _WAY),
    _count("roce_ecn_packets", "Packets received with a congestion mark (ECN).", "packets", ()),
    _count("roce_retries", "RoCE packets sent again.", "packets", ()),
    _count("roce_unexpected_acks", "RoCE acknowledgements that were not expected.", "packets", ()),
    _count("roce_out_of_order", "RoCE packets out of order.", "packets", ()),
    _count("roce_verification_errors", "RoCE packets that failed a check.", "packets", ()),
    _count("roce_qp_status_errors", "RoCE packets for a queue pair in a wrong state.", "packets", ()),
    device_metric("optical_present", "1 if there is an optical module, 0 if not.", "1", combine="min"),
    device_metric(
        "optical_power_watts",
        "Light of the optical module.",
        "watts",
        combine="min",
        more=("direction", "lane", *_PORT),
        detail=True,
    ),
    device_metric(
        "optical_lanes", "Lanes of the optical module of a port.", "lanes", more=_PORT, detail=True
    ),
    device_metric("optical_voltage_volts", "Supply voltage of the optical module.", "volts", combine="min"),
    device_metric(
        "optical_temperature_celsius", "Temperature of the optical module.", "celsius", combine="max"
    ),
    device_metric("hccs_bytes_per_second", "Bytes through all HCCS links.", "bytes per second", more=_WAY),
    device_metric(
        "hccs_link_bytes_per_second",
        "Bytes through one HCCS link.",
        "bytes per second",
        more=("direction", "link"),
        detail=True,
    ),
    device_metric(
        "hccs_sampling_seconds",
        "How long the HCCS bandwidth was sampled.",
        "seconds",
        combine="max",
        detail=True,
    ),
    _count("hccs_packets", "Packets through one HCCS link.", "packets", ("direction", "link")),
    _count("hccs_crc_errors", "Packets with a CRC error on one HCCS link.", "packets", ("link",)),
    device_metric(
        "pcie_bytes_per_second",
        "Bytes over PCIe of one kind (posted, non_posted, completion); stat is avg, min or max.",
        "bytes per second",
        combine="max",
        more=("direction", "kind", "stat"),
        detail=True,
    ),
    _count("sio_crc_errors", "CRC errors between the dies (SIO).", "packets", _WAY),
    _count("ub_packets", "UB packets of one kind.", "packets", ("direction", "kind", *_PORT)),
    _count("ub_routed_packets", "UB packets by where they were routed.", "packets", ("target", *_PORT)),
    _count("ub_bad_packets", "UB packets with one kind of fault.", "packets", ("direction", "kind", *_PORT)),
    _count("ub_bytes", "Bytes of UB packets.", "bytes", _WAY + _PORT),
    _count("ub_ack_bytes", "Bytes of UB answers.", "bytes", _WAY + _PORT),
    _count("ub_retries", "UB retransmissions; kind is request or response.", "times", ("kind", *_PORT)),
    _count("ub_crc_errors", "UB packets with a CRC error.", "packets", _PORT),
)
