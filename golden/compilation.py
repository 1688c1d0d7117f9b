"""Whether loops over keys are compiled, and how.

The compiled path needs numba (`pip install '.[fast]'`). It is taken where
numba can be imported, unless ``LATELY_FAST=0`` stands in the environment when a
filter is built. numba is imported when the first filter is, and a loop is
compiled when it first runs; both are kept in numba's cache on disk.
"""

import os
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeVar, cast

try:
    _core: Any = import_module("lately.golden._core")
except ImportError:
    _core = None

VARIABLE = "LATELY_FAST"
"""Environment variable; 0 refuses the compiled path."""

MOST_SEGMENTS = 63
"""Segments of a ring that the loops can take, the spare included: each is a bit of a word."""


def core() -> Any:
    """Return the extension module with loops in C; None if it is not there, or is refused."""
    return _core if os.environ.get(VARIABLE, "") != "0" else None


_Function = TypeVar("_Function", bound=Callable[..., Any])


def wanted() -> bool:
    """Whether filters that are built now take the compiled path."""
    return os.environ.get(VARIABLE, "") != "0" and importable()


@lru_cache(maxsize=1)
def importable() -> bool:
    """Whether numba can be imported; it is, for that."""
    try:
        import_module("numba")
    except (ImportError, OSError):
        # It is not there, or does not go with this numpy, or its library cannot be loaded.
        return False
    return True


def jit(function: _Function) -> _Function:
    """Compile a function when it is first called, and keep the code on disk if that is possible.

    numba keeps the code beside the source, else in the user's cache folder; ``NUMBA_CACHE_DIR``
    names another. Where none can be written, every process compiles anew.
    """
    from numba import njit

    compiled: Any
    try:
        compiled = njit(cache=True, error_model="numpy")(function)
    except RuntimeError:
        # No folder can be written to.
        compiled = njit(error_model="numpy")(function)
    return cast(_Function, compiled)
