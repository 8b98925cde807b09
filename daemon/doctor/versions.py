"""The versions of what serves here, as one matrix, and whether they belong together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from collectors.versions import Version, present, read_versions
from daemon.doctor.compatibility import VERSIONS, compatibility
from daemon.doctor.finding import Finding
from daemon.engine_process import EngineProcess

PACKAGE_PATTERNS = ("lib*/python3*/site-packages", "lib*/python3*/dist-packages")


def findings(engine_url: str, root: Path = Path("/")) -> list[Finding]:
    """Read them where the engine runs: its container's files, where its process is known here, else this machine's."""
    pid = EngineProcess(engine_url).pid()
    place = root / "proc" / str(pid) / "root" if pid is not None else root
    seen = place if _visible(place) else root
    versions = read_versions(seen, site_packages(pid, root) if pid is not None else ())
    if seen != root:
        # The driver is the machine's own, and a container often has no file of it.
        machine = {one.component: one for one in read_versions(root)}
        versions = [one if one.number is not None else machine.get(one.component, one) for one in versions]
    known = {one.component: one.number for one in versions if one.number is not None}
    return [*map(_row, versions), *compatibility(_named(known)), *_files(root)]


def site_packages(pid: int, root: Path = Path("/")) -> list[Path]:
    """Folders (absolute, in the process's own file system) in which its Python finds packages; none if unknown."""
    process = root / "proc" / str(pid)
    try:
        program = (process / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
        if not program.startswith("/"):
            program = str((process / "exe").readlink())
        environment = (process / "environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
    named = [item.removeprefix("PYTHONPATH=") for item in environment if item.startswith("PYTHONPATH=")]
    found = [Path(path) for text in named for path in text.split(":") if path.startswith("/")]
    inside = process / "root"
    prefix = inside / Path(program).parent.parent.relative_to("/")
    for pattern in PACKAGE_PATTERNS:
        found.extend(Path("/") / path.relative_to(inside) for path in sorted(prefix.glob(pattern)))
    return found


def _row(version: Version) -> Finding:
    if version.number is None:
        return Finding(VERSIONS, version.component, "unknown", version.why or "not known")
    carried = f" (release {version.package})" if version.package else ""
    return Finding(VERSIONS, version.component, "ok", f"{version.number}{carried}, {version.path}")


def _named(known: Mapping[str, str]) -> dict[str, str]:
    names = {"vllm": "vLLM", "torch-npu": "torch_npu"}
    return {names.get(component, component): number for component, number in known.items()}


def _files(root: Path) -> list[Finding]:
    """Configuration files of the driver: which there are."""
    return [
        Finding(VERSIONS, path, "ok" if there else "unknown", "there" if there else "not there")
        for path, there in present(root).items()
    ]


def _visible(place: Path) -> bool:
    try:
        next(place.iterdir(), None)
    except OSError:
        return False
    return True
