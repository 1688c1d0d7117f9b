"""Base classes of all golden models.

A family is a subclass of `CountedFilter` or `TimedFilter`. The fields of its `specification` are
the parameters of its constructor.
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
    """State of a filter in the memory layout of the C core and of exported C headers."""

    numbers: list[NDArray[np.int64]]  # the records that the C core modifies
    secrets: list[int]  # secrets outside the records
    arrays: dict[str, NDArray[Any]]  # arrays of a state file


class ReadOnly:
    """Attribute that becomes read-only as soon as its object has an attribute `_hash`."""

    def __init__(self, name: str) -> None:
        self._name = name

    # Without `__get__`, reading is as fast as for an ordinary attribute.
    def __set__(self, owner: Any, value: object) -> None:
        if "_hash" in vars(owner):
            raise AttributeError(f"{self._name}: cannot change; build a new {type(owner).__name__}")
        vars(owner)[self._name] = value


class Number(Element):
    """Integer from 0 to 2**62 - 1 in `_numbers`; each read holds the object's lock."""

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
    """Replace methods of a class by compiled methods, which are faster for single keys.

    The replaced methods get the names ``_python_NAME``. Without the extension, nothing changes.
    """
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
    """Return a property that reads the attribute at a dotted path, such as "_ring.fill"."""
    return property(attrgetter(path), doc=doc)


