"""Conversion of keys of any supported type to the 64-bit words that filters hash.

A key is an integer, which is used as it is, or bytes, which are replaced by their digest. Every
other type is first converted to an integer or to bytes; docs/python.md has a table of types.

A tuple is one key, and is replaced by the digest of its encoding. Each element, and the tuple
itself, is encoded as a tag of one byte, the length of the content in 8 bytes (little-endian), and
the content:

- tag ``b``: bytes, or a type that is converted to bytes, such as text;
- tag ``i``: an integer, or a type that is converted to one, in decimal digits, with a minus sign if
  it is negative;
- tag ``t``: the encoded elements of a tuple.

The digest "blake2b" is BLAKE2b, or SHAKE256 for keys of more than 512 bits; it uses no secret. The
digest "siphash" computes each 64-bit word with SipHash-1-3, under a separate SipHash key of 16
bytes. These keys are the output of SHAKE256, in order, for the text ``lately/digest/SEED/SECRET``
with both numbers in decimal. SECRET is the filter's first secret, or 0 if its hash uses no secret;
with 0, anyone can choose texts with equal digests. In every digest the least significant word is
first, bytes are little-endian, and the last word is truncated to the width of the key.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import wraps
from importlib import import_module
from io import IOBase
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, cast, overload
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cached import Cached
from ..compilation import core, extension
from ..results import Words
from ..times import EPOCH, MICROSECOND, SINCE_1970, instant
from .siphash import siphash_spans

TEXTS = (str, bytes, bytearray, memoryview)
INTEGERS = (int, np.integer)
Address = IPv4Address | IPv6Address
Offsets = NDArray[np.int64]
Spans = tuple[Any, Offsets, Offsets]  # texts in a buffer: its bytes, starts and stops
# a column or table that Arrow can read has one of these methods
ARROW = ("__arrow_c_array__", "__arrow_c_stream__", "__arrow_array__")
_EXPECTED = "must be integers, text or bytes"
_NULLS = ("NoneType", "NAType", "NaTType")


def null(kind: object, position: int) -> TypeError:
    remedy = 'insert, query, check_and_insert and age skip it with nulls="skip"'
    return TypeError(f"keys: {_EXPECTED}, not a null ({kind} at position {position}); {remedy}")


def _is_null(item: Any) -> bool:
    if isinstance(item, tuple):
        return any(map(_is_null, item))
    item = item.as_py() if hasattr(item, "as_py") else item
    number = isinstance(item, float | np.floating | np.datetime64)
    return type(item).__name__ in _NULLS or bool(number and item != item)


def _nullable(keys: Any) -> tuple[Any, NDArray[np.bool_]]:
    """Convert keys to an array that a mask can index, and return the mask of non-null keys."""
    if chunks := arrow_chunks(keys):
        whole = sys.modules["pyarrow"].chunked_array(chunks)
        return whole, np.asarray(whole.is_valid())
    if isinstance(keys, list):
        array = np.fromiter(keys, object, len(keys))
    else:
        array = np.atleast_1d(np.asarray(keys))
    if array.dtype.kind == "O":
        return array, ~np.fromiter(map(_is_null, array), np.bool_, len(array))
    masked = isinstance(keys, np.ma.MaskedArray)
    nulls: Any = np.ma.getmaskarray(keys) if masked else np.zeros(array.shape, np.bool_)
    nulls = nulls | (array != array) if array.dtype.kind in "fM" else nulls
    return array, ~(nulls if nulls.ndim == 1 else nulls.any(axis=1))


def unexpected(kind: object) -> TypeError:
    return TypeError(f"keys: {_EXPECTED}, not {kind}")


def plain(item: Any, position: int = 0) -> Any:
    """Convert a key of any type to an integer, text or bytes; errors name the key's `position`."""
    kind = type(item)
    if kind in (int, str, bytes):
        return item
    if isinstance(item, tuple):
        return encoded(item)
    if hasattr(item, "as_py"):  # an Arrow scalar
        return plain(item.as_py(), position)
    if isinstance(item, np.ndarray):
        if item.ndim:
            raise unexpected("ndarray")
        return plain(item[()], position)
    if _is_null(item):
        raise null(kind.__name__, position)
    if isinstance(item, np.datetime64):
        return int(nanoseconds(np.array([item]))[0])
    if hasattr(item, "to_datetime64"):  # a pandas timestamp, in UTC
        return plain(item.to_datetime64(), position)
    if isinstance(item, date):
        return _instant(item)
    if isinstance(item, np.void) and item.dtype.names is None:
        return item.tobytes()
    return item if _is_plain(kind) else _network_bytes(item)


