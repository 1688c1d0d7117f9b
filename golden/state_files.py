"""State files: a header in JSON and arrays, with a digest over both."""

import hashlib
import io
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import StateFileError
from .files import replace_file

FORMATS = ("lately-filter-1", "lately-model-1", "lately-filter-2")
"""Formats of state files that can be read; the last is the one that is written.

The first was that of the ring filters, the second that of all others, which
differs from the last in its name alone.
"""


def write_state(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    private: bool = False,
) -> None:
    """Write a state to an npz file at `path`, which appears complete or not at all.

    Parameters
    ----------
    header : mapping
        Values that JSON can hold, "format" among them.
    arrays : mapping of ndarray
        Arrays of any shape and numeric type, under names other than "header" and "digest".
    private : bool
        Whether none but the owner may read the file.
    """
    text = json.dumps(header)
    content: dict[str, Any] = {"header": text, "digest": _digest(text, arrays), **arrays}
    with replace_file(path, private=private) as file:
        np.savez_compressed(file, **content)


def read_state(
    path: str | os.PathLike[str], formats: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read header and arrays of the state file at `path`, checked against their digest.

    The header has one of `formats`; the arrays have the shapes and types that were written.

    Raises
    ------
    StateFileError
        If the file is not one, is damaged, or has another format.
    OSError
        If the file cannot be read.
    """
    name = os.fspath(path)
    with open(name, "rb") as source:
        content = source.read()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        text, digest = str(arrays.pop("header")), str(arrays.pop("digest"))
        intact = _digest(text, arrays) == digest
        header = json.loads(text)
        known = header["format"] in formats
    except Exception as error:
        # zipfile, zlib and numpy answer damage with a dozen types, OSError among them.
        reason = " ".join(str(error).split())
        raise StateFileError(
            f"{name}: expected a filter state written by save(), found something else ({reason})"
        ) from None
    if not known:
        raise StateFileError(
            f"{name}: expected a filter state of format {' or '.join(formats)}, "
            f"found {header['format']}"
        )
    if not intact:
        raise StateFileError(f"{name}: expected the filter state that was written, found another")
    return header, arrays


def _digest(text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()
