"""Settings in a launch command: what is asked is read back, and nothing else of the command changes."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from change.arguments import read, render
from change.argv import ArgumentProblem
from change.catalogue.domain import Choices, Domain, Json, Numbers, Switch
from change.catalogue.index import knobs_of
from change.catalogue.knob import Engine, Flag, JsonKey, Knob, Variable
from change.installed.engine import Argument, InstalledEngine
from change.server import LaunchCommand, Setting, Settings
from change.versions import release

VLLM = "0.17.1"
"""A version in which nearly every kind of place exists."""
# Flags that the catalogue does not know, of which some look like ones that it does.
OTHERS = [
    ["--host", "0.0.0.0"],
    ["--served-model-name", "a", "b"],
    ["--api-key=-x"],
    ["--data-parallel-size-local", "1"],
    ["--quantization-config", '{"a b": 1}'],
    ["--override-generation-config.temperature", "0.5"],
    ["--trust-remote-code"],
    ["--seed", "-1"],
    ["-n", "2"],
]


def command(line: str, **environ: str) -> LaunchCommand:
    return LaunchCommand(tuple(shlex.split(line)), environ)


def written(line: str, values: Settings, version: str | None = "0.28.0", engine: Engine = "vllm") -> str:
    return shlex.join(render(command(line), values, engine=engine, version=version).argv)


class TestSpellings:
    @pytest.mark.parametrize(
        "given_as",
        [
            "--max-num-seqs 32",
            "--max-num-seqs=32",
            "--max_num_seqs 32",
            "--max_num-seqs=32",
            "--max-num-seqs 1 --max-num-seqs 32",
        ],
    )
    def test_an_argument_is_replaced_where_it_stands_last(self, given_as: str) -> None:
        line = f"vllm serve m --port 1 {given_as} --host h"
        assert read(command(line), engine="vllm") == {"max_num_seqs": 32}
        assert written(line, {"max_num_seqs": 8}) == "vllm serve m --port 1 --max-num-seqs 8 --host h"

    @pytest.mark.parametrize("given_as", ["-tp 2", "-tp=2", "--tensor-parallel-size 2"])
    def test_a_short_flag_is_the_same_argument(self, given_as: str) -> None:
        line = f"python -m vllm.entrypoints.openai.api_server {given_as} --model m"
        assert read(command(line), engine="vllm") == {"tensor_parallel_size": 2}
        assert written(line, {"tensor_parallel_size": 4}).endswith("--tensor-parallel-size 4 --model m")

    @pytest.mark.parametrize("given_as", ["-q awq", "-q=awq", "-qawq"])
    def test_one_letter_may_have_its_value_glued_on(self, given_as: str) -> None:
        line = f"vllm serve m {given_as} --port 1"
        assert read(command(line), engine="vllm") == {"quantization": "awq"}
        assert written(line, {"quantization": "none"}) == "vllm serve m --port 1"

    @pytest.mark.parametrize(
        ("given_as", "value"),
        [
            ("--enable-prefix-caching", True),
            ("--no-enable-prefix-caching", False),
            ("--no_enable_prefix_caching", False),
            ("--enable-prefix-caching=false", False),
            ("--enable-prefix-caching true", True),
            ("--enable-prefix-caching --no-enable-prefix-caching", False),
        ],
    )
    def test_a_switch_has_an_opposite(self, given_as: str, value: bool) -> None:
        line = f"vllm serve m {given_as} --port 1"
        assert read(command(line), engine="vllm") == {"enable_prefix_caching": value}
        on = written(line, {"enable_prefix_caching": True})
        assert on == "vllm serve m --enable-prefix-caching --port 1"
        assert written(line, {"enable_prefix_caching": False}) == on.replace("--en", "--no-en")

    def test_a_new_argument_goes_to_the_end_and_before_a_bare_double_dash(self) -> None:
        assert written("vllm serve m -- x", {"block_size": 64}) == "vllm serve m --block-size 64 -- x"

    def test_a_list_takes_all_its_words(self) -> None:
        line = "vllm serve m --cudagraph-capture-sizes 1 2 4 --port 1"
        assert read(command(line), engine="vllm") == {"cudagraph_capture_sizes": "1 2 4"}
        assert "--cudagraph-capture-sizes 8 16 --port" in written(line, {"cudagraph_capture_sizes": "8 16"})

    def test_the_flag_follows_the_version(self) -> None:
        asked = {"cudagraph_capture_sizes": "8"}
        assert written("vllm serve m", asked, "0.10.0") == "vllm serve m --cuda-graph-sizes 8"
        assert written("vllm serve m", asked, None) == "vllm serve m --cudagraph-capture-sizes 8"

    def test_a_number_below_zero_is_no_flag(self) -> None:
        line = "python -m sglang.launch_server --chunked-prefill-size -1 --port 1"
        assert read(command(line), engine="sglang") == {"chunked_prefill_size": -1}
        asked = {"chunked_prefill_size": -1}
        assert "--chunked-prefill-size=-1 --port" in written(line, asked, None, "sglang")

    def test_values_as_people_write_them(self) -> None:
        line = "vllm serve m --max-num-batched-tokens 16K --gpu-memory-utilization .9 --kv-cache-dtype fp8"
        assert read(command(line), engine="vllm") == {
            "batch_max_tokens": 16384,
            "gpu_memory_utilization": 0.9,
            "kv_cache_dtype": "fp8",
        }

    def test_what_is_not_understood_is_absent_and_not_zero(self) -> None:
        assert read(command("vllm serve m --max-num-seqs many --block-size"), engine="vllm") == {}

    def test_the_python_before_the_module_and_trimtab_before_its_child_are_left_alone(self) -> None:
        line = "trimtab serve -- python -q -u -m vllm.entrypoints.openai.api_server --block-size 16"
        assert read(command(line), engine="vllm") == {"block_size": 16}
        assert written(line, {"block_size": 32}) == line.replace("16", "32")


def test_the_installed_engine_decides_on_the_spelling() -> None:
    installed = InstalledEngine("sglang", "x", "0.5.23", (Argument(("--cuda-graph-max-bs-decode",)),))
    made = render(
        command("python -m sglang.launch_server --cuda-graph-max-bs 8"),
        {"cuda_graph_max_bs": 16},
        engine="sglang",
        version="0.5.23",
        installed=installed,
    )
    assert made.argv[-2:] == ("--cuda-graph-max-bs-decode", "16")


class TestRefused:
    @pytest.mark.parametrize(
        ("line", "values", "complaint"),
        [
            ("vllm serve m --max-num-s 3", {"max_num_seqs": 8}, "may be short for --max-num-seqs"),
            (
                "vllm serve m --no-enable-pref",
                {"enable_prefix_caching": True},
                "short for --no-enable-prefix",
            ),
            ("sh -c 'exec vllm serve m'", {"block_size": 16}, "a line for a shell"),
            ("env A=b bash -lc -c 'vllm serve m'", {"block_size": 16}, "a line for a shell"),
            ("vllm serve m", {"max_prefill_tokens": 16}, "has no launch argument"),
            ("vllm serve m", {"watermark": 0.1}, "does not exist in vllm 0.17.1"),
            ("vllm serve m", {"blocksize": 16}, "is no knob of vllm"),
            ("vllm serve m", {"block_size": 0}, "block_size is 0: expected at least 1"),
            ("vllm serve m --block-size", {"block_size": 16}, "has no value in the command"),
            ("vllm serve m --additional-config {", {"additional_config.enable_kv_nz": True}, "holds no JSON"),
            (
                "vllm serve m --additional-config 3",
                {"additional_config.enable_kv_nz": True},
                "expected a JSON object",
            ),
            (
                "vllm serve m --additional-config {} --additional-config.a 1",
                {"additional_config.enable_kv_nz": True},
                "of two ways the engine takes one",
            ),
            ("vllm serve m --additional-config.a 1", {"additional_config": "{}"}, "set keys, not the whole"),
        ],
    )
    def test_with_what_is_wrong_and_where(self, line: str, values: Settings, complaint: str) -> None:
        with pytest.raises(ArgumentProblem) as refused:
            written(line, values, VLLM)
        assert complaint in str(refused.value)

    def test_an_exact_flag_is_no_abbreviation_of_a_longer_one(self) -> None:
        line = "vllm serve m --tensor-parallel-size 2 --data-parallel-size 2"
        assert "--enable-dbo" in written(line, {"enable_dbo": True})
        installed = InstalledEngine(
            "vllm", "x", None, (Argument(("--max-num",)), Argument(("--max-num-seqs",)))
        )
        made = render(
            command("vllm serve m --max-num 3"),
            {"max_num_seqs": 8},
            engine="vllm",
            version=None,
            installed=installed,
        )
        assert made.argv[-2:] == ("--max-num-seqs", "8")

    def test_a_switch_without_an_opposite_that_is_on_by_default(self) -> None:
        argument = Argument(("--enable-dbo",), (), False, (), "True")
        installed = InstalledEngine("vllm", "x", "0.28.0", (argument,))
        with pytest.raises(ArgumentProblem, match="has no opposite here"):
            render(
                command("vllm serve m"),
                {"enable_dbo": False},
                engine="vllm",
                version="0.28.0",
                installed=installed,
            )

    def test_mindies_file_is_not_written(self) -> None:
        with pytest.raises(ArgumentProblem, match=r"maxBatchSize in the engine's own config\.json"):
            written("mindieservice_daemon", {"max_num_seqs": 8}, None, "mindie")


class TestJson:
    def test_a_key_is_merged_into_the_object_that_is_there(self) -> None:
        line = """vllm serve m --additional-config '{"a": {"b": 1}, "enable_kv_nz": true}' --port 1"""
        made = render(
            command(line), {"additional_config.enable_kv_nz": False}, engine="vllm", version="0.23.0"
        )
        assert json.loads(made.argv[4]) == {"a": {"b": 1}, "enable_kv_nz": False}
        assert made.argv[5:] == ("--port", "1")
        assert read(made, engine="vllm")["additional_config.enable_kv_nz"] is False

    def test_a_key_given_by_itself_is_replaced_by_itself(self) -> None:
        line = (
            "vllm serve m --additional-config.enable_kv_nz true --additional_config.weight_nz_mode=2 --port 1"
        )
        assert read(command(line), engine="vllm") == {
            "additional_config.enable_kv_nz": True,
            "additional_config.weight_nz_mode": 2,
        }
        assert written(line, {"additional_config.weight_nz_mode": 0}, "0.23.0") == (
            "vllm serve m --additional-config.enable_kv_nz true --additional-config.weight_nz_mode 0 --port 1"
        )

    def test_the_offloading_of_ascend_brings_its_connector(self) -> None:
        made = render(
            command("vllm serve m"), {"npu_kv_offload_bytes": 4096}, engine="vllm", version="0.23.0"
        )
        assert json.loads(made.argv[-1]) == {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {
                "cpu_bytes_to_use": 4096,
                "spec_name": "NPUOffloadingSpec",
                "spec_module_path": "vllm_ascend.kv_offload.npu",
            },
        }

    def test_and_is_refused_beside_another_connector(self) -> None:
        line = """vllm serve m --kv-transfer-config '{"kv_connector": "MooncakeConnector"}'"""
        with pytest.raises(ArgumentProblem, match=r"MooncakeConnector.*one engine has one connector"):
            written(line, {"npu_kv_offload_bytes": 4096}, "0.23.0")

    def test_the_whole_object_is_written_before_its_keys(self) -> None:
        asked: dict[str, Setting] = {
            "additional_config.enable_kv_nz": True,
            "additional_config": '{"refresh": true}',
        }
        made = render(command("vllm serve m"), asked, engine="vllm", version="0.23.0")
        assert json.loads(made.argv[-1]) == {"refresh": True, "enable_kv_nz": True}


class TestEnvironment:
    def test_a_variable_is_set_and_read(self) -> None:
        made = render(
            command("vllm serve m", HCCL_BUFFSIZE="200", KEPT="1"),
            {"hccl_buffsize": 512, "ascend_dynamic_eplb": True},
            engine="vllm",
            version="0.23.0",
        )
        assert made.environ == {"HCCL_BUFFSIZE": "512", "KEPT": "1", "DYNAMIC_EPLB": "true"}
        assert made.argv == ("vllm", "serve", "m")
        assert read(made, engine="vllm") == {"hccl_buffsize": 512, "ascend_dynamic_eplb": True}


def test_what_is_dropped_is_gone() -> None:
    line = """vllm serve m --swap-space 4 --additional-config '{"refresh": true}'"""
    made = render(
        command(line, OMP_NUM_THREADS="1"),
        {},
        engine="vllm",
        version=VLLM,
        drop=["swap_space", "additional_config.refresh", "omp_threads"],
    )
    assert made == LaunchCommand(("vllm", "serve", "m"))


def values_of(domain: Domain) -> st.SearchStrategy[Setting]:
    match domain:
        case Numbers(integer=True):
            return st.integers(max(1, int(domain.least)), int(min(domain.most, 2**40)))
        case Numbers():
            return st.floats(max(0.01, domain.least), min(domain.most, 100))
        case Switch():
            return st.booleans()
        case Choices():
            return st.sampled_from(domain.words)
        case Json():
            keys = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), max_size=3)
            return keys.map(json.dumps)
    return st.lists(st.integers(1, 512), min_size=1, max_size=4).map(lambda sizes: " ".join(map(str, sizes)))


def writable(engine: Engine, version: str) -> list[Knob]:
    """Knobs that stand by themselves: an object that holds another knob's key is tried apart."""
    places = {knob.name: knob.place(release(version)) for knob in knobs_of(engine).values()}
    paths = [(place.flag, *place.path) for place in places.values() if isinstance(place, JsonKey)]

    def holds_another(place: object) -> bool:
        own = (place.flag, *place.path) if isinstance(place, JsonKey) else None
        own = (place.spelling,) if isinstance(place, Flag) else own
        return own is not None and any(path[: len(own)] == own and len(path) > len(own) for path in paths)

    return [
        knob
        for knob in knobs_of(engine).values()
        if isinstance(places[knob.name], Flag | Variable | JsonKey) and not holds_another(places[knob.name])
    ]


