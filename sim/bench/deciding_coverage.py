"""Functional coverage of units that answer by tables: what is looked up, and how swaps meet it."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from ...golden.operations import OperationBit
from ...golden.spec.timestamp import StampedPartsSpec
from .coverage import Collector, Ports
from .shell_coverage import shell_points
from .timing_parts import LookedUp, Performed

NO_TABLE = "none yet"
"""Bin of operations before the first swap."""


def deciding_points(spec: StampedPartsSpec) -> dict[str, tuple[str, ...]]:
    """Return the bins of every point that the units of a specification with classes have."""
    least = 0 if spec.timed or spec.block_units > 1 else 1
    classes, ages, phases = spec.table_shape
    shell = shell_points(0, sweep=not spec.timed)
    # The bench of the cells has all of these.
    del shell["operation pairs"], shell["clocks closed for waiting results"]
    return {
        "age": tuple(str(age) for age in range(least, ages)),
        "class of a query": tuple(str(number) for number in range(classes)),
        "phase": tuple(str(phase) for phase in range(phases)),
        "oldest cells": ("fewer than the threshold", "as many", "more"),
        "table that answers": (NO_TABLE, "of bank 1", "of bank 0"),
        "operation beside a swap": ("in the clock before", "in its clock", "in the clock after"),
        "entry": ("taken while operations are under way", "held by a swap", "taken after that"),
        **shell,
    }


class TablePorts(NamedTuple):
    """Values at the ports of the tables in one clock."""

    swap: bool
    offered: bool
    ready: bool


class SwapSampler:
    """Follows the ports clock by clock, and tells a collector what swaps and entries meet.

    Parameters
    ----------
    collector : Collector
        Counts what is seen.
    """

    def __init__(self, collector: Collector) -> None:
        self._sample = collector.sample
        self._reset()

    def _reset(self) -> None:
        self._under_way = 0
        self._accepted = self._swapped = self._held = False

    def clock(self, ports: Ports, table: TablePorts) -> None:
        """Look at one clock; all clocks have to be shown, in order."""
        if ports.rst:
            self._reset()
            return
        accepts = ports.offered and ports.ready
        for when, meets in (
            ("in the clock before", table.swap and self._accepted),
            ("in its clock", table.swap and accepts),
            ("in the clock after", self._swapped and accepts),
        ):
            if meets:
                self._sample("operation beside a swap", when)
        self._entry(table)
        self._under_way += accepts - (ports.valid and ports.taken)
        self._accepted, self._swapped = accepts, table.swap

    def _entry(self, table: TablePorts) -> None:
        if not table.offered:
            return
        if not table.ready:
            self._sample("entry", "held by a swap")
        elif self._under_way:
            self._sample("entry", "taken while operations are under way")
        if table.ready and self._held:
            self._sample("entry", "taken after that")
        self._held = not table.ready


def sample_answers(
    collector: Collector,
    performed: Iterable[Performed],
    looked_up: Iterable[LookedUp],
    tables: Sequence[NDArray[Any]],
) -> None:
    """Tell a collector what the operations of a test have looked up.

    Parameters
    ----------
    collector : Collector
        Counts what is seen.
    performed : iterable of Performed
        All operations, in order.
    looked_up : iterable of LookedUp
        For each of them.
    tables : sequence of ndarray
        All that answered, in order; the first stands for none.
    """
    for one, there in zip(performed, looked_up, strict=True):
        operation, outcome = one.item.operation, one.outcome
        if operation & OperationBit.ALONE:
            continue
        collector.sample("age", outcome.age)
        if not operation & OperationBit.QUERY:
            continue
        number = getattr(one.item, "query_class", 0)
        collector.sample("class of a query", number)
        collector.sample("phase", there.phase)
        bank = f"of bank {there.table % 2}" if there.table else NO_TABLE
        collector.sample("table that answers", bank)
        least = int(tables[there.table][number, outcome.age, there.phase])
        relation = (outcome.oldest > least) - (outcome.oldest < least)
        names = {-1: "fewer than the threshold", 0: "as many", 1: "more"}
        collector.sample("oldest cells", names[relation])
