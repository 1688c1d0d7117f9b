"""Independent calls, made by several processes: a Dask graph without edges."""

import json
import pickle
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributed import CancelledError, Client, Future, get_worker, wait
from distributed.comm.core import CommClosedError
from distributed.scheduler import KilledWorker

from lately.golden.errors import LatelyError

from .cluster import SchedulerError, connect

PACKAGE = "lately"
"""Package that workers must be able to import."""

PATIENCE = 0.5
"""Seconds until workers that have come or gone are looked for again."""

Message = Mapping[str, Any]
"""Message that a call sends while it runs: values that JSON can hold."""

BEGUN: Message = {"stage": "start", "share": 0.0}
"""Message for a call that was submitted."""


@dataclass(frozen=True)
class Call:
    """A call of a function, in another process, maybe more than once.

    The name need not be unique. The function is one of a module and returns what JSON can hold;
    its argument can be pickled.
    """

    name: str
    function: Callable[[Any], Any]
    argument: Any


class MismatchError(LatelyError):
    """A process has other sources or versions than the one that it works for."""


Settle = Callable[[Call, "Any | LatelyError"], None]
"""Takes a call and what came of it: its result, as JSON gives it back, or why there is none."""


def run(
    calls: Sequence[Call],
    settle: Settle,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    hear: Callable[[Call, Message], None] | None = None,
    idle: Callable[[], None] | None = None,
) -> None:
    """Make calls, each in a process apart from this one, and settle each as it comes.

    A call that raises `LatelyError` is settled with it. If a process dies, the
    call that it was making is made anew by another; it is settled with an
    error once that has happened as often as the scheduler allows, twice
    without one. Which process makes which call, and in which order they end,
    is not determined.

    Parameters
    ----------
    calls : sequence of Call
    settle : callable
        Called in the thread of the caller.
    jobs : int
        Processes to start, if there is no scheduler.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers make as many calls at a time
        as they have threads. Workers may come and go.
    hear : callable, optional
        Takes a call and `BEGUN` when it is submitted, and then every message
        that it sends (`tell`); these come in a thread of their own.
    idle : callable, optional
        Called again and again while there is no worker.

    Raises
    ------
    SchedulerError
        If the scheduler cannot be reached, or is lost.
    MismatchError
        If a process has other sources or versions.
    """
    if not calls:
        return
    with connect(min(jobs, len(calls)), scheduler) as client:
        work = _Work(client, settle, hear)
        try:
            work.do(calls, idle or (lambda: None))
        except MismatchError as error:
            if scheduler is None:
                told = f"the sources changed meanwhile, run it again: {error}"
            else:
                told = f"scheduler: {error}; it needs the same as here, and to be started anew"
            raise MismatchError(told) from None
        except _LostError:
            raise SchedulerError(f"scheduler: lost the one at {scheduler}; run it again") from None


class _LostError(Exception):
    """The scheduler does not answer any more."""


class _Work:
    """Calls that wait or are under way."""

    def __init__(
        self, client: Client, settle: Settle, hear: Callable[[Call, Message], None] | None
    ) -> None:
        self._client = client
        self._settle = settle
        self._under_way: dict[str, tuple[Future, Call]] = {}
        self._hear = hear or (lambda call, message: None)
        self._topic = f"lately-{uuid.uuid4().hex}" if hear else None
        if hear is not None:
            client.subscribe_topic(self._topic, lambda event: self._pass_on(*event[1]))

    def do(self, calls: Sequence[Call], idle: Callable[[], None]) -> None:
        """Make all calls."""
        waiting = deque(calls)
        while waiting or self._under_way:
            places = self._places()
            if not places:
                idle()
            # No more than there are threads, so that a process that dies is blamed on one call.
            while waiting and len(self._under_way) < places:
                self._submit(waiting.popleft())
            for key in self._ended():
                self._settle(*self._taken(key))

    def _places(self) -> int:
        if self._client.status != "running":
            raise _LostError
        try:
            return sum(self._client.nthreads().values())
        except OSError:
            raise _LostError from None

    def _submit(self, call: Call) -> None:
        key = f"{call.name}-{uuid.uuid4().hex}"
        order = pickle.dumps(_Order(pickle.dumps(call), key, self._topic))
        future = self._client.submit(pickle.loads, order, key=key, pure=False)
        self._under_way[key] = (future, call)
        self._hear(call, BEGUN)

    def _ended(self) -> Collection[str]:
        futures = [future for future, _ in self._under_way.values()]
        if not futures:
            time.sleep(PATIENCE)
            return []
        try:
            wait(futures, timeout=PATIENCE, return_when="FIRST_COMPLETED")
        except TimeoutError:
            return []
        except CancelledError:
            raise _LostError from None
        return [key for key, (future, _) in self._under_way.items() if future.done()]

    def _taken(self, key: str) -> tuple[Call, Any]:
        # The last reference goes with this: nobody computes again what has been settled.
        future, call = self._under_way.pop(key)
        return call, _outcome(future)

    def _pass_on(self, key: str, message: Message) -> None:
        if (found := self._under_way.get(key)) is not None:
            self._hear(found[1], message)


class _Order:
    """Object that unpickles as the result of `_perform`.

    So neither the scheduler needs to import anything of ours, nor a worker before it makes the
    call: those that cannot would not say so but go.
    """

    def __init__(self, *arguments: object) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return _perform, self._arguments


def _outcome(future: Future) -> Any:
    try:
        return json.loads(future.result())
    except KilledWorker as error:
        deaths = error.allowed_failures + 1
        times = "twice" if deaths == 2 else f"{deaths} times"
        return LatelyError(f"the process that measured it died {times}")
    except MismatchError:
        raise
    except LatelyError as error:
        return error
    except (CancelledError, CommClosedError):
        raise _LostError from None
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != PACKAGE:
            raise
        raise MismatchError(f"a worker has no Lately, or another one: {error.msg}") from None


# In the process that makes a call

_here = threading.local()


def tell(**message: Any) -> None:
    """Send a `message` to the process that wants a call, from within it; `run` passes it on."""
    key, topic = _here.call
    if topic is not None:
        get_worker().log_event(topic, [key, message])


def wanted() -> Callable[[], bool]:
    """Return whether somebody still wants the call within which this is called, as a function."""
    worker, (key, _) = get_worker(), _here.call

    def is_wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state == "executing"

    return is_wanted


def _perform(pickled: bytes, key: str, topic: str | None) -> str:
    _here.call = (key, topic)
    try:
        call: Call = _unpickled(pickled)
        return json.dumps(call.function(call.argument), allow_nan=False)
    except MismatchError as error:
        raise MismatchError(f"worker {get_worker().address} has {error}") from None


def _unpickled(pickled: bytes) -> Any:
    try:
        return pickle.loads(pickled)
    except (ImportError, AttributeError) as error:
        raise MismatchError(f"other sources: {error}") from None
