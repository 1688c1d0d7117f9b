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
