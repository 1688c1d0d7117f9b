"""Lines of text files that may be compressed."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
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


class _ZstdReader(io.RawIOBase):
    """Decompressed bytes of any number of frames; an unfinished frame is an EOFError."""

    def __init__(self, source: io.BufferedReader) -> None:
        import zstandard

        self._zstandard = zstandard
        self._source = source
        self._frame: Any = None
        self._pending = b""
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            # Small pieces, because a piece is decompressed whole.
            compressed = self._pending or self._source.read(1 << 13)
            self._pending = b""
            if not compressed:
                if self._frame is not None:
                    raise EOFError("the data end inside a frame")
                return 0
            self._output = memoryview(self._decompress(compressed))
        count = min(len(buffer), len(self._output))
        buffer[:count] = self._output[:count]
        self._output = self._output[count:]
        return count

    def _decompress(self, compressed: bytes) -> bytes:
        if self._frame is None:
            self._frame = self._zstandard.ZstdDecompressor().decompressobj()
        try:
            output: bytes = self._frame.decompress(compressed)
        except self._zstandard.ZstdError as error:
            raise EOFError(str(error)) from None
        if self._frame.eof:
            self._pending = self._frame.unused_data
            self._frame = None
        return output


def _decompress(name: str, buffered: "io.BufferedReader[Any]") -> tuple[str, io.BufferedReader]:
    head = buffered.peek(8)[:8]
    kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "none")
    if kind == "gzip":
        data = gzip.GzipFile(fileobj=buffered)
        return kind, io.BufferedReader(cast(io.RawIOBase, data), 1 << 16)
    if kind == "zstd":
        return kind, io.BufferedReader(_ZstdReader(buffered), 1 << 16)
    if kind != "none":
        raise TraceError(f"{name}: must be text, plain or compressed by gzip or zstd, not {kind}")
    return kind, buffered


@contextmanager
def _damage_reported(name: str, compression: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"{name}: must be whole {compression} data, but: {error}") from None


def _text_lines(
    name: str, compression: str, data: io.BufferedReader, text: io.TextIOWrapper
) -> Iterator[str]:
    with _damage_reported(name, compression):
        if b"\0" in data.peek(1 << 12)[: 1 << 12]:
            raise TraceError(f"{name}: must be UTF-8 text, but has NUL bytes at its start")
        yield from text


def open_text(name: str, raw: BinaryIO) -> tuple[str, io.TextIOWrapper, Iterator[str]]:
    """Decompress a file and decode it as UTF-8.

    Parameters
    ----------
    name : str
        Name of the file in messages.
    raw : file
        Unbuffered.

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
