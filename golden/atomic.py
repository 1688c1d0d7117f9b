"""Objects that several threads may use: their public operations exclude each other."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from threading import RLock
from types import FunctionType
from typing import Any, ClassVar, Self

_SPECIAL = ("__contains__", "__reduce__", "__repr__")


class Atomic:
    """Base of classes whose public methods and properties each hold the lock of their object.

    A thread that holds the lock may call other public methods. Objects share no lock. Methods
    in `_unlocked` take the lock themselves, for a part of their work.
    """

    _unlocked: ClassVar[tuple[str, ...]] = ()
    _lock: AbstractContextManager[bool]

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Give the object its lock, before any constructor runs."""
        self = super().__new__(cls)
        self._lock = RLock()
        return self

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, member in list(vars(cls).items()):
            if name in _SPECIAL or not (name.startswith("_") or name in cls._unlocked):
                setattr(cls, name, _locked(member))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}


class Counter:
    """An attribute `name` that is read under the lock: a reader never sees half an operation."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: Atomic | None, kind: type | None = None) -> Any:
        if owner is None:
            return self
        with owner._lock:
            return vars(owner)[self._name]

    def __set__(self, owner: Atomic, value: int) -> None:
        vars(owner)[self._name] = value


def _locked(member: Any) -> Any:
    """Return a method or property that holds the lock while it runs; other members unchanged."""
    if isinstance(member, FunctionType):
        return _holding(member)
    if isinstance(member, property):
        read, write = (each and _holding(each) for each in (member.fget, member.fset))
        return property(read, write, member.fdel, member.__doc__)
    return member


def _holding(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def locked(self: Atomic, *arguments: Any, **options: Any) -> Any:
        with self._lock:
            return function(self, *arguments, **options)

    return locked
