"""Processes that work for this one: its own, or those of a Dask cluster."""

import asyncio
import logging
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any

import dask
import psutil
from distributed import Client, LocalCluster, Security
from distributed.core import rpc

from lately.golden.errors import LatelyError

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

    Raises
    ------
    SchedulerError
        If there is no scheduler there, or its versions are others.
    """
    _silence()
    with _own(jobs) if scheduler is None else _reached(scheduler) as client, client.as_current():
        yield client


def _silence() -> None:
    # What goes wrong is told in our own words. Some of the loggers have levels of their own.
    for name in ["distributed", *logging.root.manager.loggerDict]:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(SILENT)


# Own processes


@contextmanager
def _own(jobs: int) -> Iterator[Client]:
    # A fork would copy the threads' locks, the progress bar's among them.
    settings = {"distributed.worker.multiprocessing-method": "spawn"}
    with (
        tempfile.TemporaryDirectory(prefix="lately-", ignore_cleanup_errors=True) as folder,
        dask.config.set(settings | {"temporary-directory": folder}),
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
            # It serves its state all the same; never at a port that another one has.
            "dashboard_address": "127.0.0.1:0",
        },
    )


def _end(cluster: LocalCluster) -> None:
    """End the processes at once, whatever they do, and wait for what they had started."""
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
    """Put interrupts off; what is started here never hears of Ctrl-C.

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
    """Refuse an address where no scheduler answers; Dask itself may wait for good."""
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