def _is_plain(kind: type) -> bool:
    return issubclass(kind, (*TEXTS, *INTEGERS)) and kind is not bool


def _network_bytes(item: Any) -> bytes:
    if isinstance(item, UUID):
        return item.bytes
    if not isinstance(item, Address) or hasattr(item, "network"):
        raise unexpected(type(item).__name__)
    scope = getattr(item, "scope_id", None)
    return item.packed + (b"" if scope is None else f"%{scope}".encode())


def _instant(item: date) -> int:
    """Convert a date or datetime to nanoseconds since 1970, in UTC unless it has a time zone."""
    if not isinstance(item, datetime):
        item = datetime(item.year, item.month, item.day)
    if item.tzinfo is None:
        item = item.replace(tzinfo=UTC)
    return instant(item)


# how `plain` converts single keys that are not Python integers, text or tuples, by type
FORMS: dict[type, Callable[[Any], Any]] = {
    **{np.dtype(code).type: int for code in "bBhHiIlLqQ"},
    **dict.fromkeys((bytearray, memoryview, np.bytes_), bytes),
    **dict.fromkeys((date, datetime), _instant),
    **dict.fromkeys((UUID, IPv4Address, IPv6Address), _network_bytes),
    np.datetime64: plain,
}

if (_native := extension()) is not None:
    _native.take_forms(FORMS, datetime, EPOCH, MICROSECOND, SINCE_1970)


def nanoseconds(instants: NDArray[np.datetime64]) -> NDArray[np.int64]:
    if (nulls := np.isnat(instants)).any():
        raise null("NaT", int(np.argmax(nulls)))
    times = instants.astype("datetime64[ns]")
    if (wrong := times.astype(instants.dtype) != instants).any():
        raise ValueError(
            f"keys: must be times that 64-bit nanoseconds can represent, not {instants[wrong][0]}"
        )
    numbers: NDArray[np.int64] = times.view(np.int64)
    return numbers


def octets(text: Any) -> bytes:
    """Encode a str in UTF-8, or convert another type of byte string to bytes."""
    try:
        return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)
    except UnicodeEncodeError as error:
        raise ValueError(f"keys: must be encodable in UTF-8, not {error.object!r}") from None


def encoded(item: Any, position: int = 0) -> bytes:
    if isinstance(item, tuple):
        return tagged(b"t", b"".join(map(encoded, item)))
    item = plain(item, position)
    return tagged(b"i", b"%d" % item) if isinstance(item, INTEGERS) else tagged(b"b", octets(item))


def tagged(tag: bytes, content: bytes) -> bytes:
    """Prepend the tag and the length to the content, unless the tag is a zero byte."""
    return content if tag == b"\0" else tag + len(content).to_bytes(8, "little") + content


def _spans_of(texts: list[bytes]) -> Spans:
    stops = np.cumsum([*map(len, texts)], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), stops])[:-1]
    return np.frombuffer(b"".join(texts), np.uint8), starts, stops


def joined(parts: Sequence[Spans], join: Callable[..., Any]) -> Spans:
    """Concatenate buffers; `join` combines their starts and stops, adjusted to the new buffer."""
    if len(parts) == 1 and join is np.concatenate:
        return parts[0]
    buffers, starts, stops = zip(*parts, strict=True)
    bases = np.cumsum([0, *map(len, buffers[:-1])])
    moved = (join([*map(np.add, each, bases)]) for each in (starts, stops))
    return np.concatenate(buffers), *moved


