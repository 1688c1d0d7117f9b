"""The interface of all golden models: parameters, operations, ages, state files, comparison.

A family is a subclass of `CountedFilter` or `TimedFilter` with a `specification`, whose fields are
the constructor's parameters.
"""

import copy
import inspect
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from itertools import pairwise
from operator import attrgetter
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, TypedDict, TypeVar, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import compilation, locks
from .cached import Cached, Element
from .errors import SpecificationError, StateFileError
from .errors import require as require
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
from .results import Ages, Codes, Results
from .results import Answers as Answers
from .results import Words as Words
from .sizing import check_rate
from .spec.base import DIGESTS, Specification, require_digest
from .state_files import FORMAT, StateFile, read_state, state_name, write_state
from .times import Times

# one window for all queries, or one for each, shape (n,); None for the filter's window
Windows = ArrayLike | None
State = tuple[dict[str, Any], dict[str, NDArray[Any]]]  # numbers for JSON, arrays
# arrays of integers from 0, each with its maximum, or with a maximum for each column
Bounded = Mapping[str, tuple[NDArray[Any], int | tuple[int, ...]]]
MODELS: "dict[str, type[Filter]]" = {}  # imported models, by family
_CLASSES: "dict[str, type[Filter]]" = {}  # classes by name, for state files
_SINGLE = ("query", "check_and_insert", "insert", "add", "age", "__contains__")
_DIGEST = ("digest", DIGESTS[0])  # default for state files without a digest
_Class = TypeVar("_Class", bound=type)


class Options(TypedDict, total=False):
    """Keyword arguments that `for_window` passes on to the constructor."""

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
    """State of a filter in the layout of the C core and of exported headers."""

    numbers: list[NDArray[np.int64]]  # the records that the C core modifies
    secrets: list[int]  # secrets outside the records
    arrays: dict[str, NDArray[Any]]  # arrays of a state file


class ReadOnly:
    """Attribute `name` that becomes read-only once its object has an attribute `_hash`."""

    def __init__(self, name: str) -> None:
        self._name = name

    # Without `__get__`, reading is as fast as for an ordinary attribute.
    def __set__(self, owner: Any, value: object) -> None:
        if "_hash" in vars(owner):
            raise AttributeError(f"{self._name}: cannot change; build a new {type(owner).__name__}")
        vars(owner)[self._name] = value


class Number(Element):
    """Element of `_numbers` that is read under the lock; only values below 2**62 can be set."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, kind: type | None = None) -> int:
        if owner is None:
            return cast(int, self)  # the descriptor itself, like a property
        with owner._lock:
            return super().__get__(owner)

    def __set__(self, owner: Any, value: int) -> None:
        if type(value) is not int or not 0 <= value < 1 << 62:
            name = self._name.replace("_", " ").strip()
            raise ValueError(f"{name}: must be an integer from 0 to 2**62 - 1, not {value!r}")
        super().__set__(owner, value)


def taking_single_keys(kind: _Class) -> _Class:
    """Use the extension's methods for single keys; the Python methods become ``_python_NAME``."""
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


def delegated(path: str, doc: str | None) -> Any:
    """Make a property that reads an attribute at a dotted path, such as "_ring.fill"."""
    return property(attrgetter(path), doc=doc)


