"""Rows about the NPUs."""

from __future__ import annotations

from collectors.metrics.row import PLACE, Metric
from collectors.metrics.row import device_metric as _device

DEVICE_ROWS = (
    _device(
        "info",
        "Identity of the device; always 1.",
        "1",
        combine="max",
        more=("bus_id", "phy_id", "vdie_id", "serial", "product"),
    ),
    _device(
        "health_ok", "1 if the device says it is healthy, 0 if not; absent if unknown.", "1", combine="min"
    ),
    _device("health_state", "1 for the health word the device reports.", "1", combine="max", more=("state",)),
    _device(
        "error_active",
        "1 for each fault code (hexadecimal) now reported.",
        "1",
        combine="max",
        more=("code",),
    ),
    _device("aicore_usage_ratio", "Share of time the AI cores were busy.", "ratio", combine="mean"),
    _device("vector_usage_ratio", "Share of time the vector cores were busy.", "ratio", combine="mean"),
    _device("cube_usage_ratio", "Share of time the cube (matrix) cores were busy.", "ratio", combine="mean"),
    _device("overall_usage_ratio", "Share of time any core was busy.", "ratio", combine="mean"),
    _device(
        "aicpu_usage_ratio", "Share of time the AI CPUs of the device were busy.", "ratio", combine="mean"
    ),
    _device(
        "ctrlcpu_usage_ratio",
        "Share of time the control CPUs of the device were busy.",
        "ratio",
        combine="mean",
    ),
    _device("aicore_frequency_hertz", "Current clock of the AI cores.", "hertz", combine="min"),
    _device("aicore_rated_frequency_hertz", "Clock the AI cores can keep up.", "hertz", combine="min"),
    _device(
        "throttled",
        "1 if something but idleness holds the AI cores below their rated clock, 0 if not; absent if unknown.",
        "1",
        combine="max",
    ),
    _device(
        "clock_reduced",
        "1 for each reason (idle, thermal, ...) that now lowers the clock of the AI cores.",
        "1",
        combine="max",
        more=("reason",),
    ),
    _device("hbm_used_bytes", "On-chip memory (HBM) in use.", "bytes"),
    _device("hbm_total_bytes", "On-chip memory (HBM) there is.", "bytes"),
    _device("hbm_bandwidth_usage_ratio", "Share of the HBM bandwidth in use.", "ratio", combine="mean"),
    _device("hbm_temperature_celsius", "Temperature of the HBM.", "celsius", combine="max"),
    _device("hbm_ecc_errors_total", "ECC errors of the HBM.", "errors", "counter", more=("bits",)),
    _device(
        "hbm_ecc_lifetime_errors_total",
        "ECC errors of the HBM since it was made.",
        "errors",
        "counter",
        more=("bits",),
    ),
    _device("hbm_ecc_enabled", "1 if ECC of the HBM is on, 0 if off.", "1", combine="min"),
    _device("hbm_isolated_pages", "HBM pages taken out of use for ECC errors.", "pages", more=("bits",)),
    _device("hbm_usage_ratio", "Share of the HBM in use.", "ratio", combine="mean"),
    _device("memory_used_bytes", "DDR memory of the device in use.", "bytes"),
    _device("memory_total_bytes", "DDR memory of the device there is.", "bytes"),
    _device(
        "memory_bandwidth_usage_ratio", "Share of the DDR memory's bandwidth in use.", "ratio", combine="mean"
    ),
    _device("memory_ecc_errors_total", "ECC errors of the DDR memory.", "errors", "counter", more=("bits",)),
    _device("temperature_celsius", "Temperature of the chip.", "celsius", combine="max"),
    _device("power_watts", "Power the device draws (a card of two dies reports it once).", "watts"),
    _device("voltage_volts", "Supply voltage of the chip.", "volts", combine="min"),
    _device(
        "process_memory_bytes", "Device memory a process holds.", "bytes", more=("pid", "process", *PLACE)
    ),
    _device("processes", "Processes that hold memory of the device.", "processes"),
    _device("used_by", "1 for each container that uses the device.", "1", combine="max", more=PLACE),
    _device(
        "container_aicore_usage_ratio",
        "Share of time a container kept the AI cores busy.",
        "ratio",
        more=PLACE,
    ),
    _device("container_memory_used_bytes", "Device memory a container uses.", "bytes", more=PLACE),
    _device("container_memory_total_bytes", "Device memory a container may use.", "bytes", more=PLACE),
    _device(
        "vnpu_aicore_usage_ratio",
        "Share of time the AI cores of a slice (vNPU) were busy.",
        "ratio",
        combine="mean",
        more=("vnpu", *PLACE),
    ),
    _device("vnpu_memory_used_bytes", "Memory of a slice (vNPU) in use.", "bytes", more=("vnpu", *PLACE)),
    _device("vnpu_memory_total_bytes", "Memory of a slice (vNPU).", "bytes", more=("vnpu", *PLACE)),
    Metric("npu_cards", "NPU cards in this machine.", "cards", combine="max"),
    Metric("npu_chips", "NPU chips in this machine.", "chips", combine="max"),
    Metric(
        "npu_exporter_info",
        "Version of npu-exporter and the driver it found; always 1.",
        "1",
        labels=("version", "driver"),
        combine="max",
    ),
    Metric(
        "npu_allocator_reserved_bytes",
        "Device memory that PyTorch's allocator holds in this process.",
        "bytes",
        labels=("device",),
    ),
    Metric(
        "npu_allocator_allocated_bytes",
        "Device memory in use by tensors of this process.",
        "bytes",
        labels=("device",),
    ),
    Metric(
        "npu_allocator_device_free_bytes",
        "Memory of the device that nobody holds, as PyTorch sees it.",
        "bytes",
        labels=("device",),
    ),
    _device("numa_node", "NUMA node of the host the device is attached to.", "1", combine="max"),
    _device("interrupts_total", "Interrupts of the device that the host took.", "interrupts", "counter"),
    _device(
        "interrupts_off_node_total",
        "Those of them that a CPU took which is not of the device's NUMA node.",
        "interrupts",
        "counter",
    ),
    _device(
        "interrupts_led_off_node",
        "Interrupts of the device, by their numbers, that are led to a CPU of another NUMA node than its own.",
        "interrupts",
    ),
    _device("hccs_ok", "1 if the links to other devices (HCCS) are healthy, 0 if not.", "1", combine="min"),
    _device("hccs_tx_bytes_total", "Bytes sent to other devices over HCCS.", "bytes", "counter"),
    _device("hccs_rx_bytes_total", "Bytes received from other devices over HCCS.", "bytes", "counter"),
    _device("hccs_retries_total", "Packets that HCCS links sent again.", "packets", "counter"),
    _device("hccs_errors_total", "Errors of the HCCS links.", "errors", "counter"),
    _device(
        "pcie_errors_total",
        "Errors of the PCIe link, by kind (tx, rx, lcrc, ecrc, retry).",
        "errors",
        "counter",
        more=("kind",),
    ),
)
