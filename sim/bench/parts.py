"""Parts of the cocotb benches: driver, monitor, scoreboard.

Signals are driven after the rising edge and sampled at the falling one, so
that every simulator sees the same values at the next rising edge.
"""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from cocotb.triggers import FallingEdge, RisingEdge
from cocotb.utils import get_sim_time
from numpy.typing import NDArray

from ...golden import Operation, from_spec
from ...golden.spec.base import Specification
from ...hdl.interface import UnitSignature
from ...hdl.memory.map import MemoryMap, PhysicalMemory, cell_memories
from ...hdl.verilog import TAG_BITS
from ..netlist import instance_name


class Item(NamedTuple):
    """One operation as the bench sends it. `operation` may be a value that is undefined."""

    operation: int
    key: int
    tag: int


class Outcome(NamedTuple):
    """One result as the unit delivers it; `age` is 0 where `seen` is False."""

    seen: bool
    age: int
    tag: int


@dataclass
class Stalls:
    """Decides in which clocks a side of the bench pauses.

    Attributes
    ----------
    probability : float
        Probability of a pause in a cycle.
    seed : int
        Seed of the pauses.
    """

    probability: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def __call__(self) -> bool:
        """Whether to pause in this clock."""
        return self._random.random() < self.probability


class Pattern(Stalls):
    """Pauses of given lengths in turn, with one clock between them.

    Attributes
    ----------
    lengths : sequence of int
        In clocks, each at least 1.
    rounds : int
        How often all have been made.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        super().__init__()
        self.lengths = lengths
        self.rounds = 0
        self._index = 0
        self._left = lengths[0]

    def __call__(self) -> bool:
        """Whether to pause in this clock."""
        if self._left:
            self._left -= 1
            return True
        self._index = (self._index + 1) % len(self.lengths)
        self.rounds += self._index == 0
        self._left = self.lengths[self._index]
        return False


PATIENCE = 10_000
"""Clocks for which an operation is offered at most."""


class Driver:
    """Sends operations to the unit's input stream.

    Attributes
    ----------
    accepted : list of Item
        What the unit took, in order; beats of several lanes are `lately.sim.bench.beats.Beat`.
    waits : list of int
        Clocks that each accepted operation was offered in vain before.
    times : list of float
        When each was accepted, in ns.
    """

    def __init__(self, dut, signature: UnitSignature, scoreboard: "Scoreboard") -> None:
        self._dut = dut
        self._signature = signature
        self._scoreboard = scoreboard
        self._offers = True
        self.accepted: list[Any] = []
        self.waits: list[int] = []
        self.times: list[float] = []
        self.release()

    def release(self) -> None:
        """Offer nothing."""
        self._set_valid(False)

    def _set_valid(self, valid: bool) -> None:
        # A write takes as long as the rest of a clock.
        if valid != self._offers:
            self._dut.i__valid.value = int(valid)
        self._offers = valid

    def _pack(self, item: Any) -> int:
        return self._signature.pack_request([item._asdict()])

    async def send(self, items: Sequence[Any], *, stalls: Stalls | None = None) -> None:
        """Offer operations one after another until all are accepted; must start after an edge."""
        stalls = stalls or Stalls()
        clk, ready = self._dut.clk, self._dut.i__ready
        for item in items:
            while stalls():
                self.release()
                await RisingEdge(clk)
            self._dut.i__payload.value = self._pack(item)
            self._set_valid(True)
            wait = 0
            await FallingEdge(clk)
            while not ready.value:
                wait += 1
                assert wait < PATIENCE, f"{len(self.accepted)}: not taken in {wait} clocks"
                await FallingEdge(clk)
            self.accepted.append(item)
            self.waits.append(wait)
            self.times.append(get_sim_time("ns"))
            self._scoreboard.expect(item)
            await RisingEdge(clk)
        self.release()


class Monitor:
    """Takes results from the unit's output stream, for ever; one that waits must not change.

    Attributes
    ----------
    outcomes : list of Outcome
        What was delivered, in order; of several lanes a tuple of `Outcome`, or of None where
        there is none.
    times : list of float
        When each was delivered, in ns.
    held : int
        Clocks in which a result waited.
    """

    def __init__(self, dut, signature: UnitSignature, scoreboard: "Scoreboard") -> None:
        self._dut = dut
        self._signature = signature
        self._scoreboard = scoreboard
        self.outcomes: list[Any] = []
        self.times: list[float] = []
        self.held = 0
        self.stalls = Stalls()
        self._dut.o__ready.value = 0

    async def run(self) -> None:
        """Take results, pausing as `stalls` says."""
        waiting, ready = None, False
        dut = self._dut
        clk, valid, rst = dut.clk, dut.o__valid, dut.rst
        while True:
            await RisingEdge(clk)
            before, ready = ready, not self.stalls()
            if ready != before:
                dut.o__ready.value = int(ready)
            await FallingEdge(clk)
            payload = int(dut.o__payload.value) if valid.value else None
            if payload is None and waiting is None:
                continue
            if rst.value:
                waiting = None
                continue
            number = len(self.outcomes)
            unchanged = waiting is None or payload == waiting
            assert unchanged, f"result {number} changed while it waited: {payload}"
            waiting = None if ready else payload
            self.held += not ready
            if ready and payload is not None:
                self.outcomes.append(self.decode(payload))
                self.times.append(get_sim_time("ns"))
                self._scoreboard.compare(self.outcomes[-1])

    def decode(self, payload: int) -> Any:
        """Take a result apart."""
        outcomes = tuple(
            Outcome(bool(lane["seen"]), lane["age"], lane["tag"]) if lane else None
            for lane in self._signature.unpack_result(payload)
        )
        return outcomes if self._signature.lanes > 1 else outcomes[0]


class Scoreboard:
    """Holds the unit against the golden model.

    Attributes
    ----------
    golden : Filter
        Reference; performs each operation when the unit accepts it.
    compared : int
        Results that were compared.
    """

    def __init__(self, spec: Specification) -> None:
        self._expected: deque[Any] = deque()
        self.golden: Any = from_spec(spec)
        self.compared = 0
        self._secrets: deque[tuple[float, int]] = deque()

    def rekey(self, time: float, secret: int) -> None:
        """Give the reference a secret before the first operation accepted from `time` on, in ns."""
        self._secrets.append((time, secret))

    def expect(self, item: Any) -> None:
        """Perform an accepted operation on the reference, and expect its result."""
        self._expected.append(self.perform(item))

    def perform(self, item: Any) -> Any:
        """Perform an accepted operation on the reference."""
        while self._secrets and get_sim_time("ns") >= self._secrets[0][0]:
            self.golden.rekey(self._secrets.popleft()[1])
        known = item.operation in list(Operation)
        operation = item.operation if known else Operation.NONE
        verdicts = self.golden.apply([operation], key_array([item.key], self.golden.spec))
        seen = bool(verdicts.seen[0])
        return Outcome(seen, int(verdicts.age[0]) if seen else 0, item.tag)

    def compare(self, outcome: Outcome | tuple[Outcome | None, ...]) -> None:
        """Hold a result against the oldest that is expected."""
        assert self._expected, f"result {self.compared}: expected none, got {outcome}"
        expected = self._expected.popleft()
        assert outcome == expected, f"result {self.compared}: expected {expected}, got {outcome}"
        self.compared += 1

    def forget(self) -> None:
        """Start again, as the unit does at reset."""
        self._expected.clear()
        self._secrets.clear()
        self.compared = 0
        self.golden = self._renewed()

    def _renewed(self) -> Any:
        """Return the reference as it is after a reset, which reads the programmed length."""
        golden = from_spec(self.golden.spec)
        golden.generation = self.golden.generation
        golden.clear()
        golden.operations = 0
        return golden

    @property
    def outstanding(self) -> int:
        """Results that are expected and have not come."""
        return len(self._expected)


def key_array(keys: Sequence[int], spec: Specification) -> NDArray[np.uint64]:
    """Bring integers into the form in which golden takes keys."""
    words = -(-spec.key_bits // 64)
    mask = (1 << 64) - 1
    rows = [[key >> 64 * word & mask for word in range(words)] for key in keys]
    array = np.array(rows, np.uint64)
    return array if words > 1 else array[:, 0]


def read_memory(dut, memories: MemoryMap, *, netlist: bool = False) -> NDArray[np.bool_]:
    """Read all memories of a unit; shape as golden's `memory`.

    In a netlist only explicit block RAMs are found.
    """
    return memories.gather(lambda memory: _bits(dut, memory, netlist))


def read_cells(
    dut, path: Sequence[str], *, variant: str, depth: int, width: int, netlist: bool = False
) -> NDArray[np.int64]:
    """Read a memory of cells; shape (depth,).

    Parameters
    ----------
    path : sequence of str
        Names of the submodules on the way to it, and its own.
    variant : str
        Variant of the memory.
    depth, width : int
        As for `lately.hdl.memory.map.cell_memories`.
    netlist : bool
        As for `read_memory`.
    """
    blocks = cell_memories(variant, depth=depth, width=width)
    own = [replace(block, path=(*path, *block.path)) for block in blocks]
    bits = np.hstack([_bits(dut, block, netlist) for block in own])[:, :width]
    return bits @ (np.int64(1) << np.arange(width))


def _bits(dut, memory: PhysicalMemory, netlist: bool) -> NDArray[np.bool_]:
    """Return the bits of a memory, shape (words, width)."""
    if netlist:
        holder = dut[instance_name(memory.path)]
    else:
        holder = reduce(lambda handle, name: handle[name], memory.path, dut)
    words = _words(holder) if memory.cell else holder
    values = [int(words[word].value) for word in range(memory.words)]
    return np.array(
        [[value >> bit & 1 for bit in range(memory.width)] for value in values], np.bool_
    )


def _words(block_ram):
    """Find the array in a model of a block RAM: ours, or the one that yosys has for iCE40."""
    ours = block_ram._get("words")
    return block_ram.memory if ours is None else ours


def tagged(operations: Sequence[tuple[int, int]]) -> list[Item]:
    """Number (operation, key) pairs through their tags."""
    return [
        Item(operation, key, index % (1 << TAG_BITS))
        for index, (operation, key) in enumerate(operations)
    ]
