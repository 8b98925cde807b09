"""The arguments of an installed SGLang, in both ways its releases declare them."""

from __future__ import annotations

import pytest

from change.installed.sglang import read_sglang
from change.installed.source import SourceUnreadable

OLD = """
@dataclasses.dataclass
class ServerArgs:
    page_size: int = 1

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--page-size", type=int, default=ServerArgs.page_size)
        parser.add_argument("--tensor-parallel-size", "--tp-size", type=int)
        parser.add_argument("--disable-radix-cache", action="store_true")
"""
NEW = """
POLICIES = ["fcfs", "lpm"]

@dataclasses.dataclass
class ServerArgs:
    tp_size: A[int, Arg(help="Devices.", aliases=["--tensor-parallel-size"])] = 1
    disable_radix_cache: A[bool, "No radix cache."] = False
    schedule_policy: A[str, Arg(help="Order.", choices=POLICIES)] = "fcfs"
    inner: A[int, Arg(help="Not a flag.", no_cli=True)] = 0
    plain: int = 0

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--config")
"""


def test_old_releases_write_every_argument_out() -> None:
    engine = read_sglang({"srt/server_args.py": OLD}, source="there", version="0.5.3")
    assert engine.has("--page-size") and engine.has("--tp-size")
    assert engine.spellings["--disable-radix-cache"].takes_value is False


def test_new_ones_annotate_their_fields() -> None:
    engine = read_sglang({"srt/server_args.py": NEW}, source="there", version="0.5.15")
    assert engine.spellings["--tensor-parallel-size"].spellings == ("--tp-size", "--tensor-parallel-size")
    assert engine.spellings["--disable-radix-cache"].takes_value is False
    assert engine.spellings["--schedule-policy"].choices == ("fcfs", "lpm")
    assert engine.has("--config")
    assert not engine.has("--inner", "--plain")


def test_newest_ones_put_them_together_of_many_classes() -> None:
    sources = {
        "srt/server_args.py": "class ServerArgs:\n    def resolve(self):\n        pass\n",
        "srt/arg_groups/fields/schedule.py": """
class Schedule(msgspec.Struct):
    _NS_PATH = "schedule"
    max_running_requests: A[Optional[int], "Requests."] = None
""",
    }
    engine = read_sglang(sources, source="there", version="0.5.23")
    assert engine.spellings["--max-running-requests"].takes_value is True


def test_a_folder_without_them_is_no_sglang() -> None:
    with pytest.raises(SourceUnreadable, match="no ServerArgs"):
        read_sglang({}, source="there", version=None)
