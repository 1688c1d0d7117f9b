"""What makes a filter at home in Python: printing, ``in``, ``len``, copies and pickles."""

import copy
from typing import Any, NoReturn, Self

import numpy as np

from .errors import SpecificationError
from .hash.keys import Key, is_single


class Convenience:
    """Part of `Filter` that serves people rather than experiments."""

    @property
    def fill(self) -> float:
        """Share of the memory that is in use now, 0 to 1: of bits that are set, of cells not 0."""
        return float(np.mean(self.memory != 0))  # type: ignore[attr-defined]

    @property
    def window_false_positive_rate(self) -> float | None:
        """Expected share of fresh keys that are reported while the window is full.

        Keys of the window are taken to be distinct; where the rate changes
        from insertion to insertion, it is the mean, or a bound of it. None
        where the filter has no window, or knows too little.
        """
        return None

    def _window_text(self) -> str:
        """Describe the window in words, with its unit."""
        return "no window"

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        """Return parameters for a window that has so many keys, and a rate."""
        raise SpecificationError(
            f"for_window: must be asked of a filter that guarantees a window, not {cls.__name__}"
        )

    def __repr__(self) -> str:
        rate = self.window_false_positive_rate
        kib = self.storage_bits / 8192  # type: ignore[attr-defined]
        return (
            f"<{type(self).__name__}: {self._window_text()}, "
            f"{'' if rate is None else f'false-positive rate {rate:.3g}, '}"
            f"{kib:.3g} KiB, {self.fill:.0%} filled>"
        )

    def __contains__(self, key: Key) -> bool:
        """Whether a single key is reported; asked at the time of the last insertion if timed."""
        if not is_single(key):
            raise TypeError(f"in: must be asked for a single key, not {type(key).__name__}")
        return bool(self._ask_now(key))

    def _ask_now(self, key: Key) -> Any:
        return self.query(key)  # type: ignore[attr-defined]

    def __len__(self) -> NoReturn:
        raise TypeError(
            f"len: a {type(self).__name__} cannot count its keys, as different keys share memory"
        )

    def __bool__(self) -> bool:
        # Without it, Python would ask for the length.
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        numbers, arrays = self._state()  # type: ignore[attr-defined]
        return _rebuild, (type(self), self.parameters, numbers, arrays)  # type: ignore[attr-defined]

    def __copy__(self) -> Self:
        return copy.deepcopy(self)


def _rebuild(cls: Any, parameters: Any, numbers: Any, arrays: Any) -> Any:
    """Build a filter from its parameters and its state."""
    self = cls._build(parameters)
    self._restore(numbers, arrays)
    return self
