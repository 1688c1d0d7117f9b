"""Conversion of keys of any form to the 64-bit words that filters hash.

A key is an integer, which stands for itself, or bytes, which stand for their digest. Every
other form stands for an integer or for bytes; docs/python.md has a table of them.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import wraps
from io import IOBase
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, cast, overload
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .digests import KeyDigest
from .key_forms import (
    ARROW,
    INTEGERS,
    TEXTS,
    Address,
    Spans,
    arrow_chunks,
    arrow_spans,
    check_padding,
    encoded,
    frame_columns,
    joined,
    nanoseconds,
    null,
    nullable,
    octets,
    plain,
    spans_of,
    unexpected,
)

Text = str | bytes | bytearray | memoryview
"""Keys that are digested."""

Key = int | np.integer[Any] | Text | UUID | Address | date | np.datetime64 | tuple["Key", ...]
"""A single key."""

Keys = ArrayLike | Key | Iterable[Key]
"""A single key, an iterable or an array of keys; an array of shape (n, words) gives words of wide
keys, the least significant first. A tuple is a single key, and a tuple of arrays several."""

Nulls = Literal["refuse", "skip"]
"""What happens to nulls among keys."""

Method = TypeVar("Method", bound=Callable[..., Any])

Model = TypeVar("Model")
"""Class that has a method whose first parameter is `keys`."""

Others = ParamSpec("Others")
"""Parameters of the method after `keys`."""

One = TypeVar("One", covariant=True)
"""Answer for a single key."""

All = TypeVar("All", covariant=True)
"""Answers for several keys."""


class Bound(Protocol[Others, One, All]):
    """Method of an object that gives one answer for a single key, and an array for several."""

    @overload
    def __call__(self, keys: Key, *others: Others.args, **options: Others.kwargs) -> One: ...

    @overload
    def __call__(self, keys: Keys, *others: Others.args, **options: Others.kwargs) -> All: ...


class OneOrAll(Protocol[Others, One, All]):
    """Descriptor of a method that takes one key or several."""

    def __get__(self, model: object, kind: Any = ..., /) -> Bound[Others, One, All]: ...


_SINGLE = (*TEXTS, *INTEGERS, tuple)


def is_single(keys: Any) -> bool:
    """Whether `keys` is one value, and not an array, a collection with a length, or an iterator.

    Other objects are one value even if they can be iterated: a network of addresses, a file.
    """
    if isinstance(keys, tuple):
        return frame_columns(keys) is None
    length = hasattr(keys, "__len__") or hasattr(keys, "__next__")
    return (
        isinstance(keys, (*_SINGLE, type, IOBase))
        or getattr(keys, "ndim", None) == 0
        or hasattr(keys, "as_py")
        or not ((hasattr(keys, "__iter__") and length) or hasattr(keys, "__arrow_c_stream__"))
    )


@overload
def one_or_all(
    method: Callable[Concatenate[Model, Keys, Others], NDArray[np.bool_]],
) -> OneOrAll[Others, bool, NDArray[np.bool_]]: ...


@overload
def one_or_all(
    method: Callable[Concatenate[Model, Keys, Others], NDArray[np.int64]],
) -> OneOrAll[Others, int, NDArray[np.int64]]: ...


@overload
def one_or_all(
    method: Callable[Concatenate[Model, Keys, Others], NDArray[np.float64]],
) -> OneOrAll[Others, float, NDArray[np.float64]]: ...


def one_or_all(method: Callable[..., Any]) -> Any:
    """Make a method with one result per key return a scalar for a single key.

    The first parameter of the `method` is `keys`.
    """
    method = skipping_nulls(method)

    @wraps(method)
    def answer(self: Any, keys: Any, *arguments: Any, **options: Any) -> Any:
        answers = method(self, keys, *arguments, **options)
        return answers[0].item() if is_single(keys) else answers

    return answer


def skipping_nulls(method: Method) -> Method:
    """Leave nulls among the keys out if the parameter `nulls` is "skip".

    The answer for a null is False or -1. Other arguments that have one value for each key have one
    for each null.
    """

    @wraps(method)
    def answer(self: Any, keys: Any, *arguments: Any, **options: Any) -> Any:
        nulls = options.pop("nulls", "refuse")
        if nulls == "refuse":
            return method(self, keys, *arguments, **options)
        if nulls != "skip":
            raise ValueError(f"nulls: must be refuse or skip, not {nulls!r}")
        keys, present = _without_nulls(keys)

        def kept(value: Any) -> Any:
            return np.asarray(value)[present] if np.shape(value) == present.shape else value

        options = {name: kept(value) for name, value in options.items()}
        answers = method(self, keys, *map(kept, arguments), **options)
        if answers is None:
            return None
        whole = np.full(present.shape, -1 if answers.dtype.kind == "i" else 0, answers.dtype)
        whole[present] = answers
        return whole

    return cast(Method, answer)


def _without_nulls(keys: Any) -> tuple[Any, NDArray[np.bool_]]:
    """Return several keys without nulls, and whether each key was not null, shape (n,)."""
    columns = frame_columns(keys)
    own = any(hasattr(keys, name) for name in (*ARROW, "__array__"))
    parts = [nullable(column) for _, column in columns or [("", keys if own else _as_list(keys))]]
    present = np.logical_and.reduce([part[1] for part in parts])
    kept = [v.filter(present) if hasattr(v, "filter") else v[present] for v, _ in parts]
    return tuple(kept) if columns else kept[0], present


def check_keys(keys: Keys, digest: KeyDigest) -> NDArray[np.uint64]:
    """Convert keys of any form to the words of a `digest`, shape (n, words).

    Surrogates of ``surrogateescape`` stand for the bytes that could not be decoded. In a tuple, -1
    and 2**key_bits - 1 are two integers. Lists in a list are rows of words. TypeError for keys of
    another kind, of both kinds, or null; ValueError for a wrong shape, or a key that does not fit.
    """
    given: Any = keys
    if not isinstance(keys, list):
        if (columns := frame_columns(keys)) is not None:
            return digest.of_rows([_column(*each) for each in columns])
        given = [keys] if isinstance(keys, _SINGLE) else _read(keys)
    if isinstance(given, list):
        words = digest.of_list(given) if given else None
        return _listed(given, digest) if words is None else words
    if isinstance(given, np.ndarray):
        return _array_words(given, digest.key_bits)
    return digest.of_spans(*given)


def _read(keys: Any) -> NDArray[Any] | list[Any] | Spans:
    """Return keys as an array of integers, as spans of text in a buffer, or as a list."""
    if (texts := _arrow_texts(keys)) is not None:
        return texts
    if not hasattr(keys, "__array__"):
        return _as_list(keys)
    array = np.asarray(keys)
    # numpy imports masked arrays when they are first used, which takes longer than a few keys.
    if "numpy.ma" in sys.modules and np.ma.is_masked(keys):
        raise null("masked", int(np.argmax(np.ma.getmaskarray(keys))))
    if array.ndim == 0:
        array = array.reshape(1)
    if array.size == 0 and array.dtype.kind in "fO":
        array = array.astype(np.uint64)
    if array.dtype.kind == "M":
        array = nanoseconds(array)
    if array.dtype.kind in "ui":
        return array
    if array.dtype.kind in "SU":
        check_padding(array)
    if array.dtype.kind in "SUTO" or (array.dtype.kind == "V" and array.dtype.names is None):
        return list(array.tolist())
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise null(array.dtype, int(np.argmax(np.isnan(array))))
    raise unexpected(array.dtype)


def _as_list(keys: Any) -> list[Any]:
    """Return one key, or the keys of an iterable other than an array, as a list."""
    if isinstance(keys, Mapping):
        raise TypeError(f"keys: must not be a {type(keys).__name__}: give its keys() or values()")
    if not is_single(keys):
        return list(keys)
    if hasattr(keys, "__iter__") and not (isinstance(keys, _SINGLE) or hasattr(keys, "as_py")):
        raise unexpected(f"{type(keys).__name__}: give a list of its elements")
    return [keys]


def _arrow_texts(keys: Any) -> Spans | None:
    """Return a column of text as spans of its buffers; None for other columns."""
    parts: list[Spans] = []
    start, chunks = 0, arrow_chunks(keys)
    for chunk in chunks or ():
        if chunk.null_count:
            nulls = np.asarray(chunk.is_null())
            raise null(chunk.type, start + int(np.argmax(nulls)))
        spans = arrow_spans(chunk)
        if spans is None:
            return None
        parts.append(spans)
        start += len(chunk)
    return joined(parts, np.concatenate) if parts else None


def _column(name: object, column: Any) -> tuple[bytes, Spans]:
    """Return a column of keys of several columns, with the tag of its elements."""
    try:
        elements = _read(column)
        if isinstance(elements, np.ndarray):
            if elements.ndim > 1:
                raise ValueError(f"keys: must have one dimension, not {elements.ndim}")
            digits = elements.astype("S20")
            starts = np.arange(0, 20 * len(digits), 20, dtype=np.int64)
            return b"i", (digits.view(np.uint8), starts, starts + np.char.str_len(digits))
        if isinstance(elements, list):
            return b"\0", spans_of([*map(encoded, elements, range(len(elements)))])
    except (TypeError, ValueError) as error:
        message = str(error).removeprefix("keys: ")
        raise type(error)(f"keys: column {name!r}: {message}") from None
    return b"b", elements


def random_keys(random: "np.random.Generator", count: int, key_bits: int) -> NDArray[np.uint64]:
    """Draw `count` uniform keys from a `random` generator; shape as `key_words`."""
    words = -(-key_bits // 64)
    keys = random.integers(0, 1 << 64, (count, words), np.uint64)
    if key_bits % 64:
        keys[:, -1] &= np.uint64((1 << key_bits % 64) - 1)
    return keys[:, 0] if words == 1 else keys


def sortable(keys: NDArray[np.uint64]) -> NDArray[Any]:
    """View keys of shape (n,) or (n, words) as one element each, shape (n,)."""
    if keys.ndim == 1 or keys.shape[1] == 1:
        return keys.reshape(-1)
    fields = [(f"word{index}", np.uint64) for index in range(keys.shape[1])]
    return np.ascontiguousarray(keys).view(fields)[:, 0]


def _listed(items: Sequence[Any], digest: KeyDigest) -> NDArray[np.uint64]:
    """Return the words of keys, or of rows of words, in a list."""
    kinds = {*map(type, items)}
    if kinds and all(issubclass(kind, list | np.ndarray) for kind in kinds) and np.ndim(items[0]):
        return _array_words(_rows(items), digest.key_bits)
    if not all(issubclass(kind, (*TEXTS, *INTEGERS)) and kind is not bool for kind in kinds):
        items = [plain(item, position) for position, item in enumerate(items)]
        kinds = {*map(type, items)}
    if all(issubclass(kind, INTEGERS) for kind in kinds):
        return _integer_words([*map(int, items)] if kinds - {int} else items, digest.key_bits)
    if all(issubclass(kind, TEXTS) for kind in kinds):
        return digest.of_bytes([*map(octets, items)])
    raise TypeError("keys: must be all integers or all text and bytes, not some of both")


def _rows(rows: Sequence[Any]) -> NDArray[Any]:
    """Return an array of rows of words, of which numpy would make floats."""
    if len({*map(len, rows)}) > 1:
        raise ValueError("keys: must have rows of one length, not of several")
    for kind in {type(word) for row in rows for word in row}:
        if issubclass(kind, list | np.ndarray):
            return np.array(rows)
        if not issubclass(kind, INTEGERS) or kind is bool:
            raise TypeError(
                f"keys: must have integers as words, not {kind.__name__}: "
                "give a compound key as a tuple"
            )
    words = [int(word) for row in rows for word in row]
    if min(words, default=0) < 0:
        raise ValueError(f"keys: must have words that are not negative, not {min(words)}")
    if max(words, default=0) >= 1 << 64:
        raise ValueError(f"keys: must have words below 2**64, not {max(words):#x}")
    return np.array(words, np.uint64).reshape(len(rows), len(rows[0]))


def _integer_words(items: Sequence[int], key_bits: int) -> NDArray[np.uint64]:
    words = -(-key_bits // 64)
    if not items:
        return np.empty((0, words), np.uint64)
    least, most = min(items), max(items)
    _check_range(least, most, key_bits)
    if least < 0:
        items = [item & (1 << key_bits) - 1 for item in items]
    if words == 1:
        return np.array(items, np.uint64).reshape(-1, 1)
    octets = b"".join(item.to_bytes(8 * words, "little") for item in items)
    return np.frombuffer(octets, "<u8").astype(np.uint64).reshape(-1, words)


def _check_range(least: int, most: int, key_bits: int) -> None:
    """Refuse integers that do not fit into a key."""
    if least < -(1 << key_bits - 1):
        raise ValueError(f"keys: must be at least -2**{key_bits - 1}, not {least}")
    if most >> key_bits > 0:
        raise ValueError(f"keys: must be below 2**{key_bits}, not {most:#x} or more")


def _array_words(array: NDArray[Any], key_bits: int) -> NDArray[np.uint64]:
    """Return the words of an array of integers."""
    words, shape = -(-key_bits // 64), array.shape
    if array.ndim == 1:
        if array.size:
            _check_range(int(array.min()), int(array.max()), key_bits)
        array = array.reshape(-1, 1)
        if words > 1:
            # The sign extends into the higher words.
            array = np.hstack([array, np.repeat(-(array < 0).astype(array.dtype), words - 1, 1)])
    elif array.ndim != 2 or shape[1] != words:
        form = "(n,)" if words == 1 else f"(n,) or (n, {words})"
        raise ValueError(f"keys: must have shape {form} for {key_bits}-bit keys, not {shape}")
    elif array.size and array.min() < 0:
        raise ValueError(f"keys: must have words that are not negative, not {array.min()}")
    signed = array.dtype.kind == "i"
    array = array.astype(np.uint64, copy=False)
    if not key_bits % 64 or not array.size:
        return array
    mask = np.uint64((1 << key_bits % 64) - 1)
    if len(shape) == 1:
        return np.hstack([array[:, :-1], array[:, -1:] & mask]) if signed else array
    largest = int(array[:, -1].max())
    if largest > mask:
        shown = largest << (64 * (words - 1))
        raise ValueError(f"keys: must be below 2**{key_bits}, not {shown:#x} or more")
    return array
