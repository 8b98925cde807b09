"""Finds the engine that a launch command starts, on disk, and reads what it takes; nothing of it is run or imported."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from change.catalogue.knob import Engine
from change.installed import sglang, vllm
from change.installed.engine import InstalledEngine
from change.server import LaunchCommand

LARGEST_FILE_BYTES = 4 * 1024 * 1024
_SHEBANG = re.compile(r"#!\s*(\S+)(?:\s+(\S+))?")
_PYTHON = re.compile(r"python3?(\.\d+)?")
_VERSION = re.compile(r"""^(?:__version__|version)\b[^'"\n]*['"]([^'"]+)['"]""", re.MULTILINE)
_PACKAGES: Mapping[Engine, str] = {"vllm": "vllm", "sglang": "sglang"}


def installed_for(
    command: LaunchCommand, engine: Engine, *, root: Path = Path("/")
) -> InstalledEngine | None:
    """Read the engine that a command starts; None if it is not on this machine (or below `root`) or has no source.

    `root` is where the engine's own file system begins, such as `/proc/PID/root` of a container's process. Raises
    `SourceUnreadable` for a package that is there and cannot be read.
    """
    if engine not in _PACKAGES:
        return None
    python = _python(command, root)
    extra = [part for part in command.environ.get("PYTHONPATH", "").split(":") if part]
    folders = [*map(Path, extra), *(() if python is None else _site_packages(python, root))]
    return installed_in(folders, engine, root=root)


def installed_in(
    folders: Iterable[Path], engine: Engine, *, root: Path = Path("/")
) -> InstalledEngine | None:
    """Read an engine from the first of some folders of packages that holds it; None if none does."""
    searched = list(dict.fromkeys(_below(folder, root) for folder in folders))
    package = _package(_PACKAGES.get(engine, engine), searched, root)
    if package is None:
        return None
    version = _version(package)
    if engine == "sglang":
        return sglang.read_sglang(_read(package, sglang.ARGUMENT_FILES), source=str(package), version=version)
    found = vllm.read_vllm(_read(package, vllm.ARGUMENT_FILES), source=str(package), version=version)
    ascend = _package("vllm_ascend", searched, root)
    if ascend is None:
        return found
    every = _read(ascend, vllm.ASCEND_FILES)
    sources = {path: text for path, text in every.items() if any(word in text for word in vllm.ASCEND_WORDS)}
    return replace(
        found,
        additional_keys=vllm.ascend_keys(sources),
        quantizations=vllm.ascend_quantizations(sources),
        ascend_version=_version(ascend),
    )


def installed_at(path: Path, engine: Engine) -> InstalledEngine:
    """Read an engine by its Python or its folder of packages; raises `FileNotFoundError` if there is none."""
    folders = [path] if path.is_dir() else list(_site_packages(path, Path("/")))
    found = installed_in(folders, engine)
    if found is None:
        raise FileNotFoundError(
            f"no {engine} is installed at {path}: name its Python (.../bin/python) or its site-packages folder"
        )
    return found


def _python(command: LaunchCommand, root: Path) -> Path | None:
    """The Python that a command runs: its own, or that of the script it starts."""
    for word in command.argv:
        name = PurePath(word).name
        if _PYTHON.fullmatch(name):
            return _program(word, command, root)
        if name in _PACKAGES.values():
            script = _program(word, command, root)
            return None if script is None else _interpreter(script, command, root)
    return None


def _program(word: str, command: LaunchCommand, root: Path) -> Path | None:
    if "/" in word:
        path = _below(Path(word), root)
        return path if path.is_file() else None
    path_variable = command.environ.get("PATH")
    if root == Path("/"):
        found = shutil.which(word, path=path_variable)
        return None if found is None else Path(found)
    places = (path_variable or "/usr/local/bin:/usr/bin:/bin").split(":")
    return next((p for place in places if (p := _below(Path(place) / word, root)).is_file()), None)


def _interpreter(script: Path, command: LaunchCommand, root: Path) -> Path | None:
    try:
        with script.open("rb") as file:
            line = file.readline(512).decode("utf-8", "replace")
    except OSError:
        return None
    found = _SHEBANG.match(line)
    if found is None:
        return None
    word = found[2] if PurePath(found[1]).name == "env" and found[2] else found[1]
    return _program(word, command, root)


def _site_packages(python: Path, root: Path) -> Iterator[Path]:
    """The folders of packages of a Python: of its environment, and of the one that environment was made from."""
    prefixes = [python.parent.parent]
    if not (prefixes[0] / "pyvenv.cfg").is_file():
        # A link in a folder of programs: the Python itself stands elsewhere.
        prefixes.append(python.resolve().parent.parent)
    prefixes += [_below(Path("/usr/local"), root), _below(Path("/usr"), root)]
    for prefix in dict.fromkeys(prefixes):
        for pattern in (
            "lib/python3*/site-packages",
            "lib64/python3*/site-packages",
            "lib/python3*/dist-packages",
        ):
            yield from sorted(prefix.glob(pattern), reverse=True)
        yield from (place for place in (prefix / "lib/python3/dist-packages",) if place.is_dir())


def _package(name: str, folders: Iterable[Path], root: Path) -> Path | None:
    """The folder of a package: in one of the folders, or where an editable installation in one of them points."""
    for folder in folders:
        for place in (folder / name, *(base / name for base in _linked(folder, name, root))):
            if (place / "__init__.py").is_file() or (place / "engine").is_dir() or (place / "srt").is_dir():
                return place
    return None


def _linked(folder: Path, name: str, root: Path) -> Iterator[Path]:
    """Where `.pth` files of a folder point, and the finders that editable installations leave there."""
    try:
        links = sorted(folder.glob("*.pth")) + sorted(folder.glob("*.egg-link"))
        finders = sorted(folder.glob("__editable___*_finder.py"))
    except OSError:
        return
    for link in links:
        for line in _text(link).splitlines():
            line = line.strip()
            if line and not line.startswith(("#", "import ", "import\t")):
                yield _below(folder / line, root) if not line.startswith("/") else _below(Path(line), root)
    for finder in finders:
        target = _mapped(_text(finder), name)
        if target is not None:
            yield _below(Path(target).parent, root)


def _mapped(text: str, name: str) -> str | None:
    """What setuptools' finder says of a package: its MAPPING is a plain dictionary."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    for node in tree.body:
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id="MAPPING"), value=ast.Dict() as value)
                | ast.Assign(targets=[ast.Name(id="MAPPING")], value=ast.Dict() as value)
            ):
                for key, target in zip(value.keys, value.values, strict=True):
                    match key, target:
                        case ast.Constant(value=str(found)), ast.Constant(value=str(path)) if found == name:
                            return path
    return None


def _version(package: Path) -> str | None:
    """The version a package gives itself: its `_version.py`, else its metadata."""
    for name in ("_version.py", "version.py"):
        found = _VERSION.search(_text(package / name))
        if found is not None:
            return found[1]
    for folder in sorted(package.parent.glob(f"{package.name}*.dist-info")):
        stem = folder.name.removesuffix(".dist-info").rpartition("-")
        if stem[0].replace("-", "_").split("_")[0] == package.name.split("_")[0]:
            return stem[2] or None
    return None


def _read(package: Path, patterns: Iterable[str]) -> dict[str, str]:
    paths = dict.fromkeys(path for pattern in patterns for path in sorted(package.glob(pattern)))
    return {path.relative_to(package).as_posix(): _text(path) for path in paths if path.is_file()}


def _text(path: Path) -> str:
    """The text of a file, empty if it is not there or far too large to be source."""
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            return ""
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _below(path: Path, root: Path) -> Path:
    """A path of the engine's file system as this machine's."""
    if root == Path("/") or not path.is_absolute() or path.is_relative_to(root):
        return path
    return root / path.relative_to("/")
