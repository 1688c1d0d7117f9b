"""Parts of the cocotb bench of the unit of a timing filter: monitor and scoreboard."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...golden import Operation, PartitionedTimingFilter
from ...golden.hash.functions import KeyHash
from ...golden.operations import OperationBit
from ...golden.spec.timestamp import StampedPartsSpec
from ...hdl.interface import UnitSignature
from .parts import Monitor, key_array
from .timed_parts import TimedScoreboard


class TimingItem(NamedTuple):
    """An operation with the window of its query, in blocks."""

    operation: int
    key: int
    tag: int
    window: int


class TimingOutcome(NamedTuple):
    """One result as the unit delivers it; `time` is 0 if the unit counts insertions."""

    seen: bool
    age: int
    oldest: int
    tag: int
    time: int = 0


class Performed(NamedTuple):
    """An operation: when it was accepted, in ns, the block of its effect, and its result."""

    item: TimingItem
    accepted: float
    block: int
    outcome: TimingOutcome


def cells_of(spec: StampedPartsSpec, keys: Iterable[int]) -> NDArray[np.intp]:
    """Return the cell of each key in each part, shape (hashes, n)."""
    key_hash = KeyHash(key_bits=spec.key_bits, sizes=spec.index_sizes, functions=1, seed=spec.seed)
    states = key_hash.state(key_hash.check_keys(key_array([*keys], spec)))
    return np.array(key_hash.indices(states, 0))


class TimingMonitor(Monitor):
    """Takes results with all that the cells of the key show."""

    def decode(self, payload: int) -> TimingOutcome:
        """Take a result apart."""
        fields = self._signature.unpack_result(payload)[0]
        assert fields is not None
        return TimingOutcome(seen=bool(fields.pop("seen")), **fields)


class TimingScoreboard(TimedScoreboard):
    """Holds the unit against the golden model, at the times that the results tell if any.

    Attributes
    ----------
    counts : Counter
        Operations, insertions and hits since reset.
    performed : list of Performed
        All operations whose results came since reset.
    """

    def __init__(self, spec: StampedPartsSpec, signature: UnitSignature) -> None:
        super().__init__(spec, signature)
        self.counts: Counter[str] = Counter()
        self.performed: list[Performed] = []
        # Blocks that ended before the last clear, if the clock counts insertions.
        self._ended = 0

    @property
    def _clock(self) -> list[int]:
        """Present time of the reference, if it has one."""
        return [] if self._counted else [self.now * self.golden.period]

    @property
    def _counted(self) -> bool:
        return isinstance(self.golden, PartitionedTimingFilter)

    @property
    def block(self) -> int:
        """Number of the present block since reset, as the unit counts them."""
        if self._counted:
            return self._ended + int(self.golden.insertions // self.golden.block)
        return self.now

    @property
    def memory(self) -> Any:
        """Ages of all cells now, as golden's `memory`."""
        return self.golden.memory if self._counted else self.golden.memory_at(*self._clock)

    def _answer(self, item: Any, accepted: float, outcome: Any) -> TimingOutcome:
        """Perform an operation on the reference; return its result, and told what means nothing."""
        golden, clear = self.golden, item.operation == Operation.CLEAR
        alone = bool(item.operation & OperationBit.ALONE)
        block = self.block
        if clear:
            self._ended = block
        # Neither a SHIFT nor what is undefined does anything in a unit.
        performed = item.operation if clear or not alone else Operation.NONE
        keys = key_array([item.key], golden.spec)
        clock = [[time] for time in self._clock]
        asked = [self._asked(item, accepted)]
        results = golden.perform([performed], keys, *clock, windows=asked)
        seen, age, oldest = (int(getattr(results, n)[0]) for n in ("seen", "age", "oldest"))
        if alone:
            age, oldest = outcome.age, outcome.oldest
        inserts = not alone and bool(item.operation & OperationBit.INSERT)
        self.counts.update(operations=1, insertions=int(inserts), hits=seen)
        expected = TimingOutcome(bool(seen), age, oldest, item.tag, self.now % self._times)
        self.performed.append(Performed(item, accepted, block, expected))
        return expected

    def _asked(self, item: Any, accepted: float) -> int:
        """Return the window that an operation asks for, in the unit of the reference."""
        unit = self.golden.block if self._counted else self.golden.period
        return int(getattr(item, "window", self.golden.window_blocks) * unit)

    def _renewed(self) -> Any:
        self.counts.clear()
        self.performed.clear()
        self._ended = 0
        return type(self.golden).from_spec(self.golden.spec)


class ClassItem(NamedTuple):
    """An operation with the class of its query."""

    operation: int
    key: int
    tag: int
    query_class: int


class LookedUp(NamedTuple):
    """Where the answer to an operation was looked up: number of the table, and the phase."""

    table: int
    phase: int


class DecidingScoreboard(TimingScoreboard):
    """The same for a unit whose answers are those of a table.

    Attributes
    ----------
    tables : list of ndarray
        All that answered since reset, in order; until the first every key is reported, and the
        first of the list stands for that.
    looked_up : list of LookedUp
        For each operation of `performed`.
    """

    def __init__(self, spec: StampedPartsSpec, signature: UnitSignature) -> None:
        super().__init__(spec, signature)
        self.tables: list[NDArray[np.int64]] = [np.zeros(spec.table_shape, np.int64)]
        self.looked_up: list[LookedUp] = []
        self._swaps: list[float] = []

    def swap(self, time: float, thresholds: NDArray[np.int64]) -> None:
        """Have operations that are accepted after a time, in ns, answered by a table.

        Its shape is that of `lately.golden.DecisionTable.thresholds`.
        """
        self.tables.append(thresholds.copy())
        self._swaps.append(time)

    def _asked(self, item: Any, accepted: float) -> int:
        """Have the table answer that was in use at the time, and return the class."""
        table = bisect_left(self._swaps, accepted)
        self.golden.decide_by(self.tables[table])
        self.looked_up.append(LookedUp(table, self.golden.phase))
        return int(getattr(item, "query_class", 0))

    def _renewed(self) -> Any:
        del self.tables[1:], self.looked_up[:], self._swaps[:]
        return super()._renewed()
