"""Conclusions that the studies of the time-limited filter share."""

import numpy as np
from numpy.typing import NDArray

from ..studies.study import Result
from .time_limited_runs import SPANS, STEADY

PAPER = "Time-limited Bloom Filter (Rodrigues, Shtul, Baquero, Almeida)"
"""Title and authors of the paper."""

WORKLOAD = (
    "The numbers of the paper's workload are lost from the text that is at hand. This one: a span "
    "of ten minutes, one new key at equal intervals, {window} of them per span, for ten spans; "
    "initial capacities of a tenth of that (under-dimensioned) and ten times that "
    "(over-dimensioned); k and l are those of Table 2 of the APBF paper. The last two spans count "
    "as steady state."
)
"""How the streams are made, for a note."""


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
