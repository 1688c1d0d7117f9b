"""Forms of keys other than integers and bytes; each form represents an integer or bytes.

A tuple is one key: the digest of its encoding. A tuple is encoded like an element. An element
is encoded as a tag of one byte, the length of its content in 8 bytes, little-endian, and the
content:

- tag ``b``: the bytes of text, or of a form that stands for bytes;
- tag ``i``: an integer, or a form that stands for one, in decimal digits, with a minus sign if it
  is negative;
- tag ``t``: the encoded elements of a tuple.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from importlib import import_module
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..compilation import extension
from ..times import EPOCH, MICROSECOND, SINCE_1970, instant

TEXTS = (str, bytes, bytearray, memoryview)
INTEGERS = (int, np.integer)
Address = IPv4Address | IPv6Address

Spans = tuple[Any, NDArray[np.int64], NDArray[np.int64]]
"""A buffer of bytes, and where texts in it start and stop."""

ARROW = ("__arrow_c_array__", "__arrow_c_stream__", "__arrow_array__")
"""Methods, of which a column or a table for Arrow has one."""

_EXPECTED = "must be integers, text or bytes"
_NULLS = ("NoneType", "NAType", "NaTType")


def null(kind: object, position: int) -> TypeError:
    """Return the error for a null of this kind among keys."""
    remedy = 'insert, query, check_and_insert and age skip it with nulls="skip"'
    return TypeError(f"keys: {_EXPECTED}, not a null ({kind} at position {position}); {remedy}")


def _is_null(item: Any) -> bool:
    if isinstance(item, tuple):
        return any(map(_is_null, item))
    item = item.as_py() if hasattr(item, "as_py") else item
    number = isinstance(item, float | np.floating | np.datetime64)
    return type(item).__name__ in _NULLS or bool(number and item != item)


def nullable(keys: Any) -> tuple[Any, NDArray[np.bool_]]:
    """Return a list or column in a form that takes a mask, and whether each key is not null."""
    if chunks := arrow_chunks(keys):
        whole = sys.modules["pyarrow"].chunked_array(chunks)
        return whole, np.asarray(whole.is_valid())
    listed = isinstance(keys, list)
    array = np.fromiter(keys, object, len(keys)) if listed else np.atleast_1d(np.asarray(keys))
    if array.dtype.kind == "O":
        return array, ~np.fromiter(map(_is_null, array), np.bool_, len(array))
    masked = isinstance(keys, np.ma.MaskedArray)
    nulls: Any = np.ma.getmaskarray(keys) if masked else np.zeros(array.shape, np.bool_)
    nulls = nulls | (array != array) if array.dtype.kind in "fM" else nulls
    return array, ~(nulls if nulls.ndim == 1 else nulls.any(axis=1))


def unexpected(kind: object) -> TypeError:
    """Return the error for values that cannot be keys."""
    return TypeError(f"keys: {_EXPECTED}, not {kind}")


def plain(item: Any, position: int = 0) -> Any:
    """Return the integer, text or bytes that a key of any form, at a `position`, represents."""
    kind = type(item)
    if kind in (int, str, bytes):
        return item
    if isinstance(item, tuple):
        return encoded(item)
    if hasattr(item, "as_py"):  # a scalar of Arrow
        return plain(item.as_py(), position)
    if isinstance(item, np.ndarray):
        if item.ndim:
            raise unexpected("ndarray")
        return plain(item[()], position)
    if _is_null(item):
        raise null(kind.__name__, position)
    if isinstance(item, np.datetime64):
        return int(nanoseconds(np.array([item]))[0])
    if hasattr(item, "to_datetime64"):  # a timestamp of pandas, in UTC
        return plain(item.to_datetime64(), position)
    if isinstance(item, date):
        return _instant(item)
    if isinstance(item, np.void) and item.dtype.names is None:
        return item.tobytes()
    if not isinstance(item, (*TEXTS, *INTEGERS)) or isinstance(item, bool):
        return _network_bytes(item)
    return item


def _network_bytes(item: Any) -> bytes:
    """Return the bytes of a UUID or of an address."""
    if isinstance(item, UUID):
        return item.bytes
    if not isinstance(item, Address) or hasattr(item, "network"):
        raise unexpected(type(item).__name__)
    scope = getattr(item, "scope_id", None)
    return item.packed + (b"" if scope is None else f"%{scope}".encode())


def _instant(item: date) -> int:
    """Return the nanoseconds from 1970 to an instant, in UTC unless it has a zone."""
    if not isinstance(item, datetime):
        item = datetime(item.year, item.month, item.day)
    if item.tzinfo is None:
        item = item.replace(tzinfo=UTC)
    return instant(item)


FORMS: dict[type, Callable[[Any], Any]] = {
    **{np.dtype(code).type: int for code in "bBhHiIlLqQ"},
    **dict.fromkeys((bytearray, memoryview, np.bytes_), bytes),
    **dict.fromkeys((date, datetime), _instant),
    **dict.fromkeys((UUID, IPv4Address, IPv6Address), _network_bytes),
    np.datetime64: plain,
}
"""What `plain` does for further types of single keys than integers, text and tuples of Python."""

if (_native := extension()) is not None:
    _native.take_forms(FORMS, datetime, EPOCH, MICROSECOND, SINCE_1970)


def nanoseconds(instants: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """Return the nanoseconds from 1970 to each instant, shape (n,)."""
    if (nulls := np.isnat(instants)).any():
        raise null("NaT", int(np.argmax(nulls)))
    times = instants.astype("datetime64[ns]")
    if (wrong := times.astype(instants.dtype) != instants).any():
        raise ValueError(
            f"keys: must be instants in nanoseconds that 64 bits hold, not {instants[wrong][0]}"
        )
    numbers: NDArray[np.int64] = times.view(np.int64)
    return numbers


def octets(text: Any) -> bytes:
    """Return the bytes of text; ValueError if UTF-8 cannot encode it."""
    try:
        return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)
    except UnicodeEncodeError as error:
        raise ValueError(f"keys: must be text that UTF-8 has, not {error.object!r}") from None


def encoded(item: Any, position: int = 0) -> bytes:
    """Return the encoding of a tuple, or of an element of one; errors as `plain`."""
    if isinstance(item, tuple):
        return tagged(b"t", b"".join(map(encoded, item)))
    item = plain(item, position)
    return tagged(b"i", b"%d" % item) if isinstance(item, INTEGERS) else tagged(b"b", octets(item))


def tagged(tag: bytes, content: bytes) -> bytes:
    """Return the encoding of an element; the tag 0 is that of an element that has a tag."""
    return content if tag == b"\0" else tag + len(content).to_bytes(8, "little") + content


def spans_of(texts: list[bytes]) -> Spans:
    """Return the spans of bytes that follow one another in a buffer."""
    stops = np.cumsum([*map(len, texts)], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), stops])[:-1]
    return np.frombuffer(b"".join(texts), np.uint8), starts, stops


def joined(parts: Sequence[Spans], join: Callable[..., Any]) -> Spans:
    """Return spans of several buffers as spans of one, the arrays joined by a function of numpy."""
    if len(parts) == 1 and join is np.concatenate:
        return parts[0]
    buffers, starts, stops = zip(*parts, strict=True)
    bases = np.cumsum([0, *map(len, buffers[:-1])])
    moved = (join([*map(np.add, each, bases)]) for each in (starts, stops))
    return np.concatenate(buffers), *moved


def frame_columns(keys: Any) -> list[tuple[Any, Any]] | None:
    """Return names and columns of keys of several columns; None for other keys."""
    found: list[tuple[Any, Any]] | None = None
    if isinstance(keys, tuple):
        found = [*enumerate(keys)] if keys and all(map(_is_column, keys)) else None
    elif hasattr(keys, "iloc") and keys.ndim == 2:  # a frame of pandas
        found = [*keys.items()]
    elif hasattr(keys, "get_columns"):  # a frame of polars
        found = [(column.name, column) for column in keys.get_columns()]
    elif hasattr(keys, "itercolumns"):  # a table of pyarrow
        found = [*zip(keys.schema.names, keys.columns, strict=True)]
    elif any(hasattr(keys, name) for name in ARROW):
        chunks = arrow_chunks(keys)
        arrow: Any = sys.modules.get("pyarrow")
        if chunks and arrow.types.is_struct(chunks[0].type):
            whole = arrow.chunked_array(chunks)
            found = [*zip([field.name for field in whole.type], whole.flatten(), strict=True)]
    lengths = {len(column) for _, column in found or ()}
    if found is not None and len(lengths) != 1:
        raise ValueError(f"keys: must have columns of one length, not of lengths {sorted(lengths)}")
    return found


def _is_column(value: Any) -> bool:
    """Whether an element of a tuple is an array, and not a key."""
    array = getattr(value, "ndim", None) == 1 and not isinstance(value, TEXTS)
    return array or any(hasattr(value, name) for name in ARROW)


def check_padding(array: NDArray[Any]) -> None:
    """Refuse an array of numpy's type S or U in which a zero may be padding or part of a key."""
    unit = np.uint8 if array.dtype.kind == "S" else np.uint32
    if not array.size:
        return
    units = np.ascontiguousarray(array).view(unit).reshape(array.size, -1)
    if (short := units[:, -1] == 0).any():
        bytewise = f", or array.view('V{array.itemsize}') if they belong to the keys"
        raise TypeError(
            f"keys: must fill the width of an array of {array.dtype.str[1:]}, which drops zeros at "
            f"the end, not end in zeros at position {int(np.argmax(short))}: give array.tolist() "
            f"if zeros are padding{bytewise if unit is np.uint8 else ''}"
        )


