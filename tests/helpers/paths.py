"""Which of the two paths of the golden models a test takes."""

from contextlib import contextmanager

import pytest

from lately.golden import compilation

PATHS = ("compiled", "numpy")


@contextmanager
def taking(path):
    """Build filters that run compiled loops, or numpy alone, in the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(compilation.VARIABLE, "0" if path == "numpy" else "1")
        yield


@contextmanager
def chunks_of(size):
    """Let a batch be performed in parts of some size in the block."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("segments", "compiled_segments"):
            patch.setattr(f"lately.golden.ring.{name}._CHUNK", size)
        yield
