"""Compiled hardware of all kinds beside golden models, for as long as it takes.

A case has runs of as many operations each, each from reset and with a seed of its own; the last
one is with the memories of a device, and with pauses. What has ended is kept, so that a test of
days can be interrupted.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any, cast

from lately.golden import any_preset
from lately.hdl.build import UnitSpec, filter_unit
from lately.replay.stream_times import with_ticks

from .cases import DECIDED, UnknownCaseError
from .run_record import RunRecord, Runs
from .soak import soak
from .workers.calls import Call, tell
from .workers.kept_calls import KeptCall, Progress, Tally, complete

OPERATIONS = 100_000_000
"""Operations of a run."""

RING_SEEDS = tuple(range(1, 11))
"""Seeds of a ring: a thousand million operations."""

SEEDS = (1, 2)
"""Seeds of any other unit."""

SPAN = 1000
"""Ticks of the cases with a window in time."""


@dataclass(frozen=True, kw_only=True)
class EnduranceCase:
    """A unit that is compared for long.

    Attributes
    ----------
    name : str
    spec : UnitSpec
    memory : str
        Variant of the memories, in all runs but the last.
    device_memory : str
        Variant of the memories in the last run, in which there are pauses.
    seeds : tuple of int
        One for each run.
    """

    name: str
    spec: UnitSpec
    memory: str = "portable"
    device_memory: str = "ecp5"
    seeds: tuple[int, ...] = SEEDS

    def how(self, seed: int) -> dict[str, Any]:
        """Return ``memory`` and ``stalls`` of the run with that `seed`, as `soak` takes them."""
        last = seed == self.seeds[-1]
        return {"memory": self.device_memory if last else self.memory, "stalls": last}

    def hardware(self, memory: str) -> str:
        """Return the SHA-256 of the unit with memories of a variant, as text.

        Parameters
        ----------
        memory : str
        """
        return _digest(self.spec, memory)


@cache
def _digest(spec: UnitSpec, memory: str) -> str:
    from amaranth.back import rtlil

    text = rtlil.convert(filter_unit(spec, memory=memory), emit_src=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _unit(name: str) -> UnitSpec:
    return cast(UnitSpec, any_preset(name))


def _cases() -> Iterable[EnduranceCase]:
    rings = ("default", "apbf-default", "gebf-default", "blocked-gebf-default", "siphash-default")
    for name in rings:
        yield EnduranceCase(name=name, spec=_unit(name), seeds=RING_SEEDS)
    for name in rings[:-1]:
        when_full = "overfill" if name in ("apbf-default", "gebf-default") else "shorten"
        spec = with_ticks(_unit(name), span=SPAN, when_full=when_full)
        yield EnduranceCase(name=f"{name}-span", spec=spec, seeds=RING_SEEDS)
    for name in ("two-lanes", "four-lanes", "dictionary-1000", "dictionary-10000",
                 "dictionary-ring-1000", "dictionary-ring-10000"):  # fmt: skip
        yield EnduranceCase(name=name, spec=_unit(name))
    # Those of other sizes, once.
    yield EnduranceCase(name="large", spec=_unit("large"), seeds=SEEDS[-1:])
    yield EnduranceCase(name="small", spec=_unit("small"), device_memory="ice40", seeds=SEEDS[-1:])
    for name, spec in DECIDED.items():
        yield EnduranceCase(name=name, spec=spec, seeds=SEEDS[-1:])
    # Garbage where ports meet matters most where cells are read and written at once.
    for name in ("timing-small", "timing-default", "timing-counted-default"):
        yield EnduranceCase(name=name, spec=_unit(name), memory="ecp5")


CASES = tuple(_cases())
"""What is compared."""


def select(patterns: Sequence[str]) -> list[EnduranceCase]:
    """Return the cases that match one of the patterns, or all without one, in their order.

    Parameters
    ----------
    patterns : sequence of str
        Names, with wildcards * and ?.

    Raises
    ------
    UnknownCaseError
        If one matches nothing.
    """
    for pattern in patterns:
        if not any(fnmatchcase(case.name, pattern) for case in CASES):
            names = ", ".join(case.name for case in CASES)
            raise UnknownCaseError(f"case: must match one of {names}, not {pattern!r}")
    wanted = patterns or ["*"]
    return [case for case in CASES if any(fnmatchcase(case.name, one) for one in wanted)]


def endure(
    cases: Sequence[EnduranceCase],
    record: RunRecord,
    *,
    seeds: Sequence[int] | None = None,
    operations: int = OPERATIONS,
    jobs: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> tuple[Runs, Tally]:
    """Compare cases, less the runs that are on record, and keep each run as it ends.

    A run is made again if the hardware is another, or if it had fewer operations or no pauses
    where it should have some.

    Parameters
    ----------
    cases : sequence of EnduranceCase
    record : RunRecord
        Of kind `campaigns.run_record.SOAKS`.
    seeds : sequence of int, optional
        In place of the cases' own.
    operations : int
        Of each run.
    jobs, scheduler, progress
        As for `campaigns.workers.kept_calls.complete`.

    Returns
    -------
    runs : dict
        What is on record of the runs that were asked for.
    tally : Tally

    Raises
    ------
    SchedulerError, MismatchError
        If the scheduler is not there, or a worker has other sources.
    """
    calls = {}
    for case in cases:
        for seed in seeds or case.seeds:
            name = f"{case.name} seed {seed}"
            wanted = _identity(case, seed)
            known = record.find(name)
            found = known is not None and _holds(known, wanted, operations)
            call = Call(name, _run, (case, seed, operations))
            calls[name] = KeptCall(call, name, found, partial(_keep, record, name, wanted))
    tally = complete([*calls.values()], "runs", jobs=jobs, scheduler=scheduler, progress=progress)
    runs = {name: figures for name in calls if (figures := record.find(name)) is not None}
    return runs, tally


def current(runs: Runs) -> Runs:
    """Return the runs whose case is there still, and whose hardware is what the source makes now.

    Parameters
    ----------
    runs : dict
        As a record holds them.
    """
    cases = {case.name: case for case in CASES}
    return {
        name: run
        for name, run in runs.items()
        if run["case"] in cases and _holds(run, _identity(cases[run["case"]], run["seed"]))
    }


def _identity(case: EnduranceCase, seed: int) -> dict[str, Any]:
    """Return what a record must have to be of that run."""
    how = case.how(seed)
    return {"hardware": case.hardware(how["memory"]), "stalls": how["stalls"]}


def _holds(known: dict[str, Any], wanted: dict[str, Any], operations: int = 0) -> bool:
    # Runs from before there were pauses had none.
    told = {"stalls": False} | known
    return wanted.items() <= told.items() and known["operations"] >= operations


def _keep(record: RunRecord, name: str, wanted: dict[str, Any], figures: dict[str, Any]) -> None:
    record.keep(name, figures | wanted)


def _run(order: tuple[EnduranceCase, int, int]) -> dict[str, Any]:
    case, seed, operations = order
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        tell(stage=f"{done:,} operations", share=done / operations)

    figures = soak(case.spec, operations=operations, seed=seed, progress=advance, **case.how(seed))
    return {"case": case.name} | figures


def totals(runs: Runs) -> Runs:
    """Sum up the runs of each case, in the order of the cases.

    Parameters
    ----------
    runs : dict
        As a record holds them.

    Returns
    -------
    dict
        By case: counts and seconds of all its runs; `runs`, their number; `stalls`, the number of
        those with pauses; and the bits or cells of its memory, which are those of one.
    """
    summed: Runs = {}
    for case in CASES:
        own = [run for run in runs.values() if run["case"] == case.name]
        if own:
            summed[case.name] = _sum(own) | {"case": case.name, "runs": len(own)}
    return summed


_OF_ONE = ("memory_bits", "memory_cells")


def _sum(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first = runs[0]
    summed: dict[str, Any] = {
        name: value if name in _OF_ONE else sum(run[name] for run in runs)
        for name, value in first.items()
        if type(value) in (int, float) and name != "seed"
    }
    # Runs on record from before something was compared do not have it.
    names = dict.fromkeys(name for run in runs for name in run["mismatches"])
    mismatches = {name: sum(run["mismatches"].get(name, 0) for run in runs) for name in names}
    stalls = sum(run.get("stalls", False) for run in runs)
    return summed | {"mismatches": mismatches, "stalls": stalls}
