"""Which settings can never start, or never rightly, on an engine of a version on a chip: said before anything stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from change.catalogue.domain import Switch, Words, complaint, written
from change.catalogue.index import knobs_of
from change.catalogue.knob import FileKey, Flag, JsonKey, Knob, Platform
from change.facts import Facts
from change.installed.engine import InstalledEngine
from change.server import Setting, Settings
from change.versions import release, within

_BLOCKS = 128
_MULTIPLES_SINCE = "0.13.0"
"""vllm-ascend from this release on puts 128 in the place of any other block size under prefix caching or chunked
prefill, and hybrid models, which it leaves alone, want multiples of 128; older ones ran 16."""
_AWQ_SINCE = "0.27.0"
"""No vllm-ascend up to 0.26.0rc1 registers AWQ; the installed source, where it is there, says it surely."""
_WITHOUT_FP8 = ("A1", "A2", "A3", "310P", "310")


def problems(settings: Settings, facts: Facts, *, around: Settings | None = None) -> list[str]:
    """Say in words why `settings` can never start, or never rightly, on this engine; empty if nothing is known against.

    `around` are the settings that stay as they are, as the launch command has them: rules between two knobs look at
    both, and only those that touch a changed one are held. What is unknown of the machine forbids nothing.
    """
    found = [text for name, value in settings.items() for text in _of_one(name, value, facts)]
    together = {**(around or {}), **settings}
    for gate in _GATES:
        if (facts.engine in gate.engines) and any(name in settings for name in gate.about):
            found += gate.judge(together, facts)
    return found


def rules_about(knob: Knob) -> tuple[str, ...]:
    """The rules over a knob and others, or the machine, as sentences."""
    return tuple(gate.says for gate in _GATES if knob.engine in gate.engines and knob.name in gate.about)


def known_successors(knob: Knob, platform: Platform | None) -> str:
    """What came after a knob's flag, as the end of a sentence; empty if nothing is known to."""
    ways = [s for s in knob.successors if platform is None or platform in s.platforms]
    if not ways:
        return ""
    said = "; ".join(f"on {' and '.join(sorted(way.platforms))} {way.knob} ({way.says})" for way in ways)
    return f"; nothing is put in its place unasked: {said}"


def _of_one(name: str, value: Setting, facts: Facts) -> Iterator[str]:
    knob = knobs_of(facts.engine).get(name)
    if knob is None:
        yield f"{name} is no knob of {facts.engine}: `trimtab knobs` lists them"
        return
    wrong = complaint(knob.domain, value, knob.unit)
    if wrong is not None:
        yield f"{name} {wrong}"
    if not knob.on(facts.platform):
        yield f"{name} does not exist on {facts.platform}: it is of {' and '.join(sorted(knob.platforms or ()))}"
    yield from _of_place(knob, value, facts)


def _of_place(knob: Knob, value: Setting, facts: Facts) -> Iterator[str]:
    version = None if facts.version is None else release(facts.version)
    place = knob.place(version)
    installed = facts.installed
    after = known_successors(knob, facts.platform)
    if place is None:
        if not knob.places:
            yield f"{knob.name} has no launch argument: it is changed in the running engine"
        elif (
            knob.places[-1].until is not None
            and version is not None
            and within(version, knob.places[-1].until, None)
        ):
            yield f"{knob.name}: {knob.places[-1].text} is gone since {knob.places[-1].until}{after}"
        else:
            yield f"{knob.name}: {knob.places[0].text} came with {knob.places[0].since}, and this is {facts.version}"
        return
    match place:
        case FileKey():
            yield f"{knob.name} is {place.key} in the engine's own {place.file}, which Trimtab does not write"
        case Flag() if installed is not None and not installed.has(*place.spellings):
            yield (
                f"{knob.name}: the installed {facts.engine} {installed.version or ''} in {installed.source} has no "
                f"{place.spelling}{after}"
            )
        case Flag() if installed is not None:
            yield from _of_choices(knob, place, value, installed)
        case JsonKey(flag=flag) if installed is not None and not installed.has(flag):
            yield f"{knob.name}: the installed {facts.engine} in {installed.source} has no {flag}"
        case JsonKey(path=path) if place.flag == "--additional-config":
            keys = None if installed is None else installed.additional_keys
            if keys is not None and path[0] not in keys:
                yield f"{knob.name}: the installed vllm-ascend does not read {path[0]} from {place.flag}"


