"""State files of filters, and comparison of states."""

import io
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from .atomic import Number
from .convenience import State
from .errors import SpecificationError, StateFileError
from .hash.digests import DIGESTS
from .parameters import Parameterised, require_count
from .spec.base import Specification
from .state_files import FORMAT, StateFile, read_state, state_name, write_state

_CLASSES: "dict[str, type[Saved]]" = {}

MODELS: "dict[str, type[Saved]]" = {}
"""Models that have been imported, by the family of their specification."""


Bounded = Mapping[str, tuple[NDArray[Any], int | tuple[int, ...]]]

_DIGEST = ("digest", DIGESTS[0])
"""Parameter of state files that name no digest."""


class Saved(Parameterised):
    """Mixin of `Filter` that saves, loads and compares states."""

    _unlocked: ClassVar[tuple[str, ...]] = ("save",)
    _uncompared: ClassVar[tuple[str, ...]] = ()
    _UNSAVED: ClassVar[tuple[str, ...]] = ()
    """Parameters that a state stores elsewhere."""

    _counts: ClassVar[dict[str, int | str | None]] = {}
    """Counters, each with its largest value or the attribute that holds this value."""

    _NUMBERS: ClassVar = 3
    """Length of `_numbers`: the counters below, then what a family keeps there."""

    _numbers: NDArray[np.int64]
    operations, _inserted_keys, hits = Number(0), Number(1), Number(2)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        stateless = cls._arrays is Saved._arrays and cls._state is Saved._state
        if "specification" in vars(cls) and stateless:
            raise SpecificationError(
                f"{cls.__name__} lacks _arrays, the contents of its state files"
            )
        _CLASSES[cls.__name__] = cls
        if "specification" in vars(cls):
            MODELS[cls.specification.family] = cls

    @property
    @abstractmethod
    def counters(self) -> dict[str, int]:
        """Events since construction by name."""

    # State

    def _arrays(self) -> Bounded:
        """Return the arrays of integers from 0, each with its largest value, or one per column."""
        return {}

    def _hold(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Let checked arrays, of the kinds of `_arrays`, be the memory."""
        for name, (array, _) in self._arrays().items():
            array[:] = arrays[name]

    @property
    def nbytes(self) -> int:
        """Bytes of the contents in this process, without the tables of the hash functions."""
        return sum(array.nbytes for array, _ in self._arrays().values())

    def _state(self) -> State:
        numbers = {name: getattr(self, name) for name in self._counts}
        return numbers, {name: array for name, (array, _) in self._arrays().items()}

    def _saved(self) -> State:
        """Return the part of the filter that changes, with its counters."""
        numbers, arrays = self._state()
        if self._digest_secret:
            numbers["digest_secret"] = self._digest_secret
        return {**numbers, "events": self.counters}, arrays

    def _take_saved(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Take the result of `_saved`; errors as `_restore`. Older files have no counters."""
        self._restore(numbers, arrays)
        self._digest_under(numbers.get("digest_secret", 0))
        events = numbers.get("events", {})
        if not isinstance(events, dict):
            raise TypeError(f"events: must be a table of counters, not {events!r}")
        if events:
            for name, value in events.items():
                require_count(name, value, least=0)
            self.operations, self.hits = events["operations"], events["hits"]
            self._inserted_keys = events["insertions"]

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Take the result of `_state`; KeyError, TypeError or ValueError if it does not fit."""
        for name, limit in self._counts.items():
            value, most = numbers[name], getattr(self, limit) if isinstance(limit, str) else limit
            if type(value) is not int or value < 0 or (most is not None and value > most):
                raise ValueError(f"{name}: {value!r} does not fit the parameters")
            setattr(self, name, value)
        for name, (array, largest) in self._arrays().items():
            saved = arrays[name]
            if saved.shape != array.shape or saved.dtype != array.dtype:
                raise ValueError(
                    f"{name}: must be {array.dtype} of shape {array.shape}, "
                    f"not {saved.dtype} of shape {saved.shape}"
                )
            several = isinstance(largest, tuple)
            tops: Any = largest if several else (largest,)
            for part, most in zip(saved.T if several else (saved,), tops, strict=True):
                if part.size and part.max() > most:
                    raise ValueError(f"{name}: must be at most {most}, not {part.max()}")
                if part.size and part.min() < 0:
                    raise ValueError(f"{name}: must be at least 0, not {part.min()}")
        # A map and the arrays of a file become the memory; others, which users may hold, do not.
        names = self._arrays()
        self._hold({name: np.require(arrays[name], None, ["C", "A", "W"]) for name in names})

    @property
    def parameters(self) -> dict[str, Any]:
        """Values from which a state file builds the filter; no digest if it is BLAKE2b."""
        names = [name for name in self.__signature__.parameters if name not in self._UNSAVED]
        values = {name: getattr(self, name) for name in names}
        return {
            name: value
            for name, value in values.items()
            if value is not None and (name, value) != _DIGEST
        }

    @classmethod
    def _specified(cls, parameters: dict[str, Any]) -> Specification:
        """Return the specification in the result of `parameters`."""
        names = {item.name for item in fields(cls.specification)}
        return cls.specification(**{n: v for n, v in dict(parameters).items() if n in names})

    @classmethod
    def _build(cls, parameters: dict[str, Any]) -> Self:
        """Build a filter from the result of `parameters`."""
        return cls(**parameters)

    @property
    def _private(self) -> bool:
        """Whether the state holds a secret."""
        return False

    def save(self, file: StateFile, *, secrets: bool = False) -> None:
        """Write the whole state to a file in npz format.

        A file at a path appears complete or not at all: it is written beside the path, forced to
        disk and renamed. The state of a filter with the hash "siphash" is useless without its
        secrets, so you must allow `secrets`. The file holds them unencrypted: a reader of the file
        can choose keys that collide. A file with secrets at a path is readable only by its owner.

        Parameters
        ----------
        file : path or binary file
        secrets : bool

        Raises
        ------
        ValueError
            If the filter has secrets and `secrets` is False.
        OSError
            If the file cannot be written.
        """
        with self._lock:
            header, arrays = self._content(secrets)
            arrays = {name: array.copy() for name, array in arrays.items()}
        write_state(file, header, arrays, private=self._private)

    def to_bytes(self, *, secrets: bool = False) -> bytes:
        """Return the content of a file that `save` writes; arguments and errors as `save`."""
        file = io.BytesIO()
        write_state(file, *self._content(secrets))
        return file.getvalue()

    def _content(self, secrets: bool) -> State:
        """Return the header of a state file, and the arrays themselves; errors as `save`."""
        if self._private and not secrets:
            raise ValueError(
                "secrets: must be True for the hash siphash, whose state file holds them, not False"
            )
        numbers, arrays = self._saved()
        values = {"parameters": self.parameters, "numbers": numbers}
        return {"format": FORMAT, "filter": type(self).__name__, **values}, arrays

    @classmethod
    def load(
        cls, file: StateFile, *, clock: Callable[[], int] | None = None, mmap: bool = False
    ) -> Self:
        """Read a state that `save` wrote.

        The class of the filter must have been imported; `lately.load` imports all, and opens a
        filter of any class. A ring class also opens what its `for_span` returned.

        Parameters
        ----------
        file : path or binary file
            An open file is read from its position to its end.
        clock : callable, optional
            Clock of a `TimedFilter`; by default a `SteadyClock` if the saved filter had a clock.
        mmap : bool
            Whether to map a file at a path instead of reading it. Insertions then change pages in
            memory, never the file. The file may be replaced, but not changed in place.

        Raises
        ------
        TypeError
            If a filter that counts insertions is given a clock, or `mmap` an open file.
        StateFileError
            If the file is not a state file, is damaged, or holds another filter.
        OSError
            If the file cannot be read.
        """
        name, (header, arrays) = state_name(file), read_state(file, mapped=mmap)
        try:
            owner = _CLASSES.get(header["filter"])
            if owner is None or not cls._loads(owner, header["parameters"]):
                found = header["filter"] if owner else f"{header['filter']}, which is not imported"
                raise StateFileError(f"{name}: expected the state of {cls.__name__}, found {found}")
            owner._check_room(header["parameters"], arrays)
            model: Any = owner._build(header["parameters"])
            model._take_saved(header["numbers"], arrays)
        except StateFileError:
            raise
        except (KeyError, TypeError, ValueError, MemoryError) as error:
            raise StateFileError(f"{name}: damaged filter state: {error}") from None
        if clock is not None:
            if not hasattr(model, "clock"):
                raise TypeError(f"clock: a {type(model).__name__} counts insertions")
            model.clock = clock
        return cast(Self, model)

    @classmethod
    def from_bytes(cls, data: bytes, *, clock: Callable[[], int] | None = None) -> Self:
        """Read what `to_bytes` returned; `clock` and errors as for `load`."""
        return cls.load(io.BytesIO(data), clock=clock)

    @classmethod
    def _loads(cls, kind: "type[Saved]", parameters: dict[str, Any]) -> bool:
        """Whether `load` accepts a state of a `kind` with these parameters."""
        return issubclass(kind, cls)

    @classmethod
    def _check_room(cls, parameters: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Refuse arrays that cannot fill the memories before allocating them; as `_restore`."""
        spec = cls._specified(parameters)
        held = sum(array.nbytes for array in arrays.values())
        needed = -(-getattr(spec, "storage_bits", 0) // 8)
        if held < needed:
            raise ValueError(f"{held} bytes do not fit the specification, which has {needed}")

    def _identity(self) -> Any:
        """Return the numbers of the state on which answers depend."""
        return {
            name: value for name, value in self._state()[0].items() if name not in self._uncompared
        }

    def __eq__(self, other: object) -> bool:
        """Whether both filters have the same kind, parameters and state.

        Counters are ignored if no answer depends on them.
        """
        if not isinstance(other, Saved):
            return NotImplemented
        if type(self) is not type(other) or self.parameters != other.parameters:
            return False
        # Never hold both locks: two threads may compare in opposite order.
        (identity, arrays), (another, others) = self._compared(), other._compared()
        return bool(
            identity == another
            and all(np.array_equal(arrays[name], others[name]) for name in arrays)
        )

    def _compared(self) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Return the parts of the state that `==` compares."""
        with self._lock:
            arrays = {name: array.copy() for name, array in self._state()[1].items()}
            return (self._identity(), self._digest_secret), arrays

    __hash__ = None  # type: ignore[assignment]
