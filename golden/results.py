"""Results of operations, in the same form for golden models, simulated hardware and boards."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Words = NDArray[np.uint64]  # checked keys, shape (n, words)
Codes = NDArray[np.uint8]  # values of `Operation`, shape (n,)
Answers = NDArray[np.bool_]  # whether each key is reported, shape (n,)
Ages = NDArray[np.int64]  # ages of keys, shape (n,)


_KINDS: dict[str, Any] = {
    "status": np.uint8, "oldest": np.int64, "time": np.int64, "covered": np.int64,
}  # fmt: skip


class Results(NamedTuple):
    """Results of n operations, in arrays of shape (n,); fields that the filter lacks are 0."""

    seen: NDArray[np.bool_]  # whether the key was reported; False if the operation is not a query
    # minimum possible age of the key, in units of the filter's `age_unit`; -1 if `seen` is False.
    # Timing filters return the age of the key's oldest cell even if the key is not reported; an
    # expired cell has one block more than the window.
    age: Ages
    # `PoolStatus.code` of a ring with a time window. For a dictionary, 1 if the window of the query
    # is longer than `covered`, so that keys in the window may be missing.
    status: NDArray[np.uint8]
    # in timing filters, the number of the key's cells that have the age of the oldest cell
    oldest: NDArray[np.int64]
    # time of the operation, in filters with a span. Hardware reports the ticks since its reset.
    time: NDArray[np.int64]
    # every key with a lower age is reported; in units of the span for a ring, in insertions for a
    # dictionary
    covered: NDArray[np.int64]

    @classmethod
    def of(cls, seen: ArrayLike, age: ArrayLike, **known: ArrayLike | None) -> Self:
        """Build results from `seen`, `age` and other `known` fields, all of shape (n,)."""
        reported = np.asarray(seen, np.bool_)
        fields: list[Any] = [np.zeros(len(reported), kind) for kind in _KINDS.values()]
        for index, (name, kind) in enumerate(_KINDS.items()):
            if known.get(name) is not None:
                fields[index] = np.asarray(known[name], kind)
        return cls(reported, np.asarray(age, np.int64), *fields)

    @classmethod
    def joined(cls, parts: "Sequence[Results]") -> Self:
        """Concatenate the results in `parts`, in order."""
        return cls(*map(np.concatenate, zip(cls.empty(), *parts, strict=True)))

    @classmethod
    def empty(cls) -> Self:
        """Return results for zero operations."""
        return cls.of(np.empty(0, np.bool_), np.empty(0, np.int64))

    def part(self, index: Any) -> Self:
        """Return the results that an `index`, such as a slice, selects."""
        return type(self)(*(array[index] for array in self))
