"""Functional coverage of units of timing filters: how operations, ticks and the sweep meet.

Told from the operations with the blocks of their results, and, of the first
part, from the ports of its memory and of its sweep, clock by clock.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...golden import Operation, PartitionedTimingSpec
from ...golden.operations import OperationBit
from ...golden.spec.timestamp import StampedPartsSpec
from ...hdl.latencies import TICKS_WAITING
from ...hdl.timing.sweep_rules import BETWEEN, rest_interval
from .coverage import Collector, Ports
from .shell_coverage import shell_points
from .timing_parts import Performed, cells_of

HAND = ("still young", "restamped")
"""What becomes of a cell that the sweep has in hand."""


def points(spec: StampedPartsSpec) -> dict[str, tuple[str, ...]]:
    """Return the bins of every point that the units of a specification have."""
    counted = isinstance(spec, PartitionedTimingSpec)
    least = int(isinstance(spec, PartitionedTimingSpec) and spec.block == 1)
    distances = [
        f"{clocks}, age {age}"
        for clocks in range(1, BETWEEN + 2)
        for age in sorted({least, _most_blocks(spec, clocks)})
    ]
    found: dict[str, tuple[str, ...]] = {
        "age": tuple(str(age) for age in range(least, spec.window_blocks + 2)),
        "oldest cells": tuple(str(count) for count in range(1, spec.hashes + 1)),
        "window of a query": ("0", "the longest", "the age", "a block less than the age"),
        "clocks between an insertion and a query of its key": tuple(distances),
        "clocks between an insertion and a query of its cell": tuple(distances),
        "rounds of the stamps": ("1", "4"),
        **shell_points(8, sweep=counted),
    }
    meets = ("query", "insertion")
    found["read in the clock in which the sweep writes"] = meets
    if counted:
        found["sweep of a cell"] = (*HAND, "behind an insertion under way")
        found["operation behind the sweep of its cell"] = meets
    else:
        found["ticks that wait"] = ("1", str(TICKS_WAITING))
        found["silence"] = ("longer than the window", "than all stamps", "than four rounds")
        found["tick between two clocks"] = ("operations", "behind a CLEAR")
        found["write of an insertion"] = ("made", "in the memory already", "under way already")
        found["sweep of a cell"] = (*HAND, "restamped though queried", "called off")
        found["sweep waits"] = ("to read", "to write")
    return found


def _most_blocks(spec: StampedPartsSpec, clocks: int) -> int:
    """Return the most blocks that begin in so many clocks, few as they are, with operations."""
    if not isinstance(spec, PartitionedTimingSpec):
        return 1
    # In the clocks of the sweep nothing is inserted.
    return (clocks - (clocks + 1) // rest_interval(spec)) // spec.block


class TimingSampler:
    """Follows one test from its reset on, and tells a collector what operations bring about.

    Parameters
    ----------
    spec : StampedPartsSpec
        Specification of the unit.
    collector : Collector
        Counts what is seen.
    clock : int
        Length of a clock, in ns.
    """

    def __init__(self, spec: StampedPartsSpec, collector: Collector, *, clock: int) -> None:
        self._spec = spec
        self._sample = collector.sample
        self._clock = clock

    def _clocks(self, one: Performed, other: Performed) -> int:
        """Return the clocks from one acceptance to another."""
        return round((other.accepted - one.accepted) / self._clock)

    def follow(self, performed: Iterable[Performed]) -> None:
        """Look at all operations of a test in order."""
        performed = [*performed]
        cells = cells_of(self._spec, [one.item.key for one in performed])
        before: deque[tuple[Performed, NDArray[np.intp]]] = deque(maxlen=BETWEEN + 1)
        # When each cell of the first part was last written, and in which block.
        written: dict[int, Performed] = {}
        last = None
        for one, own in zip(performed, cells.T, strict=True):
            operation = one.item.operation
            if last is not None:
                self._passed(last, one)
            if operation == Operation.CLEAR:
                before.clear()
                written.clear()
            elif not operation & OperationBit.ALONE:
                self._answer(one)
                self._met(one, own, before)
                if operation & OperationBit.INSERT:
                    self._write(one, written.get(int(own[0])))
                    before.append((one, own))
                    written[int(own[0])] = one
            last = one
        rounds = (last.block if last else 0) >> self._spec.stamp_bits
        for least in (1, 4):
            if rounds >= least:
                self._sample("rounds of the stamps", least)

    def _passed(self, last: Performed, one: Performed) -> None:
        """Tell what time passed between two operations."""
        blocks, stamps = one.block - last.block, 1 << self._spec.stamp_bits
        for name, least in (
            ("longer than the window", self._spec.window_blocks + 1),
            ("than all stamps", stamps),
            ("than four rounds", 4 * stamps),
        ):
            if blocks >= least:
                self._sample("silence", name)
        if blocks and self._clocks(last, one) == 1:
            self._sample("tick between two clocks", "operations")
        if blocks and last.item.operation == Operation.CLEAR:
            self._sample("tick between two clocks", "behind a CLEAR")

    def _answer(self, one: Performed) -> None:
        age, window = one.outcome.age, one.item.window
        self._sample("age", age)
        self._sample("oldest cells", one.outcome.oldest)
        if one.item.operation & OperationBit.QUERY:
            for name, holds in (
                ("0", window == 0),
                ("the longest", window == self._spec.window_blocks),
                ("the age", window == age),
                ("a block less than the age", window == age - 1),
            ):
                if holds:
                    self._sample("window of a query", name)

    def _met(
        self,
        one: Performed,
        own: NDArray[np.intp],
        before: Iterable[tuple[Performed, NDArray[np.intp]]],
    ) -> None:
        """Compare a query with the insertions of the clocks before."""
        if not one.item.operation & OperationBit.QUERY:
            return
        for other, cells in before:
            key = other.item.key == one.item.key
            if key or (cells == own).any():
                where = f"{self._clocks(other, one)}, age {one.block - other.block}"
                name = "key" if key else "cell"
                self._sample(f"clocks between an insertion and a query of its {name}", where)

    def _write(self, one: Performed, last: Performed | None) -> None:
        """Tell whether an insertion writes its cell of the first part."""
        how = "made"
        if last is not None and last.block == one.block:
            near = self._clocks(last, one) <= BETWEEN
            how = "under way already" if near else "in the memory already"
        self._sample("write of an insertion", how)


class PartClock(NamedTuple):
    """Values at the ports of the first part, and of its memory and sweep, in one clock.

    `hand` is the cell of the sweep. `sweeps` and `wipes` are of a sweep whose visits take the place
    of operations; the others are of a sweep at a port of the memory.
    """

    address: int
    written: int | None
    hand: int
    asks: bool = False
    decides: bool = False
    restamps: bool = False
    touched: bool = False
    busy: bool = False
    wipes: bool = False
    sweeps: bool = False


class PartSampler:
    """Follows the first part, clock by clock, and tells a collector how it meets the sweep.

    Parameters
    ----------
    spec : StampedPartsSpec
    collector : Collector
    lag : int
        Clocks from the acceptance of an operation until the part has the address of its cell.
    """

    def __init__(self, spec: StampedPartsSpec, collector: Collector, *, lag: int) -> None:
        self._spec = spec
        self._sample = collector.sample
        self._counted = isinstance(spec, PartitionedTimingSpec)
        self._cells: dict[int, int] = {}
        self._lag = lag
        self.reset()

    def reset(self) -> None:
        """Forget what was under way."""
        self._accepted: deque[Ports | None] = _nothing(self._lag)
        # Operations at the part, with their cells, and cells that the sweep had there.
        self._there: deque[tuple[int, int] | None] = _nothing(BETWEEN + 1)
        self._swept: deque[int | None] = _nothing(BETWEEN + 1)
        self._sweep_wrote = False
        self._queried = False

    def clock(self, ports: Ports, part: PartClock) -> None:
        """Look at one clock; all clocks have to be shown, in order."""
        if ports.rst:
            self.reset()
            return
        item = self._accepted[0]
        self._accepted.append(ports if ports.offered and ports.ready else None)
        here = None
        if item is not None and not item.operation & OperationBit.ALONE:
            cell = self._cell(item.key)
            assert part.address == cell, f"cell {part.address} at the part, not {cell}"
            here = (item.operation, cell)
        # An operation reads a clock after its address is there.
        reads = self._there[-1]
        (self._rest if self._counted else self._elide)(part, here, reads)
        self._there.append(here)

    def _cell(self, key: int) -> int:
        if key not in self._cells:
            self._cells[key] = int(cells_of(self._spec, [key])[0, 0])
        return self._cells[key]

    def _met(self, reads: tuple[int, int] | None, written: int | None) -> None:
        """Tell of a read in the clock in which the sweep writes its cell."""
        if reads is not None and reads[1] == written:
            self._sample("read in the clock in which the sweep writes", _kind(reads[0]))

    def _elide(
        self, part: PartClock, here: tuple[int, int] | None, reads: tuple[int, int] | None
    ) -> None:
        if self._sweep_wrote:
            self._met(reads, part.written)
        if part.asks:
            self._queried = False
        queries = reads is not None and not reads[0] & OperationBit.INSERT
        self._queried |= queries and reads is not None and reads[1] == part.hand
        restamps = part.decides and part.restamps and not part.touched
        if not part.wipes:
            if part.busy and (part.asks or restamps):
                self._sample("sweep waits", "to read" if part.asks else "to write")
            elif part.decides:
                name = "still young" if not part.restamps else "called off"
                self._sample("sweep of a cell", "restamped" if restamps else name)
                if restamps and self._queried:
                    self._sample("sweep of a cell", "restamped though queried")
        self._sweep_wrote = restamps and not part.busy and not part.wipes

    def _rest(
        self, part: PartClock, here: tuple[int, int] | None, reads: tuple[int, int] | None
    ) -> None:
        wrote = self._swept[0]
        if wrote is not None:
            restamps = part.written == wrote
            self._sample("sweep of a cell", HAND[restamps])
            if restamps:
                self._met(reads, part.written)
        swept = part.hand if part.sweeps and not part.wipes else None
        near = [*self._there][-BETWEEN:]
        if swept is not None and any(
            one is not None and one[1] == swept and one[0] & OperationBit.INSERT for one in near
        ):
            self._sample("sweep of a cell", "behind an insertion under way")
        if here is not None and here[1] in [*self._swept][-BETWEEN:]:
            self._sample("operation behind the sweep of its cell", _kind(here[0]))
        self._swept.append(swept)


def read_part(dut, *, counted: bool) -> PartClock:
    """Read what a `PartSampler` looks at."""
    part = dut.core.part0
    memory = part.memory
    written = int(memory.write__addr.value) if memory.write__en.value else None
    address = int(part.address.value)
    wipes = not part.clean.value
    if counted:
        return PartClock(address, written, address, sweeps=bool(part.visit.value), wipes=wipes)
    sweep = part.sweep
    seen = {name: bool(getattr(sweep, name).value)
            for name in ("asks", "decides", "restamps", "touched", "busy")}  # fmt: skip
    return PartClock(address, written, hand=int(sweep.address.value), wipes=wipes, **seen)


def _nothing(length: int) -> deque[Any]:
    return deque([None] * length, maxlen=length)


def _kind(operation: int) -> str:
    return "insertion" if operation & OperationBit.INSERT else "query"
