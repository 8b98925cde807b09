"""What a campaign is told of the collectors' last readings."""

from __future__ import annotations

from collectors.history import History
from collectors.sample import Sample, labels
from daemon.config import Config
from daemon.gauges import FRESH_SECONDS, Gauges, history_gauges

NOW = 1_700_000_000.0
OTHER = {"name": "b", "url": "http://127.0.0.1:8100"}
ERRORS = "trimtab_engine_http_errors_total"


def test_errors_are_those_since_the_last_reading() -> None:
    history = History()
    read = history_gauges(history)
    seen = []
    for second, count in enumerate([None, 5.0, 5.0, 8.0, 2.0, 2.0]):
        if count is not None:
            history.add([Sample(ERRORS, count, NOW + second)], "vllm")
        seen.append(read(NOW + second).errors)
    assert seen == [0.0, 0.0, 0.0, 3.0, 2.0, 0.0]  # a counter that fell began anew


def test_an_old_reading_is_unknown() -> None:
    history = History()
    read = history_gauges(history)
    history.add([Sample("trimtab_engine_requests_waiting", 4.0, NOW)], "vllm")
    assert read(NOW + 1).waiting == 4.0
    assert read(NOW + FRESH_SECONDS + 1).waiting is None


def node_of_two_engines() -> History:
    history = History()
    history.add(
        Sample(name, value, NOW, labels(npu=str(npu), chip="0", name="910B3"))
        for npu in range(8)
        for name, value in (
            ("npu_power_watts", 300.0),
            ("npu_temperature_celsius", 60.0 if npu < 4 else 90.0),
        )
    )
    return history


def gauges(**collect: object) -> Gauges:
    config = Config.model_validate({"collect": collect})
    return history_gauges(node_of_two_engines(), config.own_card)(NOW)


def test_the_cards_of_a_neighbour_are_not_the_tuned_engines() -> None:
    found = gauges(derived={"cards": [[0, 1, 2, 3], [4, 5, 6, 7]]}, engines=[OTHER])
    assert (found.temperature, found.watts, found.npus) == (60.0, 1200.0, 4)


def test_where_nobody_says_whose_cards_are_whose_a_sum_is_unknown_and_heat_counts() -> None:
    found = gauges(engines=[OTHER])
    assert (found.temperature, found.watts, found.npus) == (90.0, None, None)


def test_an_engine_alone_on_its_node_has_all_cards() -> None:
    found = gauges()
    assert (found.temperature, found.watts, found.npus) == (90.0, 2400.0, 8)


def test_without_a_card_of_its_own_nothing_is_known() -> None:
    found = gauges(derived={"cards": [[12]]})
    assert (found.temperature, found.watts, found.npus) == (None, None, None)
