"""Return codes of the driver's management interface (DCMI), and what mends each.

They are those of Huawei's DCMI API and npu-smi references. npu-smi ends with a code's low byte: -8005 is exit code 187.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """A reason in plain words and what to do about it."""

    reason: str
    mend: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.mend}" if self.mend else self.reason


NOT_SUPPORTED = -8255
_HELD = "see which container has it (/dev/davinci* in `docker inspect` or the pod), and read npu-exporter from here"
CODES: dict[int, Failure] = {
    -8001: Failure("a parameter is not valid", "name an NPU and a chip that `npu-smi info -m` lists"),
    -8002: Failure("no permission", "run as root or join the group HwHiAiUser"),
    -8003: Failure("the driver has no memory left", "see dmesg"),
    -8005: Failure("inner error, most often because the card is held by another container", _HELD),
    -8006: Failure("the driver did not answer in time", "see dmesg; nothing else should call npu-smi often"),
    -8007: Failure("no such device", "see `npu-smi info -l`"),
    -8008: Failure("the device is absent", "see `lspci -d 19e5:` and dmesg: it may have dropped off the bus"),
    -8009: Failure("the driver refused the call (ioctl)", "see dmesg"),
    -8010: Failure("no message can be sent to the device", "see dmesg"),
    -8011: Failure("the device sent no message", "see dmesg"),
    -8012: Failure("the device is not ready", "wait until it has started; if it stays so, see dmesg"),
    -8013: Failure("not allowed in this container", "run it on the host, or read npu-exporter from here"),
    -8017: Failure("the device is being upgraded", "wait until the upgrade is done"),
    -8020: Failure("the card is held by another container", _HELD),
    NOT_SUPPORTED: Failure("not supported by this device", ""),
}
_UNKNOWN = Failure("a code that is not known", "look it up in Huawei's DCMI reference")


def meaning(code: int) -> Failure:
    """What a code says; one that the references do not list is told as such."""
    return CODES.get(code, _UNKNOWN)