def _of_choices(knob: Knob, place: Flag, value: Setting, installed: InstalledEngine) -> Iterator[str]:
    """The words that the installed engine's parser takes; a switch and a list are told otherwise."""
    argument = next((installed.spellings[w] for w in place.spellings if w in installed.spellings), None)
    if (
        argument is None
        or not argument.choices
        or isinstance(knob.domain, Switch | Words)
        or value == knob.unset
    ):
        return
    if written(knob.domain, value) not in argument.choices:
        yield (
            f"{knob.name} {value}: the installed {installed.engine} {installed.version or ''} takes one of "
            f"{', '.join(argument.choices)}"
        )


Judge = Callable[[Settings, Facts], list[str]]


@dataclass(frozen=True, slots=True)
class _Gate:
    """A rule over several knobs, or over a knob and the machine; held when one it is `about` is changed."""

    about: tuple[str, ...]
    says: str
    judge: Judge
    engines: tuple[str, ...] = ("vllm", "sglang")


def _fp8(settings: Settings, facts: Facts) -> list[str]:
    if facts.family not in _WITHOUT_FP8:
        return []
    return [
        f"{name} {settings[name]}: there is no FP8 on {facts.chip} ({facts.family})"
        for name in ("quantization", "kv_cache_dtype")
        if "fp8" in str(settings.get(name, "")).lower()
    ]


def _ascend_quantization(settings: Settings, facts: Facts) -> list[str]:
    asked = str(settings.get("quantization", "none"))
    if facts.platform != "ascend" or not asked.startswith("awq"):
        return []
    registered = None if facts.installed is None else facts.installed.quantizations
    if registered is not None:
        return (
            []
            if asked in registered
            else [f"quantization {asked}: the installed vllm-ascend does not register it"]
        )
    version = facts.ascend_release
    if version is None or within(release(version), _AWQ_SINCE, None):
        return []
    return [f"quantization {asked}: vllm-ascend {version} registers no AWQ"]


def _block_size(settings: Settings, facts: Facts) -> list[str]:
    size = settings.get("block_size")
    version = facts.ascend_release
    if facts.platform != "ascend" or not isinstance(size, int | float) or version is None:
        return []
    if size % _BLOCKS == 0 or not within(release(version), _MULTIPLES_SINCE, None):
        return []
    if facts.model_type == "deepseek_v4" and size in (32, 64):
        return []
    if settings.get("enable_prefix_caching") is False and settings.get("enable_chunked_prefill") is False:
        return []
    return [
        f"block_size {size:g}: vllm-ascend {version} wants multiples of {_BLOCKS}, or forces {_BLOCKS} under prefix "
        "caching or chunked prefill, which are on unless switched off"
    ]


def _page_size(settings: Settings, facts: Facts) -> list[str]:
    size = settings.get("page_size")
    if facts.platform != "ascend" or not isinstance(size, int | float) or size % _BLOCKS == 0:
        return []
    return [f"page_size {size:g}: SGLang's attention on Ascend wants {_BLOCKS}"]


_PARALLEL = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "prefill_context_parallel_size",
)


def _cards(settings: Settings, facts: Facts) -> list[str]:
    if facts.cards is None:
        return []
    sizes = {name: value for name in _PARALLEL if isinstance(value := settings.get(name, 1), int | float)}
    if facts.engine == "sglang" and settings.get("enable_dp_attention") is True:
        sizes["data_parallel_size"] = 1  # attention's copies share the tensor-parallel group
    needed = 1
    for value in sizes.values():
        needed *= int(value)
    if needed <= facts.cards:
        return []
    product = " x ".join(f"{name} {value:g}" for name, value in sizes.items() if value != 1)
    return [f"{product} needs {needed} devices, and there are {facts.cards}"]


def _whole_prompt(settings: Settings, facts: Facts) -> list[str]:
    budget, length = settings.get("batch_max_tokens"), settings.get("max_model_len")
    if settings.get("enable_chunked_prefill") is not False:
        return []
    if isinstance(budget, int | float) and isinstance(length, int | float) and budget < length:
        return [
            f"batch_max_tokens {budget:g} is below max_model_len {length:g}, and with chunked prefill off a step must "
            "hold a whole prompt"
        ]
    return []


