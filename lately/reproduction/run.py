"""Measurement of studies: points apart from each other, in several processes, kept when done."""

import json
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

from ..golden.errors import LatelyError
from .report import Entry, Report
from .store import Store, Task, fingerprint
from .study import Point, Result, Study

Progress = Callable[[int, int, str], None]
"""Called with the points done, the points in all, and the study of the last."""


@dataclass(frozen=True)
class Reproduction:
    """What came of a run.

    Attributes
    ----------
    report : Report
        Studies of which all points were measured.
    failures : list of str
        Why others could not be measured, one line for each point.
    measured, found : int
        Points that were measured now, and that had been before.
    """

    report: Report
    failures: list[str] = field(default_factory=list)
    measured: int = 0
    found: int = 0


def reproduce(
    studies: Sequence[Study],
    store: Store,
    *,
    quick: bool = False,
    anew: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Reproduction:
    """Measure the points of studies, but for those that the store has, and conclude.

    Every result is put into the store as it comes, so that an interrupted run
    goes on where it stopped. A process that dies costs the points that were
    under way a repeat, each alone; a point whose process dies then too fails.

    Parameters
    ----------
    studies : sequence of Study
    store : Store
        Where results are looked for and kept.
    quick : bool
        Whether the quick form of each study is wanted.
    anew : bool
        Whether to measure what the store has, too.
    jobs : int
        Processes at a time.
    progress : callable, optional

    Raises
    ------
    OSError
        If a result cannot be kept.
    """
    tasks = [task for study in studies for task in plan(study, quick)]
    known = {} if anew else {id(t): r for t in tasks if (r := store.find(t)) is not None}
    waiting = [task for task in tasks if id(task) not in known]
    failures: list[str] = []
    done = found = len(known)

    def settle(task: Task, outcome: "Future[str] | None") -> None:
        nonlocal done
        try:
            if outcome is None:
                raise LatelyError("the process that measured it died twice")
            result: Result = json.loads(outcome.result())
        except LatelyError as error:
            failures.append(f"{task.study.name} at {json.dumps(task.point)}: {error}")
        else:
            store.add(task, result)
            known[id(task)] = result
        done += 1
        if progress is not None:
            progress(done, len(tasks), task.study.name)

    if progress is not None:
        progress(done, len(tasks), "")
    _measure_all(waiting, jobs, settle)
    entries = []
    for study in studies:
        own = [task for task in tasks if task.study is study]
        if all(id(task) in known for task in own):
            outcome = study.conclude([(task.point, known[id(task)]) for task in own])
            entries.append(Entry(study.name, study.title, study.source, outcome))
    return Reproduction(
        report=Report(quick=quick, entries=entries),
        failures=sorted(failures),
        measured=len(waiting) - len(failures),
        found=found,
    )


def plan(study: Study, quick: bool) -> list[Task]:
    """Return the points of a study that are to be measured."""
    mark = _fingerprint(study.measure)
    return [Task(study, point, mark) for point in study.points(quick)]


@cache
def _fingerprint(function: Callable[[Point], Result]) -> str:
    return fingerprint(function)


# Processes

Settle = Callable[[Task, "Future[str] | None"], None]
"""Takes a point and what came of it; None if it cannot be known."""


def _measure_all(tasks: Sequence[Task], jobs: int, settle: Settle) -> None:
    waiting, suspects = deque(tasks), list[Task]()
    while waiting:
        with _workers(min(jobs, len(waiting))) as pool:
            suspects += _drain(pool, waiting, jobs, settle)
    for task in suspects:
        # Alone, so that it is known which one is to blame.
        with _workers(1) as pool:
            if _drain(pool, deque([task]), 1, settle):
                settle(task, None)


def _drain(
    pool: ProcessPoolExecutor, waiting: deque[Task], jobs: int, settle: Settle
) -> list[Task]:
    """Measure all that waits; if a process dies, return what was under way, with the rest left."""
    under_way: dict[Future[str], Task] = {}
    try:
        while waiting or under_way:
            # No more than there are processes, so that few are repeated.
            while waiting and len(under_way) < jobs:
                task = waiting[0]
                with _shielded():
                    under_way[pool.submit(_work, task.study.measure, task.point)] = task
                waiting.popleft()
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                if isinstance(future.exception(), BrokenProcessPool):
                    return [*under_way.values()]
                settle(under_way.pop(future), future)
    except BrokenProcessPool:
        return [*under_way.values()]
    return []


@contextmanager
def _workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    # A fresh interpreter: a fork would copy the threads' locks, the progress bar's among them.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, context, initializer=_begin)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown()


@contextmanager
def _shielded() -> Iterator[None]:
    """Let what is started here not hear of Ctrl-C, not even while it starts."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    # Ctrl-C reaches all processes of a terminal; the first one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # It cannot if it is killed: then they would wait for work for good.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(measure: Callable[[Point], Result], point: Point) -> str:
    return json.dumps(measure(point), allow_nan=False)
