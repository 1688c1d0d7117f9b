"""State files: a header in JSON and arrays, with a digest over both."""

import hashlib
import io
import json
import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .errors import StateFileError
from .files import replace_file

StateFile = str | os.PathLike[str] | BinaryIO
"""A path, or a binary file that is open."""

FORMAT = "lately-filter-2"
"""Format of state files."""

_ZIP = b"PK"

_HEADERS = Lock()
"""Held while numpy reads headers: in CPython 3.11 two threads in `ast.literal_eval` may disturb
each other ("AST constructor recursion depth mismatch")."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_HEADERS._at_fork_reinit)  # type: ignore[attr-defined]


def write_state(
    file: StateFile,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    private: bool = False,
) -> None:
    """Write a state in npz format; at a path, the file appears complete or not at all.

    Parameters
    ----------
    file : path or binary file
        An open file need not be seekable: it may be a pipe.
    header : mapping
        Values for JSON, including "format".
    arrays : mapping of ndarray
        Arrays of any shape and numeric type, under names other than "header" and "digest".
    private : bool
        Whether only the owner may read the file at a path.
    """
    text = json.dumps(header)
    content: dict[str, Any] = {"header": text, "digest": _digest(text, arrays), **arrays}
    if isinstance(file, str | os.PathLike):
        opened: Any = replace_file(file, private=private)
    else:
        opened = nullcontext(file)
    with opened as output:
        np.savez_compressed(output, **content)


def state_name(file: StateFile) -> str:
    """Return the name of a state file for messages."""
    if isinstance(file, str | os.PathLike):
        return os.fspath(file)
    return str(getattr(file, "name", "state"))


def read_state(file: StateFile) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read header and arrays of a state file, checked against their digest.

    An open file is read from its position to its end.

    The arrays have the shapes and types that were written.

    Raises
    ------
    StateFileError
        If the file is not a state file, is damaged, or has another format.
    OSError
        If the file cannot be read.
    """
    name = state_name(file)
    content = Path(name).read_bytes() if isinstance(file, str | os.PathLike) else file.read()
    try:
        if not content.startswith(_ZIP):
            raise ValueError(f"{len(content)} bytes that are no zip archive")
        with _HEADERS, np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        text, digest = str(arrays.pop("header")), str(arrays.pop("digest"))
        intact = _digest(text, arrays) == digest
        header = json.loads(text)
        known = header["format"] == FORMAT
    except Exception as error:
        # zipfile, zlib and numpy raise a dozen exception types for damage, OSError among them.
        reason = " ".join(str(error).split())
        if "allow_pickle" in reason:  # Numpy's advice would run code from the file.
            reason = "an array of Python objects"
        raise StateFileError(
            f"{name}: expected a filter state written by save(), found something else ({reason})"
        ) from None
    if not known:
        raise StateFileError(
            f"{name}: expected a filter state of format {FORMAT}, found {header['format']}"
        )
    if not intact:
        raise StateFileError(f"{name}: expected the filter state that was written, found another")
    return header, arrays


def _digest(text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()
