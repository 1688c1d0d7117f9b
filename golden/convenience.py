"""Filters as Python objects: printing, ``in``, ``len``, copies and pickles."""

import copy
from abc import ABC, abstractmethod
from typing import Any, NoReturn, Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from .atomic import Atomic
from .errors import SpecificationError
from .hash.keys import Key, is_single

State = tuple[dict[str, Any], dict[str, NDArray[Any]]]
"""State of a filter: numbers for JSON, and arrays."""


class Options(TypedDict, total=False):
    """Parameters that `for_window` passes to constructors."""

    seed: int
    key_bits: int
    digest: str
    hash: str
    secret: int
    rekey: bool
    partitioned: bool
    padding: int
    stamp_bits: int
    classes: int
    phase_bits: int
    period: int
    positions: int
    moves: int
    stash: int
    counter_bits: int
    saturated: str
    slice_bits_limit: int


class PythonProtocol(Atomic, ABC):
    """Mixin of `Filter` for interactive use."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of memory that the contents occupy in this process."""

    @property
    @abstractmethod
    def memory(self) -> NDArray[Any]:
        """Copy of the memory contents; its shape depends on the family."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Values from which a state file builds the filter."""

    @abstractmethod
    def _state(self) -> State:
        """Return the part of the filter that changes, counters excluded."""

    @abstractmethod
    def _saved(self) -> State:
        """Return the part of the filter that changes, with its counters."""

    @property
    def fill(self) -> float:
        """Share of the memory in use now, 0 to 1: set bits, or cells that are not 0.

        In a memory above about 1 MiB, only evenly spaced parts are counted, with a standard error
        below 0.0015.
        """
        return float(np.mean(self.memory != 0))

    @property
    def window(self) -> int | None:
        """Window W: a key is reported for all d < W; None if the filter guarantees no window.

        d is the number of insertions after the key's own or, for a window in time, the age of the
        key.
        """
        return None

    @property
    def fpr(self) -> float | None:
        """Expected share of fresh keys that are reported while the window is full.

        Keys of the window are assumed to be distinct. If the rate changes from insertion to
        insertion, `fpr` is the mean. None if the filter has no window, or if its rate is unknown.
        """
        return None

    def _only_one(self, name: str, key: Any) -> Any:
        """Return a single key; TypeError if a method `name` was given several."""
        if not is_single(key):
            raise TypeError(f"{name}: must be given a single key, not {type(key).__name__}")
        return key

    def _no_single(self, name: str, keys: Any) -> Any:
        """Return several keys; TypeError if a method `name` was given a single one."""
        if is_single(keys):
            raise TypeError(f"{name}: must be given an iterable of keys, not {type(keys).__name__}")
        return keys

    @abstractmethod
    def _window_text(self) -> str:
        """Describe the window in words, with its unit."""

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        """Return parameters for a rate and a window with a number of keys."""
        raise SpecificationError(
            f"for_window: must be asked of a filter that guarantees a window, not {cls.__name__}"
        )

    def __repr__(self) -> str:
        rate = self.fpr
        return (
            f"<{type(self).__name__}: {self._window_text()}, "
            f"{'' if rate is None else f'false-positive rate {rate:.3g}, '}"
            f"{self.nbytes / 1024:,.1f} KiB held, {self.fill:.0%} filled>"
        )

    def __contains__(self, key: Key) -> bool:
        """Whether a single key is reported, at the time of the last insertion if timed."""
        return bool(self._ask_now(self._only_one("in", key)))

    @abstractmethod
    def _ask_now(self, key: Key) -> Any:
        """Query a single key."""

    def __len__(self) -> NoReturn:
        raise TypeError(
            f"len: a {type(self).__name__} cannot count its keys, as different keys share memory"
        )

    def __bool__(self) -> bool:
        # Without it, Python would call `__len__`.
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        numbers, arrays = self._saved()
        copies = {name: array.copy() for name, array in arrays.items()}
        return _rebuild, (type(self), self.parameters, numbers, copies)

    def __copy__(self) -> Self:
        return copy.deepcopy(self)


def _rebuild(cls: Any, parameters: Any, numbers: Any, arrays: Any) -> Any:
    """Build a filter from its parameters and its state."""
    self = cls._build(parameters)
    # The arrays of a pickle may be views of a buffer that belongs to others.
    own = {name: np.require(array, None, "O") for name, array in arrays.items()}
    self._take_saved(numbers, own)
    return self
