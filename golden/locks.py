"""Locks for objects that several threads use: an object's public operations exclude each other.

Each object has its own lock. A thread that holds an object's lock may call other public methods of
the object. A thread that forks holds all locks during the fork, so that the child never sees an
unfinished operation.
"""

import os
from collections.abc import Callable
from functools import wraps
from threading import RLock, get_ident
from time import monotonic, sleep
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakValueDictionary

from . import compilation

_extension = compilation.extension()

if TYPE_CHECKING or _extension is None:

    class Base:
        _engine: Any = None

    Lock = RLock
else:
    Base, Lock = _extension.Base, _extension.Lock

_SPECIAL = ("__contains__", "__reduce__", "__repr__")
_FORK_WAIT = 5.0  # maximum seconds that a fork waits for calls in other threads
_objects: "WeakValueDictionary[int, Any]" = WeakValueDictionary()
_forking: dict[int, list[Any]] = {}  # forking threads, and the locks that they hold


class Constructor(classmethod):  # type: ignore[type-arg]
    """Class method that builds a new object; a call on an existing object is an error."""

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return super().__get__(None, kind)

        def refuse(*_: Any, **__: Any) -> None:
            call = f"{type(owner).__name__}.{self.__name__}"
            raise TypeError(f"{self.__name__}: call {call}(...), which returns a new filter")

        return refuse


def give_lock(item: Any) -> None:
    item._lock = Lock()
    _objects[id(item)] = item


def guard(kind: type, unlocked: tuple[str, ...] = ()) -> None:
    """Make public methods and properties hold the object's lock, except those in `unlocked`."""
    for name, member in list(vars(kind).items()):
        inner = None if name.startswith("_") else member
        while inner is not None:
            # Python's messages about arguments then show a method without its defining class.
            if isinstance(inner, FunctionType):
                inner.__qualname__ = name
            inner = getattr(inner, "__wrapped__", None)
        if name in _SPECIAL or not (name.startswith("_") or name in unlocked):
            setattr(kind, name, _locked(member))


def _locked(member: Any) -> Any:
    if isinstance(member, FunctionType):
        return holding(member)
    if isinstance(member, property):
        read, write = (each and holding(each) for each in (member.fget, member.fset))
        return property(read, write, member.fdel, member.__doc__)
    if isinstance(member, classmethod):
        return Constructor(member.__func__)
    return member


def holding(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method so that it holds its object's lock while it runs."""

    @wraps(method)
    def locked(self: Any, *arguments: Any, **options: Any) -> Any:
        if _forking and not self._lock._is_owned():
            # Wait for a fork, but not forever: the fork may wait for another lock that this thread
            # holds.
            for _ in range(500):
                if _forking and get_ident() not in _forking:
                    sleep(0.001)
        with self._lock:
            return method(self, *arguments, **options)

    return locked


class _Unknown:
    """Lock for an object that another thread was changing when this process was forked."""

    def __enter__(self, *_: object) -> NoReturn:
        raise RuntimeError("filter: in use by another thread during a fork; load the filter again")

    __exit__ = __enter__


def _living() -> list[Any]:
    return [item for each in _objects.valuerefs() if (item := each()) is not None]


def _before_fork() -> None:
    end = monotonic() + _FORK_WAIT
    taken = _forking[get_ident()] = []
    while True:
        locks = [each._lock for each in _living()]
        taken += [lock for lock in locks if lock.acquire(False)]
        if len(taken) == len(locks) or monotonic() > end:
            return
        while taken:  # Avoids a deadlock of two threads that want each other's lock.
            taken.pop().release()
        sleep(0.001)


def _after_fork() -> None:
    for lock in _forking.pop(get_ident()):
        lock.release()


def _in_child() -> None:
    _after_fork()
    _forking.clear()
    for each in _living():
        if each._lock.acquire(False):
            each._lock.release()
        else:
            each._lock = _Unknown()
            del _objects[id(each)]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
