"""Which of the two paths of the golden models a test takes."""

from contextlib import contextmanager

import pytest

from lately.golden import compilation

PATHS = ("compiled", "readable")

needs_extension = pytest.mark.skipif(
    compilation.extension() is None, reason="the extension module is not built"
)


@contextmanager
def taking(path):
    """Build filters that run compiled loops, or the readable form, in the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(compilation.VARIABLE, "0" if path == "readable" else "1")
        yield
