"""The contract that all golden models share: operations, ages, state files, comparison."""

import inspect
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .atomic import Counter
from .convenience import Convenience, Options, State
from .errors import SpecificationError, StateFileError
from .hash.functions import KeyHash
from .hash.keys import Key, Keys, one_or_all
from .operations import Operation, OperationBit
from .results import Ages, Results
from .sizing import check_rate
from .spec.base import Specification
from .states import FORMATS, read_state, write_state
from .times import Times

Words = NDArray[np.uint64]
"""Checked keys, shape (n, words)."""

Answers = NDArray[np.bool_]
"""Whether each key is reported, shape (n,)."""

_CLASSES: "dict[str, type[Filter]]" = {}


class Filter(Convenience):
    """Base of all models.

    Keys have shape (n,) for `key_bits` of 64 or fewer, else (n, words), and
    take effect one after another. `CountedFilter` and `TimedFilter` have the
    operations for one kind each; their windows are insertions and time, and the
    latter take timestamps, too. All operations check their arguments, count,
    and leave the rest to a subclass. It implements either `_perform`, or the
    steps `_insert`, `_query`, `_check_and_insert`, and where the filter knows
    ages, `_age` and `_age_and_insert`. `_empty` clears the memory.

    The keyword arguments of a constructor are the fields of the class's
    specification, and become attributes of the same names, unless a subclass
    says otherwise. A class describes its own; all have `seed` and `key_bits`.

    Attributes
    ----------
    specification : type
        Class of the specifications from which the class is built.
    age_unit : str
        Unit of ages. A filter that does not know when a key came gives 0 for
        every key that it reports: the least age that the key can have.
    seed : int
        Selects the hash functions; 0 by default.
    key_bits : int
        Width of a key; 64 by default.
    operations, hits : int
        Operations since construction, and the keys that they reported; `query`, `age` and the
        like are not counted.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown, or of the wrong type.
    SpecificationError
        If a parameter is out of its range, or breaks another rule.
    """

    specification: ClassVar[type[Specification]] = Specification
    age_unit: ClassVar[str] = "insertions"
    _supported: ClassVar[tuple[Operation, ...]] = (
        Operation.NONE,
        Operation.QUERY,
        Operation.INSERT,
        Operation.CHECK_AND_INSERT,
        Operation.CLEAR,
    )
    _unlocked = ("save",)
    _chooser: ClassVar[str] = "for_window(window, fpr)"
    _uncompared: ClassVar[tuple[str, ...]] = ()
    _counts: ClassVar[dict[str, int | str | None]] = {}
    """Attributes that count, each with its largest value, or the attribute that holds it."""

    __signature__: ClassVar[inspect.Signature]

    # Public operations, for a filter of unknown kind: `load` returns one.
    insert: Callable[..., None]
    query: Callable[..., Any]
    check_and_insert: Callable[..., Any]
    age: Callable[..., Any]

    seed: int
    key_bits: int
    operations = Counter("operations")
    hits = Counter("hits")
    _hash: KeyHash

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _CLASSES[cls.__name__] = cls
        cls.__signature__ = inspect.Signature(cls._signature())
        for name in cls._counts:
            if not hasattr(cls, name):
                setattr(cls, name, Counter(name))

    def __new__(cls, *arguments: Any, **_: Any) -> Self:
        """Refuse numbers without names, as the constructors of other libraries take them."""
        if arguments and not isinstance(arguments[0], Specification | None):
            raise TypeError(
                f"{cls.__name__}: must have parameters by name, not {arguments[0]!r}{cls._hint()}"
            )
        self = super().__new__(cls)
        self.operations = self.hits = self._inserted_keys = 0
        return self

    def __init__(self, **parameters: Any) -> None:
        self._take(parameters)
        self._prepare()
        self._empty()

    @classmethod
    def _signature(cls) -> list[inspect.Parameter]:
        """Return the parameters of the constructor: the fields of the specification."""
        shared: list[inspect.Parameter] = []
        own: list[inspect.Parameter] = []
        for item in fields(cls.specification):
            needed = item.metadata.get("required")
            default = inspect.Parameter.empty if needed else item.default
            parameter = inspect.Parameter(
                item.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=item.type
            )
            (shared if item.name in ("key_bits", "seed") else own).append(parameter)
        return own + shared[::-1]

    @classmethod
    def _bound(cls, parameters: dict[str, Any]) -> inspect.BoundArguments:
        """Return parameters by their names; TypeError if one is missing or unknown."""
        try:
            return cls.__signature__.bind(**parameters)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}: {error}{cls._hint()}") from None

    @classmethod
    def _hint(cls) -> str:
        """Return the end of a message about parameters: the method that chooses them, if any."""
        chosen = any("_sizes" in vars(kind) for kind in cls.__mro__ if kind is not Convenience)
        return f"; {cls.__name__}.{cls._chooser} chooses them" if chosen else ""

    @classmethod
    def _for_keys(
        cls, keys: int, fpr: float, given: dict[str, int], options: Mapping[str, Any]
    ) -> Self:
        """Build a filter for a window of so many `keys`; `given` has its parameter, if it is one.

        Raises
        ------
        TypeError, SpecificationError
            If an option is unknown, or out of its range; or no sizes are large enough.
        """
        cls.__signature__.bind_partial(**options)
        try:
            return cls(**{**cls._sizes(keys, fpr), **given}, **options)
        except OverflowError:
            pass
        except SpecificationError as error:
            field = str(error).partition(":")[0]
            chosen = {*cls.specification.field_names()} - given.keys() - options.keys() - {"window"}
            # An option may be the reason for an error in another field.
            if field not in chosen or options.keys() - {"seed", "key_bits"}:
                raise
        raise SpecificationError(
            f"window: must have fewer keys, or fpr must be larger, for a {cls.__name__}, "
            f"not {keys} keys at {fpr}"
        )

    def _take(self, parameters: dict[str, Any]) -> None:
        """Check parameters by themselves, and make them attributes."""
        bound = self._bound(parameters)
        bound.apply_defaults()
        for item in fields(self.specification):
            name, value = item.name, bound.arguments[item.name]
            derived = value is None and item.default is None and "required" not in item.metadata
            if "range" in item.metadata and not derived:
                least, most = item.metadata["range"]
                require_count(name, value, least=least, most=most)
                value = int(value)
            # A property of that name reads the value kept under a private one.
            kept = isinstance(getattr(type(self), name, None), property)
            setattr(self, f"_{name}" if kept else name, value)

    @abstractmethod
    def _prepare(self) -> None:
        """Check parameters together, derive those that are None, and make the hash functions."""

    def _make_hash(self, sizes: Sequence[int], functions: int = 1) -> None:
        """Make the hash functions, each with an index in ``range(size)`` for each of `sizes`."""
        self._hash = KeyHash(
            key_bits=self.key_bits, sizes=sizes, functions=functions, seed=self.seed
        )

    # Specification

    @property
    def spec(self) -> Specification:
        """Specification of the filter: `from_spec` builds an empty one like it."""
        return self.specification(**self.parameters)

    @classmethod
    def from_spec(cls, spec: Specification) -> Self:
        """Build the filter that `spec`, of the same family, describes; errors as for `Filter`."""
        cls._check_family(spec)
        values = spec.to_dict()
        del values["family"]
        return cls(**values)

    @classmethod
    def _check_family(cls, spec: Specification) -> None:
        family = cls.specification.family
        if not isinstance(spec, Specification):
            raise TypeError(f"spec: must be a specification, not {spec!r}")
        if spec.family != family:
            raise SpecificationError(
                f"family: must be {family} for {cls.__name__}, not {spec.family!r}"
            )

    # Operations

    def perform(
        self,
        operations: ArrayLike,
        keys: Keys,
        times: ArrayLike | None = None,
        windows: ArrayLike | None = None,
    ) -> Results:
        """Perform a mixed sequence of operations, one after another.

        Parameters
        ----------
        operations : array_like of int, shape (n,)
            Values of `Operation`.
        keys : array_like of int
            One key per operation, also for those that ignore it; as `insert`, with its errors.
        times : array_like of int, shape (n,)
            Time of each operation, if the window is a span of time; they never decrease.
        windows : array_like of int, shape (n,) or (), optional
            Window of each query, in filters that answer for any; by default that of the filter.
            If a table of thresholds answers, the class of each query; by default 0.

        Raises
        ------
        TypeError, ValueError
            If the operations are not integers, the lengths differ, a value is not an `Operation`
            that the filter has, or times or windows are not as required. Nothing is performed
            then.
        """
        words = self._hash.check_keys(keys)
        moments = self._checked_times(times, len(words))
        codes = self._checked_operations(operations, len(words))
        asked = self._checked_windows(windows, len(words))
        results = self._perform(codes, words, moments, asked)
        inserts = (codes & (OperationBit.INSERT | OperationBit.ALONE)) == OperationBit.INSERT
        self._note_events(len(codes), int(np.count_nonzero(inserts)), results.seen)
        return results

    def apply(
        self,
        operations: ArrayLike,
        keys: Keys,
        times: ArrayLike | None = None,
        windows: ArrayLike | None = None,
    ) -> Results:
        """Perform a mixed sequence of operations; ages are as those of `age`.

        As `perform`, with its errors, but the age of every key that is not reported is -1.
        """
        results = self.perform(operations, keys, times, windows)
        return results._replace(age=np.where(results.seen, results.age, -1))

    def look_up(
        self, keys: Keys, times: ArrayLike | None = None, windows: ArrayLike | None = None
    ) -> Results:
        """Return the results of queries; changes nothing, counters included.

        Parameters, errors: as `perform`.
        """
        words = self._hash.check_keys(keys)
        moments = self._checked_times(times, len(words))
        asked = self._checked_windows(windows, len(words))
        return self._performed(Operation.QUERY, words, moments, asked)

    def differing_cells(self, memory: NDArray[Any]) -> int:
        """Return in how many bits or cells the `memory` of hardware differs from that of the model.

        Its shape is that of the model's `memory`.
        """
        return int((memory != self.memory).sum())

    def clear(self) -> None:
        """Forget everything, as the operation CLEAR. A secret that waits comes in.

        The `counters` go on.
        """
        self._empty()
        self._note_events(1)

    @property
    def counters(self) -> dict[str, int]:
        """Events since construction by name, as the hardware of the family counts them."""
        return {
            "operations": self.operations,
            "insertions": self._inserted_keys,
            "hits": self.hits,
            **self._further_counters(),
        }

    def _further_counters(self) -> dict[str, int]:
        """Return the counters that only this family has."""
        return {}

    def _note_events(
        self, operations: int, insertions: int = 0, seen: Answers | None = None
    ) -> None:
        """Count operations that were performed, and the keys that they reported."""
        self.operations += operations
        self._inserted_keys += insertions
        if seen is not None:
            self.hits += int(np.count_nonzero(seen))

    def _checked_times(self, times: ArrayLike | None, count: int) -> Times | None:
        """Return the times of operations; None if the window is not a span of time."""
        if times is not None:
            raise ValueError(f"times: must not be given for {type(self).__name__}")
        return None

    def _checked_windows(self, windows: ArrayLike | None, count: int) -> "NDArray[np.int64] | None":
        """Return the windows of queries; None if the filter answers for one window only."""
        if windows is not None:
            raise ValueError(
                f"windows: must not be given for {type(self).__name__}, which has one window"
            )
        return None

    # Steps

    @abstractmethod
    def _empty(self) -> None:
        """Clear the memory, and take the secret that waits."""

    def _perform(
        self,
        codes: NDArray[np.uint8],
        keys: Words,
        times: Times | None,
        windows: "NDArray[np.int64] | None",
    ) -> Results:
        """Perform checked operations, here stretch by stretch of the same."""
        age = np.full(len(codes), -1, np.int64)
        for part in _stretches(codes):
            cut = [operand[part] for operand in (keys, times) if operand is not None]
            match codes[part.start]:
                case Operation.QUERY:
                    age[part] = self._age(*cut)
                case Operation.INSERT:
                    self._insert(*cut)
                case Operation.CHECK_AND_INSERT:
                    age[part] = self._age_and_insert(*cut)
                case Operation.CLEAR:
                    self._empty()
        return Results.of(age >= 0, age, time=times)

    def _performed(
        self, operation: Operation, keys: Words, times: Times | None = None, windows: Any = None
    ) -> Results:
        """Perform the same operation on all keys."""
        return self._perform(np.full(len(keys), operation, np.uint8), keys, times, windows)

    def _insert(self, *operands: Any, **options: Any) -> Any:
        """Insert checked keys, with their timestamps if the filter is timed."""
        self._performed(Operation.INSERT, *operands)

    def _query(self, *operands: Any, **options: Any) -> Answers:
        """Answer for checked keys; changes nothing."""
        return self._performed(Operation.QUERY, *operands).seen

    def _check_and_insert(self, *operands: Any, **options: Any) -> Answers:
        """Answer for each checked key, then insert it."""
        return self._performed(Operation.CHECK_AND_INSERT, *operands).seen

    def _age(self, *operands: Any, **options: Any) -> Ages:
        """Return ages of checked keys; changes nothing."""
        return _least_ages(self._query(*operands))

    def _age_and_insert(self, *operands: Any, **options: Any) -> Ages:
        """Return the age of each checked key, then insert it."""
        return _least_ages(self._check_and_insert(*operands))

    def _checked_operations(self, operations: ArrayLike, count: int) -> NDArray[np.uint8]:
        codes = np.asarray(operations)
        if codes.shape != (count,):
            raise ValueError(
                f"operations: must have shape ({count},) like the keys, not {codes.shape}"
            )
        if len(codes) and codes.dtype.kind not in "ui":
            raise TypeError(f"operations: must be integers, not {codes.dtype}")
        known = np.isin(codes, list(Operation))
        if not known.all():
            raise ValueError(f"operations: must be values of Operation, not {codes[~known][0]}")
        possible = np.isin(codes, self._supported)
        if not possible.all():
            name = Operation(int(codes[~possible][0])).name
            raise ValueError(f"operations: must not be {name}, which {type(self).__name__} lacks")
        return codes.astype(np.uint8)

    # Files

    def _arrays(self) -> dict[str, tuple[NDArray[Any], int]]:
        """Return the arrays of unsigned integers, each with the largest value in it."""
        return {}

    @property
    def nbytes(self) -> int:
        """Bytes that the contents take in this process; tables of the hash functions excluded."""
        return sum(array.nbytes for array, _ in self._arrays().values())

    def _state(self) -> State:
        numbers = {name: getattr(self, name) for name in self._counts}
        return numbers, {name: array.copy() for name, (array, _) in self._arrays().items()}

    def _saved(self) -> State:
        """Return the part of the filter that changes, with its counters."""
        numbers, arrays = self._state()
        return {**numbers, "events": self.counters}, arrays

    def _take_saved(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Take the result of `_saved`; errors as `_restore`. Older files have no counters."""
        self._restore(numbers, arrays)
        if events := numbers.get("events"):
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
            array[:] = _check_array(name, arrays[name], array, largest)

    @property
    def parameters(self) -> dict[str, Any]:
        """Values from which a state file builds the filter."""
        return {name: getattr(self, name) for name in self.__signature__.parameters}

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

    def save(self, path: str | os.PathLike[str], *, secrets: bool = False) -> None:
        """Write the whole state to an npz file at `path`, which appears complete or not at all.

        The state of a filter with the hash "siphash" says nothing without its `secrets`,
        so that they have to be asked for. The file holds them unencrypted: whoever reads
        it can choose keys that collide. Its mode lets none but the owner read it.

        Raises
        ------
        ValueError
            If the filter has secrets, and they are not asked for.
        OSError
            If the file cannot be written.
        """
        if self._private and not secrets:
            raise ValueError(
                "secrets: must be True for the hash siphash, whose state file holds them, not False"
            )
        with self._lock:
            parameters, (numbers, arrays) = self.parameters, self._saved()
        header = {
            "format": FORMATS[-1],
            "filter": type(self).__name__,
            "parameters": parameters,
            "numbers": numbers,
        }
        write_state(path, header, arrays, private=self._private)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a state that `save` wrote to `path`, in the present format or an earlier one.

        The class of the filter must have been imported; `lately.golden.load`
        imports all.

        Raises
        ------
        StateFileError
            If the file is not one, is damaged, or holds another filter.
        OSError
            If the file cannot be read.
        """
        return cls.from_state(os.fspath(path), *read_state(path, FORMATS))

    @classmethod
    def from_state(cls, name: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Build the filter of a state file `name` that was read; errors as `load`.

        The `header` has kind, parameters and numbers; `arrays` are in the filter's shapes.
        """
        try:
            header = _upgraded(header)
            owner = _CLASSES.get(header["filter"])
            if owner is not None and issubclass(owner, cls):
                owner._check_room(header["parameters"], arrays)
                self = owner._build(header["parameters"])
                self._take_saved(header["numbers"], arrays)
                return self
        except (KeyError, TypeError, ValueError, MemoryError) as error:
            raise StateFileError(f"{name}: damaged filter state: {error}") from None
        found = header["filter"] if owner else f"{header['filter']}, which is not imported"
        if header["filter"] == "PooledTimeLimitedAPBF":
            found = "PooledTimeLimitedAPBF, which TimeLimitedRing of an APBFSpec replaces"
        raise StateFileError(f"{name}: expected the state of {cls.__name__}, found {found}")

    @classmethod
    def _check_room(cls, parameters: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Refuse arrays that cannot fill the memories, before these take room; as `_restore`."""
        spec = cls._specified(parameters)
        held = sum(array.nbytes for array in arrays.values())
        needed = -(-getattr(spec, "storage_bits", 0) // 8)
        if held < needed:
            raise ValueError(f"{held} bytes do not fit the specification, which has {needed}")

    def _identity(self) -> Any:
        """Return the numbers of the state that answers depend on."""
        return {
            name: value for name, value in self._state()[0].items() if name not in self._uncompared
        }

    def __eq__(self, other: object) -> bool:
        """Whether both are of one kind, with the same parameters, in the same state.

        Counters that no answer depends on are left out.
        """
        if not isinstance(other, Filter):
            return NotImplemented
        if type(self) is not type(other) or self.parameters != other.parameters:
            return False
        # One after the other: two threads that compare in opposite order never hold both locks.
        (identity, arrays), (another, others) = self._compared(), other._compared()
        return bool(
            identity == another
            and all(np.array_equal(arrays[name], others[name]) for name in arrays)
        )

    def _compared(self) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Return the parts of the state that `==` compares."""
        with self._lock:
            return self._identity(), self._state()[1]

    __hash__ = None  # type: ignore[assignment]


class CountedFilter(Filter):
    """A filter whose window is counted in insertions."""

    @property
    def _guaranteed(self) -> int | None:
        """Insertions for which every key is reported; None if the filter guarantees nothing."""
        return getattr(self, "window", None)

    def _window_text(self) -> str:
        window = self._guaranteed
        return "no window" if window is None else f"window of {window:,} insertions"

    @classmethod
    def for_window(cls, window: int, fpr: float = 0.01, **options: Unpack[Options]) -> Self:
        """Build a filter of the memory that a window and a false-positive rate need.

        Let d be the number of insertions after a key's own. With a window W, rings and
        filters that take turns (APBF, GEBF, DoubleBuffering, ...) report every key with
        d <= W, that is the last W + 1 insertions. Timing filters, dictionaries, Swamp and
        CountingBloomFilter report every key with d < W, that is the last W insertions.

        Parameters
        ----------
        window : int
            W; the class must guarantee a window.
        fpr : float
            Share of fresh keys that may be reported all the same, on average
            over a generation while the window is full of distinct keys.
        **options
            Other parameters of the constructor: `seed`, `key_bits`, ...

        Raises
        ------
        TypeError, SpecificationError
            If a parameter is not a number, or out of its range.
        """
        require_count("window", window, most=1 << 40)
        return cls._for_keys(int(window), check_rate(fpr), {}, options)

    def checked_window(self, window: int | None) -> int:
        """Return the `window` of a query as a number; None is that of the filter.

        Errors: as `require_count`, if it is less than 1, or more than that of the filter.
        """
        most: int = getattr(self, "window", 0)
        if window is None:
            return most
        require_count("window", window, most=most)
        return int(window)

    def _ask_now(self, key: Key) -> Any:
        return self.query(key)

    def insert(self, keys: Keys) -> None:
        """Insert keys one after another.

        Parameters
        ----------
        keys : int, str, bytes, iterable or array of these
            A single key, or n keys. Integers of shape (n, words) are the words
            of wide keys, the least significant first; see `hash.keys`. A tuple is refused.

        Raises
        ------
        TypeError, ValueError
            If the keys are neither integers nor text nor bytes, one is null, the shape is
            wrong, or a key does not fit into `key_bits`.
        """
        words = self._hash.check_keys(keys)
        self._insert(words)
        self._note_events(len(words), len(words))

    @one_or_all
    def query(self, keys: Keys) -> Answers:
        """Ask for keys; changes nothing, counters included.

        Parameters, errors: as `insert`. The result is an ndarray of bool, shape (n,); a
        bool for a single key.
        """
        return self._query(self._hash.check_keys(keys))

    @one_or_all
    def check_and_insert(self, keys: Keys) -> Answers:
        """Query and insert keys one after another; each answer is from before its insertion.

        Parameters, errors, result: as `query`, shape (n,).
        """
        return self._checked_and_inserted(self._hash.check_keys(keys))

    def _checked_and_inserted(self, keys: Words, *options: Any) -> Answers:
        """Check and insert keys, and count."""
        seen = self._check_and_insert(keys, *options)
        self._note_events(len(keys), len(keys), seen)
        return seen

    @one_or_all
    def age(self, keys: Keys) -> Ages:
        """Find the least age that each key can have; changes nothing.

        In units of `age_unit`: 0 for the last insertion or the current generation, -1
        for a key that is not reported.

        Parameters, errors: as `insert`. The result is an ndarray of int64, shape (n,).
        """
        return self._age(self._hash.check_keys(keys))


def _upgraded(header: dict[str, Any]) -> dict[str, Any]:
    """Bring the header of a state file of any format into the present form.

    The first format was that of the ring filters alone.
    """
    if header["format"] != FORMATS[0]:
        return header
    numbers = {"ring": header["state"], "counters": header["counters"]}
    if "secrets" in header:
        numbers["secrets"] = header["secrets"]
    spec = header["spec"]
    rings = [cls for cls in _CLASSES.values() if issubclass(cls, _CLASSES.get("SlidingFilter", ()))]
    kinds = [cls for cls in rings if cls.specification.family == spec["family"]]
    return {
        "filter": kinds[0].__name__ if kinds else "SlidingFilter",
        "parameters": {"spec": spec, "partitioned": header["partitioned"]},
        "numbers": numbers,
    }


def _stretches(codes: NDArray[np.uint8]) -> Iterator[slice]:
    """Cut operations where they change."""
    cuts = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    bounds = [0, *cuts.tolist(), len(codes)]
    for start, stop in pairwise(bounds):
        if start < stop:
            yield slice(start, stop)


def _check_array(name: str, saved: NDArray[Any], like: NDArray[Any], most: int) -> NDArray[Any]:
    if saved.shape != like.shape or saved.dtype != like.dtype:
        raise ValueError(
            f"{name}: must be {like.dtype} of shape {like.shape}, "
            f"not {saved.dtype} of shape {saved.shape}"
        )
    if saved.size and int(saved.max()) > most:
        raise ValueError(f"{name}: must be at most {most}, not {saved.max()}")
    return saved


def _least_ages(seen: Answers) -> Ages:
    return np.where(seen, 0, -1)


def require_count(name: str, value: object, *, least: int = 1, most: int | None = None) -> None:
    """Refuse a parameter that is not an integer from `least` to `most`; None is no end.

    Raises
    ------
    TypeError
        If the `value` of the parameter `name` is not an integer.
    SpecificationError
        If it is less than `least`, or more than `most`.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}: must be an integer, not {value!r}")
    if value < least:
        raise SpecificationError(f"{name}: must be at least {least}, not {value}")
    if most is not None and value > most:
        raise SpecificationError(f"{name}: must be at most {most}, not {value}")
