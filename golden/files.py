"""Atomic file replacement."""

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO


@contextmanager
def replace_file(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`; rename it to `path` when the block succeeds.

    A `private` file is for its owner alone; others get the usual mode.

    Raises
    ------
    OSError
        If it cannot be written; it names `path`, not the temporary file.
    """
    path = os.fspath(path)
    try:
        handle, temporary = tempfile.mkstemp(
            dir=os.path.dirname(path) or ".", prefix=f".{os.path.basename(path)}."
        )
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        if not private:
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def check_folder(path: str | os.PathLike[str]) -> None:
    """Check that the folder of a file to be written exists, before long work.

    Raises
    ------
    FileNotFoundError
        If it does not; the error names `path`.
    """
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))


def write_json(values: Any, path: str | os.PathLike[str]) -> None:
    """Write `values` as JSON to `path`, whole or not at all.

    Raises
    ------
    OSError
        If the file cannot be written.
    ValueError
        If a value is infinite or not a number.
    """
    text = json.dumps(values, indent=1, allow_nan=False)
    with replace_file(path) as file:
        file.write(text.encode() + b"\n")