def _token_each(settings: Settings, facts: Facts) -> list[str]:
    budget, seqs = settings.get("batch_max_tokens"), settings.get("max_num_seqs")
    if isinstance(budget, int | float) and isinstance(seqs, int | float) and budget < seqs:
        return [
            f"batch_max_tokens {budget:g} is below max_num_seqs {seqs:g}: every running request needs a token a step"
        ]
    return []


def _omp(settings: Settings, facts: Facts) -> list[str]:
    if facts.platform != "ascend" or settings.get("omp_proc_bind") in (None, "false"):
        return []
    if settings.get("additional_config.enable_cpu_binding") is False:
        return []
    return [
        f"omp_proc_bind {settings['omp_proc_bind']}: OMP_PROC_BIND breaks the engine's CPU binding on Ascend; leave it "
        "unset or false"
    ]


def _two_bindings(settings: Settings, facts: Facts) -> list[str]:
    if "cpu_affinity_conf" in settings and settings.get("additional_config.enable_cpu_binding") is True:
        return [
            "cpu_affinity_conf and additional_config.enable_cpu_binding both bind the engine's threads: choose one"
        ]
    return []


def _offload_backend(settings: Settings, facts: Facts) -> list[str]:
    if "npu_kv_offload_bytes" in settings and settings.get("kv_offloading_size"):
        return [
            "npu_kv_offload_bytes and kv_offloading_size both set the one connector of the engine: choose one"
        ]
    return []


def _memory_twice(settings: Settings, facts: Facts) -> list[str]:
    if "kv_cache_memory_bytes" in settings and "gpu_memory_utilization" in settings:
        return [
            "gpu_memory_utilization has no effect beside kv_cache_memory_bytes: take that out of the command first"
        ]
    return []


def _micro_batch(settings: Settings, facts: Facts) -> list[str]:
    stages, running = settings.get("pp_max_micro_batch_size"), settings.get("max_running_requests")
    parts = settings.get("pipeline_parallel_size", 1)
    if (
        isinstance(stages, int | float)
        and isinstance(running, int | float)
        and isinstance(parts, int | float)
    ):
        most = running // max(1, parts)
        if stages > most:
            return [
                f"pp_max_micro_batch_size {stages:g} is above max_running_requests / pipeline_parallel_size = {most:g}"
            ]
    return []


_GATES = (
    _Gate(("quantization", "kv_cache_dtype"), "No FP8 on Ascend before the 950.", _fp8),
    _Gate(
        ("quantization",),
        "On Ascend AWQ only where vllm-ascend registers it.",
        _ascend_quantization,
        ("vllm",),
    ),
    _Gate(
        ("block_size", "enable_prefix_caching", "enable_chunked_prefill"),
        "On recent Ascend a multiple of 128, unless prefix caching and chunked prefill are off.",
        _block_size,
        ("vllm",),
    ),
    _Gate(("page_size",), "On Ascend a multiple of 128.", _page_size, ("sglang",)),
    _Gate(
        (*_PARALLEL, "enable_dp_attention"),
        "The product of the parallel sizes is at most the devices there are.",
        _cards,
    ),
    _Gate(
        ("batch_max_tokens", "max_model_len", "enable_chunked_prefill"),
        "With chunked prefill off batch_max_tokens is at least max_model_len.",
        _whole_prompt,
        ("vllm",),
    ),
    _Gate(
        ("batch_max_tokens", "max_num_seqs"),
        "batch_max_tokens is at least max_num_seqs.",
        _token_each,
        ("vllm",),
    ),
    _Gate(
        ("omp_proc_bind", "additional_config.enable_cpu_binding"),
        "OMP_PROC_BIND and the CPU binding on Ascend exclude each other.",
        _omp,
    ),
    _Gate(
        ("cpu_affinity_conf", "additional_config.enable_cpu_binding"),
        "Two CPU bindings exclude each other.",
        _two_bindings,
        ("vllm",),
    ),
    _Gate(
        ("npu_kv_offload_bytes", "kv_offloading_size"),
        "One engine has one KV connector.",
        _offload_backend,
        ("vllm",),
    ),
    _Gate(
        ("gpu_memory_utilization", "kv_cache_memory_bytes"),
        "kv_cache_memory_bytes takes the place of gpu_memory_utilization.",
        _memory_twice,
        ("vllm",),
    ),
    _Gate(
        ("pp_max_micro_batch_size", "max_running_requests", "pipeline_parallel_size"),
        "pp_max_micro_batch_size is at most max_running_requests / pipeline_parallel_size.",
        _micro_batch,
        ("sglang",),
    ),
)
