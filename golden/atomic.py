"""Objects for use by several threads: their public operations exclude each other."""

import inspect
import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property, wraps
from threading import RLock, get_ident
from time import monotonic, sleep
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar, cast
from weakref import WeakValueDictionary

from . import compilation

_extension = compilation.extension()

if TYPE_CHECKING or _extension is None:

    class Base:
        """Base of objects without compiled state."""

        _engine: Any = None

    Lock = RLock
else:
    Base, Lock = _extension.Base, _extension.Lock

_Class = TypeVar("_Class", bound=type)
_Value = TypeVar("_Value")

_SINGLE = ("query", "check_and_insert", "insert", "add", "age", "__contains__")
_SPECIAL = ("__contains__", "__reduce__", "__repr__")


class Atomic(Base):
    """Base of classes whose public methods and properties each hold the lock of their object.

    A thread that holds the lock may call other public methods. Objects share no lock. Methods in
    `_unlocked` acquire the lock themselves, for part of their work.
    """

    _unlocked: ClassVar[tuple[str, ...]] = ()
    _lock: Any

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Give the object its lock, before any constructor runs."""
        self = super().__new__(cls)
        self._lock = Lock()
        _objects[id(self)] = self
        return self

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, member in list(vars(cls).items()):
            if not name.startswith("_"):
                _name_alone(name, member)
            if name in _SPECIAL or not (name.startswith("_") or name in cls._unlocked):
                setattr(cls, name, _locked(member))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}


class Constructor(classmethod):  # type: ignore[type-arg]
    """A class method that returns a new object, so a call on an object is a mistake."""

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return super().__get__(None, kind)

        def refuse(*_: Any, **__: Any) -> None:
            call = f"{type(owner).__name__}.{self.__name__}"
            raise TypeError(f"{self.__name__}: call {call}(...), which returns a new filter")

        return refuse


class ReadOnly:
    """An attribute `name` that is fixed when its object has an attribute `_hash`."""

    def __init__(self, name: str) -> None:
        self._name = name

    # Without `__get__`, the value is read as fast as that of any attribute.
    def __set__(self, owner: Any, value: object) -> None:
        if "_hash" in vars(owner):
            raise AttributeError(f"{self._name}: cannot change; build a new {type(owner).__name__}")
        vars(owner)[self._name] = value


class Cached(cached_property[_Value]):
    """A cached property without the lock of Python 3.11, which a fork could copy while held."""

    def __init__(self, compute: Callable[[Any], _Value]) -> None:
        super().__init__(compute)
        self.lock: Any = nullcontext()


class Number:
    """Number `index` of a filter's `_numbers`, read under the lock; below 2**62 when it is set."""

    def __init__(self, index: int) -> None:
        self._index = index

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, kind: type | None = None) -> int:
        if owner is None:
            return cast(int, self)  # as a property
        with owner._lock:
            return int(owner._numbers[self._index])

    def __set__(self, owner: Any, value: int) -> None:
        if type(value) is not int or not 0 <= value < 1 << 62:
            name = self._name.replace("_", " ").strip()
            raise ValueError(f"{name}: must be an integer from 0 to 2**62 - 1, not {value!r}")
        owner._numbers[self._index] = value


def _name_alone(name: str, member: Any) -> None:
    """Let Python's messages about arguments name a method without the class that defines it."""
    while member is not None:
        if isinstance(member, FunctionType):
            member.__qualname__ = name
        member = getattr(member, "__wrapped__", None)


def _locked(member: Any) -> Any:
    """Return a method or property that holds the lock while it runs, or a `Constructor`."""
    if isinstance(member, FunctionType):
        return _holding(member)
    if isinstance(member, property):
        read, write = (each and _holding(each) for each in (member.fget, member.fset))
        return property(read, write, member.fdel, member.__doc__)
    if isinstance(member, classmethod):
        return Constructor(member.__func__)
    return member


def _holding(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def locked(self: Atomic, *arguments: Any, **options: Any) -> Any:
        if _forking and not self._lock._is_owned():
            _give_way()
        with self._lock:
            return function(self, *arguments, **options)

    return locked


def taking_single_keys(kind: _Class) -> _Class:
    """Add methods for single keys in the extension; ``_python_NAME`` are the class's own."""
    for name in _SINGLE if _extension is not None else ():
        member = inspect.getattr_static(kind, name)
        if isinstance(member, FunctionType):
            found = inspect.signature(member)
            bare = [each.replace(annotation=each.empty) for each in found.parameters.values()]
            shown = str(found.replace(parameters=bare, return_annotation=found.empty))
            text = f"{name}($self{shown.removeprefix('(self')}\n--\n\n{inspect.getdoc(member)}"
            setattr(kind, f"_python_{name}", member)
            setattr(kind, name, _extension.method(kind, name, text))
    return kind


# Forks: the thread that forks holds all locks meanwhile, so the child has no half of an operation.

_FORK_WAIT = 5.0  # most seconds that a fork waits for calls of other threads
_objects: "WeakValueDictionary[int, Atomic]" = WeakValueDictionary()
_forking: dict[int, list[Any]] = {}  # threads that fork, and the locks that they took


class _Unknown:
    """Lock of an object that another thread was changing when this process was forked."""

    def __enter__(self, *_: object) -> NoReturn:
        raise RuntimeError("filter: a fork came during a call of another thread; load it again")

    __exit__ = __enter__


def _give_way() -> None:
    """Wait for a fork, but not for ever, as it may wait for another lock of this thread."""
    for _ in range(500):
        if _forking and get_ident() not in _forking:
            sleep(0.001)


def _living() -> "list[Atomic]":
    return [found for each in _objects.valuerefs() if (found := each()) is not None]


def _before_fork() -> None:
    end = monotonic() + _FORK_WAIT
    taken = _forking[get_ident()] = []
    while True:
        locks = [each._lock for each in _living()]
        taken += [lock for lock in locks if lock.acquire(False)]
        if len(taken) == len(locks) or monotonic() > end:
            return
        while taken:  # Two threads that each want the other's lock never wait for each other.
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
