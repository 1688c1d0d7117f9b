"""Files that are either whole or not there."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


@contextmanager
def replace_file(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`; rename it to `path` when the block succeeds.

    A `private` file is for its owner alone; others get the usual mode.
    """
    path = os.fspath(path)
    handle, temporary = tempfile.mkstemp(
        dir=os.path.dirname(path) or ".", prefix=f".{os.path.basename(path)}."
    )
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
