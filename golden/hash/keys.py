"""Conversion of keys of any form to the 64-bit words that filters hash.

A key is an integer, which stands for itself, or bytes, which stand for their digest. Every
other form stands for an integer or for bytes; docs/python.md has a table of them.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import wraps
from io import IOBase
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .digests import KeyDigest
from .key_forms import (
    INTEGERS,
    TEXTS,
    Address,
    arrow_chunks,
    arrow_spans,
    check_padding,
    nanoseconds,
    null,
    octets,
    plain,
    unexpected,
)

Text = str | bytes | bytearray | memoryview
"""Keys that are digested."""

Key = int | np.integer[Any] | Text | UUID | Address | date | np.datetime64 | tuple[Any, ...]
"""A single key."""

Keys = ArrayLike | Key | Iterable[Key]
"""A single key, an iterable or an array of keys; an array of shape (n, words) gives words of wide
keys, the least significant first. A tuple is a single key."""

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
    return (
        isinstance(keys, (*_SINGLE, type, IOBase))
        or getattr(keys, "ndim", None) == 0
        or hasattr(keys, "as_py")
        or not hasattr(keys, "__iter__")
        or not (hasattr(keys, "__len__") or hasattr(keys, "__next__"))
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

    @wraps(method)
    def answer(self: Any, keys: Any, *arguments: Any, **options: Any) -> Any:
        answers = method(self, keys, *arguments, **options)
        return answers[0].item() if is_single(keys) else answers

    return answer


def check_keys(keys: Keys, digest: KeyDigest) -> NDArray[np.uint64]:
    """Convert keys of any form to words; `key_forms` encodes tuples.

    Surrogates of ``surrogateescape`` stand for the bytes that could not be decoded. In a tuple, -1
    and 2**key_bits - 1 are two integers. Lists in a list are rows of words, as an array of shape
    (n, words) has them.

    Parameters
    ----------
    keys : int, str, bytes, tuple, iterable or array of these
        One key; or n keys in one dimension; or integers of shape (n, words),
        least significant 64-bit word first. Arrays and scalars of Arrow, and columns of pandas
        and polars, are keys as well; text in Arrow's buffers needs no object for each key.
    digest : KeyDigest
        Digest of the filter, with the width of a key; the result has the fewest words for this
        width.

    Returns
    -------
    ndarray of uint64, shape (n, words)

    Raises
    ------
    TypeError
        If the keys are of another kind, or integers and bytes together, if one is null,
        or their container has no clear meaning.
    ValueError
        If the shape is wrong, or a key does not fit into `key_bits`.
    """
    if isinstance(keys, list):
        words = digest.of_list(keys) if keys else None
        return _listed(keys, digest) if words is None else words
    if isinstance(keys, str | bytes):
        return digest.of_bytes([octets(keys)])
    if (columns := _arrow_words(keys, digest)) is not None:
        return columns
    if not isinstance(keys, np.ndarray) and not hasattr(keys, "__array__"):
        return _listed(_as_list(keys), digest)
    array = np.asarray(keys)
    # numpy imports masked arrays when they are first used, which takes longer than a few keys.
    masked: Any = keys
    if "numpy.ma" in sys.modules and np.ma.is_masked(masked):
        raise null("masked", int(np.argmax(np.ma.getmaskarray(masked))))
    if array.ndim == 0:
        array = array.reshape(1)
    if array.size == 0 and array.dtype.kind in "fO":
        array = array.astype(np.uint64)
    if array.dtype.kind == "M":
        array = nanoseconds(array)
    if array.dtype.kind in "ui":
        return _array_words(array, digest.key_bits)
    if array.dtype.kind in "SU":
        check_padding(array)
    if array.dtype.kind in "SUTO" or (array.dtype.kind == "V" and array.dtype.names is None):
        return check_keys(array.tolist(), digest)
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


def _arrow_words(keys: Any, digest: KeyDigest) -> NDArray[np.uint64] | None:
    """Return the words of a column of text from its buffers; None for other columns."""
    if isinstance(keys, (*_SINGLE, np.ndarray)):
        return None
    words: list[NDArray[np.uint64]] = []
    start, chunks = 0, arrow_chunks(keys)
    for chunk in chunks or ():
        if chunk.null_count:
            nulls = np.asarray(chunk.is_null())
            raise null(chunk.type, start + int(np.argmax(nulls)))
        spans = arrow_spans(chunk)
        if spans is None:
            return None
        words.append(digest.of_spans(*spans))
        start += len(chunk)
    return np.concatenate(words) if len(words) > 1 else words[0] if words else None


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
