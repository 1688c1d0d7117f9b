"""cocotb bench of the unit of a timing filter: one test per sentence of its contract.

Ticks come from a port or a period, or the clock counts insertions and there are none.
"""

import atexit
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from ...golden import Operation
from ...hdl.build import filter_unit
from ...hdl.latencies import TICKS_WAITING
from ...hdl.timing.sweep_rules import BETWEEN
from ...hdl.verilog import TAG_BITS, time_options
from .parts import Driver, Pattern, Stalls, read_cells
from .tick_bench import TickingBench
from .timing_parts import TimingItem, TimingMonitor, TimingScoreboard, cells_of
from .unit_bench import (
    COVERAGE,
    MEMORY,
    NETLIST,
    PERIOD_NS,
    SEED,
    SPEC,
    TICKS,
    TIME_OPTIONS,
)

TIMES = time_options(SPEC, **TIME_OPTIONS)
UNIT = filter_unit(SPEC, memory=MEMORY, tag_bits=TAG_BITS, **TIMES)
PROFILE = UNIT.profile
WINDOW = SPEC.window_blocks
CODES = 1 << SPEC.stamp_bits
# Of two ticks; or of operations, of which each makes a tick at most.
PERIOD = PROFILE.least_period or 1
# A block of one insertion ends with it.
AGES = {*range(int(getattr(SPEC, "block", 0) == 1), WINDOW + 2)}
NONE, QUERY, INSERT, CHECK, SHIFT, CLEAR = (
    Operation[name] for name in ("NONE", "QUERY", "INSERT", "CHECK_AND_INSERT", "SHIFT", "CLEAR")
)

if COVERAGE:
    from .coverage import Collector
    from .deciding_coverage import deciding_points
    from .shell_coverage import ShellSampler, read_ports
    from .timing_coverage import PartSampler, TimingSampler, points, read_part

    COLLECTOR = Collector(points(SPEC) if SPEC.classes is None else deciding_points(SPEC))
    # The simulator says nothing when the last test has ended.
    atexit.register(COLLECTOR.add_to, Path(COVERAGE))


