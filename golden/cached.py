"""Descriptors for attributes that are computed once or stored in an array."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

_Value = TypeVar("_Value")


class Cached(cached_property[_Value]):
    """Cached property without the lock of Python 3.11, which a thread may hold during a fork."""

    def __init__(self, compute: Callable[[Any], _Value]) -> None:
        super().__init__(compute)
        self.lock: Any = nullcontext()


class Element:
    """Attribute that is stored in the array `_numbers` of its object, at `index`."""

    def __init__(self, index: int) -> None:
        self._index = index

    def __get__(self, owner: Any, kind: type | None = None) -> int:
        return int(owner._numbers[self._index])

    def __set__(self, owner: Any, value: int) -> None:
        owner._numbers[self._index] = value


class Secret(Element):
    """128-bit secret that is stored in two elements of `_numbers`, the low word first."""

    def __get__(self, owner: Any, kind: type | None = None) -> int:
        low, high = owner._numbers[self._index : self._index + 2].view(np.uint64).tolist()
        return int(high << 64 | low)

    def __set__(self, owner: Any, value: int) -> None:
        words = owner._numbers[self._index : self._index + 2].view(np.uint64)
        words[:] = value & (1 << 64) - 1, value >> 64
