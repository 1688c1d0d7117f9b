"""Functional coverage of the bench of a unit: which situations its tests bring about.

Everything is told from the ports of the unit, clock by clock, and from what
the specification says that the operations do. Points and bins are counted by
cocotb-coverage.
"""

import json
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cocotb_coverage.coverage import CoverPoint, coverage_db

from ...golden import FilterSpec, Operation
from ...golden.files import replace_file
from ...golden.ring.layout import Layout
from ...hdl.profile import HardwareProfile
from ...hdl.unit import FilterUnit
from .parts import key_array

Counts = dict[str, dict[str, int]]
"""How often each bin was hit, by point and bin."""

RUNS = ("1", "2", "3 to 7", "8 or more")
"""Bins of how many clocks something lasted."""

CODES = ("NONE", "QUERY", "INSERT", "CHECK_AND_INSERT", "SHIFT", "CLEAR", "code 6", "code 7")
"""Bins of the operations, those that are undefined included."""

AROUND = 4
"""Clocks before and after a secret's acceptance in which operations are looked for."""


class Ports(NamedTuple):
    """Values at the ports of a unit in one cycle."""

    rst: bool = False
    offered: bool = False
    ready: bool = False
    operation: int = 0
    key: int = 0
    valid: bool = False
    taken: bool = False
    seen: bool = False
    age: int = 0
    generation: int = 1
    secret: int | None = None
    """A secret that is accepted in this clock."""


def points(spec: FilterSpec) -> dict[str, tuple[str, ...]]:
    """Return the bins of every point that the units of a specification have."""
    distances = tuple(str(clocks) for clocks in range(1, HardwareProfile(spec).latency + 2))
    found: dict[str, tuple[str, ...]] = {
        "operation pairs": tuple(f"{first}, {second}" for first in CODES for second in CODES),
        "operations one at a time": CODES,
        "one at a time": ("begins", "ends"),
        "phase of a forced shift": tuple(str(phase) for phase in range(spec.generation + 1)),
        "automatic shift": ("INSERT", "CHECK_AND_INSERT"),
        "clocks between an insertion and a query of its key": distances,
        "clocks between an insertion and a query of its cell": distances,
        "age of a hit": tuple(str(age) for age in range(spec.window_generations + 1)),
        "clocks without o.ready": RUNS,
        "clocks without i.valid": RUNS,
        "input closed": ("results wait", "after SHIFT", "after CLEAR", "one at a time"),
        "clocks closed for waiting results": RUNS,
        "spare": tuple(
            f"{code}, {state}" for code in ("SHIFT", "CLEAR") for state in ("clean", "not clean")
        ),
    }
    if spec.hash == "siphash":
        found["clocks from a secret to an operation"] = tuple(
            str(clocks) for clocks in range(-AROUND, AROUND + 1)
        )
        found["while a secret waits"] = ("automatic shift", "SHIFT", "CLEAR")
    return found | (_timed_points(spec) if spec.timed else {})


def _timed_points(spec: FilterSpec) -> dict[str, tuple[str, ...]]:
    """Return the bins of every point that `TimedSampler` has, where ticks come from a port."""
    shortens = spec.when_full == "shorten"
    found: dict[str, tuple[str, ...]] = {
        "turn": ("by number", "by age", "by number and age"),
        # What is full turns the ring though that is out, if it may shorten.
        "turn refused": ("old",) if shortens else ("full", "old"),
        "window": ("shortened",) if shortens else ("overfilled",),
        "SHIFT": ("oldest counts", "oldest does not count"),
        "silence": ("longer than the span", "four spans"),
        "tick between two clocks": ("any", "behind a turn", "before a turn"),
    }
    # A tick takes effect some clocks after the one before, which are enough for a small spare.
    if HardwareProfile(spec).clear_cycles > 8 * spec.generation_span:
        found["spare of an old generation"] = ("not clean",)
    return found


def run_bin(clocks: int) -> str:
    """Return the bin of `RUNS` for a number of clocks, at least 1."""
    return RUNS[2 if 3 <= clocks < 8 else min(clocks, 4) - 1]


