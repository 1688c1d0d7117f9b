"""Calls in processes of this machine, or on the workers of a Dask cluster."""

import asyncio
import logging
import pickle
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any

import dask
import psutil
from distributed import (
    CancelledError,
    Client,
    Future,
    LocalCluster,
    Nanny,
    Security,
    as_completed,
    get_worker,
)
from distributed.comm.core import CommClosedError
from distributed.core import rpc
from distributed.scheduler import KilledWorker

from lately.golden.errors import LatelyError

Message = Mapping[str, Any]  # values that JSON can hold, which a call sends while it runs
TOPIC = "lately"  # topic of these messages at the scheduler
TIMEOUT = 10  # seconds within which a scheduler must answer
SILENT = logging.CRITICAL + 1  # level of logging that nothing reaches
DEATHS = 2  # processes of this machine that may die of the same call


class MismatchError(LatelyError):
    """A worker has other sources or versions than the process that it works for."""


class SchedulerError(LatelyError):
    """A scheduler does not answer, or no processes can be started."""


def tell(**message: Any) -> None:
    """Send a `message` from within a call to the process that wants it; elsewhere do nothing."""
    with suppress(ValueError):
        worker = get_worker()
        worker.log_event(TOPIC, [worker.get_current_task(), message])


def run(
    function: Callable[[Any], Any],
    arguments: Sequence[Any],
    settle: Callable[[int, "Any | LatelyError"], None],
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    hear: Callable[[int, Message], None] = lambda number, message: None,
) -> None:
    """Call a function of a module with each argument, and settle each call as it ends.

    `settle` takes the number of a call and its result, or the `LatelyError` that it raised; `hear`
    takes the number and a message, in another thread. If a process dies, another repeats its call.
    """
    if not arguments:
        return
    with _connected(min(jobs, len(arguments)), scheduler) as client:
        calls = [pickle.dumps(_Call(function, argument)) for argument in arguments]
        futures = client.map(pickle.loads, calls, pure=False)
        numbers = {future.key: number for number, future in enumerate(futures)}

        def pass_on(event: tuple[float, tuple[str, Message]]) -> None:
            key, message = event[1]
            if key in numbers:
                hear(numbers[key], message)

        client.subscribe_topic(TOPIC, pass_on)
        try:
            for future in as_completed(futures):
                settle(numbers[future.key], _outcome(future))
        except MismatchError as error:
            raise MismatchError(f"{error}; restart it with those of this process") from None
        except (CancelledError, CommClosedError):
            raise SchedulerError(
                f"scheduler: lost the connection to {scheduler}; run the command again to resume"
            ) from None


class _Call:
    """Unpickles as the result of a call, so that the scheduler needs no module of the function."""

    def __init__(self, function: Callable[[Any], Any], argument: Any) -> None:
        self._function, self._argument = function, argument

    def __reduce__(self) -> tuple[Any, ...]:
        return self._function, (self._argument,)


def _outcome(future: Future) -> Any:
    try:
        return future.result()
    except KilledWorker as error:
        deaths = error.allowed_failures + 1
        return LatelyError(f"the process that measured it died {deaths} times")
    except ModuleNotFoundError as error:
        raise MismatchError(f"worker: {error.msg}") from None
    except MismatchError:
        raise
    except LatelyError as error:
        return error


@contextmanager
def _connected(jobs: int, scheduler: str | None) -> Iterator[Client]:
    # Errors have messages of their own. Some of the loggers have levels of their own.
    for name in ["distributed", *logging.root.manager.loggerDict]:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(SILENT)
    if scheduler is None:
        with (
            _started(jobs) as cluster,
            Client(cluster, set_as_default=False) as client,
            client.as_current(),
        ):
            yield client
        return
    try:
        kind = asyncio.run(asyncio.wait_for(_kind(scheduler), TIMEOUT))
        if kind != "Scheduler":
            raise ValueError(f"there is a {kind.lower()}")
    except Exception as error:  # Whatever the answer of another program brings about.
        reason = " ".join(str(error).split()) or f"no answer within {TIMEOUT} s"
        raise SchedulerError(
            "scheduler: must be the address of a Dask scheduler, as tcp://10.0.0.1:8786, "
            f"not {scheduler!r}: {reason}"
        ) from None
    with Client(scheduler, timeout=TIMEOUT, set_as_default=False) as client, client.as_current():
        yield client


async def _kind(address: str) -> str:
    """Ask what is at an address. A client would wait for ever for the answer of a web server."""
    arguments = Security().get_connection_args("client")
    async with rpc(address, timeout=TIMEOUT, connection_args=arguments) as peer:
        return str((await peer.identity())["type"])


@contextmanager
def _started(jobs: int) -> Iterator[LocalCluster]:
    """Start processes for one call at a time each; end them, and their children, afterwards."""
    with tempfile.TemporaryDirectory(prefix="lately-", ignore_cleanup_errors=True) as folder:
        settings: dict[str, Any] = {
            "temporary-directory": folder,
            # Temporary files of tools go with the folder, even if a process is killed.
            "distributed.nanny.environ": {"TMPDIR": folder},
            # A process that dies is blamed on one call.
            "distributed.scheduler.worker-saturation": 1.0,
            "distributed.scheduler.allowed-failures": DEATHS - 1,
        }
        # Its start lets Ctrl-C through again.
        resource_tracker.ensure_running()
        # Processes inherit the mask, so that Ctrl-C reaches this process alone.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with dask.config.set(settings):
                cluster = LocalCluster(
                    n_workers=jobs,
                    threads_per_worker=1,
                    memory_limit=0,
                    silence_logs=SILENT,
                    # It serves its state all the same; other clusters may be at the usual port.
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": False},
                )
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise SchedulerError(f"jobs: {jobs} processes cannot be started: {reason}") from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        try:
            yield cluster
        finally:
            for nanny in cluster.workers.values():
                _kill(nanny)
            cluster.close()


def _kill(nanny: Nanny) -> None:
    """End the process of a nanny, which may be in the middle of a call, and its tools."""
    nanny.close_gracefully()  # Otherwise it would start the process again.
    if nanny.pid is None:  # Between two processes; psutil would take None for this one.
        return
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(nanny.pid)
        for each in [*process.children(recursive=True), process]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
