"""Independent calls in processes of this machine or of a Dask cluster: a graph without edges."""

import asyncio
import json
import logging
import pickle
import signal
import tempfile
import threading
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any

import dask
import psutil
from distributed import (
    CancelledError,
    Client,
    Future,
    LocalCluster,
    Security,
    get_worker,
    wait,
)
from distributed.comm.core import CommClosedError
from distributed.core import rpc
from distributed.scheduler import KilledWorker

from lately.golden.errors import LatelyError

PACKAGE = "lately"
"""Package that workers must be able to import."""

PATIENCE = 0.5
"""Seconds until workers that have come or gone are looked for again."""

Message = Mapping[str, Any]
"""Message that a call sends while it runs: values that JSON can hold."""

BEGUN: Message = {"stage": "start", "share": 0.0}
"""Message for a call that was submitted."""


@dataclass(frozen=True, eq=False)
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
"""Takes a call and its outcome: the result as parsed from JSON, or the reason why there is none."""


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
    call that it was making is made again by another; it is settled with an
    error once that has happened as often as the scheduler allows, twice
    without one. Which process makes which call, and in which order they end,
    is not determined.
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
                told = f"scheduler: {error}; it needs the same as here, and to be started again"
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

    So the scheduler imports nothing of this project, and a worker imports it only for the call.
    Otherwise a scheduler or worker that cannot import it would stop without a message.
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
    """Send a `message` to the process that wants a call, from within it; `run` passes it on.

    Outside a call nothing is sent.
    """
    key, topic = getattr(_here, "call", ("", None))
    if topic is not None:
        get_worker().log_event(topic, [key, message])


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


# Processes of this machine, and those of a scheduler

TIMEOUT = 10
"""Within which a scheduler must answer, in seconds."""

DEATHS = 2
"""Processes of our own that may die of the same call."""

SILENT = logging.CRITICAL + 1
"""Level of logging that nothing reaches."""

COMPARED = ("python", "dask", "distributed")
"""Software that must have the same version on all machines to interoperate."""


class SchedulerError(LatelyError):
    """A scheduler cannot be reached, or its cluster cannot work for this process."""


@contextmanager
def connect(jobs: int, scheduler: str | None = None) -> Iterator[Client]:
    """Start processes, or reach those of a scheduler; end the first ones afterwards.

    Nothing is taken from an environment that names a scheduler. Without the address of one, as
    ``tcp://10.0.0.1:8786``, as many processes are started as there are `jobs`, for one call at a
    time each.
    """
    _silence()
    with _own(jobs) if scheduler is None else _reached(scheduler) as client, client.as_current():
        yield client


def _silence() -> None:
    # Errors get our own messages. Some of the loggers have their own levels.
    for name in ["distributed", *logging.root.manager.loggerDict]:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(SILENT)


# Own processes


@contextmanager
def _own(jobs: int) -> Iterator[Client]:
    # A fork would copy the threads' locks, the progress bar's among them.
    settings: dict[str, Any] = {"distributed.worker.multiprocessing-method": "spawn"}
    with (
        tempfile.TemporaryDirectory(prefix="lately-", ignore_cleanup_errors=True) as folder,
        dask.config.set(settings | {"temporary-directory": folder}),
        # Temporary files of tools go with the folder, even if a process is killed.
        dask.config.set({"distributed.nanny.environ": {"TMPDIR": folder}}),
    ):
        # Whoever starts it lets Ctrl-C through again: the thread of the cluster must find it there.
        resource_tracker.ensure_running()
        with _shielded():
            try:
                cluster = _start(jobs)
            except RuntimeError as error:
                reason = " ".join(str(error).split())
                message = f"jobs: {jobs} processes cannot be started: {reason}"
                raise SchedulerError(message) from None
            client = Client(cluster, set_as_default=False)
        try:
            yield client
        finally:
            with _shielded():
                _end(cluster)
                client.close()
                cluster.close()


