"""Keys as people have them, brought to the 64-bit words that filters hash.

A key is a non-negative integer, or text, or bytes. Text stands for its UTF-8
bytes, so that ``"a"`` and ``b"a"`` are one key, and bytes stand for their
digest (`text_keys`). Integers stand for themselves: 5 and "5" are two keys.

The digest is BLAKE2b, of as many whole 64-bit words as the key has, the least
significant word first and each little-endian; the last word is cut to the
width of the key. Keys of more than 512 bits take SHAKE256 of the text, which a
keyed digest puts after the length of its own key (8 bytes, little-endian) and
that key. A digest depends on nothing but the text, the width and the key of
the digest: neither on the machine or a version nor on the seed of a filter.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..compilation import core

Text = str | bytes | bytearray | memoryview
"""Keys that are digested."""

Key = int | np.integer[Any] | Text
"""A single key."""

Keys = ArrayLike | Key | Iterable[Key]
"""A single key, an iterable or an array of keys; an array of shape (n, words) gives words of wide
keys, the least significant first. A tuple is refused: it may be one key or several."""

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
    """The method, as an attribute of its class."""

    def __get__(self, model: object, kind: Any = ..., /) -> Bound[Others, One, All]: ...


_EXPECTED = "must be integers, str or bytes"
_TEXTS = (str, bytes, bytearray, memoryview)
_INTEGERS = (int, np.integer)
_NULLS = ("NoneType", "NAType", "NaTType")


def is_single(keys: Any) -> bool:
    """Whether `keys` is one key and not several."""
    return (
        isinstance(keys, (*_TEXTS, *_INTEGERS))
        or getattr(keys, "ndim", None) == 0
        or hasattr(keys, "as_py")
        or not hasattr(keys, "__iter__")
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
    """Let a method that gives an array, an element a key, give the element for a single key.

    The first parameter of the `method` is `keys`.
    """

    @wraps(method)
    def answer(self: Any, keys: Any, *arguments: Any, **options: Any) -> Any:
        answers = method(self, keys, *arguments, **options)
        return answers[0].item() if is_single(keys) else answers

    return answer


def check_keys(keys: Keys, key_bits: int) -> NDArray[np.uint64]:
    """Bring keys of any form to words.

    Parameters
    ----------
    keys : int, str, bytes, iterable or array of these
        One key; or n keys in one dimension; or integers of shape (n, words),
        least significant 64-bit word first. Scalars and arrays of Arrow, and series, are
        keys as well. No tuple, no mapping, and no array of numpy's type S: the meaning of
        each is unclear.
    key_bits : int
        Width of a key, for which the words are as few as can be.

    Returns
    -------
    ndarray of uint64, shape (n, words)

    Raises
    ------
    TypeError
        If the keys are neither integers nor text nor bytes, or some of both, if one is null,
        or their container has no clear meaning.
    ValueError
        If the shape is wrong, or a key is negative or does not fit into `key_bits`.
    """
    if isinstance(keys, _TEXTS):
        return _text_words([keys], key_bits)
    if isinstance(keys, _INTEGERS):
        return _listed([keys], key_bits)
    if not isinstance(keys, np.ndarray) and not hasattr(keys, "__array__"):
        return _listed(_as_list(keys), key_bits)
    array = np.asarray(keys)
    # numpy imports masked arrays when they are first used, which takes longer than a few keys.
    masked: Any = keys
    if "numpy.ma" in sys.modules and np.ma.is_masked(masked):
        raise _null("masked", int(np.argmax(np.ma.getmaskarray(masked))))
    if array.ndim == 0:
        array = array.reshape(1)
    if array.size == 0 and array.dtype.kind in "fO":
        array = array.astype(np.uint64)
    if array.dtype.kind in "ui":
        return _array_words(array, key_bits)
    if array.dtype.kind == "S":
        raise TypeError(
            f"keys: must not be an array of {array.dtype.str[1:]}, which drops zeros at the end: "
            "give array.astype(object) if zeros are padding, "
            f"or array.view('V{array.itemsize}') if they belong to the keys"
        )
    if array.dtype.kind in "UTO" or (array.dtype.kind == "V" and array.dtype.names is None):
        return _listed(array.tolist(), key_bits)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise _null(array.dtype, int(np.argmax(np.isnan(array))))
    raise TypeError(f"keys: {_EXPECTED}, not {array.dtype}")


def _as_list(keys: Any) -> list[Any]:
    """Return one key, or the keys of an iterable that is no array, in a list."""
    if isinstance(keys, list):
        return keys
    if isinstance(keys, tuple):
        raise TypeError(
            "keys: must not be a tuple, which may be one key or several: "
            "give a list of keys, or a compound key as text or bytes"
        )
    if isinstance(keys, Mapping):
        raise TypeError(f"keys: must not be a {type(keys).__name__}: give its keys() or values()")
    return [keys] if is_single(keys) else list(keys)


def _null(kind: object, position: int) -> TypeError:
    return TypeError(f"keys: {_EXPECTED}, not a null ({kind} at position {position})")


def random_keys(random: "np.random.Generator", count: int, key_bits: int) -> NDArray[np.uint64]:
    """Draw `count` keys, each as likely, from a `random` generator; width, shape as `text_keys`."""
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


def text_keys(texts: Iterable[Text], *, key_bits: int, key: bytes = b"") -> NDArray[np.uint64]:
    """Digest text or bytes to the keys that a filter takes.

    A filter that is given text digests it in the same way, with an empty `key`.

    Parameters
    ----------
    texts : iterable of str or bytes
        Text stands for its UTF-8 bytes; surrogates that stand for bytes that
        could not be decoded (``surrogateescape``) stand for these bytes.
    key_bits : int
        Width of a key. Up to 64, the result has shape (n,), else (n, words).
    key : bytes
        Key of the digest, at most 64 bytes. With a secret one, nobody else
        can find texts that have one digest.

    Raises
    ------
    TypeError
        If `texts` is a single text.
    ValueError
        If a text cannot be encoded, or the key of the digest is too long.
    """
    if isinstance(texts, _TEXTS):
        raise TypeError(f"texts: must be an iterable of str or bytes, not {type(texts).__name__}")
    words = _text_words(texts, key_bits, key)
    return words[:, 0] if words.shape[1] == 1 else words


def _text_words(texts: Iterable[Text], key_bits: int, key: bytes = b"") -> NDArray[np.uint64]:
    words = -(-key_bits // 64)
    size = 8 * words
    if len(key) > hashlib.blake2b.MAX_KEY_SIZE:
        raise ValueError(f"key: must have at most 64 bytes, not {len(key)}")
    texts = texts if isinstance(texts, list) else list(texts)
    array = np.empty((len(texts), words), np.uint64)
    native = core() if size <= hashlib.blake2b.MAX_DIGEST_SIZE and not key else None
    if native is not None and native.digest_texts(texts, words, array):
        return _cut(array, key_bits)
    try:
        octets = [
            text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
            for text in texts
        ]
    except UnicodeEncodeError as error:
        raise ValueError(f"keys: must be text that UTF-8 has, not {error.object!r}") from None
    if size <= hashlib.blake2b.MAX_DIGEST_SIZE:
        digests = [hashlib.blake2b(text, digest_size=size, key=key).digest() for text in octets]
    else:
        before = len(key).to_bytes(8, "little") + key if key else b""
        digests = [hashlib.shake_256(before + text).digest(size) for text in octets]
    array = np.frombuffer(b"".join(digests), "<u8").astype(np.uint64).reshape(-1, words)
    return _cut(array, key_bits)


def _cut(array: NDArray[np.uint64], key_bits: int) -> NDArray[np.uint64]:
    """Cut the last words to the width of a key."""
    if key_bits % 64:
        array[:, -1] &= np.uint64((1 << key_bits % 64) - 1)
    return array


def _listed(items: Sequence[Any], key_bits: int) -> NDArray[np.uint64]:
    """Return the words of keys, or of rows of words, in a list."""
    kinds = {*map(type, items)}
    if np.ndarray in kinds or any(hasattr(kind, "as_py") for kind in kinds):
        items = [*map(_plain, items)]
        kinds = {*map(type, items)}
    if all(issubclass(kind, _INTEGERS) and kind is not bool for kind in kinds):
        return _integer_words([*map(int, items)] if kinds - {int} else items, key_bits)
    if all(issubclass(kind, _TEXTS) for kind in kinds):
        return _text_words(items, key_bits)
    if all(issubclass(kind, list | tuple) for kind in kinds):
        return _array_words(_rows(items), key_bits)
    for position, item in enumerate(items):
        kind = type(item)
        if kind.__name__ in _NULLS or (kind is float and item != item):
            raise _null(kind.__name__, position)
        if kind is bool or not issubclass(kind, (*_TEXTS, *_INTEGERS)):
            raise TypeError(f"keys: {_EXPECTED}, not {kind.__name__}")
    raise TypeError("keys: must be all integers or all text and bytes, not some of both")


def _plain(item: Any) -> Any:
    """Return an element of an array, or a scalar of Arrow, as an object of Python."""
    if isinstance(item, np.ndarray):
        return item.tolist()
    return item.as_py() if hasattr(item, "as_py") else item


def _rows(rows: Sequence[Any]) -> NDArray[Any]:
    """Return an array of rows of words, of which numpy would make floats."""
    if len({*map(len, rows)}) > 1:
        raise ValueError("keys: must have rows of one length, not of several")
    for kind in {type(word) for row in rows for word in row}:
        if issubclass(kind, list | tuple | np.ndarray):
            return np.array(rows)
        if not issubclass(kind, _INTEGERS) or kind is bool:
            raise TypeError(
                f"keys: must have integers as words, not {kind.__name__}: "
                "give a compound key as text or bytes"
            )
    words = [int(word) for row in rows for word in row]
    if min(words, default=0) < 0:
        raise ValueError(f"keys: must not be negative, not {min(words)}")
    if max(words, default=0) >= 1 << 64:
        raise ValueError(f"keys: must have words below 2**64, not {max(words):#x}")
    return np.array(words, np.uint64).reshape(len(rows), len(rows[0]))


def _integer_words(items: Sequence[int], key_bits: int) -> NDArray[np.uint64]:
    words = -(-key_bits // 64)
    if not items:
        return np.empty((0, words), np.uint64)
    least, most = min(items), max(items)
    if least < 0:
        raise ValueError(f"keys: must not be negative, not {least}")
    if most >> key_bits:
        raise ValueError(f"keys: must be below 2**{key_bits}, not {most:#x} or more")
    if words == 1:
        return np.array(items, np.uint64).reshape(-1, 1)
    octets = b"".join(item.to_bytes(8 * words, "little") for item in items)
    return np.frombuffer(octets, "<u8").astype(np.uint64).reshape(-1, words)


def _array_words(array: NDArray[Any], key_bits: int) -> NDArray[np.uint64]:
    """Return the words of an array of integers."""
    if array.dtype.kind == "i" and array.size and array.min() < 0:
        raise ValueError(f"keys: must not be negative, not {array.min()}")
    words = -(-key_bits // 64)
    shape = array.shape
    if array.ndim == 1:
        array = array.reshape(-1, 1)
        if words > 1:
            array = np.hstack([array, np.zeros((len(array), words - 1), array.dtype)])
    if array.ndim != 2 or array.shape[1] != words:
        form = "(n,)" if words == 1 else f"(n,) or (n, {words})"
        raise ValueError(f"keys: must have shape {form} for {key_bits}-bit keys, not {shape}")
    array = array.astype(np.uint64, copy=False)
    spare = 64 * words - key_bits
    if spare and array.size:
        largest = int(array[:, -1].max())
        if largest >> (64 - spare):
            raise ValueError(
                f"keys: must be below 2**{key_bits}, not {largest << (64 * (words - 1)):#x} or more"
            )
    return array