def _frame_columns(keys: Any) -> list[tuple[Any, Any]] | None:
    """Return (name, column) pairs if the keys are given as several columns, else None."""
    result: list[tuple[Any, Any]] | None = None
    if isinstance(keys, tuple):
        result = [*enumerate(keys)] if keys and all(map(_is_column, keys)) else None
    elif hasattr(keys, "iloc") and keys.ndim == 2:  # a pandas data frame
        result = [*keys.items()]
    elif hasattr(keys, "get_columns"):  # a polars data frame
        result = [(column.name, column) for column in keys.get_columns()]
    elif hasattr(keys, "itercolumns"):  # a pyarrow table
        result = [*zip(keys.schema.names, keys.columns, strict=True)]
    elif any(hasattr(keys, name) for name in ARROW):
        chunks = arrow_chunks(keys)
        arrow: Any = sys.modules.get("pyarrow")
        if chunks and arrow.types.is_struct(chunks[0].type):
            whole = arrow.chunked_array(chunks)
            result = [*zip([field.name for field in whole.type], whole.flatten(), strict=True)]
    lengths = {len(column) for _, column in result or ()}
    if result is not None and len(lengths) != 1:
        raise ValueError(
            f"keys: columns must have the same length, not the lengths {sorted(lengths)}"
        )
    return result


def _is_column(value: Any) -> bool:
    array = getattr(value, "ndim", None) == 1 and not isinstance(value, TEXTS)
    return array or any(hasattr(value, name) for name in ARROW)


def _check_padding(array: NDArray[Any]) -> None:
    """Raise TypeError if keys in an array of type S or U end in zeros, which may be padding."""
    unit = np.uint8 if array.dtype.kind == "S" else np.uint32
    if not array.size:
        return
    units = np.ascontiguousarray(array).view(unit).reshape(array.size, -1)
    if (short := units[:, -1] == 0).any():
        other = f", or array.view('V{array.itemsize}') if they belong to the keys"
        raise TypeError(
            f"keys: the key at position {int(np.argmax(short))} ends in zeros, which may be "
            f"padding in an array of type {array.dtype.str[1:]}; pass array.tolist() if they are "
            f"padding{other if unit is np.uint8 else ''}"
        )


def arrow_chunks(keys: Any) -> list[Any] | None:
    """Return the pyarrow arrays of a column, not copied, or None for other kinds of keys."""
    # A Python array has no such attribute, and a pandas index of tuples raises ValueError.
    with suppress(AttributeError, ValueError):
        if hasattr(keys.array, "__arrow_array__"):
            keys = keys.array  # of a pandas series
    is_arrow = type(keys).__module__.partition(".")[0] == "pyarrow"
    if not is_arrow and not any(hasattr(keys, name) for name in ARROW):
        return None
    try:  # pyarrow raises any of these for a column that it cannot represent.
        arrow: Any = import_module("pyarrow")
        if not is_arrow:
            stream = hasattr(keys, "__arrow_c_stream__")
            keys = arrow.chunked_array(keys) if stream else arrow.array(keys)
    except (ImportError, NotImplementedError, OverflowError, TypeError, ValueError):
        return None
    if not isinstance(keys, arrow.Array | arrow.ChunkedArray):
        return None
    chunks = keys.chunks if isinstance(keys, arrow.ChunkedArray) else [keys]
    large = {arrow.string_view(): arrow.large_string(), arrow.binary_view(): arrow.large_binary()}
    stored = [chunk.storage if hasattr(chunk, "storage") else chunk for chunk in chunks]
    return [chunk.cast(large[chunk.type]) if chunk.type in large else chunk for chunk in stored]