class Collector:
    """Counts the bins of one unit, over all tests of a run.

    cocotb-coverage has one data base for a process; a new collector empties it.

    Parameters
    ----------
    points : mapping
        Bins by point.
    """

    def __init__(self, points: Mapping[str, tuple[str, ...]]) -> None:
        coverage_db.clear()
        self._points = {
            name: CoverPoint(f"unit.{name}", bins=list(bins)) for name, bins in points.items()
        }
        self._samples = {name: point(lambda _: None) for name, point in self._points.items()}

    def sample(self, point: str, value: str | int) -> None:
        """Count a value; one that is no bin of the point counts for nothing."""
        if point in self._samples:
            self._samples[point](str(value))

    @property
    def counts(self) -> Counts:
        """How often each bin was hit so far."""
        return {name: dict(point.detailed_coverage) for name, point in self._points.items()}

    def add_to(self, path: Path) -> None:
        """Add the counts to those of a file, which need not exist."""
        before = [json.loads(path.read_text("utf-8"))] if path.exists() else []
        with replace_file(path) as file:
            file.write(json.dumps(merged([*before, self.counts]), indent=1).encode())


def merged(runs: Iterable[Mapping[str, Mapping[str, int]]]) -> Counts:
    """Return the sum of the counts of several runs."""
    total: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        for point, bins in run.items():
            total[point].update(bins)
    return {point: dict(bins) for point, bins in total.items()}