def asked_of(engine: Engine, version: str) -> st.SearchStrategy[dict[str, Setting]]:
    knobs = writable(engine, version)
    chosen = st.lists(st.sampled_from(knobs), max_size=6, unique_by=lambda knob: knob.name)
    return chosen.flatmap(lambda some: st.fixed_dictionaries({k.name: values_of(k.domain) for k in some}))


def spelled(draw: st.DrawFn, made: LaunchCommand, others: list[list[str]]) -> LaunchCommand:
    """The same command in other spellings, with arguments of others between its own."""
    parts = [list(made.argv[:3])]
    for word in made.argv[3:]:
        if word.startswith("--"):
            underscored = draw(st.booleans())
            head, equals, rest = word.partition("=")
            name = head[2:].replace("-", "_") if underscored else head[2:]
            parts.append([f"--{name}{equals}{rest}"])
        else:
            parts[-1].append(word)
    for part in parts[1:]:
        if len(part) == 2 and draw(st.booleans()):
            part[:] = [f"{part[0]}={part[1]}"]
    body = [*parts[1:], *others]
    return LaunchCommand(
        tuple(word for part in (parts[0], *draw(st.permutations(body))) for word in part), made.environ
    )


@st.composite
def commands(draw: st.DrawFn, engine: Engine, version: str, values: Settings) -> LaunchCommand:
    program = ("vllm", "serve", "m") if engine == "vllm" else ("python", "-m", "sglang.launch_server")
    made = render(LaunchCommand(program), values, engine=engine, version=version)
    others = draw(st.lists(st.sampled_from(OTHERS), max_size=4, unique_by=tuple))
    return spelled(draw, made, others)


