"""Calls functions in processes on this machine, or on the workers of a Dask cluster."""

import asyncio
import logging
import pickle
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
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

TOPIC = "lately"  # the scheduler's topic for messages from running calls
TIMEOUT = 10  # seconds within which a scheduler must answer
SILENT = logging.CRITICAL + 1  # log level above all messages
DEATHS = 2  # number of local processes that may die in the same call


class MismatchError(LatelyError):
    """Raised if a worker has other sources or versions than the process it works for."""


class SchedulerError(LatelyError):
    """Raised if a scheduler does not reply, or processes cannot be started."""


def tell(stage: str, share: float) -> None:
    """Report the progress of a running call to the client; outside of a call, do nothing."""
    with suppress(ValueError):
        worker = get_worker()
        worker.log_event(TOPIC, [worker.get_current_task(), stage, share])


def run(
    function: Callable[[Any], Any],
    arguments: Sequence[Any],
    settle: Callable[[int, "Any | LatelyError"], None],
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    hear: Callable[[int, str, float], None],
) -> None:
    """Call a function with each argument, and pass each result to `settle` as soon as it is ready.

    The function must be at module level. `settle` receives the number of a call and either its
    result or the `LatelyError` that the call raised. `hear` runs in another thread, and receives
    the number of a call and what the call reports with `tell`. If a process dies, another process
    repeats its call.
    """
    if not arguments:
        return
    # Silence all loggers of distributed, some of which have their own levels; errors are raised.
    for name in ["distributed", *logging.root.manager.loggerDict]:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(SILENT)
    with ExitStack() as stack:
        address: Any = scheduler
        if scheduler is None:
            address = stack.enter_context(_started(min(jobs, len(arguments))))
        else:
            _require_scheduler(scheduler)
        client = stack.enter_context(Client(address, timeout=TIMEOUT, set_as_default=False))
        stack.enter_context(client.as_current())
        calls = [pickle.dumps(_Call(function, argument)) for argument in arguments]
        futures = client.map(pickle.loads, calls, pure=False)
        numbers = {future.key: number for number, future in enumerate(futures)}

        def pass_on(event: tuple[float, tuple[str, str, float]]) -> None:
            key, stage, share = event[1]
            if key in numbers:
                hear(numbers[key], stage, share)

        client.subscribe_topic(TOPIC, pass_on)
        try:
            for future in as_completed(futures):
                settle(numbers[future.key], _outcome(future))
        except MismatchError as error:
            raise MismatchError(
                f"{error}; restart it with the same sources and versions as this process"
            ) from None
        except (CancelledError, CommClosedError):
            raise SchedulerError(
                f"scheduler: lost the connection to {scheduler}; run the command again to resume"
            ) from None


class _Call:
    def __init__(self, function: Callable[[Any], Any], argument: Any) -> None:
        self._function, self._argument = function, argument

    def __reduce__(self) -> tuple[Any, ...]:
        return self._function, (self._argument,)


def _outcome(future: Future) -> Any:
    try:
        return future.result()
    except KilledWorker as error:
        deaths = error.allowed_failures + 1
        return LatelyError(f"the measuring process died {deaths} times")
    except ModuleNotFoundError as error:
        raise MismatchError(f"worker: {error.msg}") from None
    except MismatchError:
        raise
    except LatelyError as error:
        return error


def _require_scheduler(address: str) -> None:
    async def kind_of() -> str:
        # A client would wait forever for a web server.
        arguments = Security().get_connection_args("client")
        async with rpc(address, timeout=TIMEOUT, connection_args=arguments) as peer:
            return str((await peer.identity())["type"])

    try:
        kind = asyncio.run(asyncio.wait_for(kind_of(), TIMEOUT))
        if kind != "Scheduler":
            raise ValueError(f"a {kind.lower()} replied")
    except Exception as error:  # The reply of another program may cause any error.
        reason = " ".join(str(error).split()) or f"no reply within {TIMEOUT} s"
        raise SchedulerError(
            "scheduler: must be the address of a Dask scheduler, like tcp://10.0.0.1:8786, "
            f"not {address!r}: {reason}"
        ) from None


@contextmanager
def _started(jobs: int) -> Iterator[LocalCluster]:
    with tempfile.TemporaryDirectory(prefix="lately-", ignore_cleanup_errors=True) as folder:
        settings: dict[str, Any] = {
            "temporary-directory": folder,
            # Temporary files of tools are deleted with the folder, even if a process is killed.
            "distributed.nanny.environ": {"TMPDIR": folder},
            # One call per process, so that a death is blamed on one call.
            "distributed.scheduler.worker-saturation": 1.0,
            "distributed.scheduler.allowed-failures": DEATHS - 1,
        }
        # Starting it unblocks Ctrl-C, so start it before blocking.
        resource_tracker.ensure_running()
        # Processes inherit the signal mask, so that only this process receives Ctrl-C.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with dask.config.set(settings):
                cluster = LocalCluster(
                    n_workers=jobs,
                    threads_per_worker=1,
                    memory_limit=0,
                    silence_logs=SILENT,
                    # It serves its status nevertheless; other clusters may use the default port.
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": False},
                )
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise SchedulerError(f"jobs: cannot start {jobs} processes: {reason}") from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        try:
            yield cluster
        finally:
            for nanny in cluster.workers.values():
                _kill(nanny)
            cluster.close()


def _kill(nanny: Nanny) -> None:
    nanny.close_gracefully()  # Otherwise the nanny would restart the worker.
    if nanny.pid is None:  # No worker at the moment; psutil would take None as this process.
        return
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(nanny.pid)
        for each in [*process.children(recursive=True), process]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
