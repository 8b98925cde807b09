"""The configuration of the optional sources that read the devices by themselves."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated

from pydantic import Field

from daemon.sections.base import FilePath, Interval, Seconds, Section


class DcmiSource(Section):
    """The driver's own library: why a chip is slowed down."""

    enabled: bool | None = Field(
        default=None, description="unset: on where the library is, but off in the sidecar shape"
    )
    library: FilePath = Field(default=Path("/usr/local/dcmi/libdcmi.so"), description="where the library is")
    interval_seconds: Interval = Field(default=5.0, description="how often it is asked")
    timeout_seconds: Seconds = Field(default=5.0, description="longest wait for all of its answers")


class HccnSource(Section):
    """The hccn_tool command: the network port of each device."""

    enabled: bool | None = Field(
        default=None,
        description="unset: on where the command and the file are, but off in the sidecar shape",
    )
    command: Annotated[str, Field(min_length=1)] = Field(
        default="/usr/local/Ascend/driver/tools/hccn_tool", description="program: a name or a path"
    )
    config_file: FilePath = Field(
        default=Path("/etc/hccn.conf"), description="file with each device's address; it says which there are"
    )
    ping: list[IPv4Address] = Field(default=[], description="addresses to ping from each device")
    interval_seconds: Interval = Field(default=120.0, description="how often it is run")
    timeout_seconds: Seconds = Field(default=5.0, description="longest wait for one answer")