class Bench(TickingBench):
    """A unit out of reset with its driver, monitor and scoreboard."""

    period = PERIOD
    settled = UNIT.longest_pause + UNIT.latency

    judge = TimingScoreboard
    core: tuple[str, ...] = ("core",)

    @classmethod
    async def start(cls, dut) -> Self:
        """Start the clock and reset the unit."""
        scoreboard = cls.judge(SPEC, UNIT.signature)
        driver = Driver(dut, UNIT.signature, scoreboard)
        bench = cls(dut, scoreboard, driver, TimingMonitor(dut, UNIT.signature, scoreboard))
        bench.stop_time()
        if COVERAGE:
            cocotb.start_soon(bench.cover())
        return await bench.reset()

    async def cover(self) -> None:
        """Show every clock to the coverage, for ever."""
        dut, counted = self.dut, not TICKS
        shell = ShellSampler(COLLECTOR, latency=UNIT.latency, most_rest=int(counted))
        part = PartSampler(SPEC, COLLECTOR, lag=PROFILE.latency_terms["hash"])
        while True:
            await FallingEdge(dut.clk)
            ports = read_ports(dut, UNIT.signature)
            shell.clock(ports)
            part.clock(ports, read_part(dut, counted=counted))
            if TICKS == "tick":
                COLLECTOR.sample("ticks that wait", int(dut.source.waiting.value))

    def item(self, operation: int, key: int, window: int = WINDOW) -> Any:
        """Return an operation with a random tag."""
        return TimingItem(operation, key, self.random.randrange(1 << TAG_BITS), window)

    async def send(self, *operations: tuple[int, ...], stalls: Stalls | None = None) -> None:
        """Send operations, each with its key and maybe a window."""
        await self.driver.send([self.item(*one) for one in operations], stalls=stalls)

    def mixture(self, count: int) -> Iterator[TimingItem]:
        """Yield operations on a few keys, in spells of one key; few of them SHIFT and CLEAR."""
        draw, hot, spell = self.random, 0, 0.0
        for _ in range(count):
            if draw.random() < 0.02:
                hot, spell = self.key(), draw.choice((0, 0.5, 1))
            code = draw.choice((0, 1, 1, 2, 2, *[3] * 6))
            if draw.random() < 0.02:
                code = draw.choice((4, 5, 6, 7))
            key = hot if draw.random() < spell else self.key()
            yield self.item(code, key, draw.randint(0, WINDOW))

    def random_flow(self) -> None:
        """Let ticks come as close as they may, and some of them later."""
        self.flow(lambda: self.random.choice((PERIOD, PERIOD, 2 * PERIOD)))

    async def pass_blocks(self, count: int) -> None:
        """Let time go on; where the clock counts insertions, by those of one key."""
        if TICKS:
            await self.go_on(count)
        else:
            await self.send(*[(INSERT, OTHER)] * (count * SPEC.block))

    def operations(self, count: int) -> list[TimingItem]:
        """Return random operations."""
        return [*self.mixture(count)]

    async def settle(self) -> None:
        """Wait for all that is under way; starts and ends after an edge."""
        await self.drain()
        await RisingEdge(self.dut.clk)

    async def finish(self) -> None:
        """Check that nothing is missing, and that time, counters and cells equal golden's."""
        await RisingEdge(self.dut.clk)
        await self.stand_still()
        await self.send((QUERY, self.key()))
        await super().finish()
        board = self.scoreboard
        if TICKS == "tick":
            assert board.now == len(self.ticks), f"{len(self.ticks)} ticks, told {board.now}"
        self.check_counts(**board.counts)
        if COVERAGE:
            self.cover_answers()
        # Those of a period go on while the cells are read.
        if self.shows_memory and TICKS != "period":
            self.check_memory()

    def cover_answers(self) -> None:
        """Show all answers to the coverage."""
        TimingSampler(SPEC, COLLECTOR, clock=PERIOD_NS).follow(self.scoreboard.performed)

    def check_memory(self) -> None:
        """Hold the ages of all cells against golden's."""
        shape = {"depth": SPEC.cells, "width": SPEC.stamp_bits}
        for number, expected in enumerate(self.scoreboard.memory):
            path = (*self.core, f"part{number}", "memory")
            stamps = read_cells(self.dut, path, variant=MEMORY, **shape, netlist=NETLIST)
            ages = np.minimum((self.scoreboard.block - stamps) % CODES, WINDOW + 1)
            assert ages.tolist() == expected.tolist(), f"part {number}"


POOL = cells_of(SPEC, range(1 << 12))
OTHER = 7


def keys_apart() -> list[int]:
    """Return keys of which each cell belongs to one of them at most, and none to `OTHER`."""
    taken, found = [set(POOL[part, [OTHER]].tolist()) for part in range(len(POOL))], []
    for key, cells in enumerate(POOL.T.tolist()):
        if not any(cell in held for cell, held in zip(cells, taken, strict=True)):
            found.append(key)
            for cell, held in zip(cells, taken, strict=True):
                held.add(cell)
    return found


def neighbours() -> list[int]:
    """Return a key, and for each part but the last one that shares that cell with it, alone."""
    same = POOL[:, [0]] == POOL
    alone = same & (same.sum(axis=0) == 1)
    return [0, *(int(np.flatnonzero(part)[0]) for part in alone[:-1])]


def sweep_of_cells() -> list[int]:
    """Return keys that have each cell of each part, one after the other in the first."""
    return [int(np.flatnonzero(POOL[0] == cell)[0]) for cell in range(SPEC.cells)]


@cocotb.test()
async def accepts_every_clock(dut) -> None:
    """Through ticks, one operation per clock; but for those of the sweep, if it needs any."""
    bench = await Bench.start(dut)
    bench.flow(lambda: PERIOD)
    items = [bench.item(CHECK, bench.key()) for _ in range(2000 if TICKS else 600)]
    await bench.perform(items)
    waits = bench.driver.waits[: len(items)]
    interval = PROFILE.rest_interval
    if interval:
        assert max(waits) == 1
        rests = [at for at, wait in enumerate(waits) if wait]
        assert {after - at for at, after in itertools.pairwise(rests)} == {interval - 1}
    else:
        assert not any(waits), "the unit paused"
    assert bench.scoreboard.block > 2 * WINDOW


