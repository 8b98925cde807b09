"""What a campaign is told of the collectors' last readings."""

from __future__ import annotations

from collectors.history import History
from collectors.sample import Sample
from daemon.gauges import FRESH_SECONDS, history_gauges

NOW = 1_700_000_000.0
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