def _arrow_spans(chunk: Any) -> Spans | None:
    """Return the spans of the texts in a pyarrow array; None if the array holds another type."""
    arrow: Any = import_module("pyarrow")
    types = arrow.types
    kind, count, first = chunk.type, len(chunk), chunk.offset
    buffers = chunk.buffers()
    data = np.empty(0, np.uint8) if buffers[-1] is None else np.frombuffer(buffers[-1], np.uint8)
    if types.is_fixed_size_binary(kind):
        bounds = np.arange(first, first + count + 1, dtype=np.int64) * kind.byte_width
    elif types.is_string(kind) or types.is_binary(kind):
        bounds = _bounds(buffers[1], np.int32, first, count)
    elif types.is_large_string(kind) or types.is_large_binary(kind):
        bounds = _bounds(buffers[1], np.int64, first, count)
    elif types.is_nested(kind):
        raise unexpected(kind)
    else:
        return None
    # A slice still refers to the buffer of the whole column.
    return data[bounds[0] : bounds[-1]], bounds[:-1] - bounds[0], bounds[1:] - bounds[0]


def _bounds(buffer: Any, kind: type, first: int, count: int) -> NDArray[np.int64]:
    if not count:
        return np.zeros(1, np.int64)
    bounds = np.frombuffer(buffer, kind)[first : first + count + 1].astype(np.int64)
    if len(bounds) != count + 1:
        raise ValueError(f"keys: the Arrow buffer must have {count + 1} offsets, not {len(bounds)}")
    return bounds