@cocotb.test()
async def latency_is_as_specified(dut) -> None:
    """Every result comes `latency` clocks after its acceptance, if nothing is in its way."""
    bench = await Bench.start(dut)
    await bench.perform([bench.item(CHECK, bench.key()) for _ in range(60)])
    pairs = zip(bench.driver.times, bench.monitor.times, strict=True)
    latencies = {(delivered - accepted) / PERIOD_NS for accepted, delivered in pairs}
    assert latencies == {UNIT.latency}, f"{latencies} clocks, not {UNIT.latency}"


@cocotb.test()
@cocotb.parametrize(into=[0.0, 0.5, 0.9], out=[0.0, 0.5, 0.9])
async def random_operations(dut, into: float, out: float) -> None:
    """Everything mixed, with pauses on both sides, while ticks come as close as they may."""
    bench = await Bench.start(dut)
    bench.monitor.stalls = Stalls(out, SEED + 1)
    bench.random_flow()
    count = 200 if max(into, out) > 0.5 else 600
    await bench.perform([*bench.mixture(count)], stalls=Stalls(into, SEED + 2))


async def at_every_distance(bench: Bench, first: int, second: int) -> None:
    """Insert one key and ask for another 1, 2, 3, ... clocks later, with others between."""
    apart = [key for key in keys_apart() if not (POOL[:, [key]] == POOL[:, [first, second]]).any()]
    for distance in range(1, BETWEEN + 4):
        for between in (NONE, QUERY, INSERT):
            fillers = [(between, key, 0) for key in itertools.islice(
                itertools.cycle(apart[:3]), distance - 1)]  # fmt: skip
            operations = [(INSERT, first), *fillers, (CHECK, second), *fillers, (QUERY, first)]
            for ahead in (0, *range(1, BETWEEN + 2, 2)) if TICKS == "tick" else (0,):
                await bench.send((CLEAR, 0))
                await ClockCycles(bench.dut.clk, bench.settled)
                # A tick at each clock about the first and the second.
                beside = cocotb.start_soon(ticked(bench, ahead)) if ahead else None
                await bench.send(*operations)
                if beside:
                    await beside


async def ticked(bench: Bench, clocks: int) -> None:
    """Let a tick come some clocks later."""
    await ClockCycles(bench.dut.clk, clocks)
    await bench.tick()


@cocotb.test()
async def every_distance_between_equal_keys(dut) -> None:
    """An insertion is seen by a query 1, 2, 3, ... clocks later; a tick may lie between."""
    bench = await Bench.start(dut)
    await at_every_distance(bench, 1, 1)
    await bench.finish()


@cocotb.test()
async def every_distance_between_keys_of_one_cell(dut) -> None:
    """A cell that one key touches is seen by another key 1, 2, 3, ... clocks later."""
    bench = await Bench.start(dut)
    await at_every_distance(bench, *neighbours()[:2])
    await bench.finish()


@cocotb.test()
async def every_pair_of_operations(dut) -> None:
    """Each operation follows each, those that are undefined included."""
    bench = await Bench.start(dut)
    bench.random_flow()
    pairs = itertools.product(range(8), repeat=2)
    await bench.perform([bench.item(code, bench.key()) for pair in pairs for code in pair])


@cocotb.test()
async def a_key_is_reported_for_the_whole_window_and_no_longer(dut) -> None:
    """One insertion, and at each age queries for windows about it."""
    bench = await Bench.start(dut)
    key = keys_apart()[0]
    await bench.send((INSERT, key))
    for age in range(WINDOW + 3):
        windows = sorted({0, max(min(age, WINDOW) - 1, 0), min(age, WINDOW), WINDOW})
        await bench.send(*[(QUERY, key, window) for window in windows])
        await bench.settle()
        await bench.pass_blocks(1)
        await bench.settle()
    asked = [one for one in bench.scoreboard.performed if one.item.operation == QUERY]
    assert all(one.outcome.seen == (one.outcome.age <= one.item.window) for one in asked)
    # Those of a period go on while the bench waits.
    assert TICKS == "period" or {one.outcome.age for one in asked} == AGES
    await bench.finish()


