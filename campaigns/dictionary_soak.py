"""A compiled dictionary beside its golden model, on mixed random operations."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lately.golden import Operation, from_spec

from .soak_course import Course


class DictionaryCourse(Course):
    """A comparison of dictionaries; see `Course`.

    The pool has a fifth of the window; a query asks for any window. With the hash "siphash", a new
    secret is loaded before every chunk, which applies from its clear on.
    """

    SHARES: ClassVar = {
        Operation.NONE: 0.01,
        Operation.QUERY: 0.15,
        Operation.INSERT: 0.1,
        Operation.CHECK_AND_INSERT: 0.72,
        Operation.REMOVE: 0.02,
    }
    TOLD: ClassVar = {**Course.TOLD, "statuses": "status"}
    MEMORY = "memory_cells"

    def __init__(self, unit: Any, spec: Any, seed: int, ticks: str | None = None) -> None:
        super().__init__(unit, spec, seed, ticks)
        self._uncertain = 0

    def _new_model(self) -> Any:
        return from_spec(self._spec)

    def compare_memory(self) -> None:
        """Compare all cells."""
        self._mismatches[self.MEMORY] += self._model.differing_cells(self._unit.memory)
        self._memories += 1

    def figures(self) -> dict[str, Any]:
        """Return what was compared and counted, as JSON can hold it."""
        return super().figures() | {"uncertain": self._uncertain}

    @property
    def _pool(self) -> int:
        return int(self._spec.window) // 5

    @property
    def _held(self) -> int:
        return int(self._spec.columns * self._spec.rows)

    def _both(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        windows = self._random.integers(1, self._spec.window + 1, len(codes))
        expected = self._model.perform(codes, keys, None, windows)
        self._uncertain += int(expected.status.sum())
        return self._unit.perform(codes, keys, windows=windows, **self._pauses()), expected