def flags_of_others(argv: tuple[str, ...]) -> list[list[str]]:
    """The arguments of others that are in a command, whole and in their order."""
    found = []
    for at in range(len(argv)):
        found += [other for other in OTHERS if list(argv[at : at + len(other)]) == other]
    return found


@settings(deadline=None, max_examples=60)
@given(st.data())
@pytest.mark.parametrize(("engine", "version"), [("vllm", VLLM), ("vllm", "0.32.0"), ("sglang", "0.5.15")])
def test_what_was_written_is_read_back_and_nothing_else_changes(
    engine: Engine, version: str, data: st.DataObject
) -> None:
    before = data.draw(asked_of(engine, version), "before")
    start = data.draw(commands(engine, version, before), "command")
    asked = data.draw(asked_of(engine, version), "asked")
    made = render(start, asked, engine=engine, version=version)
    knobs = knobs_of(engine)
    given_now = {name: value for name, value in {**before, **asked}.items() if value != knobs[name].unset}
    # A switch without an opposite is off by its absence.
    off = {
        name
        for name, value in given_now.items()
        if value is False
        and isinstance(place := knobs[name].place(release(version)), Flag)
        and place.off is None
    }
    found = read(made, engine=engine)
    for name, value in given_now.items():
        if name in off:
            assert name not in found
        elif isinstance(knobs[name].domain, Json) and isinstance(value, str):
            assert json.loads(str(found[name])) == json.loads(value)
        else:
            assert found[name] == value
    assert flags_of_others(made.argv) == flags_of_others(start.argv)
    assert made.argv[:3] == start.argv[:3]
    assert render(made, asked, engine=engine, version=version) == made, "writing it twice changes nothing"


@given(st.lists(st.text(max_size=12) | st.sampled_from(["--max-num-seqs", "-q", "=", "--additional-config"])))
def test_any_argument_list_is_read_or_refused(argv: list[str]) -> None:
    try:
        found = read(LaunchCommand(tuple(argv)), engine="vllm")
    except ArgumentProblem:
        return
    assert set(found) <= set(knobs_of("vllm"))
