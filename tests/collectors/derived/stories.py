"""Readings that tell a story, put into a history."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from collectors.history import History
from collectors.sample import Distribution, Labels, Sample, labels

NOW = 1_700_000_000.0
ENGINE = labels(engine="0", model="m")
Floats = NDArray[np.float64]


def card(npu: int, name: str = "910B") -> Labels:
    return labels(npu=str(npu), chip="0", name=name)


def fill(
    history: History, name: str, own: Labels, times: Iterable[float], value: Callable[[float], float]
) -> None:
    """Readings of one gauge or counter; `value` is asked for each time."""
    for time in times:
        history.add([Sample(name, value(time), time, own)])


def fill_values(history: History, name: str, own: Labels, times: Floats, values: Floats) -> None:
    history.add(
        Sample(name, float(value), float(time), own) for time, value in zip(times, values, strict=True)
    )


def every(seconds: float, span: float, now: float = NOW) -> Floats:
    """Times that end at `now`."""
    return now - np.arange(0.0, span, seconds)[::-1]


def one_bucket(total: float, count: float) -> Distribution:
    return Distribution((float("inf"),), (count,), total, count)


def by_labels(samples: Iterable[Sample], name: str) -> dict[Labels, float]:
    """The values of one name."""
    return {
        sample.labels: sample.value
        for sample in samples
        if sample.name == name and not isinstance(sample.value, Distribution)
    }


def only(samples: Iterable[Sample], name: str) -> float:
    """The one value of a name."""
    (value,) = by_labels(samples, name).values()
    return value


def red_noise(draw: np.random.Generator, length: int, memory: float) -> Floats:
    """First-order autoregressive noise of unit steps."""
    steps = draw.standard_normal(length + 200)
    found = np.zeros(length + 200)
    for index in range(1, length + 200):
        found[index] = memory * found[index - 1] + steps[index]
    return found[200:]
