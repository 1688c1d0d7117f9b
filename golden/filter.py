"""The contract that all golden models share: parameters, operations, ages, state files, comparison.

A family is a class of its own below `CountedFilter` or `TimedFilter`, and has the parameters of its
`specification`.
"""

import copy
import inspect
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, TypedDict, TypeVar, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import compilation, locks
from .cached import Cached
from .errors import SpecificationError, StateFileError
from .errors import require_count as require_count
from .hash.functions import KeyHash
from .hash.keys import (
    Key,
    KeyDigest,
    Keys,
    Nulls,
    ScalarOrArray,
    check_keys,
    is_single,
    scalar_or_array,
    skipping_nulls,
)
from .hash.siphash import check_secret
from .operations import Operation, OperationBit
from .results import Ages, Results
from .sizing import check_rate
from .spec.base import DIGESTS, Specification, require_digest
from .state_files import FORMAT, StateFile, read_state, state_name, write_state
from .times import Times

Words = NDArray[np.uint64]  # checked keys, shape (n, words)

Answers = NDArray[np.bool_]  # whether each key is reported, shape (n,)

# window of all queries, or of each, shape (n,); None for the filter's window
Windows = ArrayLike | None

State = tuple[dict[str, Any], dict[str, NDArray[Any]]]  # numbers for JSON, and arrays

# arrays of integers from 0, each with its largest value, or with one for each column
Bounded = Mapping[str, tuple[NDArray[Any], int | tuple[int, ...]]]

# models that have been imported, by the family of their specification
MODELS: "dict[str, type[Filter]]" = {}

_CLASSES: "dict[str, type[Filter]]" = {}  # by name, for state files
_SINGLE = ("query", "check_and_insert", "insert", "add", "age", "__contains__")
_DIGEST = ("digest", DIGESTS[0])  # parameter of state files that name no digest
_Class = TypeVar("_Class", bound=type)


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


class CoreState(NamedTuple):
    """State of a filter as the C core lays it out, in a header too."""

    numbers: list[NDArray[np.int64]]  # one array for each record of the filter
    secrets: list[int]  # that no record holds
    arrays: dict[str, NDArray[Any]]  # as in a state file


class ReadOnly:
    """An attribute `name` that is fixed when its object has an attribute `_hash`."""

    def __init__(self, name: str) -> None:
        self._name = name

    # Without `__get__`, the value is read as fast as that of any attribute.
    def __set__(self, owner: Any, value: object) -> None:
        if "_hash" in vars(owner):
            raise AttributeError(f"{self._name}: cannot change; build a new {type(owner).__name__}")
        vars(owner)[self._name] = value


class Number:
    """Number `index` of a filter's `_numbers`, read under the lock; below 2**62 when it is set."""

    def __init__(self, index: int) -> None:
        self._index = index

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, kind: type | None = None) -> int:
        if owner is None:
            return cast(int, self)  # as a property
        with owner._lock:
            return int(owner._numbers[self._index])

    def __set__(self, owner: Any, value: int) -> None:
        if type(value) is not int or not 0 <= value < 1 << 62:
            name = self._name.replace("_", " ").strip()
            raise ValueError(f"{name}: must be an integer from 0 to 2**62 - 1, not {value!r}")
        owner._numbers[self._index] = value


def taking_single_keys(kind: _Class) -> _Class:
    """Add methods for single keys in the extension; ``_python_NAME`` are those of the class."""
    core = compilation.extension()
    for name in _SINGLE if core is not None else ():
        member = inspect.getattr_static(kind, name)
        if isinstance(member, FunctionType):
            signature = inspect.signature(member)
            bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
            shown = str(signature.replace(parameters=bare, return_annotation=signature.empty))
            text = f"{name}($self{shown.removeprefix('(self')}\n--\n\n{inspect.getdoc(member)}"
            setattr(kind, f"_python_{name}", member)
            setattr(kind, name, core.method(kind, name, text))
    return kind


def delegated(part: str, known: Any) -> Any:
    """Return a property of a filter that a `part` of it has under the same name."""
    name = known.fget.__name__
    return property(lambda self: getattr(getattr(self, part), name), doc=known.__doc__)


