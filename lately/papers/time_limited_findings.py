"""Conclusions that the studies of the time-limited filter share."""

import numpy as np
from numpy.typing import NDArray

from ..studies.study import Result
from .paper import Paper
from .time_limited_runs import SPANS, STEADY

PAPER = Paper("time_limited")
"""Time-limited Bloom Filter (Rodrigues, Shtul, Baquero and Almeida)."""

COMBINATIONS: dict[float, list[list[int]]] = {
    float(error): pairs for error, pairs in PAPER.data["combinations"].items()
}
"""k and l for each error rate: those of Table 2 of the APBF paper."""


def decimal(rate: float) -> str:
    """Return a rate as the paper writes it, 0.00001 and not 1e-05."""
    return np.format_float_positional(rate, trim="-")


def in_steady_state(rows: dict[str, list[float]]) -> NDArray[np.bool_]:
    """Whether each stop is in the steady state, shape (stops,)."""
    steady: NDArray[np.bool_] = np.array(rows["spans"]) > SPANS - STEADY
    return steady


def bits_per_element(rows: dict[str, list[float]], elements: str) -> NDArray[np.float64]:
    """Bits per element at each stop, shape (stops,), of the "reported" or those "within"."""
    ratio: NDArray[np.float64] = np.array(rows["bits"]) / np.array(rows[elements])
    return ratio


def bits_range(results: list[Result], elements: str) -> tuple[float, float]:
    """Least and most bits per element in the steady state, over all k and l."""
    values = np.concatenate(
        [
            bits_per_element(rows, elements)[in_steady_state(rows)]
            for result in results
            for rows in result.values()
        ]
    )
    return float(values.min()), float(values.max())
