"""The fusion switches of vllm-ascend: what is known of its releases, and what an installed one really has.

An installed vllm-ascend is read as source and never imported. Source of the table: vllm-ascend's "Additional
Configuration" page and `ascend_config.py` of its releases.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LARGEST_BYTES = 2 * 1024 * 1024
FILES = (
    "ascend_config.py",
    "envs.py",
    "compilation/graph_fusion_pass_manager.py",
)


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch: its name, where it stands in `--additional-config`, the releases that have it where known."""

    name: str
    section: str | None
    since: str | None = None
    until: str | None = None

    @property
    def setting(self) -> str:
        """How it is given to the engine."""
        if self.name.isupper():
            return f"{self.name}=1"
        wanted: dict[str, object] = {self.name: True}
        whole = wanted if self.section is None else {self.section: wanted}
        return f"--additional-config '{json.dumps(whole)}'"

    @property
    def releases(self) -> str:
        """The releases that have it."""
        if self.since is None and self.until is None:
            return "in which releases is not known here"
        since = "" if self.since is None else f"from {self.since}"
        until = "" if self.until is None else f"gone in {self.until}"
        return ", ".join(part for part in (since, until) if part)


COMPILATION = "ascend_compilation_config"
FUSION = "ascend_fusion_config"

SWITCHES: dict[str, tuple[Switch, ...]] = {
    "norm-quant": (
        Switch("fuse_norm_quant", COMPILATION, "0.13.0"),
        Switch("enable_quantization_fusion", COMPILATION, until="0.13.0"),
    ),
    "qk-norm-rope": (Switch("fuse_qknorm_rope", COMPILATION, "0.13.0"),),
    "muls-add": (Switch("fuse_muls_add", COMPILATION),),
    "swiglu-quant": (Switch("fusion_ops_gmmswigluquant", FUSION, "0.18.0"),),
    "matmul-allreduce": (
        Switch("fuse_allreduce_rms", COMPILATION),
        Switch("enable_matmul_allreduce", None, "0.23.0", "0.25.1"),
        Switch("VLLM_ASCEND_ENABLE_MATMUL_ALLREDUCE", None),
    ),
    "split-qkv": (
        Switch("enable_mlapo", None, "0.23.0"),
        Switch("VLLM_ASCEND_ENABLE_MLAPO", None),
    ),
}
"""Patterns (see `collectors.profile.patterns`) to the switches that make the engine run them fused."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A vllm-ascend that was read: where, its version, and every switch named in it with its default.

    A default of None is one that the source works out when it runs.
    """

    path: Path
    version: str | None
    defaults: dict[str, bool | int | str | None]


class SwitchError(Exception):
    """No vllm-ascend can be read there; the text says what was looked for."""


def installed_package() -> Path | None:
    """Where this Python has vllm-ascend, without importing it; None if it has none."""
    found = importlib.util.find_spec("vllm_ascend")
    return None if found is None or found.origin is None else Path(found.origin).parent


def read_switches(path: Path) -> Installed:
    """Read the package at `path`: the package itself, or a folder that holds it. Raises SwitchError."""
    for package in (path, path / "vllm_ascend"):
        if (package / "ascend_config.py").is_file():
            break
    else:
        raise SwitchError(
            f"{path}: holds no vllm_ascend/ascend_config.py; name the package or what it lies in"
        )
    defaults: dict[str, bool | int | str | None] = {}
    for name in FILES:
        file = package / name
        if not file.is_file():
            continue
        try:
            if file.stat().st_size > LARGEST_BYTES:
                raise SwitchError(f"{file}: too large for a source file")
            tree = ast.parse(file.read_text(errors="replace"))
        except OSError as error:
            raise SwitchError(f"{file}: {error.strerror or error}") from error
        except (SyntaxError, ValueError, RecursionError) as error:
            raise SwitchError(f"{file}: not Python: {error}") from error
        for key, default in _named(tree):
            defaults.setdefault(key, default)
    return Installed(package, _version(package), defaults)


def _named(tree: ast.AST) -> Iterator[tuple[str, bool | int | str | None]]:
    """Names with defaults: arguments, annotated fields, `.get("name", default)`, keys of dictionaries."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            arguments = node.args.args[len(node.args.args) - len(node.args.defaults) :]
            for argument, default in zip(arguments, node.args.defaults, strict=True):
                yield argument.arg, _constant(default)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, _constant(node.value)
        elif isinstance(node, ast.Call):
            words = [value for argument in node.args if isinstance(value := _constant(argument), str)]
            if words:
                yield words[0], _constant(node.args[-1]) if len(node.args) > 1 else None
        elif isinstance(node, ast.Dict):
            for key in node.keys:
                if key is not None and isinstance(name := _constant(key), str):
                    yield name, None


def _constant(node: ast.expr) -> bool | int | str | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, bool | int | str) else None


def _version(package: Path) -> str | None:
    try:
        text = (package / "_version.py").read_text(errors="replace")[:10_000]
    except OSError:
        text = ""
    if match := re.search(
        r"^(?:__version__ = )?(?:version|__version__)\b.*?=\s*['\"]([^'\"]+)", text, re.MULTILINE
    ):
        return match[1]
    for folder in sorted(package.parent.glob("vllm_ascend-*.dist-info")):
        return folder.name.removeprefix("vllm_ascend-").removesuffix(".dist-info")
    return None
