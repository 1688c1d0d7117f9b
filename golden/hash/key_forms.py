"""Forms of keys other than integers and bytes; each form represents an integer or bytes.

A tuple is one key: the digest of its encoding. A tuple is encoded like an element. An element
is encoded as a tag of one byte, the length of its content in 8 bytes, little-endian, and the
content:

- tag ``b``: the bytes of text, or of a form that stands for bytes;
- tag ``i``: an integer, or a form that stands for one, in decimal digits, with a minus sign if it
  is negative;
- tag ``t``: the encoded elements of a tuple.
"""

from contextlib import suppress
from datetime import UTC, date, datetime
from importlib import import_module
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..times import instant

TEXTS = (str, bytes, bytearray, memoryview)
INTEGERS = (int, np.integer)
Address = IPv4Address | IPv6Address

_EXPECTED = "must be integers, text or bytes"
_NULLS = ("NoneType", "NAType", "NaTType")


def null(kind: object, position: int) -> TypeError:
    """Return the error for a null of this kind among keys."""
    return TypeError(f"keys: {_EXPECTED}, not a null ({kind} at position {position})")


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
    if kind.__name__ in _NULLS or (isinstance(item, float | np.floating) and item != item):
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


def encoded(item: Any) -> bytes:
    """Return the encoding of a tuple, or of an element of one; errors as `plain`."""
    if isinstance(item, tuple):
        tag, content = b"t", b"".join(map(encoded, item))
    else:
        item = plain(item)
        whole = isinstance(item, INTEGERS)
        tag, content = (b"i", b"%d" % int(item)) if whole else (b"b", octets(item))
    return tag + len(content).to_bytes(8, "little") + content


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
    names = ("__arrow_array__", "__arrow_c_stream__", "__arrow_c_array__")
    if not own and not any(hasattr(keys, name) for name in names):
        return None
    try:
        arrow: Any = import_module("pyarrow")
        if not own:
            stream = hasattr(keys, names[1])
            keys = arrow.chunked_array(keys) if stream else arrow.array(keys)
    except (ImportError, NotImplementedError, TypeError, ValueError):
        return None
    if not isinstance(keys, arrow.Array | arrow.ChunkedArray):
        return None
    chunks = keys.chunks if isinstance(keys, arrow.ChunkedArray) else [keys]
    return [chunk.storage if hasattr(chunk, "storage") else chunk for chunk in chunks]


def arrow_spans(chunk: Any) -> tuple[Any, NDArray[np.int64], NDArray[np.int64]] | None:
    """Return buffer, starts and stops of the texts of a pyarrow array; None for other types."""
    arrow: Any = import_module("pyarrow")
    types = arrow.types
    kind, count, first = chunk.type, len(chunk), chunk.offset
    if types.is_string_view(kind) or types.is_binary_view(kind):
        large = arrow.large_string() if types.is_string_view(kind) else arrow.large_binary()
        return arrow_spans(chunk.cast(large))
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
    return data, bounds[:-1], bounds[1:]


def _bounds(buffer: Any, kind: type, first: int, count: int) -> NDArray[np.int64]:
    if not count:
        return np.zeros(1, np.int64)
    bounds = np.frombuffer(buffer, kind)[first : first + count + 1].astype(np.int64)
    if len(bounds) != count + 1:
        raise ValueError(f"keys: must have {count + 1} offsets in their buffer, not {len(bounds)}")
    return bounds