def missed(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the bins that were never hit, each as ``point: bin``."""
    return [
        f"{point}: {name}"
        for point, bins in counts.items()
        for name, count in bins.items()
        if count == 0
    ]


class Sampler:
    """Follows one test from its reset on, and tells a collector what happens.

    Parameters
    ----------
    spec : FilterSpec
        Specification of the unit.
    collector : Collector
        Counts what is seen.
    """

    def __init__(self, spec: FilterSpec, collector: Collector) -> None:
        self._spec = spec
        self._profile = HardwareProfile(spec)
        self._sample = collector.sample
        self._hash = Layout.of(spec, partitioned=True).hash
        self._cells = cache(self._cells_of)
        self._now = 0
        self._secret = 0
        self._reset(1)

    def _reset(self, generation: int) -> None:
        self._last: int | None = None
        self._clear(generation)
        self._turned = -(1 << 30)
        self._inserted: deque[tuple[int, int, int, frozenset[int]]] = deque()
        self._operations: deque[int] = deque()
        self._waiting: tuple[int, int] | None = None
        self._loaded: int | None = None
        self._lasting: Counter[str] = Counter()

    def _clear(self, generation: int) -> None:
        self._position = 0
        self._filled = 0
        self._length = generation

    @property
    def _short(self) -> bool:
        return self._length < self._profile.minimum_generation

    def _ended(self, point: str, lasts: bool) -> int:
        """Return for how many clocks that lasted which ends in this one, or 0."""
        clocks = self._lasting[point]
        self._lasting[point] = clocks + 1 if lasts else 0
        return 0 if lasts else clocks

    def _sample_run(self, point: str, lasts: bool) -> None:
        if clocks := self._ended(point, lasts):
            self._sample(point, run_bin(clocks))

    def clock(self, ports: Ports) -> None:
        """Look at one clock; all clocks have to be shown, in order."""
        self._now += 1
        if ports.rst:
            self._secret = 0
            self._reset(ports.generation)
            return
        self._output(ports)
        self._input(ports)
        if ports.secret is not None:
            self._load(ports.secret)
        if ports.offered and ports.ready:
            self._accept(ports)

    def _output(self, ports: Ports) -> None:
        self._sample_run("clocks without o.ready", ports.valid and not ports.taken)
        if ports.valid and ports.taken and ports.seen:
            self._sample("age of a hit", ports.age)

    def _input(self, ports: Ports) -> None:
        """Tell pauses on either side of the input, and why the unit makes its own."""
        if self._last is None:
            return
        self._sample_run("clocks without i.valid", not ports.offered)
        if clocks := self._ended("input closed", not ports.ready):
            self._reopened(ports, clocks)

    def _reopened(self, ports: Ports, clocks: int) -> None:
        """Tell why the input was closed: the unit's contract knows four reasons only."""
        short = self._short or ports.generation < self._profile.minimum_generation
        if self._last == Operation.CLEAR:
            reason = "after CLEAR"
        elif self._last == Operation.SHIFT:
            reason = "after SHIFT"
            # The ring turned when the spare was clean, which is when the rest of the pause began.
            self._turned = max(self._turned, self._now - FilterUnit.SHIFT_PAUSE)
        elif short:
            reason = "one at a time"
        else:
            reason = "results wait"
            self._sample("clocks closed for waiting results", run_bin(clocks))
        self._sample("input closed", reason)

    def _load(self, secret: int) -> None:
        lead = FilterUnit.SECRET_LEAD if self._spec.rekey else 0
        self._waiting = (self._now + lead, secret)
        self._loaded = self._now
        for accepted in self._operations:
            self._around(accepted)

    def _around(self, accepted: int) -> None:
        assert self._loaded is not None
        if abs(accepted - self._loaded) <= AROUND:
            self._sample("clocks from a secret to an operation", accepted - self._loaded)

    def _accept(self, ports: Ports) -> None:
        operation = ports.operation
        if self._last is not None:
            self._sample("operation pairs", f"{CODES[self._last]}, {CODES[operation]}")
        if self._short:
            self._sample("operations one at a time", CODES[operation])
        self._last = operation
        if self._loaded is not None:
            self._around(self._now)
        self._operations.append(self._now)
        while self._operations[0] < self._now - AROUND:
            self._operations.popleft()
        if operation in (Operation.SHIFT, Operation.CLEAR):
            self._forced(ports)
        elif operation in (Operation.QUERY, Operation.INSERT, Operation.CHECK_AND_INSERT):
            self._access(ports)

    def _forced(self, ports: Ports) -> None:
        """Turn the ring by SHIFT, or bring it back by CLEAR."""
        code = CODES[ports.operation]
        clean = self._now - self._turned > self._profile.clear_cycles
        self._sample("spare", f"{code}, {'clean' if clean else 'not clean'}")
        if ports.operation == Operation.SHIFT and self._length == self._spec.generation:
            self._sample("phase of a forced shift", self._filled)
        self._turn(ports, code)

    def _turn(self, ports: Ports, cause: str) -> None:
        cleared = cause == "CLEAR"
        if self._waiting is not None and self._now >= self._waiting[0]:
            self._sample("while a secret waits", cause)
            if self._spec.rekey or cleared:
                self._secret, self._waiting = self._waiting[1], None
        short = self._short
        position = (self._position - 1) % self._spec.segments
        self._clear(ports.generation)
        if not cleared:
            self._position = position
        self._turned = self._now
        if short != self._short:
            self._sample("one at a time", "begins" if self._short else "ends")

    def _access(self, ports: Ports) -> None:
        """Query and insert a key, and compare it with those of the clocks before."""
        if ports.operation & Operation.QUERY:
            self._hazards(ports.key)
        if not ports.operation & Operation.INSERT:
            return
        if self._filled >= self._length:
            self._sample("automatic shift", CODES[ports.operation])
            self._turn(ports, "automatic shift")
        self._filled += 1
        cells = self._cells(ports.key, self._position, self._secret)
        self._inserted.append((self._now, ports.key, self._position, cells))

    def _hazards(self, key: int) -> None:
        while self._inserted and self._now - self._inserted[0][0] > self._profile.latency + 1:
            self._inserted.popleft()
        cells = self._cells(key, self._position, self._secret)
        for time, inserted, position, written in self._inserted:
            if inserted == key:
                point = "clocks between an insertion and a query of its key"
            elif position == self._position and not cells.isdisjoint(written):
                point = "clocks between an insertion and a query of its cell"
            else:
                continue
            self._sample(point, self._now - time)

    def _cells_of(self, key: int, position: int, secret: int) -> frozenset[int]:
        """Return the cells of a segment that a key has, part by part."""
        spec = self._spec
        keys = self._hash.check_keys(key_array([key], spec))
        state = self._hash.state(keys, secret)
        indices = self._hash.indices(state, position % spec.hash_functions)
        block = 0
        for index in indices[: -spec.parts]:
            block = block * spec.part_bits + int(index[0])
        return frozenset(
            (block * spec.parts + part) * spec.part_bits + int(index[0])
            for part, index in enumerate(indices[-spec.parts :])
        )