class Filter(locks.Base, ABC):
    """Base class of all filter models.

    An array of keys has shape (n,) if `key_bits` is at most 64, and otherwise (n, words). Keys take
    effect one after another. The window of a `CountedFilter` is a number of insertions; the window
    of a `TimedFilter` is a span of time, and its methods accept timestamps. The public methods
    check their arguments and count operations. A subclass performs the operations: it implements
    `_perform`, or it implements `_insert`, `_query` and `_check_and_insert`. To report ages, it
    also implements `_age` and `_age_and_insert`.

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

    # Types of the public methods of a filter whose class is unknown, as after `load`.
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
    _counts: ClassVar[dict[str, int | str | None]] = {}  # saved numbers, with their maximum
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
                f"{cls.__name__}: expected keyword arguments, not {arguments[0]!r}{cls._hint()}"
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
                reason = "must override _arrays, which lists the arrays of its state files"
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
        chosen = any("_sizes" in vars(kind) for kind in cls.__mro__ if kind is not Filter)
        return f"; {cls.__name__}.{cls._chooser} chooses all parameters" if chosen else ""

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
            f"window: {cls.__name__} cannot hold {keys} keys at fpr {fpr}; "
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
        """Check the combination of parameters, derive omitted parameters, and build the hash."""

    def _make_hash(self, sizes: Sequence[int], functions: int = 1) -> None:
        self._hash = KeyHash(
            key_bits=self.key_bits, sizes=sizes, functions=functions, seed=self.seed
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """Constructor arguments that are not None; the default digest is omitted."""
        names = [name for name in self.__signature__.parameters if name not in self._UNSAVED]
        values = [(name, getattr(self, name)) for name in names]
        return {item[0]: item[1] for item in values if item[1] is not None and item != _DIGEST}

    @property
    def spec(self) -> Specification:
        """Specification of the filter; `from_spec` builds an empty filter from it."""
        return self.specification(**self.parameters)

    @property
    def storage_bits(self) -> int:
        """Memory of the filter in bits, counted as in its paper."""
        spec: Any = self.spec
        return int(spec.storage_bits)

    @classmethod
    def from_spec(cls, spec: Specification) -> Self:
        """Build an empty filter from a specification of its family.

        TypeError if `spec` is not a specification; SpecificationError if its family is another one.
        """
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
        """If the text digest is keyed, derive its keys from `secret`, the filter's first secret."""
        self._digest_secret = check_secret(secret) if self.digest == "siphash" else 0
        vars(self).pop("_key_digest", None)
        if self._engine is not None:
            self._lend_digest()

    def _lend_digest(self) -> None:
        """Give the extension the keys of the text digest; the extension calls this method."""
        self._engine.digest_by(self._key_digest.keys)

    def _words(self, keys: Keys) -> Words:
        return check_keys(keys, self._key_digest)

    def _only_one(self, name: str, key: Any) -> Any:
        if not is_single(key):
            raise TypeError(f"{name}: expected a single key, not {type(key).__name__}")
        return key

    def _no_single(self, name: str, keys: Any) -> Any:
        if is_single(keys):
            raise TypeError(f"{name}: expected an iterable of keys, not {type(keys).__name__}")
        return keys

    def key_words(self, keys: Keys) -> Words:
        """Convert keys to the 64-bit words that the filter hashes; text is replaced by its digest.

        Parameters and errors are those of `insert`. The result is an ndarray of uint64, shape (n,)
        if `key_bits` is at most 64, and otherwise (n, words). All methods accept these words as
        keys.
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
        """Perform n operations of any kind, one after another.

        `operations` contains values of `Operation`, shape (n,), and `keys` contains one key for
        each operation, in any form that `insert` accepts. A timed filter needs `times`, shape (n,),
        which must not decrease. A filter with query windows accepts `windows`, shape (n,) or (); a
        filter with a table of thresholds accepts query classes as `windows`, with class 0 as the
        default.

        TypeError or ValueError if the operations are not integers, the lengths differ, the filter
        does not support an operation, or times or windows are invalid. After an error, no operation
        has been performed.
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
        """Query n keys without counting operations; the arrays of the result have shape (n,).

        Arguments and errors are those of `perform`.
        """
        words = self._words(keys)
        moments = self._checked_times(times, len(words))
        asked = self._checked_windows(windows, len(words))
        return self._performed(Operation.QUERY, words, moments, asked)

    def clear(self) -> None:
        """Forget all keys, as the operation CLEAR does.

        A secret that `rekey` has loaded takes effect.
        """
        self._empty()
        self._note_events(1)

    @property
    def counters(self) -> dict[str, int]:
        """Number of events since construction, by name; the hardware has the same counters."""
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
            raise ValueError(f"times: {type(self).__name__} counts insertions, not time")
        return None

    def _checked_windows(self, windows: ArrayLike | None, count: int) -> Ages | None:
        if windows is not None:
            raise ValueError(f"windows: {type(self).__name__} does not support query windows")
        return None

    @abstractmethod
    def _empty(self) -> None: ...

    def _perform(
        self, codes: Codes, keys: Words, times: Times | None, windows: Ages | None
    ) -> Results:
        """Perform operations whose arguments have been checked.

        This implementation makes one call for each run of equal operations.
        """
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
        raise ValueError(f"operations: {type(self).__name__} does not support {name}")

    @Cached
    def _possible(self) -> NDArray[np.bool_]:
        """Whether each code from 0 to 255 is supported; this table is faster than `np.isin`."""
        possible = np.zeros(256, np.bool_)
        possible[list(self.supported)] = True
        return possible

    @property
    @abstractmethod
    def memory(self) -> NDArray[Any]:
        """Copy of the memory; the shape depends on the family."""

    @property
    def nbytes(self) -> int:
        """Number of bytes that the contents occupy in this process, excluding hash tables."""
        return sum(array.nbytes for array, _ in self._arrays().values())

    @property
    def window(self) -> int | None:
        """Window W: a key is reported for all d < W; None if the filter guarantees no window.

        Here d is the number of insertions since the key was inserted, or the key's age if the
        window is a span of time.
        """
        return None

    @property
    def fpr(self) -> float | None:
        """Mean expected false-positive rate for a full window of distinct keys; None if unknown."""
        with suppress(NotImplementedError):
            return self.spec.mean_false_positive_rate
        return None

    @property
    def fill(self) -> float:
        """Fraction of bits that are set or of cells that are not 0, from 0 to 1.

        In a memory of more than about 1 MiB, the fraction is estimated from a sample, with a
        standard error below 0.0015.
        """
        return float(np.mean(self.memory != 0))

    def fill_ratios(self, *now: Any, **window: Any) -> NDArray[np.float64]:
        """Return the used fraction of each part of the memory, shape (parts,)."""
        return np.array([self.fill])

    def estimated_false_positive_rate(self, *now: Any, **window: Any) -> float:
        """Return the current probability that a key that was never inserted is reported.

        The base class returns `fpr`, or 0 if `fpr` is None.
        """
        return self.fpr or 0.0

    def differing_cells(self, memory: NDArray[Any]) -> int:
        """Count bits or cells that differ between this filter and the hardware's `memory`.

        The hardware's `memory` has the same shape as the attribute `memory`.
        """
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
        """Return whether a single key is reported; TypeError for several keys.

        A timed filter queries the key at the clock's time, or at `latest` if there is no clock.
        """
        return bool(self._ask_now(self._only_one("in", key)))

    @abstractmethod
    def _ask_now(self, key: Key) -> Any: ...

    def __len__(self) -> NoReturn:
        raise TypeError(
            f"len: a {type(self).__name__} cannot count its keys, because keys share memory"
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
        """Return whether `other` has the same class, parameters and state, except for counters."""
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
        numbers = self._state()[0]
        return {name: numbers[name] for name in numbers if name not in self._uncompared}

    __hash__ = None  # type: ignore[assignment]

    def _arrays(self) -> Bounded:
        """Return the arrays that a state file stores, each with the maximum of its values."""
        return {}

    def _hold(self, arrays: dict[str, NDArray[Any]]) -> None:
        for name, (array, _) in self._arrays().items():
            array[:] = arrays[name]

    def _state(self) -> State:
        """Return the state that operations change, without the counters."""
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
        """Return the arrays of numbers that the C core modifies, in the core's order."""
        return [self._numbers]

    def _other_secrets(self) -> list[int]:
        """Return the secrets that are not in the records, in the C core's order."""
        return [self._digest_secret] if self.digest == "siphash" and self._private else []

    def core_state(self) -> CoreState:
        """Return a copy of the state, including secrets, in the layout of the C core."""
        arrays = {name: array.copy() for name, array in self._saved()[1].items()}
        records = [record.copy() for record in self._records()]
        return CoreState(records, self._other_secrets(), arrays)

    def take_core_state(self, state: CoreState) -> None:
        """Restore a state from `core_state`; TypeError or ValueError if it does not fit."""
        scratch = type(self).from_spec(self.spec)
        for record, numbers in zip(scratch._records(), state.numbers, strict=True):
            record[:] = numbers
        further = scratch._numbers_of_secrets(state.secrets)
        self._take_saved(scratch._saved()[0] | further, state.arrays)

    def _numbers_of_secrets(self, secrets: list[int]) -> dict[str, Any]:
        keyed = self.digest == "siphash" and self._private
        return {"digest_secret": secrets[-1]} if keyed else {}

    @classmethod
    def _build(cls, parameters: dict[str, Any]) -> Self:
        return cls(**parameters)

    @property
    def _private(self) -> bool:
        return False

    def save(self, file: StateFile, *, secrets: bool = False) -> None:
        """Write the state in npz format to a path or to a binary file.

        A file at a path is either complete or absent: it is written under another name, flushed to
        disk and then renamed. If the hash is "siphash", the file contains the secrets without
        encryption, and `secrets` must be True. Anyone who can read the secrets can choose keys that
        collide; therefore, if the file is at a path, only its owner can read it.

        ValueError if the filter has secrets and `secrets` is False; OSError if the file cannot be
        written.
        """
        with self._lock:
            header, arrays = self._content(secrets)
            arrays = {name: array.copy() for name, array in arrays.items()}
        write_state(file, header, arrays, private=self._private)

    def to_bytes(self, *, secrets: bool = False) -> bytes:
        """Return the bytes that `save` would write; errors are those of `save`."""
        file = io.BytesIO()
        write_state(file, *self._content(secrets))
        return file.getvalue()

    def _content(self, secrets: bool) -> State:
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
        """Load a filter that `save` wrote.

        `file` is a path, or an open file, which is read to its end. `lately.load` loads a filter of
        any class. The method of a class loads only filters of this class and its subclasses, which
        must have been imported; a ring class also loads filters that its `for_span` built. A
        `TimedFilter` gets the given `clock`; without `clock`, it gets a `SteadyClock` if the saved
        filter had a clock. With `mmap`, a file at a path is mapped into memory instead of read, and
        insertions change the memory but not the file. A mapped file may be replaced, but must not
        be changed in place.

        TypeError if `clock` is given for a filter that counts insertions, or if `mmap` is given for
        an open file; StateFileError if the file is not a state file, is damaged, or contains a
        filter of another class; OSError if the file cannot be read.
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
                raise ValueError(
                    f"the arrays have {size} bytes, but the specification needs {needed}"
                )
            model: Any = owner._build(header["parameters"])
            model._take_saved(header["numbers"], arrays)
        except StateFileError:
            raise
        except (KeyError, TypeError, ValueError, MemoryError) as error:
            raise StateFileError(f"{name}: damaged filter state: {error}") from None
        if clock is not None:
            if not hasattr(model, "clock"):
                raise TypeError(f"clock: {type(model).__name__} counts insertions, not time")
            model.clock = clock
        return cast(Self, model)

    @classmethod
    def from_bytes(cls, data: bytes, *, clock: Callable[[], int] | None = None) -> Self:
        """Build a filter from bytes that `to_bytes` returned.

        `clock` and errors are those of `load`.
        """
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
        """Build a filter that is sized for a window and a false-positive rate.

        Let W be the window, and d the number of insertions after a key's own insertion. Every
        family reports the key for all d < W, that is, while the key is among the last W insertions.
        Rings and double-buffered filters (APBF, GEBF, DoubleBuffering, ...) also report the key for
        d = W.

        While the window is full of distinct keys, the expected false-positive rate, averaged over
        the insertions of a generation or block, is at most `fpr`. The attribute `fpr` is this
        average, which can be lower than the requested rate because sizes are integers or powers of
        two. The `options` are passed to the constructor.

        TypeError or SpecificationError if a parameter is not a number or is out of range.
        """
        require_count("window", window, high=1 << 40)
        return cls._for_keys(int(window), check_rate(fpr), {}, options)

    def checked_window(self, window: int | None) -> int:
        """Check and return the `window` of a query; None selects the filter's window."""
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

        `keys` is a single key, or an iterable or an array of n keys. An array of integers with
        shape (n, words) contains the words of wide keys, the least significant word first. A tuple
        is one key; see `lately.golden.hash.keys`. With ``nulls="skip"``, null keys and rows that
        contain a null are not inserted, and methods with results return False or -1 for them.

        TypeError or ValueError if a key is null, has the wrong type, or does not fit into
        `key_bits`, if integers and text are mixed, or if an array has the wrong shape.
        """
        words = self._words(keys)
        self._insert(words)
        self._note_events(len(words), len(words))

    def add(self, key: Key) -> None:
        """Insert a single key, like `set.add`; TypeError for several keys.

        Other errors are those of `insert`.
        """
        self.insert(self._only_one("add", key))

    def update(self, *several: Iterable[Key] | ArrayLike) -> None:
        """Insert all keys of iterables or arrays, like `set.update`; TypeError for a single key."""
        for keys in several:
            self.insert(self._no_single("update", keys))

    @scalar_or_array
    def query(self, keys: Keys, *, nulls: Nulls = "refuse") -> Answers:
        """Return whether each key is in the filter, without changing the filter or its counters.

        Parameters and errors are those of `insert`. The result is an ndarray of bool with shape
        (n,), or a bool for a single key.
        """
        return self._query(self._words(keys))

    @scalar_or_array
    def check_and_insert(
        self, keys: Keys, *, refresh: bool = True, nulls: Nulls = "refuse"
    ) -> Answers:
        """Query each key and then insert it, one key after another.

        The result for a key describes the filter before the insertion of this key.

        - With `refresh`, every key is inserted. A key that keeps repeating within the window is
          always reported.
        - Without `refresh`, a reported key is not inserted and does not count as an insertion. A
          key that keeps repeating is therefore forgotten after the window, at the latest after the
          window plus the slack; its next occurrence is not reported, and is inserted. A key that is
          reported by mistake is not inserted either, so its next occurrence may not be reported.

        In both cases, two occurrences of a key that are not reported are at least a window of
        insertions apart. Parameters and errors are those of `insert`; the result, shape (n,), is
        that of `query`.
        """
        return self._checked_and_inserted(self._words(keys), refresh=refresh)

    @scalar_or_array
    def age(self, keys: Keys, *, nulls: Nulls = "refuse") -> Ages:
        """Return the minimum possible age of each key, without changing the filter.

        Ages are in units of `age_unit`. The last insertion or the current generation has age 0; a
        key that is not reported has age -1. Parameters and errors are those of `insert`. The result
        is an ndarray of int64 with shape (n,), or an int for a single key.
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
    """Return whether each key is among the last `window` insertions, without changing the filter.

    `window` is a number from 1 to the filter's window, which is the default, or an array of shape
    (n,) with a number for each key. If the filter has blocks, a key is reported until its whole
    block has left the window; `PartitionedTimingFilter` first rounds the window up to a multiple of
    its `block`. Other parameters and errors are those of `insert`. The result is an ndarray of bool
    with shape (n,), or a bool for a single key.
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
    """Query each key within a `window` and then insert it, one key after another.

    `window` has the same meaning as in `query`. The other parameters and the result, shape (n,),
    are those of `CountedFilter.check_and_insert`.
    """
    words = self._words(keys)
    asked = self._asked_windows(window, len(words))
    return self._checked_and_inserted(words, asked, refresh=refresh)
