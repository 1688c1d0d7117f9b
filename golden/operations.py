"""Operations of a filter and their results, the same in golden and hardware."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Operation(IntEnum):
    """What one operation does; the values are those on the hardware's ``operation`` field.

    Operations take effect in order, each as if the one before it had
    finished. A query answers from the state before its own insertion.
    """

    NONE = 0
    """Nothing; gives a result like any other operation."""
    QUERY = 1
    """Report whether the key is in the filter."""
    INSERT = 2
    """Insert the key; shift first if the generation is full."""
    CHECK_AND_INSERT = 3
    """Query, then insert, whatever the query said."""
    SHIFT = 4
    """Start a new generation now."""
    CLEAR = 5
    """Forget everything and return to the first position of the ring."""


class Verdicts(NamedTuple):
    """Results of a sequence of operations.

    Attributes
    ----------
    seen : ndarray of bool, shape (n,)
        Whether the key was reported; False where nothing was asked.
    age : ndarray of int16, shape (n,)
        Youngest generation that the key can be of, 0 for the current one;
        -1 where `seen` is False.
    """

    seen: NDArray[np.bool_]
    age: NDArray[np.int16]
