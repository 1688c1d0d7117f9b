"""Samples of large memories, for fast estimates of their figures."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 1 << 20
"""Bytes of a sample, about, of which there is none of less memory."""

_PARTS = 256

_Element = TypeVar("_Element", bound=np.generic)


def sample(memory: NDArray[_Element]) -> NDArray[_Element]:
    """Return evenly spaced parts of each row of a large `memory`, or all of a small one.

    The rows are along the last axis. The sample has the same number of rows, all equally shorter.
    """
    width = memory.shape[-1]
    most = MOST_BYTES * width // memory.nbytes if memory.nbytes else width
    size = max(1, most // _PARTS)
    if most >= width or width <= _PARTS * size:
        return memory
    starts = np.linspace(0, width - size, _PARTS, dtype=np.int64)
    return np.concatenate([memory[..., start : start + size] for start in starts.tolist()], axis=-1)
