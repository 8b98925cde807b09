"""Any npu-smi output that somebody pasted, told by its content and laid out for people and programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from collectors.host.cpulist import format_cpulist
from collectors.lines import numbered
from collectors.notes import bounded
from collectors.npu_smi import errors
from collectors.npu_smi.cells import Usage
from collectors.npu_smi.keyed import Keyed, Section, parse_keyed
from collectors.npu_smi.listing import Listed, Listing, parse_list, parse_mapping
from collectors.npu_smi.table import Chip, Table, TableError, parse_table
from collectors.npu_smi.topology import Topology, parse_topology
from collectors.npu_smi.watch import Watch, parse_watch

Row = dict[str, object]
DEVICE_KEYS = (
    "npu",
    "chip",
    "phy",
    "name",
    "health",
    "bus_id",
    "power_watts",
    "temperature_celsius",
    "aicore_ratio",
    "memory_used_bytes",
    "memory_total_bytes",
    "hbm_used_bytes",
    "hbm_total_bytes",
    "hugepages_used",
    "hugepages_total",
)
PROCESS_KEYS = ("npu", "chip", "pid", "container_pid", "name", "memory_bytes")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_VERSION = re.compile(r"npu-smi version\s*:\s*(\S+)", re.IGNORECASE)
_MAPPED = re.compile(r"^[ \t]*NPU ID\s+(?:Slot ID\s+)?Chip ID\b", re.MULTILINE)


def parse_paste(text: str) -> Row:
    """What the output says: `tool_version`, `layout`, `devices`, `processes`, `notes` and `error`.

    Values are in base units and None where the output does not show them. What is not the table of `info` has its
    kind in `type` and all its values in `readings` (or `links`) besides. `error` is the reason, with what mends it, why
    nothing could be read.
    """
    text = _ESCAPE.sub("", text)
    try:
        return _of_table(parse_table(text))
    except TableError as failure:
        tabular = any(line.lstrip().startswith("|") for line in text.splitlines())
        return (None if tabular else _of_others(text)) or _result(error=str(failure), notes=_lines(text))


def parse_topology_paste(text: str) -> Row:
    """The matrix of `info -t topo` alone, in the same manner."""
    found = _of_topology(parse_topology(_ESCAPE.sub("", text)))
    if found is not None:
        return found
    reason = (
        errors.of_text(text)
        or "no matrix of devices (NPU0 NPU1 ...) in it: paste the whole output of -t topo"
    )
    return _result(error=str(reason), notes=_lines(text), type="topo", links=[])


def _of_others(text: str) -> Row | None:
    if "NpuID(Idx)" in text:
        return _of_watch(parse_watch(text))
    if (topology := _of_topology(parse_topology(text))) is not None:
        return topology
    if _MAPPED.search(text):
        return _of_listing(parse_mapping(text), "mapping")
    if match := _VERSION.search(text):
        return _result(tool_version=match[1], type="version", readings=[])
    keyed = parse_keyed(text)
    if keyed.type == "list" or (keyed.type is None and keyed.sections):
        return _of_listing(parse_list(text), "list")
    return _of_keyed(keyed) if keyed.type is not None else None


def _of_table(table: Table) -> Row:
    error = None
    if not table.chips:
        error = f"the table has no device row that can be read: {table.notes[0]}"
    chips = {(chip.npu, chip.chip) for chip in table.chips}
    numbered = table.layout != "C"
    return _result(
        tool_version=table.tool_version,
        layout=table.layout,
        devices=[_chip(chip, numbered) for chip in table.chips],
        processes=[
            {
                "npu": _id(one.npu),
                "chip": _id(one.chip) if numbered else None,
                "pid": _id(one.pid),
                "container_pid": _id(one.container_pid),
                "name": one.name,
                "memory_bytes": _whole(one.memory_bytes),
            }
            for one in table.processes
        ],
        notes=[
            *table.notes,
            *(
                f"process {one.pid} is on NPU {one.npu} chip {one.chip}, which is not among the devices"
                for one in table.processes
                if (one.npu, one.chip) not in chips
            ),
        ],
        error=error,
    )


def _chip(chip: Chip, numbered: bool) -> Row:
    return _device(
        {
            "npu": _id(chip.npu),
            "chip": _id(chip.chip) if numbered else None,
            "phy": _id(chip.phy_id),
            "name": chip.name,
            "health": chip.health,
            "bus_id": chip.bus_id,
            "power_watts": chip.power_watts,
            "temperature_celsius": chip.temperature_celsius,
            "aicore_ratio": chip.aicore_usage_ratio,
            **_usage("memory", "_bytes", chip.memory),
            **_usage("hbm", "_bytes", chip.hbm),
            **_usage("hugepages", "", chip.hugepages),
        }
    )


def _usage(what: str, unit: str, usage: Usage | None) -> Row:
    if usage is None:
        return {}
    return {f"{what}_used{unit}": _whole(usage.used), f"{what}_total{unit}": _whole(usage.total)}


def _of_watch(watch: Watch) -> Row:
    if not watch.rows:
        return _result(
            error="the watch has a header and no row", notes=watch.notes, type="watch", readings=[]
        )
    readings = [{"npu": _id(row.npu), "chip": _id(row.chip), **row.values} for row in watch.rows]
    return _result(
        devices=[_device(_renamed(row)) for row in readings],
        notes=watch.notes,
        type="watch",
        readings=readings,
    )


def _of_topology(topology: Topology) -> Row | None:
    if not topology.devices:
        return None
    npus = [name for name in topology.devices if name.upper().startswith("NPU")]
    phys = [name for name in topology.devices if name.upper().startswith("PHY")]
    return _result(
        devices=[
            *(_device({"npu": _id(name[3:])}) for name in npus),
            *(_device({"phy": _id(name.partition("ID")[2])}) for name in phys),
        ],
        notes=topology.notes,
        type="topo",
        readings=[
            {
                "device": name,
                "cpus": format_cpulist(topology.cpus[name]) if name in topology.cpus else None,
            }
            for name in topology.devices
        ],
        links=[
            {"from": one, "to": other, "way": topology.links.get((one, other))}
            for at, one in enumerate(topology.devices)
            for other in topology.devices[at + 1 :]
        ],
    )


def _of_listing(listing: Listing, kind: str) -> Row:
    if not listing.rows:
        return _result(
            error="the list has no row that can be read", notes=listing.notes, type=kind, readings=[]
        )
    return _result(
        devices=[
            _device({"npu": _id(one.npu), "chip": _id(one.chip), "phy": _id(one.phy_id), "name": one.name})
            for one in listing.rows
            if not one.controller
        ],
        notes=listing.notes,
        type=kind,
        readings=[_listed(one) for one in listing.rows],
    )


def _listed(one: Listed) -> Row:
    return {
        "npu": _id(one.npu),
        "chip": _id(one.chip),
        "controller": one.controller,
        "slot": _id(one.slot),
        "logic_id": _id(one.logic_id),
        "phy": _id(one.phy_id),
        "name": one.name,
        "serial_number": one.serial_number,
        "chips": one.chips,
    }


def _of_keyed(keyed: Keyed) -> Row:
    readings = [_section(section) for section in keyed.sections if section.values]
    error = None if readings or keyed.processes else "no value in it can be read"
    return _result(
        devices=[_device(_renamed(row)) for row in readings if not row["controller"]],
        processes=[
            {
                "npu": _id(one.npu),
                "chip": _id(one.chip),
                "pid": _id(one.pid),
                "container_pid": None,
                "name": one.name,
                "memory_bytes": _whole(one.memory_bytes),
            }
            for one in keyed.processes
        ],
        notes=keyed.notes,
        error=error,
        type=keyed.type,
        readings=readings,
    )


def _section(section: Section) -> Row:
    row: Row = {"npu": _id(section.npu), "chip": _id(section.chip), "controller": section.controller}
    for name, value in section.values.items():
        if isinstance(value, tuple):
            row[name] = [_whole(one) if isinstance(one, float) else one for one in value]
        elif isinstance(value, float) and not name.endswith(("_ratio", "_celsius", "_watts", "_volts")):
            row[name] = _whole(value)
        else:
            row[name] = _id(value) if name == "phy_id" and isinstance(value, str) else value
    return row


def _renamed(row: Mapping[str, object]) -> Row:
    """A reading under the names that devices have."""
    aliases = {
        "phy": row.get("phy_id"),
        "name": row.get("chip_name", row.get("npu_name")),
        "aicore_ratio": row.get("aicore_usage_ratio"),
    }
    return {**row, **aliases}


def _device(known: Mapping[str, object]) -> Row:
    return {key: known.get(key) for key in DEVICE_KEYS}


def _result(
    *,
    tool_version: str | None = None,
    layout: str | None = None,
    devices: Iterable[Row] = (),
    processes: Iterable[Row] = (),
    notes: Iterable[str] = (),
    error: str | None = None,
    **more: object,
) -> Row:
    return {
        "tool_version": tool_version,
        "layout": layout,
        **more,
        "devices": list(devices),
        "processes": list(processes),
        "notes": bounded(list(notes)),
        "error": error,
    }


def _id(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _whole(value: float | None) -> int | float | None:
    return int(value) if value is not None and value.is_integer() else value


def _lines(text: str) -> list[str]:
    long: list[str] = []
    short = [f"line {number}: {line[:120]}" for number, line in numbered(text, long)]
    return short + long
