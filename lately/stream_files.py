"""Read and write streams in files that may be compressed."""

import bz2
import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, BinaryIO, cast

from .golden.errors import LatelyError

BUFFERED = 1 << 16  # buffer size of a `StreamFile` in bytes
_PIPE = 1 << 20  # pipe capacity in bytes, so that a fast stream needs few reads
_FRAME = 1 << 20  # minimum bytes per compressed frame, except for the last frame

_MAGIC = {
    b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz",
    b"\x04\x22\x4d\x18": "lz4", b"PK\x03\x04": "zip", b"PAR1": "Parquet",
}  # fmt: skip

# First bytes of zstd and lz4 frames without content.
_SKIPPED = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")

# Compressed bytes per step. Few, because zstd can expand one byte to 2**15 bytes.
_PACKED = 1 << 13
# First bytes of capture formats that editcap can convert. ERF has no such bytes.
_OTHER_CAPTURES = {
    b"snoop\0": "snoop", b"btsnoop\0": "btsnoop", b"RTSS": "NetMon", b"GMBU": "NetMon",
    b"TRSNIFF data": "Sniffer", b"XCP\0": "NetXray", b"ObserverPkt": "Observer",
}  # fmt: skip

# First bytes of a pcap file: whether it is big-endian, nanoseconds per unit, bytes before a
# packet. The last two are the modified format, which stores the interface of each packet.
PCAP_MAGIC = {
    b"\xa1\xb2\xc3\xd4": (True, 1000, 16), b"\xd4\xc3\xb2\xa1": (False, 1000, 16),
    b"\xa1\xb2\x3c\x4d": (True, 1, 16), b"\x4d\x3c\xb2\xa1": (False, 1, 16),
    b"\xa1\xb2\xcd\x34": (True, 1000, 24), b"\x34\xcd\xb2\xa1": (False, 1000, 24),
}  # fmt: skip

PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"  # first bytes of a pcapng file and of each section in it
PCAP_HEADER = 24  # length of a pcap file header. The first block of a pcapng file is longer.

# Supported compressions: functions that compress a frame. zstd and lz4 are imported on first use.
_COMPRESS: dict[str, Callable[[bytearray], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 6, mtime=0),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: import_module("zstandard").ZstdCompressor(1).compress(data),
    "lz4": lambda data: bytes(import_module("lz4.frame").compress(data)),
}
COMPRESSIONS = tuple(_COMPRESS)

# Functions that make a decompressor of one frame.
_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(31),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
    "zstd": lambda: import_module("zstandard").ZstdDecompressor().decompressobj(),
    "lz4": lambda: import_module("lz4.frame").LZ4FrameDecompressor(),
}

# Compression for each file name suffix.
ENDINGS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd", ".lz4": "lz4"}


class TraceError(LatelyError, ValueError):
    """A stream cannot be read."""


def is_capture(head: bytes) -> bool:
    return head[:4] in PCAP_MAGIC or head[:4] == PCAPNG_MAGIC


@contextmanager
def whole(name: str, compression: str) -> Iterator[None]:
    """Convert errors in the compressed content of a file to a `TraceError`."""
    try:
        yield
    except (EOFError, OSError) as error:
        # Errors of the file itself have an errno; errors in its content do not.
        if getattr(error, "errno", None) is not None:
            raise
        raise TraceError(f"{name}: damaged {compression} data: {error}") from None


@dataclass(frozen=True)
class StreamFile:
    name: str  # name for messages
    raw: BinaryIO
    compression: str  # "none", one of `COMPRESSIONS`, or an unsupported compression
    data: "io.BufferedReader[Any]"  # decompressed, unless the compression is not supported

    @property
    def readable(self) -> bool:
        return self.compression in ("none", *COMPRESSIONS)

    @cached_property
    def size(self) -> int | None:
        """The size of the file in bytes, or None for a pipe."""
        try:
            return os.fstat(self.raw.fileno()).st_size if self.raw.seekable() else None
        except OSError:
            return None

    @property
    def fraction(self) -> float | None:
        return min(1.0, self.raw.tell() / self.size) if self.size else None

    def head(self, count: int) -> bytes:
        """Return the first `count` bytes of the content without consuming them."""
        with whole(self.name, self.compression):
            return self.data.peek(count)[:count]

    def close(self) -> None:
        self.data.close()
        self.raw.close()


def not_capture(stream: StreamFile, head: bytes) -> TraceError:
    content = f"it begins with {head[:4].hex(' ')}" if head else "it is empty"
    if not stream.readable:
        content = f"it is compressed with {stream.compression}"
    kind = next((kind for magic, kind in _OTHER_CAPTURES.items() if head.startswith(magic)), None)
    # Type and length of a first ERF record; text has larger bytes there.
    if len(head) > 15 and 0 < head[8] & 0x7F < 49 and 0x10 <= head[10] << 8 | head[11] < 0x900:
        kind = "ERF"
    if kind is not None:
        content = f"its format is {kind}; convert it with editcap -F pcap IN OUT"
    return TraceError(f"{stream.name}: not a pcap or pcapng capture: {content}")


class _PipeReader(io.BufferedReader):
    """Pipe reader that returns the available data without waiting for more."""

    def readinto1(self, buffer: Any) -> int:
        view = memoryview(buffer)
        # The base class would read again to fill a large buffer, even if it already has data.
        return super().readinto1(view[: len(self.peek(1))])


