"""Properties that are computed once."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property
from typing import Any, TypeVar

_Value = TypeVar("_Value")


class Cached(cached_property[_Value]):
    """Cached property without the lock of Python 3.11, which a fork could copy while held."""

    def __init__(self, compute: Callable[[Any], _Value]) -> None:
        super().__init__(compute)
        self.lock: Any = nullcontext()