@cocotb.test()
async def no_silence_brings_a_key_back(dut) -> None:
    """Keys that nobody touches stay expired, however often the stamps come round."""
    bench = await Bench.start(dut)
    keys = keys_apart()
    await bench.send(*[(INSERT, key) for key in keys])
    await bench.settle()
    for blocks in (WINDOW + 1, CODES - WINDOW - 1, 1, CODES, 4 * CODES):
        await bench.pass_blocks(blocks)
        await bench.settle()
        before = len(bench.monitor.outcomes)
        await bench.send(*[(QUERY, key) for key in keys])
        await bench.settle()
        assert not any(outcome.seen for outcome in bench.monitor.outcomes[before:])
    await bench.finish()


@cocotb.test()
async def other_keys_do_not_keep_the_sweep_from_a_cell(dut) -> None:
    """Queries of a cell in every clock, insertions of all others, or of one key, or of two."""
    bench = await Bench.start(dut)
    bench.flow(lambda: PERIOD)
    first, second, *others = keys_apart()
    cells = [key for key in sweep_of_cells() if POOL[0, key] != POOL[0, first]]
    clocks = CODES * PERIOD * 5 // 4
    for fillers in (
        [(QUERY, first)],
        [(INSERT, key) for key in cells],
        [(INSERT, second)],
        [(CHECK, second), (CHECK, others[0])],
        [(INSERT, key) for key in cells for _ in range(2)],
        [(QUERY, first), (INSERT, second)],
    ):
        await bench.send((INSERT, first), (QUERY, first))
        await bench.send(*itertools.islice(itertools.cycle(fillers), clocks), (QUERY, first))
    await bench.finish()
    assert bench.scoreboard.block > CODES


@cocotb.test()
async def insertions_into_the_cells_that_the_sweep_has_in_hand(dut) -> None:
    """Into each cell of a filter that has expired, one after the other, at several paces."""
    bench = await Bench.start(dut)
    keys = sweep_of_cells()
    for pace in (0.0, 0.3, 0.6, 0.8, 0.9, 0.95):
        await bench.send(*[(INSERT, key) for key in keys])
        await bench.pass_blocks(WINDOW + 1)
        bench.random_flow()
        items = [bench.item(CHECK, key) for key in keys for _ in range(1 + (pace == 0.3))]
        await bench.driver.send(items, stalls=Stalls(pace, SEED))
        await bench.stand_still()
    await bench.finish()


@cocotb.test()
async def every_age_is_told(dut) -> None:
    """With each number of cells that have it, by operations that ask for nothing too."""
    bench = await Bench.start(dut)
    keys, near = keys_apart(), neighbours()
    for number in range(2 * WINDOW):
        if number < WINDOW // 2:
            await bench.send((INSERT, keys[number % len(keys)]), (INSERT, near[number % len(near)]))
        await bench.pass_blocks(1)
        await bench.send(*[(code, key) for key in (*keys, *near) for code in (NONE, QUERY)])
    await bench.finish()
    outcomes = [one.outcome for one in bench.scoreboard.performed]
    assert {one.age for one in outcomes} == AGES
    assert {one.oldest for one in outcomes} >= {*range(1, SPEC.hashes + 1)}


@cocotb.test()
async def pauses_of_every_length(dut) -> None:
    """Either side, or both, pause for 1 to 9 clocks while the queue is empty, and while full."""
    bench = await Bench.start(dut)
    bench.random_flow()
    pauses = Pattern([*[*range(1, 10)] * 8, 150])
    await bench.perform_with_pauses(
        lambda: [bench.item(CHECK, bench.key()) for _ in range(90)], pauses, unpaused=3
    )


@cocotb.test()
async def clear_forgets_everything(dut) -> None:
    """Behind insertions that are under way, once or several times; the clock goes on."""
    bench = await Bench.start(dut)
    bench.random_flow()
    for count in (1, 2, 5):
        keys = [bench.key() for _ in range(30)]
        await bench.send(*[(INSERT, key) for key in keys], *[(CLEAR, 0)] * count)
        await bench.send(*[(QUERY, key) for key in keys])
        wait = bench.driver.waits[-len(keys)]
        assert SPEC.cells <= wait <= UNIT.longest_pause, f"paused {wait} clocks"
        await bench.settle()
        assert not any(outcome.seen for outcome in bench.monitor.outcomes), "a key survived"
        await bench.send(*[(INSERT, key) for key in keys])
    await bench.finish()


