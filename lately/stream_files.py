"""Files that hold streams, and may be compressed."""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from .golden.errors import LatelyError

_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"PK\x03\x04": "zip",
    b"PAR1": "Parquet",
}


class TraceError(LatelyError, ValueError):
    """A stream cannot be read as asked; the message says what was expected and what came."""


def decompress(raw: BinaryIO) -> tuple[str, "io.BufferedReader[Any]"]:
    """Return what a file is compressed by ("none", "gzip", "zstd" or another), and its content.

    What is neither gzip nor zstd is returned as it is.

    Parameters
    ----------
    raw : file
        Unbuffered.
    """
    buffered = io.BufferedReader(cast(io.RawIOBase, raw), 1 << 16)
    head = buffered.peek(8)[:8]
    kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "none")
    if kind == "gzip":
        data = gzip.GzipFile(fileobj=buffered)
        return kind, io.BufferedReader(cast(io.RawIOBase, data), 1 << 16)
    if kind == "zstd":
        import pyarrow as pa

        data = pa.CompressedInputStream(pa.PythonFile(buffered, mode="r"), kind)
        return kind, io.BufferedReader(data, 1 << 16)
    return kind, buffered


@contextmanager
def whole(name: str, compression: str) -> Iterator[None]:
    """Explain what goes wrong while the content of a file is read.

    The `name` of the file and its `compression` are for the message.

    Raises
    ------
    TraceError
        If compressed data is damaged.
    """
    try:
        yield
    except (EOFError, OSError, zlib.error) as error:
        # An error of the file itself has a number, one of what it holds has none.
        if getattr(error, "errno", None) is not None:
            raise
        raise TraceError(f"{name}: must be whole {compression} data, but: {error}") from None


def open_raw(path: str | os.PathLike[str]) -> tuple[str, BinaryIO]:
    """Open the file at `path`, or standard input for "-"; return its name, and what to read.

    Raises
    ------
    TraceError
        If standard input is closed.
    OSError
        If the file cannot be read.
    """
    path = os.fspath(path)
    if path != "-":
        return path, cast(BinaryIO, open(path, "rb", buffering=0))
    try:
        # A file of its own, so that closing it leaves standard input open.
        raw = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
    except (AttributeError, ValueError):
        raise TraceError("standard input: must be open, but is closed") from None
    return "standard input", cast(BinaryIO, raw)


def file_size(raw: BinaryIO) -> int | None:
    """Return the size of a file, `raw`; None for a pipe."""
    try:
        return os.fstat(raw.fileno()).st_size if raw.seekable() else None
    except OSError:
        return None
