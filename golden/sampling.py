"""Split long inputs into chunks, and sample large memories for fast estimates."""

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 15  # number of keys hashed at a time
MAX_BYTES = 1 << 20  # approximate size of a sample; a smaller memory is not sampled
_PARTS = 256
_Element = TypeVar("_Element", bound=np.generic)


def chunks(count: int, size: int = CHUNK) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(count, start + size))


def sample(memory: NDArray[_Element]) -> NDArray[_Element]:
    """Return evenly spaced parts of each row of a large memory; return a small memory whole."""
    width = memory.shape[-1]
    limit = MAX_BYTES * width // memory.nbytes if memory.nbytes else width
    size = max(1, limit // _PARTS)
    if limit >= width or width <= _PARTS * size:
        return memory
    starts = np.linspace(0, width - size, _PARTS, dtype=np.int64)
    return np.concatenate([memory[..., start : start + size] for start in starts.tolist()], axis=-1)