def _start(jobs: int) -> LocalCluster:
    return LocalCluster(
        n_workers=jobs,
        threads_per_worker=1,
        processes=True,
        protocol="tcp",
        security=Security(require_encryption=False),
        memory_limit=0,
        silence_logs=SILENT,
        scheduler_kwargs={
            "allowed_failures": DEATHS - 1,
            "dashboard": False,
            # It still serves its state, never at a port in use.
            "dashboard_address": "127.0.0.1:0",
        },
    )


def _end(cluster: LocalCluster) -> None:
    """End the processes at once, and wait for their children."""
    left: list[psutil.Process] = []
    for nanny in cluster.workers.values():
        nanny.close_gracefully()  # It starts no other in place of the one that ends.
        with suppress(psutil.NoSuchProcess):
            if nanny.pid:
                process = psutil.Process(nanny.pid)
                left += process.children(recursive=True)
                process.kill()
    # They see that their parent has gone, and tidy up.
    deadline = time.monotonic() + TIMEOUT
    while any(map(_is_alive, left)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for process in filter(_is_alive, left):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _is_alive(process: psutil.Process) -> bool:
    # Nobody may hurry to collect what has lost its parent.
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


@contextmanager
def _shielded() -> Iterator[None]:
    """Delay interrupts; processes that are started here do not receive Ctrl-C.

    The threads and processes of a cluster are among that, later ones too. The
    first process ends the others, but only once they have started.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    late: list[int] = []
    handlers: dict[int, Any] = {}
    # Handlers are put off, as threads without the mask take signals too. Workers inherit the mask.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(signal.getsignal(number)):
                handlers[number] = signal.signal(number, lambda number, _: late.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if late:
            signal.raise_signal(late[0])


# A scheduler's


@contextmanager
def _reached(address: str) -> Iterator[Client]:
    _probe(address)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `_compare` says the same in one line.
            client = Client(address, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError, ImportError) as error:
        raise _unreachable(address, error) from None
    try:
        _compare(client)
        yield client
    finally:
        # Dask fails where an attempt to reach a lost scheduler ends as its connections are closed.
        with suppress(RuntimeError):
            client.close(timeout=TIMEOUT)


def _probe(address: str) -> None:
    """Refuse an address where no scheduler answers; Dask itself may wait for ever."""
    try:
        kind = asyncio.run(asyncio.wait_for(_kind(address), TIMEOUT))
    except TimeoutError:
        raise _unreachable(address, f"no answer within {TIMEOUT} s") from None
    except Exception as error:  # Whatever the answer of something else may bring about.
        raise _unreachable(address, error) from None
    if kind != "Scheduler":
        raise _unreachable(address, f"there is a {kind.lower()}")


async def _kind(address: str) -> str:
    arguments = Security().get_connection_args("client")
    async with rpc(address, timeout=TIMEOUT, connection_args=arguments) as peer:
        answer: dict[str, Any] = await peer.identity()
        return str(answer["type"])


def _unreachable(address: str, why: object) -> SchedulerError:
    reason = " ".join(str(why).split())
    return SchedulerError(
        f"scheduler: must be the address of a Dask scheduler, as tcp://10.0.0.1:8786, "
        f"not {address!r}: {reason}"
    )


def _compare(client: Client) -> None:
    versions: Any = client.get_versions()
    own = _compared(versions["client"])
    others = {"the scheduler": versions["scheduler"], **versions["workers"]}
    for name, theirs in others.items():
        if theirs is not None and (found := _compared(theirs)) != own:
            who = name if name == "the scheduler" else f"worker {name}"
            raise SchedulerError(f"scheduler: {who} has {found}, and here is {own}")


def _compared(versions: dict[str, Any]) -> str:
    packages = versions["host"] | versions["packages"]
    packages["python"] = ".".join(str(packages["python"]).split(".")[:2])
    return ", ".join(f"{name} {packages[name]}" for name in COMPARED)
