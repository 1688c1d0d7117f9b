"""cocotb bench of a timing filter's unit that answers by tables, beside that of its cells."""

from collections.abc import Iterable
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from cocotb.utils import get_sim_time
from numpy.typing import NDArray

from ...golden import Operation
from ...hdl.interface import pack
from ...hdl.timing.decision_tables import Threshold
from ...hdl.verilog import TAG_BITS
from .parts import Item, Stalls
from .timing_bench import UNIT, Bench, keys_apart
from .timing_parts import ClassItem, DecidingScoreboard
from .unit_bench import COVERAGE, SEED, SPEC, TICKS

CLASSES, BITS = SPEC.classes, SPEC.phase_bits
ENTRY = Threshold(spec=SPEC, classes=CLASSES, bits=BITS)
SHAPE = SPEC.table_shape

if COVERAGE:
    from .deciding_coverage import SwapSampler, TablePorts, sample_answers
    from .shell_coverage import ShellSampler, read_ports
    from .timing_bench import COLLECTOR


class DecidingBench(Bench):
    """A unit out of reset whose first table is loaded and answers."""

    streams = ("i", "table")
    judge = DecidingScoreboard
    core = ("core", "core")

    async def cover(self) -> None:
        """Show every clock to the coverage, for ever."""
        dut = self.dut
        shell = ShellSampler(COLLECTOR, latency=UNIT.latency, most_rest=int(not TICKS))
        swaps = SwapSampler(COLLECTOR)
        while True:
            await FallingEdge(dut.clk)
            ports = read_ports(dut, UNIT.signature)
            shell.clock(ports)
            table = (dut.swap, dut.table__valid, dut.table__ready)
            swaps.clock(ports, TablePorts(*(bool(one.value) for one in table)))

    def operations(self, count: int) -> list[Item | ClassItem]:  # type: ignore[override]
        """Return random operations with classes, if there are several."""
        return self.class_items((self.random.choice(CODES), self.key()) for _ in range(count))

    async def load_unit(self) -> None:
        """Let a table be loaded before the second reset; then there is none again."""
        await self.begin()
        await super().load_unit()

    async def begin(self) -> None:
        """Ask before there is a table, then load one; starts and ends after an edge."""
        await self.driver.send(self.class_items([(Operation.QUERY, self.key())] * (2 * CLASSES)))
        # What each bank holds, and which of them answers.
        self.banks = [np.zeros(SHAPE, np.int64) for _ in range(2)]
        self.answers = 0
        await self.load(self.table())
        await self.swap()

    def table(self) -> NDArray[np.int64]:
        """Return thresholds at random, from those that all reach to those that none does."""
        values = [self.random.randint(0, SPEC.hashes + 1) for _ in range(int(np.prod(SHAPE)))]
        return np.array(values, np.int64).reshape(SHAPE)

    async def load(self, table: NDArray[np.int64], *, share: float = 1.0) -> None:
        """Load entries of a table, all or some; starts and ends after an edge."""
        dut = self.dut
        for (query_class, age, phase), least in np.ndenumerate(table):
            if self.random.random() >= share:
                continue
            fields = {"phase": phase, "age": age, "query_class": query_class, "least": least}
            dut.table__payload.value = pack(ENTRY, fields)
            dut.table__valid.value = 1
            await FallingEdge(dut.clk)
            while not dut.table__ready.value:
                await FallingEdge(dut.clk)
            self.banks[1 - self.answers][query_class, age, phase] = least
            await RisingEdge(dut.clk)
            dut.table__valid.value = 0

    async def swap(self) -> None:
        """Have the other bank answer; starts and ends after an edge."""
        self.dut.swap.value = 1
        await FallingEdge(self.dut.clk)
        assert not self.dut.table__ready.value, "an entry would be taken beside a swap"
        self.answers = 1 - self.answers
        self.scoreboard.swap(get_sim_time("ns"), self.banks[self.answers])
        await RisingEdge(self.dut.clk)
        self.dut.swap.value = 0

    def class_items(self, operations: Iterable[tuple[int, int]]) -> list[Item | ClassItem]:
        """Return operations with tags at random, and classes if there are several."""
        return [self.item(*one) for one in operations]

    def item(self, operation: int, key: int, window: int = 0) -> Any:
        """Return an operation without a window, with a random tag, and maybe a random class."""
        draw = self.random.randrange
        item = Item(operation, key, draw(1 << TAG_BITS))
        return ClassItem(*item, draw(CLASSES)) if CLASSES > 1 else item

    def cover_answers(self) -> None:
        """Show all answers to the coverage."""
        board = self.scoreboard
        sample_answers(COLLECTOR, board.performed, board.looked_up, board.tables)


async def started(dut) -> DecidingBench:
    """Bring a unit out of reset whose first table is loaded."""
    dut.swap.value = 0
    bench = await DecidingBench.start(dut)
    await RisingEdge(dut.clk)
    await bench.begin()
    return bench


# In time, most cells are to grow old.
CODES = (0, *[1] * 40, 2, 3) if TICKS else (0, 1, 1, 2, 2, *[3] * 6)
# Two of those that come alone are undefined.
WITH_CLEARS = (*[3] * 8, Operation.SHIFT, *[Operation.CLEAR] * 3, 6, 7)
COUNT = 1600 if TICKS else 700


@cocotb.test()
@cocotb.parametrize(into=[0.0, 0.5], out=[0.0, 0.5])
async def answers_are_those_of_the_table(dut, into: float, out: float) -> None:
    """Of every class, age, number of cells and phase, while other tables come in."""
    bench = await started(dut)
    bench.random_flow()
    bench.monitor.stalls = Stalls(out, SEED + 1)
    choose = bench.random.choice
    codes = [choose(CODES) for _ in range(COUNT)] + [choose(WITH_CLEARS) for _ in range(150)]
    items = bench.class_items((code, bench.key()) for code in codes)
    sending = cocotb.start_soon(bench.driver.send(items, stalls=Stalls(into, SEED + 2)))
    for share in (1.0, 0.2, 0.0, 1.0):
        await bench.load(bench.table(), share=share)
        await bench.swap()
    await sending
    await bench.finish()
    assert len({one.outcome.age for one in bench.scoreboard.performed}) > SPEC.window_blocks


@cocotb.test()
async def swap_between_any_two_operations(dut) -> None:
    """Those that come in later clocks, and no others, are answered by the other bank."""
    bench = await started(dut)
    key = keys_apart()[0]
    for answer in (0, 1):
        # To the first all keys are reported, and to the other none.
        await bench.load(np.full(SHAPE, answer * (SPEC.hashes + 1), np.int64))
        await bench.swap()
    for distance in range(12):
        items = bench.class_items([(Operation.QUERY, key)] * 12)
        sending = cocotb.start_soon(bench.driver.send(items))
        await ClockCycles(dut.clk, 1 + distance)
        await bench.swap()
        await sending
        await ClockCycles(dut.clk, 40)
    await bench.finish()
    seen = [outcome.seen for outcome in bench.monitor.outcomes]
    assert {True, False} == {*seen}


@cocotb.test()
async def no_entry_is_taken_while_its_bank_is_asked(dut) -> None:
    """From a swap on, until the last operation before it has its answer."""
    bench = await started(dut)
    for _ in range(4):
        items = bench.class_items((Operation.CHECK_AND_INSERT, bench.key()) for _ in range(60))
        sending = cocotb.start_soon(bench.driver.send(items))
        await ClockCycles(dut.clk, 20)
        await bench.swap()
        # At once into the bank that answers to what is under way.
        await bench.load(bench.table())
        await sending
    await bench.finish()
