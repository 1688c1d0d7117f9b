"""What the filters that are models alone have in common: keys, state files, comparison."""

import inspect
import os
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import SpecificationError, StateFileError
from .hash.functions import KeyHash
from .states import read_state, write_state

FORMAT = "lately-model-1"
"""Of the state files that `Filter.save` writes."""

_CLASSES: "dict[str, type[Filter]]" = {}


class Filter(ABC):
    """Base of the filters that are not rings of segments.

    A subclass has keyword-only parameters, which JSON can hold and which are
    attributes of the same names. Keys are as for `SlidingFilter`: shape (n,)
    for `key_bits` of 64 or fewer, else (n, words), and take effect one after
    another.

    Attributes
    ----------
    seed : int
        Selects the hash functions.
    key_bits : int
        Width of a key.
    """

    seed: int
    key_bits: int

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _CLASSES[cls.__name__] = cls

    @property
    @abstractmethod
    def storage_bits(self) -> int:
        """Bits of the filter, counted as its paper counts them."""

    @abstractmethod
    def clear(self) -> None:
        """Forget everything."""

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what changes: numbers that JSON can hold, and arrays."""

    @abstractmethod
    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Take what `_state` returned.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it cannot be the state of a filter of these parameters.
        """

    @property
    def parameters(self) -> dict[str, Any]:
        """What the filter was built with."""
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to an npz file, which appears complete or not at all.

        Parameters
        ----------
        path : path

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        numbers, arrays = self._state()
        header = {
            "format": FORMAT,
            "filter": type(self).__name__,
            "parameters": self.parameters,
            "numbers": numbers,
        }
        write_state(path, header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a state that `save` wrote.

        Parameters
        ----------
        path : path

        Raises
        ------
        StateFileError
            If the file is not one, is damaged, or holds another filter.
        OSError
            If the file cannot be read.
        """
        header, arrays = read_state(path, (FORMAT,))
        return cls.from_state(os.fspath(path), header, arrays)

    @classmethod
    def from_state(cls, name: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Build the filter of a state file that was read; errors as for `load`.

        Parameters
        ----------
        name : str
            Of the file, for messages.
        header : dict
            Kind, parameters and numbers of the filter.
        arrays : dict of ndarray
            Of the shapes that the filter's own have.
        """
        owner = _CLASSES.get(str(header.get("filter")))
        if owner is None or not issubclass(owner, cls):
            raise StateFileError(
                f"{name}: expected the state of {cls.__name__}, found {header.get('filter')}"
            )
        try:
            self = owner(**header["parameters"])
            self._restore(header["numbers"], arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise StateFileError(f"{name}: damaged filter state: {error}") from None
        return self

    def __eq__(self, other: object) -> bool:
        """Whether both filters are of one kind, with the same parameters, in the same state."""
        if not isinstance(other, Filter):
            return NotImplemented
        if type(self) is not type(other) or self.parameters != other.parameters:
            return False
        (numbers, arrays), (others, other_arrays) = self._state(), other._state()
        return numbers == others and all(
            np.array_equal(arrays[name], other_arrays[name]) for name in arrays
        )

    __hash__ = None  # type: ignore[assignment]


class CountedFilter(Filter):
    """A filter whose window is counted in insertions."""

    @abstractmethod
    def insert(self, keys: ArrayLike) -> None:
        """Insert keys one after another.

        Parameters
        ----------
        keys : array_like of int
            Shape (n,) for keys of 64 bits or fewer; else shape (n, words),
            least significant 64-bit word first.

        Raises
        ------
        TypeError
            If the keys are not integers.
        ValueError
            If the shape is wrong, or a key does not fit into `key_bits`.
        """

    @abstractmethod
    def query(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Ask for keys; changes nothing.

        Parameters, errors: as `insert`.

        Returns
        -------
        ndarray of bool, shape (n,)
        """

    @abstractmethod
    def check_and_insert(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Query and insert keys one after another; each answer is from before its insertion.

        Parameters, errors: as `insert`.

        Returns
        -------
        ndarray of bool, shape (n,)
        """


class TimedFilter(Filter):
    """A filter whose window is a span of time.

    Timestamps are integers of any unit, for instance nanoseconds, and never
    decrease from one insertion to the next.
    """

    @abstractmethod
    def insert(self, keys: ArrayLike, timestamps: ArrayLike) -> None:
        """Insert keys one after another.

        Parameters
        ----------
        keys : array_like of int
            As for `CountedFilter.insert`.
        timestamps : array_like of int, shape (n,)
            When each is inserted.

        Raises
        ------
        TypeError
            If the keys or timestamps are not integers.
        ValueError
            If a shape is wrong, a key does not fit into `key_bits`, or a
            timestamp is before the last. Nothing is inserted then.
        """

    @abstractmethod
    def query(self, keys: ArrayLike, now: ArrayLike) -> NDArray[np.bool_]:
        """Ask for keys at a time; changes nothing.

        Parameters
        ----------
        keys : array_like of int
            As for `insert`.
        now : array_like of int, shape (n,) or ()
            When it is asked, not before the last insertion.

        Returns
        -------
        ndarray of bool, shape (n,)
        """

    @abstractmethod
    def check_and_insert(self, keys: ArrayLike, timestamps: ArrayLike) -> NDArray[np.bool_]:
        """Query and insert keys one after another; each answer is from before its insertion.

        Parameters, errors: as `insert`.

        Returns
        -------
        ndarray of bool, shape (n,)
        """


def key_hash(sizes: list[int], *, seed: int, key_bits: int, functions: int = 1) -> KeyHash:
    """Return the hash functions of a filter, keyed by its seed.

    Parameters
    ----------
    sizes : list of int
        An index in ``range(size)`` is computed for each; each at most 2**32.
    seed, key_bits, functions
        As for `KeyHash`.

    Raises
    ------
    TypeError
        If seed or key width is not an integer.
    SpecificationError
        If seed or key width cannot be had.
    """
    require_count("key_bits", key_bits)
    require_count("seed", seed, least=0)
    return KeyHash(key_bits=key_bits, sizes=sizes, functions=functions, seed=seed)


def require_count(name: str, value: object, *, least: int = 1, most: int | None = None) -> None:
    """Refuse a parameter that is not an integer in a range.

    Parameters
    ----------
    name : str
        Of the parameter, for messages.
    value : object
    least, most : int
        Ends of the range; None for no end.

    Raises
    ------
    TypeError
        If it is not an integer.
    SpecificationError
        If it is less than `least`, or more than `most`.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}: must be an integer, not {value!r}")
    if value < least:
        raise SpecificationError(f"{name}: must be at least {least}, not {value}")
    if most is not None and value > most:
        raise SpecificationError(f"{name}: must be at most {most}, not {value}")
