"""Attributes of special kinds: values that are computed once, and elements of an array."""

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


class Element:
    """Attribute stored as the element `index` of the array `_numbers` of its object."""

    def __init__(self, index: int) -> None:
        self._index = index

    def __get__(self, owner: Any, kind: type | None = None) -> int:
        return int(owner._numbers[self._index])

    def __set__(self, owner: Any, value: int) -> None:
        owner._numbers[self._index] = value