@dataclass(frozen=True)
class KeyDigest:
    """Digest function that converts bytes to the words of a key."""

    key_bits: int
    name: str = "blake2b"
    seed: int = 0  # seed of the filter; like the secret, only for "siphash"
    secret: int = field(default=0, repr=False)

    @classmethod
    def of(cls, spec: Any, secret: int = 0) -> "KeyDigest":
        return cls(spec.key_bits, spec.digest, spec.seed, secret)

    @property
    def count(self) -> int:
        """Number of 64-bit words in a key."""
        return -(-self.key_bits // 64)

    @Cached
    def keys(self) -> Words:
        """SipHash keys of the words, low half first; shape (count, 2), or (0, 2) for BLAKE2b."""
        label = f"lately/digest/{self.seed}/{self.secret}".encode()
        size = 16 * self.count if self.name == "siphash" else 0
        octets = hashlib.shake_256(label).digest(size)
        return np.frombuffer(octets, "<u8").astype(np.uint64).reshape(-1, 2)

    def of_list(self, texts: list[object]) -> Words | None:
        """Digest a list in the C extension, or return None if only Python can digest it."""
        native = core()
        if native is None or self._shake:
            return None
        words = np.empty((len(texts), self.count), np.uint64)
        return self._cut(words) if native.digest_texts(texts, self.keys, words) else None

    def of_bytes(self, texts: list[bytes]) -> Words:
        return self.of_spans(*_spans_of(texts))

    def of_rows(self, columns: list[tuple[bytes, Spans]]) -> Words:
        """Digest tuples; each of the columns holds the tag and the spans of one element."""
        native = core()
        if native is None or self._shake:
            texts = []
            for tag, (data, *bounds) in columns:
                spans = zip(*bounds, strict=True)
                texts.append([tagged(tag, bytes(data[start:stop])) for start, stop in spans])
            rows = zip(*texts, strict=True)
            return self.of_bytes([tagged(b"t", b"".join(row)) for row in rows])
        tags, parts = zip(*columns, strict=True)
        data, starts, stops = joined(parts, np.column_stack)
        words = np.empty((len(starts), self.count), np.uint64)
        native.digest_spans(data, starts, stops, b"".join(tags), self.keys, words)
        return self._cut(words)

    def of_spans(self, data: NDArray[np.uint8], starts: Offsets, stops: Offsets) -> Words:
        """Digest n keys, each of them ``data[start:stop]``, to words of shape (n, count)."""
        words = np.empty((len(starts), self.count), np.uint64)
        native = core()
        if native is not None and not self._shake:
            native.digest_spans(data, starts, stops, b"", self.keys, words)
            return self._cut(words)
        if ((starts < 0) | (stops < starts) | (stops > len(data))).any():
            raise ValueError("spans: must be in the buffer")
        if self.name == "siphash":
            for word, (low, high) in enumerate(self.keys.tolist()):
                words[:, word] = siphash_spans(data, starts, stops, low | high << 64)
            return self._cut(words)
        octets, size = data.tobytes(), 8 * self.count
        for at, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
            text = octets[start:stop]
            if self._shake:
                digest = hashlib.shake_256(text).digest(size)
            else:
                digest = hashlib.blake2b(text, digest_size=size).digest()
            words[at] = np.frombuffer(digest, "<u8")
        return self._cut(words)

    @property
    def _shake(self) -> bool:
        return self.name == "blake2b" and 8 * self.count > hashlib.blake2b.MAX_DIGEST_SIZE

    def _cut(self, words: Words) -> Words:
        if self.key_bits % 64:
            words[:, -1] &= np.uint64((1 << self.key_bits % 64) - 1)
        return words


Text = str | bytes | bytearray | memoryview  # keys that are replaced by their digest
# a single key
Key = int | np.integer[Any] | Text | UUID | Address | date | np.datetime64 | tuple["Key", ...]
# a single key, or an iterable or array of keys; an array of shape (n, words) holds the words of
# wide keys, the least significant first. A tuple is a single key; a tuple of arrays is several
# keys.
Keys = ArrayLike | Key | Iterable[Key]
Nulls = Literal["refuse", "skip"]  # "skip" ignores nulls among keys
Method = TypeVar("Method", bound=Callable[..., Any])
Model = TypeVar("Model")  # class of a method whose first parameter is `keys`
Others = ParamSpec("Others")  # other parameters of the method
Scalar = TypeVar("Scalar", covariant=True)  # result for a single key
Array = TypeVar("Array", covariant=True)  # results for several keys


class Bound(Protocol[Others, Scalar, Array]):
    """Type of a bound method that returns a scalar for one key and an array for several keys."""

    @overload
    def __call__(self, keys: Key, *others: Others.args, **options: Others.kwargs) -> Scalar: ...

    @overload
    def __call__(self, keys: Keys, *others: Others.args, **options: Others.kwargs) -> Array: ...


class ScalarOrArray(Protocol[Others, Scalar, Array]):
    def __get__(self, model: object, kind: Any = ..., /) -> Bound[Others, Scalar, Array]: ...


_SINGLE = (*TEXTS, *INTEGERS, tuple)


def is_single(keys: Any) -> bool:
    """Return whether `keys` is a single key, not an array, a sized collection or an iterator."""
    if isinstance(keys, tuple):
        return _frame_columns(keys) is None
    length = hasattr(keys, "__len__") or hasattr(keys, "__next__")
    return (
        isinstance(keys, (*_SINGLE, type, IOBase))
        or getattr(keys, "ndim", None) == 0
        or hasattr(keys, "as_py")
        or not ((hasattr(keys, "__iter__") and length) or hasattr(keys, "__arrow_c_stream__"))
    )


@overload
def scalar_or_array(
    method: Callable[Concatenate[Model, Keys, Others], NDArray[np.bool_]],
) -> ScalarOrArray[Others, bool, NDArray[np.bool_]]: ...


@overload
def scalar_or_array(
    method: Callable[Concatenate[Model, Keys, Others], NDArray[np.int64]],
) -> ScalarOrArray[Others, int, NDArray[np.int64]]: ...


@overload
def scalar_or_array(
    method: Callable[Concatenate[Model, Keys, Others], NDArray[np.float64]],
) -> ScalarOrArray[Others, float, NDArray[np.float64]]: ...


def scalar_or_array(method: Callable[..., Any]) -> Any:
    """Wrap a method with one result per key, so that it returns a scalar for a single key."""
    method = skipping_nulls(method)

    @wraps(method)
    def answer(self: Any, keys: Any, *arguments: Any, **options: Any) -> Any:
        answers = method(self, keys, *arguments, **options)
        return answers[0].item() if is_single(keys) else answers

    return answer


def skipping_nulls(method: Method) -> Method:
    """Wrap a method so that ``nulls="skip"`` skips null keys, whose results are False or -1."""

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
    columns = _frame_columns(keys)
    is_arrow = any(hasattr(keys, name) for name in (*ARROW, "__array__"))
    columns_or_keys = columns or [("", keys if is_arrow else _as_list(keys))]
    parts = [_nullable(column) for _, column in columns_or_keys]
    present = np.logical_and.reduce([part[1] for part in parts])
    kept = [v.filter(present) if hasattr(v, "filter") else v[present] for v, _ in parts]
    return tuple(kept) if columns else kept[0], present


def check_keys(keys: Keys, digest: KeyDigest | int) -> Words:
    """Convert n keys of any type to an array of shape (n, words); `digest` may be a key width."""
    digest = KeyDigest(digest) if isinstance(digest, int) else digest
    given: Any = keys
    if not isinstance(keys, list):
        if (columns := _frame_columns(keys)) is not None:
            return digest.of_rows([_column(*each) for each in columns])
        given = [keys] if isinstance(keys, _SINGLE) else _read(keys)
    if isinstance(given, list):
        words = digest.of_list(given) if given else None
        return _listed(given, digest) if words is None else words
    if isinstance(given, np.ndarray):
        return _array_words(given, digest.key_bits)
    return digest.of_spans(*given)


def _read(keys: Any) -> NDArray[Any] | list[Any] | Spans:
    """Convert keys to an array of integers, to spans of text, or to a list."""
    if (texts := _arrow_texts(keys)) is not None:
        return texts
    if not hasattr(keys, "__array__"):
        return _as_list(keys)
    array = np.asarray(keys)
    # numpy imports masked arrays on first use, which takes longer than inserting a few keys.
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
        _check_padding(array)
    if array.dtype.kind in "SUTO" or (array.dtype.kind == "V" and array.dtype.names is None):
        return list(array.tolist())
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise null(array.dtype, int(np.argmax(np.isnan(array))))
    raise unexpected(array.dtype)


def _as_list(keys: Any) -> list[Any]:
    if isinstance(keys, Mapping):
        raise TypeError(f"keys: must not be a {type(keys).__name__}; pass its keys() or values()")
    if not is_single(keys):
        return list(keys)
    if hasattr(keys, "__iter__") and not (isinstance(keys, _SINGLE) or hasattr(keys, "as_py")):
        raise unexpected(f"{type(keys).__name__}; pass a list of its elements")
    return [keys]


def _arrow_texts(keys: Any) -> Spans | None:
    parts: list[Spans] = []
    start, chunks = 0, arrow_chunks(keys)
    for chunk in chunks or ():
        if chunk.null_count:
            nulls = np.asarray(chunk.is_null())
            raise null(chunk.type, start + int(np.argmax(nulls)))
        spans = _arrow_spans(chunk)
        if spans is None:
            return None
        parts.append(spans)
        start += len(chunk)
    return joined(parts, np.concatenate) if parts else None


def _column(name: object, column: Any) -> tuple[bytes, Spans]:
    try:
        elements = _read(column)
        if isinstance(elements, np.ndarray):
            if elements.ndim > 1:
                raise ValueError(f"keys: must have one dimension, not {elements.ndim}")
            digits = elements.astype("S20")
            starts = np.arange(0, 20 * len(digits), 20, dtype=np.int64)
            return b"i", (digits.view(np.uint8), starts, starts + np.char.str_len(digits))
        if isinstance(elements, list):
            return b"\0", _spans_of([*map(encoded, elements, range(len(elements)))])
    except (TypeError, ValueError) as error:
        message = str(error).removeprefix("keys: ")
        raise type(error)(f"keys: column {name!r}: {message}") from None
    return b"b", elements


def random_keys(random: "np.random.Generator", count: int, key_bits: int) -> Words:
    words = -(-key_bits // 64)
    keys = random.integers(0, 1 << 64, (count, words), np.uint64)
    if key_bits % 64:
        keys[:, -1] &= np.uint64((1 << key_bits % 64) - 1)
    return keys[:, 0] if words == 1 else keys


def sortable(keys: Words) -> NDArray[Any]:
    """View keys of shape (n,) or (n, words) as an array of shape (n,) that can be sorted."""
    if keys.ndim == 1 or keys.shape[1] == 1:
        return keys.reshape(-1)
    fields = [(f"word{index}", np.uint64) for index in range(keys.shape[1])]
    return np.ascontiguousarray(keys).view(fields)[:, 0]


def _listed(items: Sequence[Any], digest: KeyDigest) -> Words:
    kinds = {*map(type, items)}
    if kinds and all(issubclass(kind, list | np.ndarray) for kind in kinds) and np.ndim(items[0]):
        return _array_words(_rows(items), digest.key_bits)
    if not all(map(_is_plain, kinds)):
        items = [plain(item, position) for position, item in enumerate(items)]
        kinds = {*map(type, items)}
    if all(issubclass(kind, INTEGERS) for kind in kinds):
        return _integer_words([*map(int, items)] if kinds - {int} else items, digest.key_bits)
    if all(issubclass(kind, TEXTS) for kind in kinds):
        return digest.of_bytes([*map(octets, items)])
    raise TypeError("keys: must be all integers, or all text and bytes, not a mixture")


def _rows(rows: Sequence[Any]) -> NDArray[Any]:
    """Convert rows of words to an integer array; numpy would convert large words to floats."""
    if len({*map(len, rows)}) > 1:
        raise ValueError("keys: rows must all have the same length")
    for kind in {type(word) for row in rows for word in row}:
        if issubclass(kind, list | np.ndarray):
            return np.array(rows)
        if not issubclass(kind, INTEGERS) or kind is bool:
            raise TypeError(
                f"keys: words must be integers, not {kind.__name__}; pass a compound key as a tuple"
            )
    words = [int(word) for row in rows for word in row]
    if min(words, default=0) < 0:
        raise ValueError(f"keys: words must be at least 0, not {min(words)}")
    if max(words, default=0) >= 1 << 64:
        raise ValueError(f"keys: words must be below 2**64, not {max(words):#x}")
    return np.array(words, np.uint64).reshape(len(rows), len(rows[0]))


def _integer_words(items: Sequence[int], key_bits: int) -> Words:
    words = -(-key_bits // 64)
    if not items:
        return np.empty((0, words), np.uint64)
    low, high = min(items), max(items)
    _check_range(low, high, key_bits)
    if low < 0:
        items = [item & (1 << key_bits) - 1 for item in items]
    if words == 1:
        return np.array(items, np.uint64).reshape(-1, 1)
    octets = b"".join(item.to_bytes(8 * words, "little") for item in items)
    return np.frombuffer(octets, "<u8").astype(np.uint64).reshape(-1, words)


def _check_range(low: int, high: int, key_bits: int) -> None:
    if low < -(1 << key_bits - 1):
        raise ValueError(f"keys: must be at least -2**{key_bits - 1}, not {low}")
    if high >> key_bits > 0:
        raise ValueError(f"keys: must be below 2**{key_bits}, not {high:#x}")


def _array_words(array: NDArray[Any], key_bits: int) -> Words:
    words, shape = -(-key_bits // 64), array.shape
    if array.ndim == 1:
        if array.size:
            _check_range(int(array.min()), int(array.max()), key_bits)
        array = array.reshape(-1, 1)
        if words > 1:
            # Extend the sign into the higher words.
            array = np.hstack([array, np.repeat(-(array < 0).astype(array.dtype), words - 1, 1)])
    elif array.ndim != 2 or shape[1] != words:
        form = "(n,)" if words == 1 else f"(n,) or (n, {words})"
        raise ValueError(f"keys: must have shape {form} for {key_bits}-bit keys, not {shape}")
    elif array.size and array.min() < 0:
        raise ValueError(f"keys: words must be at least 0, not {array.min()}")
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
        raise ValueError(f"keys: must be below 2**{key_bits}, not {shown:#x}")
    return array
