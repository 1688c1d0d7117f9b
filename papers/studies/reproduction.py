"""Measurement of studies: independent points, in several processes, kept when done."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

from campaigns.workers.calls import Call, MismatchError
from campaigns.workers.kept_calls import KeptCall, Progress, complete

from .records import Entry, Report
from .sources import fingerprint, versions
from .store import Store, Task
from .study import Point, Result, Study


@dataclass(frozen=True)
class Reproduction:
    """Outcome of a run."""

    report: Report
    """Studies of which all points were measured."""
    failures: list[str] = field(default_factory=list)
    """Why the other studies could not be measured, one line for each point."""
    measured: int = 0
    """Number of points that were measured now; `found` had been before."""
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
    """Measure the points of studies, except for those that the store has, and conclude.

    Every result is stored as it comes, so that an interrupted run resumes
    where it stopped. If a process dies, the point that it was measuring is
    repeated; a point whose processes die again and again fails. The report
    depends neither on the number of processes nor on where they run.

    `quick` is the quick form of each study; with `anew` the points that the store has are measured
    again; `jobs`, `scheduler` and `progress` are as for `complete`. Workers of a scheduler need no
    folder in common with this process.

    Raises
    ------
    OSError
        If a result cannot be kept.
    SchedulerError, MismatchError
        If the scheduler is not there, or a worker has other sources or versions.
    """
    points = [task for study in studies for task in plan(study, quick)]
    known = {} if anew else {id(p): r for p in points if (r := store.find(p)) is not None}

    def keep(point: Task, result: Result) -> None:
        store.add(point, result)
        known[id(point)] = result

    wanted = [
        KeptCall(_call(point), point.label, id(point) in known, partial(keep, point))
        for point in points
    ]
    tally = complete(wanted, "points", jobs=jobs, scheduler=scheduler, progress=progress)
    entries = []
    for study in studies:
        own = [point for point in points if point.study is study]
        if all(id(point) in known for point in own):
            outcome = study.conclude([(one.point, known[id(one)]) for one in own])
            entries.append(Entry(study.name, study.title, study.source, outcome))
    report = Report(quick=quick, entries=entries)
    return Reproduction(report, tally.failures, tally.measured, tally.found)


def _call(task: Task) -> Call:
    return Call(task.study.name, _measure, (task.study.measure, task.point, task.fingerprint))


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