@cocotb.test()
async def reset_in_mid_stream(dut) -> None:
    """Reset drops what is under way, ticks that wait too, and clears the memory and the time."""
    bench = await Bench.start(dut)
    for cut in (1, UNIT.latency // 2, UNIT.latency + 3, 100):
        bench.random_flow()
        await bench.interrupt([*bench.mixture(500)], clocks=SPEC.cells + cut)
        if TICKS == "tick":
            for _ in range(5):
                await bench.tick()
        dut.rst.value = 1
        await bench.stand_still()
        bench.ticks.clear()
        dut.rst.value = 0
        bench.scoreboard.forget()
    await bench.send(*[(CHECK, bench.key()) for _ in range(20)])
    await bench.finish()


@cocotb.test()
async def blocked_output_stops_the_input(dut) -> None:
    """With nobody taking results the unit stops accepting, and goes on where it stopped."""
    bench = await Bench.start(dut)
    items = [bench.item(CHECK, bench.key()) for _ in range(200)]
    accepted = await bench.perform_blocked(items, clocks=150)
    assert UNIT.latency <= accepted < 150, f"accepted {accepted} operations without an outlet"


if TICKS:

    @cocotb.test()
    async def ticks_beside_operations_and_between(dut) -> None:
        """Whether operations come in every clock or seldom, each has the ticks before it."""
        bench = await Bench.start(dut)
        bench.flow(lambda: PERIOD)
        for pause in (0.0, 0.9, 0.98):
            count = int((1 - pause) * 3000) if pause else 8 * PERIOD
            items = [bench.item(CHECK, bench.key()) for _ in range(count)]
            await bench.driver.send(items, stalls=Stalls(pause, SEED))
        assert not any(bench.driver.waits), "the unit paused"
        await bench.finish()
        assert bench.scoreboard.now > WINDOW


if TICKS == "tick":

    @cocotb.test()
    async def tick_at_every_distance_from_a_clear(dut) -> None:
        """Before, beside and behind it."""
        bench = await Bench.start(dut)
        keys = keys_apart()[:6]
        for distance in range(2 * PERIOD + UNIT.latency):
            pulse = cocotb.start_soon(ticked(bench, 1 + distance))
            await bench.send(*[(INSERT, key) for key in keys], (CLEAR, 0))
            await bench.send(*[(CHECK, key) for key in keys])
            await pulse
            await ClockCycles(dut.clk, PERIOD)
        await bench.finish()

    @cocotb.test()
    async def ticks_that_come_close_wait(dut) -> None:
        """As many as may wait; each has its effect, a period after the one before."""
        bench = await Bench.start(dut)
        # The first of them need not wait.
        for count in (2, TICKS_WAITING + 1, 5):
            for _ in range(count):
                await bench.tick()
            for _ in range((count + 2) * PERIOD // 4):
                await bench.send((CHECK, bench.key()))
                await ClockCycles(dut.clk, 4)
        await bench.finish()


if TICKS == "period":

    @cocotb.test()
    async def ticks_come_at_the_period(dut) -> None:
        """A change counts from the next tick on; a period below the least is the least."""
        bench = await Bench.start(dut)
        for period in (PERIOD + 1, 5 * PERIOD, 0, PERIOD):
            dut.period.value = period
            await ClockCycles(dut.clk, 5 * PERIOD + 1)
            await bench.send((QUERY, 0))
            await ClockCycles(dut.clk, 20 * PERIOD - 1)
            await bench.send((QUERY, 0))
            await bench.settle()
            before, after = (one.time for one in bench.scoreboard.answered[-2:])
            expected = 20 * PERIOD / max(period, PERIOD)
            assert abs(after - before - expected) < 1, f"{after - before} ticks, not {expected}"
        await bench.finish()


if not TICKS:

    @cocotb.test()
    async def blocks_count_insertions_alone(dut) -> None:
        """Nothing else makes time go on, and nothing is forgotten while none comes."""
        bench = await Bench.start(dut)
        key = keys_apart()[0]
        await bench.send((INSERT, key))
        for _ in range(3):
            await ClockCycles(dut.clk, 4 * CODES)
            await bench.send(*[(code, OTHER) for code in (NONE, QUERY, SHIFT, 6, 7)])
        await bench.send((QUERY, key, 1))
        await FallingEdge(dut.clk)
        await bench.settle()
        assert bench.monitor.outcomes[-1].seen
        await bench.finish()
