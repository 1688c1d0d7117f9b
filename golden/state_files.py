"""State files: a JSON header, arrays, and a digest of the header and arrays."""

import hashlib
import io
import json
import os
import struct
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from threading import Lock
from typing import Any, BinaryIO
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from .errors import StateFileError
from .files import replace_file

Arrays = Mapping[str, NDArray[Any]]
StateFile = str | os.PathLike[str] | BinaryIO
FORMAT = "lately-filter-3"
_FORMATS = ("lately-filter-2", FORMAT)  # formats that can be read; the first is compressed
_ALIGNMENT = 64  # bytes; data is aligned to cache lines, so that it can be mapped
_ZIP = b"PK"
_HEADERS = Lock()
"""Held while numpy reads headers: in CPython 3.11 concurrent calls of `ast.literal_eval` can break
each other ("AST constructor recursion depth mismatch").
"""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_HEADERS.acquire, after_in_parent=_HEADERS.release, after_in_child=_HEADERS.release
    )


def write_state(
    file: StateFile, header: Mapping[str, Any], arrays: Arrays, *, private: bool = False
) -> None:
    """Write a state in npz format to a path, or to a binary file, which may be a pipe."""
    text = json.dumps(header)
    content: dict[str, Any] = {"header": text, "digest": _digest(text, arrays), **arrays}
    with ExitStack() as stack:
        output: Any = file
        if isinstance(file, str | os.PathLike):
            output = stack.enter_context(replace_file(file, private=private))
        elif isinstance(file, io.RawIOBase):  # A raw file may write only part of the data.
            output = io.BufferedWriter(file)
            stack.callback(output.detach)
        archive = stack.enter_context(ZipFile(output, "w"))
        for name, values in content.items():
            array, info = np.asarray(values, order="C"), ZipInfo(f"{name}.npy")
            # Before the data: a header of 30 bytes, the name, this field, and a field of 20; npy
            # aligns its own header.
            pad = -(archive.start_dir + 30 + len(info.filename) + 4 + 20) % _ALIGNMENT
            info.extra = struct.pack("<HH", 0xD935, pad) + bytes(pad)
            with archive.open(info, "w", force_zip64=True) as member:
                npy.write_array_header_1_0(member, npy.header_data_from_array_1_0(array))
                member.write(_octets(array))


def state_name(file: StateFile) -> str:
    if isinstance(file, str | os.PathLike):
        return os.fspath(file)
    return str(getattr(file, "name", "state"))


def read_state(
    file: StateFile, *, mapped: bool = False
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the header and arrays of a state file; `mapped` arrays are private memory maps."""
    name, is_path = state_name(file), isinstance(file, str | os.PathLike)
    if mapped and not is_path:
        raise TypeError("mmap: only a file at a path can be mapped")
    opened: Any
    with open(name, "rb") if is_path else nullcontext(file) as opened:
        # A pipe, or a file that was partly read.
        source = opened if is_path and opened.seekable() else io.BytesIO(opened.read())
        try:
            if source.read(2) != _ZIP:
                raise ValueError(f"{source.seek(0, 2)} bytes that are not a zip archive")
            source.seek(0)
            with _HEADERS, np.load(source, allow_pickle=False) as archive:
                map_it = mapped and source is opened
                arrays = {key: _array(archive, key, map_it) for key in archive.files}
            text, digest = str(arrays.pop("header")), str(arrays.pop("digest"))
            intact = _digest(text, arrays) == digest
            header = json.loads(text)
            known = header["format"] in _FORMATS
        except Exception as error:
            # zipfile, zlib and numpy raise a dozen exception types for damage, OSError among them.
            reason = " ".join(str(error).split())
            if "allow_pickle" in reason:  # Numpy's advice would run code.
                reason = "an array of Python objects"
            raise StateFileError(
                f"{name}: expected a filter state written by save(), found something else "
                f"({reason})"
            ) from None
    if not known:
        raise StateFileError(
            f"{name}: expected a filter state of format {FORMAT}, found {header['format']}"
        )
    if not intact:
        raise StateFileError(f"{name}: damaged: the digest does not match the content")
    return header, arrays


def _array(archive: Any, name: str, mapped: bool) -> NDArray[Any]:
    file, info = archive.zip.fp, archive.zip.getinfo(f"{name}.npy")
    if not mapped or info.compress_type != ZIP_STORED:
        array: NDArray[Any] = archive[name]
        return array
    file.seek(info.header_offset + 26)
    file.seek(sum(struct.unpack("<HH", file.read(4))), os.SEEK_CUR)
    npy.read_magic(file)
    shape, _, kind = npy.read_array_header_1_0(file)
    if kind.hasobject:
        raise ValueError("an array of Python objects")
    return np.memmap(file, kind, "c", file.tell(), shape).view(np.ndarray)


def _digest(text: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(_octets(arrays[name]))
    return digest.hexdigest()


def _octets(array: NDArray[Any]) -> memoryview:
    """View an array as bytes in C order, without a copy if it is C-contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def unpacked(packed: NDArray[Any], count: int) -> NDArray[np.bool_]:
    """Unpack bits that a state file stores 8 per byte; the result has shape (count,)."""
    if packed.dtype != np.uint8 or packed.shape != (-(-count // 8),):
        raise ValueError(f"bits: {packed.dtype} of shape {packed.shape} does not fit the filter")
    return np.unpackbits(packed, count=count).view(np.bool_)


def check_whole(name: str, value: object, low: int, high: int | None = None) -> None:
    """Require a `value` of a state file to be an integer from `low` to `high`."""
    if type(value) is not int or value < low or (high is not None and value > high):
        raise ValueError(f"{name}: {value!r} does not fit the filter")
