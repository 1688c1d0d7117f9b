"""Compiled hardware of all kinds beside golden models, for as long as it takes.

A case has runs of as many operations each, each from reset and with a seed of its own. What has
ended is kept, so that a test of days can be interrupted.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, cast

from amaranth.back import rtlil

from ..golden import any_preset
from ..hdl.build import UnitSpec, filter_unit
from ..replay.run_record import RunRecord, Runs
from ..replay.soak import soak
from ..replay.stream_times import with_ticks
from ..workers.calls import Call, tell
from ..workers.kept_calls import KeptCall, Progress, Tally, complete
from .cases import UnknownCaseError

OPERATIONS = 100_000_000
"""Operations of a run."""

RING_SEEDS = tuple(range(1, 11))
"""Seeds of a ring: a thousand million operations."""

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
        Variant of the memories.
    seeds : tuple of int
        One for each run.
    """

    name: str
    spec: UnitSpec
    memory: str = "portable"
    seeds: tuple[int, ...] = (1,)

    @property
    def hardware(self) -> str:
        """SHA-256 of the unit as text."""
        text = rtlil.convert(filter_unit(self.spec, memory=self.memory), emit_src=False)
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
    # Garbage where ports meet matters most where cells are read and written at once.
    for name in ("timing-small", "timing-default", "timing-counted-default"):
        yield EnduranceCase(name=name, spec=_unit(name), memory="ecp5")
    counted = _unit("timing-counted-default")
    yield EnduranceCase(name="timing-counted-default-rbw", spec=counted, memory="ecp5-rbw")


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

    A run is made again if the hardware is another, or if it had fewer operations.

    Parameters
    ----------
    cases : sequence of EnduranceCase
    record : RunRecord
        Of kind `lately.replay.run_record.SOAKS`.
    seeds : sequence of int, optional
        In place of the cases' own.
    operations : int
        Of each run.
    jobs, scheduler, progress
        As for `lately.workers.kept_calls.complete`.

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
        hardware = case.hardware
        for seed in seeds or case.seeds:
            name = f"{case.name} seed {seed}"
            known = record.find(name)
            found = known is not None and _holds(known, hardware, operations)
            call = Call(name, _run, (case, seed, operations))
            keep = partial(_keep, record, name, hardware)
            calls[name] = KeptCall(call, name, found, keep)
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
    wanted = {run["case"] for run in runs.values()}
    hardware = {case.name: case.hardware for case in CASES if case.name in wanted}
    return {name: run for name, run in runs.items() if run["hardware"] == hardware.get(run["case"])}


def _holds(known: dict[str, Any], hardware: str, operations: int) -> bool:
    return known["hardware"] == hardware and known["operations"] >= operations


def _keep(record: RunRecord, name: str, hardware: str, figures: dict[str, Any]) -> None:
    record.keep(name, figures | {"hardware": hardware})


def _run(order: tuple[EnduranceCase, int, int]) -> dict[str, Any]:
    case, seed, operations = order
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        tell(stage=f"{done:,} operations", share=done / operations)

    figures = soak(
        case.spec, operations=operations, seed=seed, memory=case.memory, progress=advance
    )
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
        By case: counts and seconds of all its runs, `runs`, their number, and the bits or cells
        of its memory, which are those of one.
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
    mismatches = {
        name: sum(run["mismatches"][name] for run in runs) for name in first["mismatches"]
    }
    return summed | {"mismatches": mismatches}
