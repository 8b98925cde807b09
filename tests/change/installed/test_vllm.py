"""The arguments of an installed vLLM, in the ways its releases declare them, and vllm-ascend's options."""

from __future__ import annotations

import pytest

from change.installed.engine import Argument
from change.installed.source import SourceUnreadable
from change.installed.vllm import ascend_keys, ascend_quantizations, read_vllm

OLD = {
    "engine/arg_utils.py": """
class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument('--block-size', type=int, choices=["8", "16"], default=EngineArgs.block_size)
        parser.add_argument('--swap-space', type=float, default=4)
        parser.add_argument('--max-num-seqs', type=int)
        parser.add_argument('--quantization', '-q', type=nullable_str)
        parser.add_argument('--enforce-eager', action='store_true')
        parser.add_argument('--enable-chunked-prefill', action=StoreBoolean, nargs="?", const="True")
        return parser
""",
}
NEW = {
    "config/cache.py": """
CacheDType = Literal["auto", "fp8"]

@config
class CacheConfig:
    DEFAULT_BLOCK_SIZE: ClassVar[int] = 16
    block_size: int = Field(default=None, gt=0)
    cache_dtype: CacheDType | str = "auto"
    enable_prefix_caching: bool = True
    only: CacheDType | None = None
""",
    "config/scheduler.py": """
@dataclass
class SchedulerConfig:
    max_num_seqs: "int | None" = None
    async_scheduling: "bool | None" = None
""",
    "engine/arg_utils.py": """
class EngineArgs:
    def add_cli_args(parser):
        cache_kwargs = get_kwargs(CacheConfig)
        group = parser.add_argument_group(title="CacheConfig")
        group.add_argument("--block-size", **cache_kwargs["block_size"])
        group.add_argument("--kv-cache-dtype", **cache_kwargs["only"])
        group.add_argument("--enable-prefix-caching", **{**cache_kwargs["enable_prefix_caching"], "default": None})
        scheduler_kwargs = get_kwargs(SchedulerConfig)
        group.add_argument("--max-num-seqs", **scheduler_kwargs["max_num_seqs"])
        group.add_argument("--async-scheduling", **scheduler_kwargs["async_scheduling"])
        group.add_argument("--unheard-of", **new_kwargs["unheard_of"])
        group.add_argument("--disable-x", action=argparse.BooleanOptionalAction, default=None)
""",
    "entrypoints/openai/cli_args.py": """
class BaseFrontendArgs:
    chat_template: str | None = None

class FrontendArgs(BaseFrontendArgs):
    port: int = 8000
    disable_uvicorn_access_log: bool = False

def make_arg_parser(parser):
    parser.add_argument("--api-server-count", "-asc", type=int)
    parser.add_argument("model_tag", nargs="?")
""",
    "entrypoints/cli/openai.py": """
def add(parser):
    parser.add_argument("--system-prompt")
""",
}


def arguments(sources: dict[str, str]) -> dict[str, Argument]:
    return {each.spellings[0]: each for each in read_vllm(sources, source="there", version=None).arguments}


def test_old_releases_write_every_argument_out() -> None:
    found = arguments(OLD)
    assert found["--block-size"].choices == ("8", "16")
    assert found["--quantization"].spellings == ("--quantization", "-q")
    assert found["--enforce-eager"] == Argument(("--enforce-eager",), (), False)
    assert found["--enable-chunked-prefill"].takes_value is None
    assert found["--swap-space"].default == "4"


def test_new_ones_make_them_of_their_configuration_classes() -> None:
    found = arguments(NEW)
    assert found["--block-size"] == Argument(("--block-size",), (), True, (), "Field(default=None, gt=0)")
    assert found["--kv-cache-dtype"].choices == ("auto", "fp8")
    assert found["--enable-prefix-caching"].negatives == ("--no-enable-prefix-caching",)
    assert found["--async-scheduling"].negatives == ("--no-async-scheduling",), "an annotation in quotes"
    assert found["--disable-x"].negatives == ("--no-disable-x",)


def test_what_the_source_does_not_tell_is_unknown() -> None:
    assert arguments(NEW)["--unheard-of"].takes_value is None


def test_the_servers_own_arguments_are_the_fields_of_its_class() -> None:
    found = arguments(NEW)
    assert {"--port", "--chat-template", "--api-server-count"} <= set(found)
    assert found["--disable-uvicorn-access-log"].negatives == ("--no-disable-uvicorn-access-log",)
    assert "--system-prompt" not in found, "of another command"


def test_every_spelling_is_known() -> None:
    engine = read_vllm(NEW, source="there", version="0.28.0")
    assert engine.has("-asc")
    assert engine.has("--swap-space", "--no-async-scheduling")
    assert not engine.has("--swap-space")


@pytest.mark.parametrize("sources", [{}, {"engine/arg_utils.py": "class EngineArgs:\n    pass\n"}])
def test_a_folder_without_arguments_is_no_vllm(sources: dict[str, str]) -> None:
    with pytest.raises(SourceUnreadable, match="there: no EngineArgs"):
        read_vllm(sources, source="there", version=None)


def test_source_that_is_no_python_is_said_with_its_file() -> None:
    with pytest.raises(SourceUnreadable, match=r"engine/arg_utils\.py is no Python source"):
        read_vllm({"engine/arg_utils.py": "class (:"}, source="there", version=None)


def test_ascends_options_are_the_keys_it_reads() -> None:
    sources = {
        "ascend_config.py": """
class AscendConfig:
    def __init__(self, vllm_config):
        additional_config = vllm_config.additional_config or {}
        self.a = additional_config.get("torchair_graph_config", {})
        self.b = self._get_config_value("enable_mlapo", "VLLM_X", True)
        if "refresh" in vllm_config.additional_config:
            self.c = additional_config["refresh"]
        self.d = other.get("not_an_option")
""",
    }
    found = ascend_keys(sources)
    assert found is not None
    assert {"torchair_graph_config", "enable_mlapo", "refresh"} <= found
    assert "not_an_option" not in found


def test_or_the_fields_of_its_class_in_newer_ones() -> None:
    sources = {"ascend_config.py": "@config\nclass AscendConfig:\n    enable_cpu_binding: bool = True\n"}
    assert ascend_keys(sources) == frozenset({"enable_cpu_binding"})
    assert ascend_keys({}) is None


def test_the_quantisations_it_registers() -> None:
    sources = {
        "utils.py": 'AWQ_QUANTIZATION_METHOD = "awq"\n',
        "quantization/a.py": "@register_quantization_config(AWQ_QUANTIZATION_METHOD)\nclass A: pass\n",
        "quantization/b.py": "@register_quantization_config('ascend')\nclass B: pass\n",
    }
    assert ascend_quantizations(sources) == frozenset({"awq", "ascend"})
    assert ascend_quantizations({}) is None