class Filter(locks.Base, ABC):
    """Base of all models.

    Keys have shape (n,) for `key_bits` of 64 or fewer, else (n, words), and take effect one after
    another. The window of a `CountedFilter` is a number of insertions; the window of a
    `TimedFilter` is a span of time, and its operations take timestamps. The operations of this
    class check and count their arguments, and a subclass performs them: it implements `_perform`,
    or `_insert`, `_query` and `_check_and_insert`, and for ages `_age` and `_age_and_insert`.

    The constructor takes the fields of the class's specification as keyword arguments, which become
    attributes. It raises TypeError if an argument is missing, unknown, or of the wrong type, and
    SpecificationError if an argument is out of range or breaks another rule.
    """

    specification: ClassVar[type[Specification]] = Specification
    # A filter that does not support ages returns 0, the minimum age, for every reported key.
    age_unit: ClassVar[str] = "insertions"
    supported: ClassVar[tuple[Operation, ...]] = (
        Operation.NONE,
        Operation.QUERY,
        Operation.INSERT,
        Operation.CHECK_AND_INSERT,
        Operation.CLEAR,
    )

    # Types of the public operations, for a filter of unknown class, such as `load` returns.
    insert: Callable[..., None]
    add: Callable[..., None]
    update: Callable[..., None]
    query: ScalarOrArray[..., bool, Answers]
    check_and_insert: ScalarOrArray[..., bool, Answers]
    age: ScalarOrArray[..., int, Ages]

    # Class attributes that a family sets.
    _chooser: ClassVar[str] = "for_window(window, fpr)"
    _fixed: ClassVar[tuple[str, ...]] = ()  # read-only attributes; by default the parameters
    _unlocked: ClassVar[tuple[str, ...]] = ("save",)  # methods that lock only briefly
    _uncompared: ClassVar[tuple[str, ...]] = ()  # counters that `==` ignores
    _extras: ClassVar[dict[str, Any]] = {}  # parameters beside the specification, with defaults
    _UNSAVED: ClassVar[tuple[str, ...]] = ()  # parameters stored elsewhere in a file
    _counts: ClassVar[dict[str, int | str | None]] = {}  # maximum of a number
    _NUMBERS: ClassVar = 3  # length of `_numbers`: counters first, then numbers of the family

    __signature__: ClassVar[inspect.Signature]
    seed: int  # selects the hash functions; 0 by default
    key_bits: int  # 64 by default
    digest: str
    # Counters since construction; calls that change nothing do not count as operations.
    operations, _inserted_keys, hits = Number(0), Number(1), Number(2)
    _numbers: NDArray[np.int64]
    _hash: KeyHash
    _lock: Any
    _digest_secret = 0

    def __new__(cls, *arguments: Any, **_: Any) -> Self:
        """Reject positional arguments, which the constructors of other libraries accept."""
        if arguments and not isinstance(arguments[0], Specification | None):
            raise TypeError(
                f"{cls.__name__}: parameters must be named, not {arguments[0]!r}{cls._hint()}"
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
        if "specification" in vars(cls):
            if cls._arrays is Filter._arrays and cls._state is Filter._state:
                reason = "lacks _arrays, the contents of its state files"
                raise SpecificationError(f"{cls.__name__} {reason}")
            MODELS[cls.specification.family] = cls
        cls._complete()
        _CLASSES[cls.__name__] = cls

    @classmethod
    def _complete(cls) -> None:
        locks.guard(cls, cls._unlocked)
        cls.__signature__ = inspect.Signature(cls._signature())
        for name in cls._fixed or [item.name for item in fields(cls.specification)]:
            if not isinstance(getattr(cls, name, None), property):
                setattr(cls, name, ReadOnly(name))

    @classmethod
    def _signature(cls) -> list[inspect.Parameter]:
        named = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
        items = {item.name: item for item in fields(cls.specification)}
        shared = [items.pop(name) for name in ("seed", "key_bits", "digest")]
        parameters = []
        for item in (*items.values(), *shared):
            default = inspect.Parameter.empty if "required" in item.metadata else item.default
            parameters.append(named(item.name, default=default, annotation=item.type))
        return parameters + [named(name, default=value) for name, value in cls._extras.items()]

    @classmethod
    def _bound(cls, parameters: dict[str, Any]) -> inspect.BoundArguments:
        try:
            return cls.__signature__.bind(**parameters)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}: {error}{cls._hint()}") from None

    @classmethod
    def _hint(cls) -> str:
        """End of an error message: the method that chooses parameters, if the class has one."""
        chosen = any("_sizes" in vars(kind) for kind in cls.__mro__ if kind is not Filter)
        return f"; {cls.__name__}.{cls._chooser} chooses them" if chosen else ""

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        raise SpecificationError(f"for_window: {cls.__name__} guarantees no window")

    @classmethod
    def _for_keys(
        cls, keys: int, fpr: float, given: dict[str, int], options: Mapping[str, Any]
    ) -> Self:
        cls.__signature__.bind_partial(**options)
        try:
            sizes = {**cls._sizes(keys, fpr), **given}
            return cls(**sizes, **{"digest": DIGESTS[1], **options})
        except OverflowError:
            pass
        except SpecificationError as error:
            field = str(error).partition(":")[0]
            chosen = {*cls.specification.field_names()} - given.keys() - options.keys() - {"window"}
            # If the field was not chosen, or options were given, the error is the caller's.
            if field not in chosen or options.keys() - {"seed", "key_bits"}:
                raise
        raise SpecificationError(
            f"window: {keys} keys at fpr {fpr} are too many for a {cls.__name__}; "
            "reduce the window or increase fpr"
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
            # A property with the public name reads the private attribute.
            kept = isinstance(getattr(type(self), name, None), property)
            setattr(self, f"_{name}" if kept else name, value)
        require_digest(self.digest)

    def _prepare(self) -> None:
        """Check the parameters together, derive those that are None, and build the hashes."""

    def _make_hash(self, sizes: Sequence[int], functions: int = 1) -> None:
        self._hash = KeyHash(
            key_bits=self.key_bits, sizes=sizes, functions=functions, seed=self.seed
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """Constructor arguments stored in a state file; BLAKE2b, the default digest, is omitted."""
        names = [name for name in self.__signature__.parameters if name not in self._UNSAVED]
        values = [(name, getattr(self, name)) for name in names]
        return {item[0]: item[1] for item in values if item[1] is not None and item != _DIGEST}

    @property
    def spec(self) -> Specification:
        """Specification of the filter; `from_spec` builds an empty filter from it."""
        return self.specification(**self.parameters)

    @property
    def storage_bits(self) -> int:
        """Size of the filter in bits, counted as in its paper."""
        spec: Any = self.spec
        return int(spec.storage_bits)

    @classmethod
    def from_spec(cls, spec: Specification) -> Self:
        """Build a filter from a specification of its family; errors are those of `Filter`."""
        cls._check_family(spec)
        values = spec.to_dict()
        del values["family"]
        return cls(**values)

    @classmethod
    def _check_family(cls, spec: Specification) -> None:
        family = cls.specification.family
        if not isinstance(spec, Specification):
            raise TypeError(f"spec: must be a specification, not {spec!r}")
        rule = f"must be {family} for {cls.__name__}"
        require(spec.family == family, "family", rule, spec.family)

    def _checked_secret(self, secret: int) -> int:
        if not self._private:
            chosen = getattr(self.spec, "hash", "h3")
            raise SpecificationError(f"secret: must not be given for hash {chosen!r}")
        return check_secret(secret)

    @Cached
    def _key_digest(self) -> KeyDigest:
        return KeyDigest(self.key_bits, self.digest, self.seed, self._digest_secret)

    def _digest_under(self, secret: int) -> None:
        """Use the filter's first `secret` as the key of a keyed digest."""
        self._digest_secret = check_secret(secret) if self.digest == "siphash" else 0
        vars(self).pop("_key_digest", None)
        if self._engine is not None:
            self._lend_digest()

    def _lend_digest(self) -> None:
        """Pass the digest of text to the extension, which calls this method for single keys."""
        self._engine.digest_by(self._key_digest.keys)

    def _words(self, keys: Keys) -> Words:
        return check_keys(keys, self._key_digest)

    def _only_one(self, name: str, key: Any) -> Any:
        if not is_single(key):
            raise TypeError(f"{name}: must be given a single key, not {type(key).__name__}")
        return key

    def _no_single(self, name: str, keys: Any) -> Any:
        if is_single(keys):
            raise TypeError(f"{name}: must be given an iterable of keys, not {type(keys).__name__}")
        return keys

    def key_words(self, keys: Keys) -> Words:
        """Convert keys to the 64-bit words that the filter hashes, text to its digest.

        Parameters and errors are those of `insert`. The result is an ndarray of uint64, shape (n,)
        for `key_bits` of 64 or fewer, else (n, words). Operations also accept these words as keys.
        """
        words = self._words(keys)
        return words[:, 0] if words.shape[1] == 1 else words

    def perform(
        self,
        operations: ArrayLike,
        keys: Keys,
        times: ArrayLike | None = None,
        windows: ArrayLike | None = None,
    ) -> Results:
        """Perform a sequence of different operations, one after another.

        `operations` are values of `Operation`, and `keys` has a key for each operation, in any form
        that `insert` accepts. A timed filter needs `times`, shape (n,), which must not decrease.
        Filters that support query windows accept `windows`, shape (n,) or (); filters with a table
        of thresholds accept classes instead, 0 by default.

        TypeError or ValueError if the operations are not integers, the lengths differ, the filter
        does not support an operation, or times or windows are invalid. After an error, nothing has
        been performed.
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
        """Query keys like `perform`, but without counting the operations; arrays of shape (n,)."""
        words = self._words(keys)
        moments = self._checked_times(times, len(words))
        asked = self._checked_windows(windows, len(words))
        return self._performed(Operation.QUERY, words, moments, asked)

    def clear(self) -> None:
        """Forget all keys, like the CLEAR operation. A secret loaded by `rekey` takes effect."""
        self._empty()
        self._note_events(1)

    @property
    def counters(self) -> dict[str, int]:
        """Event counters since construction, by name; the hardware has the same counters."""
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
        if times is not None:
            raise ValueError(f"times: {type(self).__name__} counts insertions and takes no times")
        return None

    def _checked_windows(self, windows: ArrayLike | None, count: int) -> Ages | None:
        if windows is not None:
            raise ValueError(f"windows: {type(self).__name__} supports only one window")
        return None

    @abstractmethod
    def _empty(self) -> None: ...

    def _perform(
        self, codes: Codes, keys: Words, times: Times | None, windows: Ages | None
    ) -> Results:
        """Perform checked operations, by default with one call for each run of equal operations."""
        age = np.full(len(codes), -1, np.int64)
        starts = np.flatnonzero(np.diff(codes, prepend=255))
        for start, stop in pairwise([*starts.tolist(), len(codes)]):
            part = slice(start, stop)
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
        return self._performed(operation, keys, *operands).seen

    def _insert(self, *operands: Any, **options: Any) -> Any:
        self._one_operation(Operation.INSERT, *operands)

    def _query(self, *operands: Any, **options: Any) -> Answers:
        return self._one_operation(Operation.QUERY, *operands)

    def _check_and_insert(self, *operands: Any, **options: Any) -> Answers:
        return self._one_operation(Operation.CHECK_AND_INSERT, *operands)

    def _checked_and_inserted(self, keys: Words, *operands: Any, refresh: bool = True) -> Answers:
        """Query, insert and count keys; the answers are from before the insertions."""
        step = self._check_and_insert if refresh else self._check_and_insert_new
        seen = step(keys, *operands)
        hits = int(np.count_nonzero(seen))
        self._note_events(len(keys), len(keys) if refresh else len(keys) - hits, seen)
        return seen

    def _check_and_insert_new(self, keys: Words, *operands: Any) -> Answers:
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
        return np.where(self._query(*operands), 0, -1)

    def _age_and_insert(self, *operands: Any, **options: Any) -> Ages:
        return np.where(self._check_and_insert(*operands), 0, -1)

    def _checked_operations(self, operations: ArrayLike, count: int) -> Codes:
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
        """Whether each 8-bit code is a supported operation; faster than `np.isin`."""
        possible = np.zeros(256, np.bool_)
        possible[list(self.supported)] = True
        return possible

    @property
    @abstractmethod
    def memory(self) -> NDArray[Any]:
        """Copy of the memory; the shape depends on the family."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the contents occupy in this process, without hash tables."""
        return sum(array.nbytes for array, _ in self._arrays().values())

    @property
    def window(self) -> int | None:
        """Window W: a key is reported for all d < W; None if the filter guarantees no window.

        d is the number of insertions after the key's own, or the key's age if the window is a time.
        """
        return None

    @property
    def fpr(self) -> float | None:
        """Mean expected false-positive rate, with a full window of distinct keys; may be None."""
        with suppress(NotImplementedError):
            return self.spec.mean_false_positive_rate
        return None

    @property
    def fill(self) -> float:
        """Fraction of bits that are set, or of cells that are not 0, from 0 to 1.

        A memory above about 1 MiB is sampled, with a standard error below 0.0015.
        """
        return float(np.mean(self.memory != 0))

    def fill_ratios(self, *now: Any, **window: Any) -> NDArray[np.float64]:
        """Used fraction of each part of the memory, shape (parts,)."""
        return np.array([self.fill])

    def estimated_false_positive_rate(self, *now: Any, **window: Any) -> float:
        """Probability that a key that was never inserted is reported now; by default `fpr`."""
        return self.fpr or 0.0

    def differing_cells(self, memory: NDArray[Any]) -> int:
        """Count the bits or cells that differ in the hardware's `memory`, of the same shape."""
        return int((memory != self.memory).sum())

    def __repr__(self) -> str:
        rate = self.fpr
        return (
            f"<{type(self).__name__}: {self._window_text()}, "
            f"{'' if rate is None else f'false-positive rate {rate:.3g}, '}"
            f"{self.nbytes / 1024:,.1f} KiB held, {self.fill:.0%} filled>"
        )

    @abstractmethod
    def _window_text(self) -> str: ...

    def __contains__(self, key: Key) -> bool:
        """Whether a single key is reported, if timed at the clock's time, or else `latest`."""
        return bool(self._ask_now(self._only_one("in", key)))

    @abstractmethod
    def _ask_now(self, key: Key) -> Any: ...

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
        """Whether class, parameters and state are equal; counters are ignored."""
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
        """Numbers of the state that affect answers."""
        numbers = self._state()[0]
        return {name: numbers[name] for name in numbers if name not in self._uncompared}

    __hash__ = None  # type: ignore[assignment]

    def _arrays(self) -> Bounded:
        """Arrays of the memory, with their maximum values."""
        return {}

    def _hold(self, arrays: dict[str, NDArray[Any]]) -> None:
        for name, (array, _) in self._arrays().items():
            array[:] = arrays[name]

    def _state(self) -> State:
        """State that operations change, without counters."""
        numbers = {name: getattr(self, name) for name in self._counts}
        return numbers, {name: array for name, (array, _) in self._arrays().items()}

    def _saved(self) -> State:
        numbers, arrays = self._state()
        if self._digest_secret:
            numbers["digest_secret"] = self._digest_secret
        return {**numbers, "events": self.counters}, arrays

    def _take_saved(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
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
        # Arrays from a file become the memory; `np.require` copies arrays that it cannot use.
        names = self._arrays()
        self._hold({name: np.require(arrays[name], None, ["C", "A", "W"]) for name in names})

    def _records(self) -> list[NDArray[np.int64]]:
        """Arrays of numbers that the C core modifies, in its order."""
        return [self._numbers]

    def _other_secrets(self) -> list[int]:
        """Secrets outside the records, in the order of the C core."""
        return [self._digest_secret] if self.digest == "siphash" and self._private else []

    def core_state(self) -> CoreState:
        """Copy the state, secrets included, in the layout of the C core."""
        arrays = {name: array.copy() for name, array in self._saved()[1].items()}
        records = [record.copy() for record in self._records()]
        return CoreState(records, self._other_secrets(), arrays)

    def take_core_state(self, state: CoreState) -> None:
        """Restore a result of `core_state`; TypeError or ValueError if it does not fit."""
        scratch = type(self).from_spec(self.spec)
        for record, numbers in zip(scratch._records(), state.numbers, strict=True):
            record[:] = numbers
        further = scratch._numbers_of_secrets(state.secrets)
        self._take_saved(scratch._saved()[0] | further, state.arrays)

    def _numbers_of_secrets(self, secrets: list[int]) -> dict[str, Any]:
        """Convert the secrets of `_other_secrets` to the numbers of a state."""
        keyed = self.digest == "siphash" and self._private
        return {"digest_secret": secrets[-1]} if keyed else {}

    @classmethod
    def _build(cls, parameters: dict[str, Any]) -> Self:
        return cls(**parameters)

    @property
    def _private(self) -> bool:
        return False

    def save(self, file: StateFile, *, secrets: bool = False) -> None:
        """Write the state to a path or binary file, in npz format.

        A file at a path is complete or absent: it is written under another name, forced to disk and
        renamed. If the hash is "siphash", the state contains its secrets, unencrypted, and
        `secrets` must be True: anyone who can read the file can choose keys that collide. Only the
        owner may read a file with secrets at a path.

        ValueError if the filter has secrets and `secrets` is False; OSError if the file cannot be
        written.
        """
        with self._lock:
            header, arrays = self._content(secrets)
            arrays = {name: array.copy() for name, array in arrays.items()}
        write_state(file, header, arrays, private=self._private)

    def to_bytes(self, *, secrets: bool = False) -> bytes:
        """Return the content of the file that `save` would write; errors are those of `save`."""
        file = io.BytesIO()
        write_state(file, *self._content(secrets))
        return file.getvalue()

    def _content(self, secrets: bool) -> State:
        """Return the header and the arrays, not copied, of a state file."""
        if self._private and not secrets:
            raise ValueError(
                "secrets: the state contains the siphash secrets; pass secrets=True to write them"
            )
        numbers, arrays = self._saved()
        values = {"parameters": self.parameters, "numbers": numbers}
        return {"format": FORMAT, "filter": type(self).__name__, **values}, arrays

    @classmethod
    def load(
        cls, file: StateFile, *, clock: Callable[[], int] | None = None, mmap: bool = False
    ) -> Self:
        """Read a state that `save` wrote, from a path, or from an open file up to its end.

        `lately.load` reads a filter of any class; other classes read filters of their own, if the
        filter's class has been imported. Ring classes also read filters from their `for_span`. A
        `TimedFilter` gets the `clock`, or a `SteadyClock` if the saved filter had a clock. With
        `mmap`, a file at a path is mapped instead of read: insertions change memory, not the file.
        The file may be replaced, but must not be changed in place.

        TypeError if `clock` is given for a filter that counts insertions, or `mmap` for an open
        file; StateFileError if the file is not a state file, is damaged, or holds another filter;
        OSError if the file cannot be read.
        """
        name, (header, arrays) = state_name(file), read_state(file, mapped=mmap)
        try:
            owner = _CLASSES.get(header["filter"])
            if owner is None or not cls._loads(owner, header["parameters"]):
                actual = header["filter"] + ("" if owner else ", which is not imported")
                raise StateFileError(
                    f"{name}: expected the state of {cls.__name__}, found {actual}"
                )
            # Check before memory is allocated that the arrays are large enough.
            kind, values = owner.specification, dict(header["parameters"])
            stored = {name: values[name] for name in kind.field_names() if name in values}
            of_ring = kind.kind == "ring"
            spec = kind.from_dict(values["spec"] if of_ring else {"family": kind.family, **stored})
            size = sum(array.nbytes for array in arrays.values())
            needed = -(-getattr(spec, "storage_bits", 0) // 8)
            if size < needed:
                raise ValueError(f"{size} bytes do not fit the specification, which needs {needed}")
            model: Any = owner._build(header["parameters"])
            model._take_saved(header["numbers"], arrays)
        except StateFileError:
            raise
        except (KeyError, TypeError, ValueError, MemoryError) as error:
            raise StateFileError(f"{name}: damaged filter state: {error}") from None
        if clock is not None:
            if not hasattr(model, "clock"):
                raise TypeError(f"clock: a {type(model).__name__} takes no clock")
            model.clock = clock
        return cast(Self, model)

    @classmethod
    def from_bytes(cls, data: bytes, *, clock: Callable[[], int] | None = None) -> Self:
        """Build a filter from a result of `to_bytes`; `clock` and errors are those of `load`."""
        return cls.load(io.BytesIO(data), clock=clock)

    @classmethod
    def _loads(cls, kind: "type[Filter]", parameters: dict[str, Any]) -> bool:
        return issubclass(kind, cls)


Filter._complete()


def _rebuild(cls: Any, parameters: Any, numbers: Any, arrays: Any) -> Any:
    self = cls._build(parameters)
    # The arrays of a pickle may be views of a buffer that other objects use.
    owned = {name: np.require(array, None, "O") for name, array in arrays.items()}
    self._take_saved(numbers, owned)
    return self


@taking_single_keys
class CountedFilter(Filter):
    """Filter whose window is a number of insertions."""

    window: int | None = None

    def _window_text(self) -> str:
        return "no window" if self.window is None else f"window of {self.window:,} insertions"

    @classmethod
    def for_window(cls, window: int, fpr: float = 0.01, **options: Unpack[Options]) -> Self:
        """Build a filter sized for a window and a false-positive rate.

        Let d be the number of insertions after a key's own. Every family reports the key for all
        d < W, that is, while the key is among the last W insertions. Rings and double-buffered
        filters (APBF, GEBF, DoubleBuffering, ...) also report it for d = W.

        While the window is full of distinct keys, the expected false-positive rate, averaged over
        the insertions of a generation or block, is at most `fpr`. The attribute `fpr` is this
        average. It can be below the given rate because sizes are integers or powers of two.
        TypeError or SpecificationError if a parameter is not a number, or out of range.
        """
        require_count("window", window, high=1 << 40)
        return cls._for_keys(int(window), check_rate(fpr), {}, options)

    def checked_window(self, window: int | None) -> int:
        """Check the `window` of a query; None selects the filter's window."""
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
        `hash.keys`. With `nulls` "skip", null keys and rows with a null are not inserted; methods
        with results return False or -1 for them.

        TypeError or ValueError if a key is null, of another type, or does not fit into `key_bits`,
        if the keys mix integers with text, or if an array has the wrong shape.
        """
        words = self._words(keys)
        self._insert(words)
        self._note_events(len(words), len(words))

    def add(self, key: Key) -> None:
        """Insert a single key, like `set.add`; TypeError for several keys, else as in `insert`."""
        self.insert(self._only_one("add", key))

    def update(self, *several: Iterable[Key] | ArrayLike) -> None:
        """Insert all keys of iterables or arrays, like `set.update`; TypeError for a single key."""
        for keys in several:
            self.insert(self._no_single("update", keys))

    @scalar_or_array
    def query(self, keys: Keys, *, nulls: Nulls = "refuse") -> Answers:
        """Report whether each key is in the filter; changes nothing, not even counters.

        Parameters and errors are those of `insert`. The result is an ndarray of bool, shape (n,); a
        bool for a single key.
        """
        return self._query(self._words(keys))

    @scalar_or_array
    def check_and_insert(
        self, keys: Keys, *, refresh: bool = True, nulls: Nulls = "refuse"
    ) -> Answers:
        """Query and insert keys one after another; each result is from before its insertion.

        - With `refresh`, every key is inserted. A key that keeps repeating within the window is
          always reported.
        - Without `refresh`, a reported key is not inserted, and does not count as an insertion. A
          key that keeps repeating is not reported again after the window, and at the latest after
          the window plus the slack. A false positive is not inserted, so the next occurrence of its
          key may not be reported.

        In both cases, two occurrences of a key that are not reported are at least a window of
        insertions apart. Parameters, errors and result, shape (n,), are those of `query`.
        """
        return self._checked_and_inserted(self._words(keys), refresh=refresh)

    @scalar_or_array
    def age(self, keys: Keys, *, nulls: Nulls = "refuse") -> Ages:
        """Return the minimum possible age of each key; changes nothing.

        Ages are in units of `age_unit`: 0 for the last insertion or the current generation, -1 for
        a key that is not reported. Parameters and errors are those of `insert`. The result is an
        ndarray of int64, shape (n,).
        """
        return self._age(self._words(keys))

    def _asked_windows(self, windows: Windows, count: int) -> Ages | None:
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


# Methods of filters in which each query may have its own window


@scalar_or_array
def query_in_window(
    self: CountedFilter, keys: Keys, window: Windows = None, *, nulls: Nulls = "refuse"
) -> Answers:
    """Report whether each key is among the last `window` insertions; changes nothing.

    The `window` is one number, or one for each key with shape (n,), from 1 to the filter's window,
    which is the default. If the filter has blocks, a key is reported until its whole block has left
    the window; `PartitionedTimingFilter` first rounds the window up to a multiple of its `block`.
    Other parameters and errors are those of `insert`. The result is an ndarray of bool, shape (n,).
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
    """Query keys, shape (n,), in a `window`, like `query`, and insert them."""
    words = self._words(keys)
    asked = self._asked_windows(window, len(words))
    return self._checked_and_inserted(words, asked, refresh=refresh)
