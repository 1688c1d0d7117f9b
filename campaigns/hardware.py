"""Measurement of cases: each run in a process of its own, several at a time, kept when done."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from lately.boards.flow.devices import device
from lately.boards.flow.tools import TIME_LIMIT
from lately.golden.errors import LatelyError

from .cases import Case
from .hardware_run import make
from .measurements import Identity, Measurement, Store, Summary, summarise
from .run_identity import identity
from .workers.calls import Call
from .workers.kept_calls import KeptCall, Progress, complete


@dataclass(frozen=True)
class Outcome:
    """Outcome of a measurement; `found` is the number of runs that had been made before."""

    summaries: list[Summary]
    """One for each case of which a run succeeded, in the order of the cases."""
    failures: list[str] = field(default_factory=list)
    """Why the other runs failed, one line each."""
    measured: int = 0
    """Number of runs that were made now."""
    found: int = 0

    @property
    def caveats(self) -> dict[str, str]:
        """Caveats about figures, by device; devices without one are left out."""
        medians = [summary.median for summary in self.summaries]
        return {report.device: report.caveat for report in medians if report.caveat}

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        others = {name: getattr(self, name) for name in ("failures", "measured", "found")}
        return {"cases": [summary.to_dict() for summary in self.summaries]} | others


class Plan(NamedTuple):
    """Runs to make, with a name each, and why the other cases cannot be measured, a line each."""

    runs: dict[Identity, str]
    failures: list[str]


def plan(cases: Iterable[Case], seeds: Sequence[int] | None = None) -> Plan:
    """Return the runs of cases, with `seeds` of the placement in place of the cases' own."""
    runs: dict[Identity, str] = {}
    failures = []
    for case in cases:
        try:
            for seed in seeds or case.seeds:
                wanted = identity(case.spec, device(case.device), seed)
                runs.setdefault(wanted, f"{case.name} seed {seed}")
        except LatelyError as error:
            failures.append(f"{case.name}: {error}")
    return Plan(runs=runs, failures=failures)


def measure(
    cases: Sequence[Case],
    store: Store,
    *,
    seeds: Sequence[int] | None = None,
    jobs: int = 1,
    scheduler: str | None = None,
    time_limit: float = TIME_LIMIT,
    progress: Progress | None = None,
) -> Outcome:
    """Measure cases, except for runs that the store has, and store every run as it ends.

    A run that fails does not keep the others from being made. If this is
    interrupted, the runs under way are ended and leave nothing behind.

    Parameters
    ----------
    cases, seeds
        As `plan`.
    store : Store
        Store of finished runs.
    jobs : int
        Runs at a time, if there is no scheduler.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers make the runs.
    time_limit : float
        Seconds after which a run of one tool is ended.
    progress : callable, optional
        Called whenever something happened, from several threads but by one at a time.

    Raises
    ------
    SchedulerError, MismatchError
        If the scheduler is not there, or a worker has other hardware or tools.
    """
    planned = plan(cases, seeds)

    def keep(outcome: dict[str, Any]) -> None:
        store.add(Measurement.from_dict(outcome))

    made = partial(make, time_limit=time_limit)
    runs = [
        KeptCall(Call(name, made, wanted), name, store.find(wanted) is not None, keep)
        for wanted, name in planned.runs.items()
    ]
    tally = complete(runs, "runs", jobs=jobs, scheduler=scheduler, progress=progress)
    # So that the file does not tell which ended first.
    store.arrange(planned.runs)
    found = [entry for wanted in planned.runs if (entry := store.find(wanted)) is not None]
    return Outcome(
        summaries=summarise(cases, found),
        failures=sorted([*planned.failures, *tally.failures]),
        measured=tally.measured,
        found=tally.found,
    )