def open_stream(path: str | os.PathLike[str]) -> StreamFile:
    """Open a file, or standard input for '-', and detect its compression."""
    path = os.fspath(path)
    name = "standard input" if path == "-" else path
    try:
        # A separate file object, so that closing it leaves standard input open.
        file = io.FileIO(sys.stdin.fileno(), closefd=False) if path == "-" else io.FileIO(path)
    except (AttributeError, ValueError):
        if path != "-":
            raise
        raise TraceError("standard input is closed") from None
    raw = cast(BinaryIO, file)
    try:
        buffered: io.BufferedReader[Any]
        if raw.seekable():
            buffered = io.BufferedReader(file, BUFFERED)
        else:
            size = BUFFERED
            with suppress(ImportError, AttributeError, OSError):
                import fcntl  # this constant exists only on Linux

                fcntl.fcntl(raw.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
                size = _PIPE
            buffered = _PipeReader(_Begun(file), size)
        head = buffered.peek(8)[:8]
        kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "none")
        if kind in COMPRESSIONS:
            buffered = io.BufferedReader(_Begun(_Unpacked(kind, buffered)), BUFFERED)
        return StreamFile(name, raw, kind, buffered)
    except BaseException:
        raw.close()
        raise


@contextmanager
def compressed(name: str, file: BinaryIO) -> Iterator[BinaryIO]:
    """Compress what is written to `file` if the suffix of `name` is in `ENDINGS`."""
    kind = ENDINGS.get(os.path.splitext(name)[1])
    if kind is None:
        yield file
        return
    frames = _Frames(kind, file)
    try:
        yield cast(BinaryIO, frames)
    finally:
        frames.end()


class _Frames:
    """Compresses what is written, in frames of at least `_FRAME` bytes; the last may be shorter."""

    def __init__(self, kind: str, file: BinaryIO) -> None:
        self._kind, self._file, self._waiting = kind, file, bytearray()

    def write(self, data: Any) -> int:
        self._waiting += data
        if len(self._waiting) >= _FRAME:
            self.end()
        return len(data)

    def flush(self) -> None:
        """Do nothing: a flush would end the frame early, and short frames compress poorly."""

    def end(self) -> None:
        data, self._waiting = self._waiting, bytearray()
        if data:
            self._file.write(_COMPRESS[self._kind](data))


class _Begun(io.RawIOBase):
    """Stream whose first read returns enough bytes to detect the format, even from a slow pipe."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw
        self._head: bytes | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._head is None:
            self._head = self._begin()
        if not self._head:
            return self._raw.readinto(buffer)
        count = min(len(buffer), len(self._head))
        buffer[:count] = self._head[:count]
        self._head = self._head[count:]
        return count

    def _begin(self) -> bytes:
        head = more = self._raw.read(BUFFERED) or b""
        known = (*_MAGIC, *PCAP_MAGIC, PCAPNG_MAGIC)
        # Read on while the bytes are too few to detect the format.
        while more and (
            len(head) < PCAP_HEADER
            if is_capture(head)
            else any(len(head) < len(magic) and magic.startswith(head) for magic in known)
        ):
            try:
                more = self._raw.read(BUFFERED) or b""
            except Exception:
                # Return the data first; the next read raises the error again.
                break
            head += more
        return head


class _Unpacked(io.RawIOBase):
    """Decompressed content of a file; the read after the last intact data reports the damage."""

    def __init__(self, kind: str, file: "io.BufferedReader[Any]") -> None:
        self._kind, self._file = kind, file
        self._magic = next(magic for magic, name in _MAGIC.items() if name == kind)
        self._frame: Any = None
        self._packed, self._content = b"", memoryview(b"")
        self._error: OSError | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._content:
            if self._frame is None and not self._begin():
                return 0
            self._unpack()
        count = min(len(buffer), len(self._content))
        buffer[:count], self._content = self._content[:count], self._content[count:]
        return count

    def _begin(self) -> bool:
        """Begin the next frame, skipping zero padding; return whether there is one."""
        self._packed = self._packed.lstrip(b"\0")
        while len(self._packed) < len(self._magic) and (more := self._file.read1(_PACKED)):
            self._packed = (self._packed + more).lstrip(b"\0")
        if not self._packed:
            return False
        if not (self._packed.startswith(self._magic) or _SKIPPED.match(self._packed)):
            raise EOFError("unexpected data follows the compressed data")
        self._frame = _DECOMPRESSORS[self._kind]()
        return True

    def _unpack(self) -> None:
        if self._error is not None:
            raise self._error
        packed, frame = self._packed or self._file.read1(_PACKED), self._frame
        if not packed:
            raise EOFError("it is incomplete")
        spare: Any = frame.copy() if self._kind == "gzip" else None
        content = b""
        try:
            content = frame.decompress(packed)
            self._packed = frame.unused_data or b""
            self._frame = None if frame.eof else frame
        except MemoryError:
            raise
        except Exception as error:  # Each library has its own exceptions.
            self._error = OSError(str(error))
            # Data before an error such as a wrong checksum would be lost with the exception.
            with suppress(zlib.error):
                for index in range(len(packed) if spare else 0):
                    content += spare.decompress(packed[index : index + 1])
        self._content = memoryview(content)