class Filter(locks.Base, ABC):
    """Base of all models.

    Keys have shape (n,) for `key_bits` of 64 or fewer, else (n, words), and take effect one after
    another. The window of a `CountedFilter` is a number of insertions, that of a `TimedFilter` a
    span of time, and its operations also take timestamps. The operations of this class check and
    count their arguments, and a subclass performs them. It implements either `_perform` or the
    steps `_insert`, `_query` and `_check_and_insert`, and `_age` and `_age_and_insert` if it knows
    ages. `_empty` clears the memory.

    The keyword arguments of a constructor are the fields of the class's specification. They become
    attributes of the same names. TypeError if one is missing, unknown, or of the wrong type;
    SpecificationError if it is out of its range, or breaks another rule.
    """

    specification: ClassVar[type[Specification]] = Specification
    # A filter without ages returns 0, the least possible age, for every key that it reports.
    age_unit: ClassVar[str] = "insertions"
    supported: ClassVar[tuple[Operation, ...]] = (
        Operation.NONE,
        Operation.QUERY,
        Operation.INSERT,
        Operation.CHECK_AND_INSERT,
        Operation.CLEAR,
    )

    # Public operations, for the type of a filter of unknown kind, as `load` returns it.
    insert: Callable[..., None]
    add: Callable[..., None]
    update: Callable[..., None]
    query: ScalarOrArray[..., bool, Answers]
    check_and_insert: ScalarOrArray[..., bool, Answers]
    age: ScalarOrArray[..., int, Ages]

    # What a family says about itself.
    _chooser: ClassVar[str] = "for_window(window, fpr)"
    _fixed: ClassVar[tuple[str, ...]] = ()  # read-only attributes; by default the parameters
    _unlocked: ClassVar[tuple[str, ...]] = ("save",)  # take the lock for part of their work
    _uncompared: ClassVar[tuple[str, ...]] = ()  # counters that `==` ignores
    _UNSAVED: ClassVar[tuple[str, ...]] = ()  # parameters that a state stores elsewhere
    _counts: ClassVar[dict[str, int | str | None]] = {}  # largest value, or the attribute with it
    _NUMBERS: ClassVar = 3  # length of `_numbers`: the counters, then what a family keeps there

    __signature__: ClassVar[inspect.Signature]
    seed: int  # selects the hash functions; 0 by default
    key_bits: int  # 64 by default
    digest: str
    # Operations since construction, except those that change nothing, and the keys they reported.
    operations, _inserted_keys, hits = Number(0), Number(1), Number(2)
    _numbers: NDArray[np.int64]
    _hash: KeyHash
    _lock: Any
    _digest_secret = 0

    def __new__(cls, *arguments: Any, **_: Any) -> Self:
        """Refuse positional numbers, which the constructors of other libraries accept."""
        if arguments and not isinstance(arguments[0], Specification | None):
            raise TypeError(
                f"{cls.__name__}: must have parameters by name, not {arguments[0]!r}{cls._hint()}"
            )
        compilation.warn_if_missing()
        self = super().__new__(cls)
        locks.give_lock(self)
        self._numbers = np.zeros(cls._NUMBERS, np.int64)
        return self

    def __init__(self, **parameters: Any) -> None:
        self._take(parameters)
        self._prepare()
        self._empty()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        stateless = cls._arrays is Filter._arrays and cls._state is Filter._state
        if "specification" in vars(cls) and stateless:
            raise SpecificationError(
                f"{cls.__name__} lacks _arrays, the contents of its state files"
            )
        cls._complete()
        _CLASSES[cls.__name__] = cls
        if "specification" in vars(cls):
            MODELS[cls.specification.family] = cls

    @classmethod
    def _complete(cls) -> None:
        """Give the class its locks, its signature and its read-only attributes."""
        locks.guard(cls, cls._unlocked)
        cls.__signature__ = inspect.Signature(cls._signature())
        for name in cls._fixed or [item.name for item in fields(cls.specification)]:
            if not isinstance(getattr(cls, name, None), property):
                setattr(cls, name, ReadOnly(name))

    # Parameters

    @classmethod
    def _signature(cls) -> list[inspect.Parameter]:
        """Return the parameters of the constructor: the fields of the specification."""
        parameters = {}
        for item in fields(cls.specification):
            default = inspect.Parameter.empty if "required" in item.metadata else item.default
            parameters[item.name] = inspect.Parameter(
                item.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=item.type
            )
        shared = [parameters.pop(name) for name in ("seed", "key_bits", "digest")]
        return [*parameters.values(), *shared]

    @classmethod
    def _bound(cls, parameters: dict[str, Any]) -> inspect.BoundArguments:
        try:
            return cls.__signature__.bind(**parameters)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}: {error}{cls._hint()}") from None

    @classmethod
    def _hint(cls) -> str:
        """Return the end of a message about parameters: the method that chooses them, if any."""
        chosen = any("_sizes" in vars(kind) for kind in cls.__mro__ if kind is not Filter)
        return f"; {cls.__name__}.{cls._chooser} chooses them" if chosen else ""

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        """Return parameters for a rate and a window with a number of keys."""
        raise SpecificationError(f"for_window: {cls.__name__} guarantees no window")

    @classmethod
    def _for_keys(
        cls, keys: int, fpr: float, given: dict[str, int], options: Mapping[str, Any]
    ) -> Self:
        """Build a filter for a window of `keys`; `given` has the window if it is a parameter."""
        cls.__signature__.bind_partial(**options)
        try:
            sizes = {**cls._sizes(keys, fpr), **given}
            return cls(**sizes, **{"digest": DIGESTS[1], **options})
        except OverflowError:
            pass
        except SpecificationError as error:
            field = str(error).partition(":")[0]
            chosen = {*cls.specification.field_names()} - given.keys() - options.keys() - {"window"}
            # An error in another field may be caused by an option.
            if field not in chosen or options.keys() - {"seed", "key_bits"}:
                raise
        raise SpecificationError(
            f"window: must have fewer keys, or fpr must be larger, for a {cls.__name__}, "
            f"not {keys} keys at {fpr}"
        )

    def _take(self, parameters: dict[str, Any]) -> None:
        bound = self._bound(parameters)
        bound.apply_defaults()
        for item in fields(self.specification):
            name, value = item.name, bound.arguments[item.name]
            derived = value is None and item.default is None and "required" not in item.metadata
            if "range" in item.metadata and not derived:
                low, high = item.metadata["range"]
                require_count(name, value, low=low, high=high)
                value = int(value)
            # A property of this name reads the private attribute.
            kept = isinstance(getattr(type(self), name, None), property)
            setattr(self, f"_{name}" if kept else name, value)
        require_digest(self.digest)

    def _prepare(self) -> None:
        """Check parameters together, derive those that are None, and make the hash functions."""

    def _make_hash(self, sizes: Sequence[int], functions: int = 1) -> None:
        """Make the hash functions, each with an index in ``range(size)`` for each of `sizes`."""
        self._hash = KeyHash(
            key_bits=self.key_bits, sizes=sizes, functions=functions, seed=self.seed
        )

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

    @property
    def spec(self) -> Specification:
        """Specification of the filter; `from_spec` builds an empty filter from it."""
        return self.specification(**self.parameters)

    @property
    def storage_bits(self) -> int:
        """Bits of the filter, counted as its paper counts them."""
        spec: Any = self.spec
        return int(spec.storage_bits)

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

    # Keys

    @Cached
    def _key_digest(self) -> KeyDigest:
        return KeyDigest(self.key_bits, self.digest, self.seed, self._digest_secret)

    def _digest_under(self, secret: int) -> None:
        """Key the digest of text with the first `secret`, if the digest takes a key."""
        self._digest_secret = check_secret(secret) if self.digest == "siphash" else 0
        vars(self).pop("_key_digest", None)
        if self._engine is not None:
            self._lend_digest()

    def _lend_digest(self) -> None:
        """Let the extension have the digest of text, for single keys; it calls this."""
        self._engine.digest_by(self._key_digest.keys)

    def _words(self, keys: Keys) -> Words:
        return check_keys(keys, self._key_digest)

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

    def key_words(self, keys: Keys) -> Words:
        """Return the words of keys in this filter; text becomes its digest.

        Parameters, errors: as `insert`. The result is an ndarray of uint64, shape (n,) for
        `key_bits` of 64 or fewer, else (n, words). The filter takes it in place of the keys.
        """
        words = self._words(keys)
        return words[:, 0] if words.shape[1] == 1 else words

    # Operations

    def perform(
        self,
        operations: ArrayLike,
        keys: Keys,
        times: ArrayLike | None = None,
        windows: ArrayLike | None = None,
    ) -> Results:
        """Perform a mixed sequence of operations, one after another.

        `operations` are values of `Operation`, and `keys` has one for each, as for `insert`.
        `times`, shape (n,), are given if the window is a span of time, and never decrease.
        `windows`, shape (n,) or (), are of queries, in filters that accept one; with a table of
        thresholds they are classes, 0 by default.

        TypeError or ValueError if the operations are not integers, the lengths differ, a value is
        not an `Operation` that the filter has, or times or windows are not as required. Nothing is
        performed then.
        """
        words = self._words(keys)
        moments = self._checked_times(times, len(words))
        codes = self._checked_operations(operations, len(words))
        asked = self._checked_windows(windows, len(words))
        results = self._perform(codes, words, moments, asked)
        inserts = (codes & (OperationBit.INSERT | OperationBit.ALONE)) == OperationBit.INSERT
        self._note_events(len(codes), int(np.count_nonzero(inserts)), results.seen)
        return results

    def look_up(
        self, keys: Keys, times: ArrayLike | None = None, windows: ArrayLike | None = None
    ) -> Results:
        """Return the results of queries, as `perform`, shape (n,); changes nothing at all."""
        words = self._words(keys)
        moments = self._checked_times(times, len(words))
        asked = self._checked_windows(windows, len(words))
        return self._performed(Operation.QUERY, words, moments, asked)

    def clear(self) -> None:
        """Forget all keys, as the operation CLEAR does. A waiting secret takes effect."""
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
        return {}

    def _note_events(
        self, operations: int, insertions: int = 0, seen: Answers | None = None
    ) -> None:
        hits = 0 if seen is None else int(np.count_nonzero(seen))
        self._numbers[:3] += operations, insertions, hits

    def _checked_times(self, times: ArrayLike | None, count: int) -> Times | None:
        """Return the times of operations; None if the window is not a span of time."""
        if times is not None:
            raise ValueError(f"times: {type(self).__name__} counts insertions")
        return None

    def _checked_windows(self, windows: ArrayLike | None, count: int) -> "NDArray[np.int64] | None":
        """Return the windows of queries; None if the filter answers for one window only."""
        if windows is not None:
            raise ValueError(f"windows: {type(self).__name__} has one window")
        return None

    @abstractmethod
    def _empty(self) -> None:
        """Clear the memory, and put the waiting secret into effect."""

    def _perform(
        self,
        codes: NDArray[np.uint8],
        keys: Words,
        times: Times | None,
        windows: "NDArray[np.int64] | None",
    ) -> Results:
        """Perform checked operations: here one run of equal operations after another."""
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
        return self._perform(np.full(len(keys), operation, np.uint8), keys, times, windows)

    def _one_operation(self, operation: Operation, keys: Words, *operands: Any) -> Answers:
        """Perform the same operation on all keys, and return whether each is reported."""
        return self._performed(operation, keys, *operands).seen

    def _insert(self, *operands: Any, **options: Any) -> Any:
        """Insert checked keys, with their timestamps if the filter is timed."""
        self._one_operation(Operation.INSERT, *operands)

    def _query(self, *operands: Any, **options: Any) -> Answers:
        """Answer for checked keys; changes nothing."""
        return self._one_operation(Operation.QUERY, *operands)

    def _check_and_insert(self, *operands: Any, **options: Any) -> Answers:
        """Answer for each checked key, then insert it."""
        return self._one_operation(Operation.CHECK_AND_INSERT, *operands)

    def _checked_and_inserted(self, keys: Words, *operands: Any, refresh: bool = True) -> Answers:
        """Check and insert keys, and count them; without `refresh`, insert only new keys."""
        step = self._check_and_insert if refresh else self._check_and_insert_new
        seen = step(keys, *operands)
        hits = int(np.count_nonzero(seen))
        self._note_events(len(keys), len(keys) if refresh else len(keys) - hits, seen)
        return seen

    def _check_and_insert_new(self, keys: Words, *operands: Any) -> Answers:
        """Answer for each checked key, then insert it unless it is reported."""
        seen = np.empty(len(keys), np.bool_)
        if self._engine is not None and all(part is None for part in operands):
            self._engine.check_and_insert_new(np.ascontiguousarray(keys), seen)
            return seen
        for at in range(len(keys)):
            part = slice(at, at + 1)
            cut = [each[part] if isinstance(each, np.ndarray) else each for each in operands]
            seen[at] = self._query(keys[part], *cut)[0]
            if not seen[at]:
                self._check_and_insert(keys[part], *cut)
        return seen

    def _age(self, *operands: Any, **options: Any) -> Ages:
        """Return ages of checked keys; changes nothing."""
        return _min_ages(self._query(*operands))

    def _age_and_insert(self, *operands: Any, **options: Any) -> Ages:
        """Return the age of each checked key, then insert it."""
        return _min_ages(self._check_and_insert(*operands))

    def _checked_operations(self, operations: ArrayLike, count: int) -> NDArray[np.uint8]:
        codes = np.asarray(operations)
        if codes.shape != (count,):
            raise ValueError(
                f"operations: must have shape ({count},) like the keys, not {codes.shape}"
            )
        if len(codes) and codes.dtype.kind not in "ui":
            raise TypeError(f"operations: must be integers, not {codes.dtype}")
        checked = codes.astype(np.uint8)
        possible = self._possible[checked] & (checked == codes)
        if possible.all():
            return checked
        known = np.isin(codes, list(Operation))
        if not known.all():
            raise ValueError(f"operations: must be values of Operation, not {codes[~known][0]}")
        name = Operation(int(codes[~possible][0])).name
        raise ValueError(f"operations: {type(self).__name__} has no {name}")

    @Cached
    def _possible(self) -> NDArray[np.bool_]:
        """Whether each code of 8 bits is an operation of the filter; faster than `np.isin`."""
        possible = np.zeros(256, np.bool_)
        possible[list(self.supported)] = True
        return possible

    # Memory and rates

    @property
    @abstractmethod
    def memory(self) -> NDArray[Any]:
        """Copy of the memory contents; its shape depends on the family."""

    @property
    def nbytes(self) -> int:
        """Bytes of the contents in this process, without the tables of the hash functions."""
        return sum(array.nbytes for array, _ in self._arrays().values())

    @property
    def window(self) -> int | None:
        """Window W: a key is reported for all d < W; None if the filter guarantees no window.

        d is the number of insertions after the key's own or, for a window in time, the age of the
        key.
        """
        return None

    @property
    def fpr(self) -> float | None:
        """Expected share of fresh keys that are reported while the window is full of distinct keys.

        If the rate changes from insertion to insertion, it is the mean; None if it is unknown.
        """
        return None

    @property
    def fill(self) -> float:
        """Share of the memory in use now, 0 to 1: set bits, or cells that are not 0.

        In a memory above about 1 MiB, only evenly spaced parts are counted, with a standard error
        below 0.0015.
        """
        return float(np.mean(self.memory != 0))

    def fill_ratios(self, *now: Any, **window: Any) -> NDArray[np.float64]:
        """Used share of each part of the memory, shape (parts,); by default one part."""
        return np.array([self.fill])

    def estimated_false_positive_rate(self, *now: Any, **window: Any) -> float:
        """Probability that a fresh key is reported; by default `fpr`."""
        return self.fpr or 0.0

    def differing_cells(self, memory: NDArray[Any]) -> int:
        """Return the number of bits or cells in which the hardware's `memory` differs."""
        return int((memory != self.memory).sum())

    # As an object of Python

    def __repr__(self) -> str:
        rate = self.fpr
        return (
            f"<{type(self).__name__}: {self._window_text()}, "
            f"{'' if rate is None else f'false-positive rate {rate:.3g}, '}"
            f"{self.nbytes / 1024:,.1f} KiB held, {self.fill:.0%} filled>"
        )

    @abstractmethod
    def _window_text(self) -> str:
        """Describe the window in words, with its unit."""

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

    def __eq__(self, other: object) -> bool:
        """Whether kind, parameters and state are equal, without counters that no answer needs."""
        if not isinstance(other, Filter):
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
        with self._lock:
            arrays = {name: array.copy() for name, array in self._state()[1].items()}
            return (self._identity(), self._digest_secret), arrays

    def _identity(self) -> Any:
        """Return the numbers of the state on which answers depend."""
        return {
            name: value for name, value in self._state()[0].items() if name not in self._uncompared
        }

    __hash__ = None  # type: ignore[assignment]

    # State

    def _arrays(self) -> Bounded:
        """Return the arrays of the memory, with their largest values."""
        return {}

    def _hold(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Let checked arrays, of the kinds of `_arrays`, be the memory."""
        for name, (array, _) in self._arrays().items():
            array[:] = arrays[name]

    def _state(self) -> State:
        """Return the part of the filter that changes, counters excluded."""
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
                require_count(name, value, low=0)
            self.operations, self.hits = events["operations"], events["hits"]
            self._inserted_keys = events["insertions"]

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Take the result of `_state`; KeyError, TypeError or ValueError if it does not fit."""
        for name, limit in self._counts.items():
            value, high = numbers[name], getattr(self, limit) if isinstance(limit, str) else limit
            if type(value) is not int or value < 0 or (high is not None and value > high):
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
            for part, top in zip(saved.T if several else (saved,), tops, strict=True):
                if part.size and part.max() > top:
                    raise ValueError(f"{name}: must be at most {top}, not {part.max()}")
                if part.size and part.min() < 0:
                    raise ValueError(f"{name}: must be at least 0, not {part.min()}")
        # A map and the arrays of a file become the memory; others, which users may hold, do not.
        names = self._arrays()
        self._hold({name: np.require(arrays[name], None, ["C", "A", "W"]) for name in names})

    def _records(self) -> list[NDArray[np.int64]]:
        """Return the arrays of numbers that the C core changes, in its order."""
        return [self._numbers]

    def _other_secrets(self) -> list[int]:
        """Return the secrets that no record holds, in the order of the C core."""
        return [self._digest_secret] if self.digest == "siphash" and self._private else []

    def core_state(self) -> CoreState:
        """Return a copy of the state as the C core lays it out, with the secrets."""
        arrays = {name: array.copy() for name, array in self._saved()[1].items()}
        records = [record.copy() for record in self._records()]
        return CoreState(records, self._other_secrets(), arrays)

    def take_core_state(self, state: CoreState) -> None:
        """Take the result of `core_state`; TypeError or ValueError if it does not fit."""
        scratch = type(self).from_spec(self.spec)
        for record, numbers in zip(scratch._records(), state.numbers, strict=True):
            record[:] = numbers
        further = scratch._numbers_of_secrets(state.secrets)
        self._take_saved(scratch._saved()[0] | further, state.arrays)

    def _numbers_of_secrets(self, secrets: list[int]) -> dict[str, Any]:
        """Return the numbers of a state that `_other_secrets` sets."""
        keyed = self.digest == "siphash" and self._private
        return {"digest_secret": secrets[-1]} if keyed else {}

    # Files

    @classmethod
    def _specified(cls, parameters: dict[str, Any]) -> Specification:
        """Return the specification in the result of `parameters`."""
        names = {item.name for item in fields(cls.specification)}
        return cls.specification(**{n: v for n, v in dict(parameters).items() if n in names})

    @classmethod
    def _build(cls, parameters: dict[str, Any]) -> Self:
        return cls(**parameters)

    @property
    def _private(self) -> bool:
        """Whether the state holds a secret."""
        return False

    def save(self, file: StateFile, *, secrets: bool = False) -> None:
        """Write the whole state to a path or binary file, in npz format.

        A file at a path appears complete or not at all: it is written beside the path, forced to
        disk and renamed. The state of a filter with the hash "siphash" is useless without its
        secrets, so you must allow `secrets`. The file holds them unencrypted: a reader of the file
        can choose keys that collide. A file with secrets at a path is readable only by its owner.

        ValueError if the filter has secrets and `secrets` is False; OSError if the file cannot be
        written.
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
                "secrets: the state holds the secrets of the hash siphash; secrets=True writes them"
            )
        numbers, arrays = self._saved()
        values = {"parameters": self.parameters, "numbers": numbers}
        return {"format": FORMAT, "filter": type(self).__name__, **values}, arrays

    @classmethod
    def load(
        cls, file: StateFile, *, clock: Callable[[], int] | None = None, mmap: bool = False
    ) -> Self:
        """Read a state that `save` wrote, from a path, or from an open file to its end.

        The class of the filter must have been imported; `lately.load` imports all, and opens a
        filter of any class. A ring class also opens what its `for_span` returned. A `TimedFilter`
        gets the `clock`, or a `SteadyClock` if the saved filter had one. With `mmap`, a file at a
        path is mapped instead of read: insertions then change pages in memory, never the file,
        which may be replaced, but not changed in place.

        TypeError if a filter that counts insertions is given a clock, or `mmap` an open file;
        StateFileError if the file is not a state file, is damaged, or holds another filter; OSError
        if it cannot be read.
        """
        name, (header, arrays) = state_name(file), read_state(file, mapped=mmap)
        try:
            owner = _CLASSES.get(header["filter"])
            if owner is None or not cls._loads(owner, header["parameters"]):
                actual = header["filter"] + ("" if owner else ", which is not imported")
                raise StateFileError(
                    f"{name}: expected the state of {cls.__name__}, found {actual}"
                )
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
    def _loads(cls, kind: "type[Filter]", parameters: dict[str, Any]) -> bool:
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


Filter._complete()


def _rebuild(cls: Any, parameters: Any, numbers: Any, arrays: Any) -> Any:
    self = cls._build(parameters)
    # The arrays of a pickle may be views of a buffer that belongs to others.
    owned = {name: np.require(array, None, "O") for name, array in arrays.items()}
    self._take_saved(numbers, owned)
    return self


@taking_single_keys
class CountedFilter(Filter):
    """A filter whose window is counted in insertions."""

    window: int | None = None

    def _window_text(self) -> str:
        return "no window" if self.window is None else f"window of {self.window:,} insertions"

    @classmethod
    def for_window(cls, window: int, fpr: float = 0.01, **options: Unpack[Options]) -> Self:
        """Build a filter sized for a window and a false-positive rate.

        Let d be the number of insertions after a key's own. Filters of every family report the key
        for all d < W: the key is among the last W insertions. Rings and double-buffered filters
        (APBF, GEBF, DoubleBuffering, ...) also report it for d = W.

        All families are sized by one rule: the expected rate of fresh keys is at most `fpr`,
        averaged over the insertions of a generation or block, while the window is full of distinct
        keys. The attribute `fpr` is this average. It is below the given rate if a size is rounded
        to a power of two or to a whole number of hash functions. TypeError or SpecificationError if
        a parameter is not a number, or out of its range.
        """
        require_count("window", window, high=1 << 40)
        return cls._for_keys(int(window), check_rate(fpr), {}, options)

    def checked_window(self, window: int | None) -> int:
        """Return the `window` of a query as a number; None selects the filter's window."""
        high = self.window or 0
        if window is None:
            return high
        require_count("window", window, high=high)
        return int(window)

    def _ask_now(self, key: Key) -> Any:
        return self.query(key)

    @skipping_nulls
    def insert(self, keys: Keys, *, nulls: Nulls = "refuse") -> None:
        """Insert keys one after another.

        The `keys` are a single key, or n keys in an iterable or an array. Integers of shape (n,
        words) are the words of wide keys, the least significant first. A tuple is one key; see
        `hash.keys`. With `nulls` "skip", a null is not inserted, nor a key of several columns with
        a null, and methods that answer give False or -1 for it.

        TypeError or ValueError if the keys are neither integers nor text nor bytes, one is null,
        the shape is wrong, or a key does not fit into `key_bits`.
        """
        words = self._words(keys)
        self._insert(words)
        self._note_events(len(words), len(words))

    def add(self, key: Key) -> None:
        """Insert a single key, as `set.add`; TypeError for several keys, else as `insert`."""
        self.insert(self._only_one("add", key))

    def update(self, *several: Iterable[Key] | ArrayLike) -> None:
        """Insert all keys of iterables or arrays, as `set.update`; errors as `insert`.

        TypeError for a single key, text included, after the keys before it.
        """
        for keys in several:
            self.insert(self._no_single("update", keys))

    @scalar_or_array
    def query(self, keys: Keys, *, nulls: Nulls = "refuse") -> Answers:
        """Report whether each key is in the filter; changes nothing, counters included.

        Parameters, errors: as `insert`. The result is an ndarray of bool, shape (n,); a bool for a
        single key.
        """
        return self._query(self._words(keys))

    @scalar_or_array
    def check_and_insert(
        self, keys: Keys, *, refresh: bool = True, nulls: Nulls = "refuse"
    ) -> Answers:
        """Query and insert keys one after another; each answer precedes its insertion.

        A key passes if it is not reported. With either policy, two passes of a key are at least a
        window of insertions apart.

        - With `refresh`, every key is inserted. A key that keeps repeating within the window is
          always reported.
        - Without `refresh`, a reported key is not inserted, and does not count in any window. The
          window of a key begins when the key passes. A key that keeps repeating passes again after
          the window, and at the latest after the window and the filter's slack. A false positive is
          not inserted, so the next copy of its key may pass.

        Parameters, errors, result: as `query`, shape (n,).
        """
        return self._checked_and_inserted(self._words(keys), refresh=refresh)

    @scalar_or_array
    def age(self, keys: Keys, *, nulls: Nulls = "refuse") -> Ages:
        """Return the least possible age of each key; changes nothing.

        Ages are in units of `age_unit`: 0 for the last insertion or the current generation, -1 for
        a key that is not reported. Parameters, errors: as `insert`. The result is an ndarray of
        int64, shape (n,).
        """
        return self._age(self._words(keys))

    def _asked_windows(self, windows: Windows, count: int) -> "NDArray[np.int64] | None":
        """Return the windows of queries, shape (count,); None for the filter's window."""
        return None if windows is None else self._each_window(windows, count)

    def _each_window(self, windows: Windows, count: int) -> NDArray[np.int64]:
        if windows is None or np.ndim(windows) == 0:
            asked: Any = windows
            return np.full(count, self.checked_window(asked))
        array = np.asarray(windows)
        if array.shape != (count,):
            raise ValueError(f"window: must have shape ({count},), one per key, not {array.shape}")
        for value in (array.min(), array.max()) if count else ():
            require_count("window", value, high=self.window)
        return array.astype(np.int64)


# Methods of filters whose queries may each have a window of their own


@scalar_or_array
def query_in_window(
    self: CountedFilter, keys: Keys, window: Windows = None, *, nulls: Nulls = "refuse"
) -> Answers:
    """Report whether each key is among the last `window` insertions; changes nothing.

    The `window` is one number, or one for each key with shape (n,), from 1 to the filter's window,
    which is the default. If the filter has blocks, a key is reported until its whole block has left
    the window; `PartitionedTimingFilter` first rounds the window up to a multiple of its `block`.
    Parameters, errors: as `insert` and `checked_window`. Result: ndarray of bool, shape (n,).
    """
    words = self._words(keys)
    return self._query(words, self._asked_windows(window, len(words)))


@scalar_or_array
def check_and_insert_in_window(
    self: CountedFilter,
    keys: Keys,
    window: Windows = None,
    *,
    refresh: bool = True,
    nulls: Nulls = "refuse",
) -> Answers:
    """Query and insert keys, shape (n,); `window` as `query`, the rest as `CountedFilter`."""
    words = self._words(keys)
    asked = self._asked_windows(window, len(words))
    return self._checked_and_inserted(words, asked, refresh=refresh)


def _stretches(codes: NDArray[np.uint8]) -> Iterator[slice]:
    cuts = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    bounds = [0, *cuts.tolist(), len(codes)]
    for start, stop in pairwise(bounds):
        if start < stop:
            yield slice(start, stop)


def _min_ages(seen: Answers) -> Ages:
    return np.where(seen, 0, -1)
