"""Access to the extension module, which contains the fast loops in C.

A filter uses the extension if it can be imported, unless ``LATELY_FAST=0`` is set in the
environment when the filter is built. Without the extension, filters run in Python, with the same
results.
"""

import os
import sysconfig
import warnings
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    _core: Any = import_module("lately.golden._core")
except ImportError:
    _core = None

VARIABLE = "LATELY_FAST"  # environment variable; 0 disables the extension
MAX_SEGMENTS = 63  # maximum number of segments in C, with the spare: one bit of a word for each
# maximum number of bits per key in a segment, and of hash functions of a timing filter, in C
MAX_PARTS = 64
MAX_BITS = 1 << 32  # bits of a segment of a compiled ring: bit indices have 32 bits


def extension() -> Any:
    """Return the extension module; None if it cannot be imported."""
    return _core


def core() -> Any:
    """Return the extension module; None if it is missing or disabled."""
    return _core if os.environ.get(VARIABLE, "") != "0" else None


@cache
def warn_if_missing() -> None:
    """Warn once if the extension is missing, unless it is disabled anyway."""
    if _core is None and os.environ.get(VARIABLE) != "0":
        remedy = "install gcc or clang, then run pip install --force-reinstall --no-deps ."
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            remedy = "it needs a Python with the global interpreter lock"
        slow = "keys take about 1,000 times as long"
        warnings.warn(f"lately has no compiled extension, so {slow}: {remedy}", RuntimeWarning, 3)


def wanted() -> bool:
    """Return whether a filter that is built now uses the extension."""
    return core() is not None


def halves(secrets: list[int]) -> NDArray[np.uint64]:
    """Return the low and high half of each secret, as an array of shape (len(secrets), 2)."""
    return np.array([(secret & (1 << 64) - 1, secret >> 64) for secret in secrets], np.uint64)
