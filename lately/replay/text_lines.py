"""Lines of text files that may be compressed."""

import gzip
import io
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from .trace_formats import TraceError

_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"PK\x03\x04": "zip",
    b"PAR1": "Parquet",
}


def _decompress(name: str, buffered: "io.BufferedReader[Any]") -> tuple[str, io.BufferedReader]:
    head = buffered.peek(8)[:8]
    kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "none")
    if kind == "gzip":
        data = gzip.GzipFile(fileobj=buffered)
        return kind, io.BufferedReader(cast(io.RawIOBase, data), 1 << 16)
    if kind == "zstd":
        import pyarrow as pa

        data = pa.CompressedInputStream(pa.PythonFile(buffered, mode="r"), kind)
        return kind, io.BufferedReader(data, 1 << 16)
    if kind != "none":
        raise TraceError(f"{name}: must be text, plain or compressed by gzip or zstd, not {kind}")
    return kind, buffered


def _text_lines(
    name: str, compression: str, data: io.BufferedReader, text: io.TextIOWrapper
) -> Iterator[str]:
    try:
        if b"\0" in data.peek(1 << 12)[: 1 << 12]:
            raise TraceError(f"{name}: must be UTF-8 text, but has NUL bytes at its start")
        yield from text
    except (EOFError, OSError, zlib.error) as error:
        # An error of the file itself has a number, one of what it holds has none.
        if getattr(error, "errno", None) is not None:
            raise
        raise TraceError(f"{name}: must be whole {compression} data, but: {error}") from None


def open_text(name: str, raw: BinaryIO) -> tuple[str, io.TextIOWrapper, Iterator[str]]:
    """Decompress `raw`, an unbuffered file, of a name for messages, and decode it as UTF-8.

    Returns
    -------
    tuple
        The compression ('none', 'gzip' or 'zstd'), the decoder, and the lines
        that come from it. The file is closed when the decoder is collected.

    Raises
    ------
    TraceError
        If the file is no text, in a compression that is not supported or,
        while lines are read, damaged.
    """
    buffered = io.BufferedReader(cast(io.RawIOBase, raw), 1 << 16)
    compression, data = _decompress(name, buffered)
    # A byte that is not UTF-8 is part of the key all the same.
    text = io.TextIOWrapper(data, "utf-8-sig", errors="surrogateescape", newline="")
    return compression, text, _text_lines(name, compression, data, text)