def arrow_chunks(keys: Any) -> list[Any] | None:
    """Return the pyarrow arrays of a column without a copy; otherwise None.

    A column of another library needs pyarrow for that.
    """
    # An array of Python has no such attribute, and an index of tuples raises ValueError.
    with suppress(AttributeError, ValueError):
        if hasattr(keys.array, "__arrow_array__"):
            keys = keys.array  # of a series of pandas
    own = type(keys).__module__.partition(".")[0] == "pyarrow"
    if not own and not any(hasattr(keys, name) for name in ARROW):
        return None
    try:  # pyarrow raises any of these for a column that it cannot represent.
        arrow: Any = import_module("pyarrow")
        if not own:
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


def arrow_spans(chunk: Any) -> Spans | None:
    """Return buffer, starts and stops of the texts of a pyarrow array; None for other types."""
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
    # A slice holds the buffer of its whole column.
    return data[bounds[0] : bounds[-1]], bounds[:-1] - bounds[0], bounds[1:] - bounds[0]


def _bounds(buffer: Any, kind: type, first: int, count: int) -> NDArray[np.int64]:
    if not count:
        return np.zeros(1, np.int64)
    bounds = np.frombuffer(buffer, kind)[first : first + count + 1].astype(np.int64)
    if len(bounds) != count + 1:
        raise ValueError(f"keys: must have {count + 1} offsets in their buffer, not {len(bounds)}")
    return bounds
