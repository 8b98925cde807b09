"""The pure parts of a restart: command and secrets, milestones, memory plan, budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from change.journal import Journal
from change.restart.budget import Budget, spent
from change.restart.command import closed, plain, read, same, written
from change.restart.memory import MemoryPlan, judge
from change.restart.milestones import MILESTONES, Load
from change.restart.order import RestartOrder
from change.restart.ports import Card
from change.server import LaunchCommand, ServerError
from store import open_store

NOW = 1_700_000_000.0
GIB = 1024**3

WORDS = st.text("abcxyz019-_./:", min_size=1, max_size=8).filter(lambda w: not w.startswith("-"))
PAIRS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["--api-key", "--hf-token", "--ssl-keyfile-password"]), WORDS).map(list),
        st.tuples(st.sampled_from(["--block-size", "--port", "--model"]), WORDS).map(list),
        st.tuples(st.sampled_from(["--api-key=", "--port="]), WORDS).map(lambda p: [p[0] + p[1]]),
        st.just(["--enforce-eager"]),
    ),
    max_size=6,
)


@given(PAIRS)
def test_a_command_comes_back_from_the_journal_as_it_was(pairs: list[list[str]]) -> None:
    flags = [pair[0].partition("=")[0] for pair in pairs]
    if any(flags.count(flag) > 1 for flag in flags if "key" in flag or "token" in flag or "password" in flag):
        return
    command = LaunchCommand(("vllm", "serve", *(word for pair in pairs for word in pair)), {"OMP": "1"})
    assert same(read(written(command), command), command)


@given(st.text("kxz9", min_size=9, max_size=12))
def test_no_secret_is_written(secret: str) -> None:
    command = LaunchCommand(
        ("vllm", "serve", "--api-key", secret, secret, f"--hf-token={secret}", "--port", "8000"),
        {"HF_TOKEN": secret, "TRIMTAB_TOKEN_FILE": "/run/token"},
    )
    kept = written(command)
    assert secret not in str(kept)
    assert kept["environ"]["TRIMTAB_TOKEN_FILE"] == "/run/token"
    assert same(read(kept, command), command)


@pytest.mark.parametrize(
    "argv",
    [
        ("env", "VLLM_API_KEY=hush", "vllm", "serve", "m"),
        ("vllm", "serve", "m", "--api-ke", "hush"),
        ("vllm", "serve", "m", "--api_ke=hush"),
        ("vllm", "serve", "m", "--api-key", "hush", "hush2", "--port", "1", "--api-key", "hush3"),
        (
            "vllm",
            "serve",
            "m",
            "--kv-transfer-config",
            '{"kv_role": "both", "redis": {"Password" : "hu\\"sh"}}',
        ),
        ("vllm", "serve", "m", '--kv-transfer-config={"auth_token":"hush","b":[{"auth_token":"hush2"}]}'),
        ("vllm", "serve", "m", "--kv-transfer-config.password", "hush"),
        ("bash", "-c", "source env.sh; HF_TOKEN=hush exec vllm serve m --api-key hush2 --port 1"),
    ],
)
def test_a_secret_is_not_written_wherever_it_stands_and_comes_back_as_it_was(argv: tuple[str, ...]) -> None:
    command = LaunchCommand(argv)
    kept = written(command)
    assert "hu" not in "".join(word.replace("both", "") for word in kept["argv"])
    assert read(kept, command).argv == argv


def test_what_only_looks_like_a_secret_is_written() -> None:
    argv: tuple[str, ...] = (
        "vllm",
        "serve",
        "m",
        "--api-server-count",
        "2",
        "--max-num-batched-tokens",
        "512",
        "--tokenizer",
        "t",
    )
    argv += ("--speculative-config", '{"num_speculative_tokens": 3}', "--ssl-keyfile", "/k")
    assert tuple(written(LaunchCommand(argv))["argv"]) == argv


def test_a_secret_that_nobody_knows_any_more_is_said() -> None:
    kept = written(LaunchCommand(("vllm", "serve", "--api-key", "abc")))
    try:
        read(kept, LaunchCommand(("vllm", "serve")))
    except ServerError as error:
        assert "--api-key is a secret" in str(error)
    else:
        raise AssertionError("a command without its key")


def test_the_gate_of_a_start_is_not_a_part_of_the_command() -> None:
    command = LaunchCommand(("vllm",), {"A": "1"})
    shut = closed(command, 1000.0)
    assert shut.environ == {"A": "1", "TRIMTAB_GATE": "closed", "TRIMTAB_GATE_UNTIL": "8200"}
    assert same(shut, command)
    assert same(shut, closed(command, 2000.0))
    assert plain(shut).environ == {"A": "1"}


# ---------------------------------------------------------------------- milestones

REAL = """\
(APIServer pid=7) INFO 11-29 12:42:33 [api_utils.py:286] non-default args: {'host': '127.0.0.1'}
(EngineCore pid=8) INFO 11-29 12:42:48 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='m'
(Worker pid=9) INFO 11-29 12:42:55 [cpu_model_runner.py:68] Starting to load model ./tiny...
(Worker pid=9) INFO 11-29 12:42:55 [base_loader.py:82] Initializing model took 0.090138 seconds
(EngineCore pid=8) INFO 11-29 12:42:56 [kv_cache_utils.py:2327] CPU KV cache size: 524,288 tokens
(EngineCore pid=8) INFO 11-29 12:42:56 [core.py:402] init engine (profile, create kv cache, warmup model) took 0.60 s
(APIServer pid=7) INFO 11-29 12:42:57 [entry.py:140] Starting vLLM server on http://127.0.0.1:8011
INFO:     Application startup complete.
""".splitlines()


def load(kind: str = "vllm", **seconds: float) -> Load:
    return Load(kind, seconds, NOW, lambda line: "oom" if "out of memory" in line else None)


def test_a_start_on_a_cpu_is_followed_though_it_leaves_milestones_out() -> None:
    following = load()
    for second, line in enumerate(REAL):
        following.feed([line], NOW + second)
    assert following.serving
    assert any("KV cache size: 524,288" in line for line in following.head)


def test_each_step_has_its_own_time() -> None:
    following = load(weights=100.0, memory=10.0)
    following.feed(REAL[:3], NOW)
    assert following.overdue(NOW + 100.0) is None
    assert following.overdue(NOW + 101.0) == "'weights loaded' was not reached within 100 s"
    following.feed(
        ["(Worker pid=9) INFO 11-29 12:44:25 [loader.py:502] Loading weights took 90 seconds"], NOW + 90.0
    )
    assert following.overdue(NOW + 99.0) is None
    assert following.overdue(NOW + 101.0) == "'memory measured' was not reached within 10 s"


def test_a_model_that_was_made_has_not_read_its_weights_yet() -> None:
    following = load(weights=1200.0, memory=10.0)
    following.feed(REAL[:4], NOW)
    assert following.overdue(NOW + 1200.0) is None
    assert following.overdue(NOW + 1201.0) == "'weights loaded' was not reached within 1200 s"


def test_an_engine_whose_log_nobody_reads_has_the_time_of_all_steps() -> None:
    following = load(begin=1, weights=2, memory=3, graphs=4, serve=5)
    assert following.overdue(NOW + 15.0) is None
    assert following.overdue(NOW + 15.1) is not None


def test_a_step_has_its_time_from_the_first_line_on_and_the_rest_of_a_rollout_that_of_all_steps() -> None:
    following = load(begin=10, weights=20, memory=30, graphs=40, serve=50)
    following.feed(["WARNING: no triton"], NOW + 140.0)
    assert following.overdue(NOW + 150.0) is None
    assert following.overdue(NOW + 151.0) == "'arguments accepted' was not reached within 10 s"
    following.feed(REAL, NOW + 145.0)
    assert following.overdue(NOW + 295.0) is None
    assert following.overdue(NOW + 296.0) == "its log says that it serves, and it was not all up within 150 s"


@given(st.sampled_from(sorted(MILESTONES)), st.lists(st.text(max_size=60), max_size=30))
def test_no_log_breaks_it(kind: str, lines: list[str]) -> None:
    following = load(kind)
    following.feed(lines, NOW)
    assert following.why()
    following.overdue(NOW + 1e6)


def test_what_the_log_says_of_a_failure_prefers_a_known_sign() -> None:
    following = load()
    following.feed(["ValueError: odd", "RuntimeError: NPU out of memory", "Exception: later"], NOW)
    assert following.why() == "oom: RuntimeError: NPU out of memory; first of all: ValueError: odd"


# ---------------------------------------------------------------------- the memory plan


def test_the_plan_is_refused_where_it_cannot_fit_and_warned_of_where_it_is_tight() -> None:
    card = [Card("NPU 0", 32 * GIB, 32 * GIB)]
    assert judge(MemoryPlan(0.9, 20 * GIB, 3 * GIB), card).problems == ()
    assert "5% for what comes and goes" in judge(MemoryPlan(0.9, 30 * GIB, 2 * GIB), card).problems[0]
    assert "into the share 0.7" in judge(MemoryPlan(0.7, 22 * GIB, 2 * GIB), card).problems[0]
    tight = judge(MemoryPlan(0.95, int(27.3 * GIB), GIB), card)
    assert tight.problems == ()
    assert "weights take 85% of a card" in tight.warnings[0]


def test_nothing_is_judged_where_nothing_is_known() -> None:
    assert judge(MemoryPlan(0.9, 99 * GIB), []) == judge(MemoryPlan(0.9), [Card("NPU 0", GIB, GIB)])


# ---------------------------------------------------------------------- the budget


def journal() -> Journal:
    return Journal(open_store("sqlite:///:memory:"), "e")


def entry(
    book: Journal, at: float, *, starts: int = 1, lost: float = 60.0, campaign: int | None = None
) -> int:
    number = book.open("trial", "b", "x", {}, {}, at, lane="cold", campaign_id=campaign)
    book.mark(number, "applied", at)
    book.close(number, "undone", at + lost, effective={"starts": starts, "down_seconds": lost})
    return number


def order(kind: str = "trial", campaign: int | None = 7) -> RestartOrder:
    return RestartOrder({}, LaunchCommand(()), "x", kind, campaign)  # type: ignore[arg-type]


def budget(**more: object) -> Budget:
    given = {
        "restarts_per_day": 4,
        "lost_minutes_per_day": 10.0,
        "window": lambda now: None,
    }
    return Budget(**{**given, **more})  # type: ignore[arg-type]


def test_a_failed_restart_counts_its_way_back_too() -> None:
    book = journal()
    entry(book, NOW, starts=2, campaign=7)
    assert "2 of 2 restarts" in str(budget(restarts_per_day=2).refusal(book, order(), NOW))
    assert budget(restarts_per_day=3).refusal(book, order(), NOW) is None


def test_the_day_is_counted_in_restarts_and_in_minutes() -> None:
    book = journal()
    entry(book, NOW, starts=4)
    assert "4 of 4 restarts" in str(budget().refusal(book, order(), NOW + 100))
    assert budget().refusal(book, order(), NOW + 25 * 3600.0) is None
    entry(book, NOW, lost=700.0)
    assert "minutes of lost capacity" in str(budget(restarts_per_day=9).refusal(book, order(), NOW))


def test_a_crash_refills_nothing() -> None:
    book = journal()
    number = book.open("trial", "b", "x", {}, {}, NOW, lane="cold")
    assert spent(book, NOW + 90).restarts == 0
    book.mark(number, "applied", NOW + 10)
    assert spent(book, NOW + 90) == type(spent(book, NOW))(1, 90.0)


def test_what_a_person_orders_is_made_at_any_time_and_a_mind_waits_for_the_window() -> None:
    book = journal()
    entry(book, NOW, starts=9)
    never = budget(window=lambda now: "outside the maintenance window")
    assert never.refusal(book, order("manual"), NOW) is None
    assert never.refusal(book, order("trial"), NOW) == "outside the maintenance window"


def test_a_failure_is_told_by_its_first_exception_and_not_by_those_that_follow_from_it() -> None:
    following = Load("vllm", {}, NOW, lambda line: "worker_died" if "died unexpectedly" in line else None)
    following.feed(
        [
            "(APIServer pid=1) WARNING 11-30 04:16:07 [u.py:255] with errors like `OSError: [Errno 24] Too many`.",
            "(Worker pid=3) ERROR 11-30 04:16:30 [e.py:1063] ValueError: No common block size for 16",
            "(EngineCore pid=2) ERROR 11-30 04:16:31 [e.py:315] Worker proc died unexpectedly",
            "RuntimeError: Engine core initialization failed. See root cause above.",
        ],
        NOW,
    )
    assert following.why().startswith("worker_died: ")
    assert following.why().endswith("ValueError: No common block size for 16")
