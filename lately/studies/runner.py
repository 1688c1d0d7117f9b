"""Measurement of studies: points apart from each other, in several processes, kept when done."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

from ..golden.errors import LatelyError
from ..workers import calls as graph
from ..workers.calls import Call, MismatchError
from .records import Entry, Report
from .sources import fingerprint, versions
from .store import Store, Task
from .study import Point, Result, Study

Progress = Callable[[int, int, str], None]
"""Called with the points done, those in all, and the study of the last or what is waited for."""


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
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Measure the points of studies, but for those that the store has, and conclude.

    Every result is put into the store as it comes, so that an interrupted run
    goes on where it stopped. A process that dies costs the point that was
    under way a repeat; a point that this happens to again and again fails.
    The report is the same whatever the processes are, and how many.

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
        Processes to start, if there is no scheduler.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers measure; they need no folder
        in common with this process.
    progress : callable, optional

    Raises
    ------
    OSError
        If a result cannot be kept.
    SchedulerError, MismatchError
        If the scheduler is not there, or a worker has other sources or versions.
    """
    tasks = [task for study in studies for task in plan(study, quick)]
    known = {} if anew else {id(t): r for t in tasks if (r := store.find(t)) is not None}
    waiting = [task for task in tasks if id(task) not in known]
    failures: list[str] = []
    done = found = len(known)

    def show(what: str) -> None:
        if progress is not None:
            progress(done, len(tasks), what)

    def settle(call: Call, outcome: Result | LatelyError) -> None:
        nonlocal done
        task = wanted[id(call)]
        if isinstance(outcome, LatelyError):
            failures.append(f"{task.study.name} at {json.dumps(task.point)}: {outcome}")
        else:
            store.add(task, outcome)
            known[id(task)] = outcome
        done += 1
        show(task.study.name)

    show("")
    calls = [
        Call(t.study.name, _measure, (t.study.measure, t.point, t.fingerprint)) for t in waiting
    ]
    wanted = {id(call): task for call, task in zip(calls, waiting, strict=True)}
    graph.run(
        calls, settle, jobs=jobs, scheduler=scheduler, idle=lambda: show("waiting for workers")
    )
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


def _measure(order: tuple[Callable[[Point], Result], Point, str]) -> Result:
    """Measure a point, if that would be done by the same sources as where it is wanted."""
    measure, point, mark = order
    if _fingerprint(measure) != mark:
        raise MismatchError(f"other sources or versions: {', '.join(versions())} there")
    return measure(point)
