"""cocotb bench of a unit whose window is one in time, beside that of every unit.

The others see such a unit while its time stands still. Here it goes on, from whatever makes it:
pulses at a port, a period of clocks, or the times of the requests themselves.
"""

import itertools
from collections.abc import Iterator

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from ...golden import Operation
from ...hdl.latencies import TICKS_WAITING
from .filter_bench import GENERATION, PROFILE, UNIT, Bench
from .parts import Item, Stalls
from .ring_bench import SPEC
from .tick_bench import TickingBench
from .timed_parts import TimedItem
from .unit_bench import COVERAGE, PERIOD_NS, SEED, TICKS

PERIOD = PROFILE.least_period
# Clocks after which a tick has had its effect, if nothing holds it up.
EFFECT = 2 * PERIOD + 16
CODES = (0, 1, 1, 2, 2, *[3] * 12, 6, 7)

if COVERAGE:
    from .filter_bench import COLLECTOR
    from .timed_coverage import TimedSampler


class TimedBench(TickingBench, Bench):
    """A unit out of reset whose time can go on."""

    period = PERIOD
    tick_settled = UNIT.longest_pause

    async def cover(self) -> None:
        """Leave the clocks to the other bench, which knows where the ring turns by count."""

    def item(self, operation: int, key: int) -> Item | TimedItem:
        """Return an operation of the present time, with a random tag."""
        tag = self.random.randrange(256)
        if TICKS == "time":
            return TimedItem(operation, key, tag, self.time % 256)
        return Item(operation, key, tag)

    def operations(self, count: int) -> list[Item | TimedItem]:  # type: ignore[override]
        """Return random operations, through which time goes on."""
        return [*mixture(self, count)]

    async def send(self, *operations: tuple[int, int], stalls: Stalls | None = None) -> None:
        """Send operations of the present time."""
        await self.driver.send([self.item(*one) for one in operations], stalls=stalls)

    async def insert(self, count: int) -> None:
        """Send check-and-inserts of random keys."""
        await self.send(*[(Operation.CHECK_AND_INSERT, self.key()) for _ in range(count)])

    async def settle(self) -> None:
        """Wait for all that is under way; starts and ends after an edge."""
        await self.drain()
        await RisingEdge(self.dut.clk)

    async def finish(self) -> None:
        """Check all that the others do, the time, and what is covered."""
        await RisingEdge(self.dut.clk)
        await self.stand_still()
        await self.send((Operation.QUERY, self.key()))
        await super().finish()
        board = self.scoreboard
        if TICKS == "tick":
            assert board.now == len(self.ticks), f"{len(self.ticks)} ticks, told {board.now}"
        if TICKS != "period":
            covered = board.golden.guaranteed_span(board.now) + 1
            assert self.dut.covered.value == covered, f"{self.dut.covered.value}, not {covered}"
        if COVERAGE:
            sampler = TimedSampler(SPEC, COLLECTOR, period=PERIOD, clock=PERIOD_NS)
            sampler.follow(board.answered, self.ticks)


def mixture(bench: TimedBench, count: int) -> Iterator[Item | TimedItem]:
    """Yield operations, few of them SHIFT and CLEAR; where they carry times, these go on."""
    steps = (1, 1, 2, SPEC.generation_span, SPEC.span, SPEC.span + 1, 100)
    for _ in range(count):
        if TICKS == "time" and bench.random.random() < 0.1:
            bench.time += bench.random.choice(steps)
        code = bench.random.choice(CODES)
        if bench.random.random() < 0.01:
            code = bench.random.choice((Operation.SHIFT, Operation.CLEAR))
        yield bench.item(code, bench.key())


@cocotb.test()
@cocotb.parametrize(into=[0.0, 0.5, 0.95], out=[0.0, 0.5])
async def random_operations_in_time(dut, into: float, out: float) -> None:
    """Everything mixed, with pauses on both sides; each answer is that of its time."""
    bench = await TimedBench.start(dut)
    bench.monitor.stalls = Stalls(out, SEED + 1)
    bench.flow(lambda: bench.random.choice((PERIOD, PERIOD, 2 * PERIOD)))
    count = 150 if into > 0.5 else 600
    await bench.perform([*mixture(bench, count)], stalls=Stalls(into, SEED + 2))


@cocotb.test()
async def bursts_and_trickles(dut) -> None:
    """Generations end by number and by age, or may not end; silences are longer than the span."""
    bench = await TimedBench.start(dut)
    for _ in range(2):
        # More than a span can hold, at one time.
        await bench.insert((SPEC.window_generations + 2) * GENERATION)
        for _ in range(4 * SPEC.span):
            await bench.insert(1)
            await bench.go_on(1)
        await bench.go_on(SPEC.span + 2)
        await bench.insert(2)
        # One that is old may not turn the ring while the oldest segment counts.
        for _ in range(SPEC.window_generations + 1):
            await bench.insert(GENERATION)
        await bench.insert(2)
        await bench.go_on(SPEC.generation_span)
        await bench.insert(2)
        await bench.send((Operation.SHIFT, 0))
        await bench.go_on(3 * SPEC.span)
        await bench.insert(2)
    await bench.finish()
    golden = bench.scoreboard.golden
    assert golden.shortened, "nothing was lost"
    assert golden.overfilled or SPEC.when_full == "shorten", "nothing was overfilled"


@cocotb.test()
async def a_key_is_reported_for_the_whole_span_and_not_a_tick_longer(dut) -> None:
    """One insertion, and a query at each age."""
    bench = await TimedBench.start(dut)
    key = bench.key()
    await bench.send((Operation.INSERT, key))
    for _ in range(SPEC.span + 3):
        await bench.go_on(1)
        await bench.settle()
        await bench.send((Operation.QUERY, key))
    await bench.finish()
    first, *others = bench.scoreboard.answered[:-1]
    for outcome, answer in zip(bench.monitor.outcomes[1:], others, strict=False):
        assert outcome.seen == (answer.time - first.time <= SPEC.span), f"{outcome} of {answer}"
    assert {outcome.seen for outcome in bench.monitor.outcomes[1:-1]} == {True, False}


@cocotb.test()
async def no_silence_brings_a_key_back(dut) -> None:
    """Until all that tells times has come round."""
    bench = await TimedBench.start(dut)
    key = bench.key()
    await bench.send((Operation.INSERT, key))
    for _ in range(3):
        await bench.go_on(100)
        await bench.settle()
        await bench.send((Operation.QUERY, key))
    await bench.finish()
    assert not any(outcome.seen for outcome in bench.monitor.outcomes[1:])
    assert bench.scoreboard.now > 256


@cocotb.test()
async def reset_forgets_the_time(dut) -> None:
    """In mid-stream, while ticks wait; time begins at 0."""
    bench = await TimedBench.start(dut)
    for cut in (1, UNIT.latency, UNIT.latency + 3, GENERATION + 1):
        bench.flow(lambda: PERIOD)
        await bench.interrupt([*mixture(bench, 500)], clocks=PROFILE.clear_cycles + cut)
        if TICKS == "tick":
            for _ in range(5):
                await bench.tick()
        bench.dut.rst.value = 1
        await bench.stand_still()
        bench.time = 0
        bench.ticks.clear()
        bench.dut.rst.value = 0
        bench.scoreboard.forget()
    await bench.insert(2 * GENERATION)
    await bench.settle()
    assert bench.scoreboard.now <= (3 if TICKS == "period" else 0)
    await bench.finish()


@cocotb.test()
async def generation_is_programmable_in_time(dut) -> None:
    """A new length counts from the next turn on, by number or by age."""
    bench = await TimedBench.start(dut)
    longest = (1 << len(dut.generation)) - 1
    for generation in (GENERATION, 1, 3, GENERATION + 3, longest):
        await bench.settle()
        bench.set_generation(generation)
        await ClockCycles(dut.clk, UNIT.GENERATION_LEAD)
        for _ in range(3):
            await bench.insert(GENERATION + 2)
            await bench.go_on(SPEC.generation_span)
    await bench.finish()


if TICKS == "tick":

    @cocotb.test()
    @cocotb.parametrize(end=["number", "age", "SHIFT", "CLEAR"])
    async def tick_at_every_distance_from_a_turn(dut, end: str) -> None:
        """Before, beside and behind the turn; the oldest segment counts, or expires then."""
        bench = await TimedBench.start(dut)
        for distance, age in itertools.product(range(-8, 9), (0, SPEC.span)):
            await bench.insert(2 * GENERATION)
            await bench.go_on(max(age, SPEC.generation_span if end == "age" else 0))
            fill = GENERATION - 1 if end == "number" else 0
            await bench.insert(fill)
            await ClockCycles(dut.clk, EFFECT)
            code = {"SHIFT": Operation.SHIFT, "CLEAR": Operation.CLEAR}
            turn = (code.get(end, Operation.CHECK_AND_INSERT), bench.key())
            more = [(Operation.CHECK_AND_INSERT, bench.key()) for _ in range(12)]
            pulse = cocotb.start_soon(tick_after(bench, 8 + distance))
            await ClockCycles(dut.clk, 8)
            await bench.send(turn, *more)
            await pulse
            await ClockCycles(dut.clk, PERIOD)
        await bench.finish()

    async def tick_after(bench: TimedBench, clocks: int) -> None:
        """Let a tick come some clocks later."""
        if clocks:
            await ClockCycles(bench.dut.clk, clocks)
        await bench.tick()

    @cocotb.test()
    async def ticks_that_come_close_wait(dut) -> None:
        """As many as may wait, one of which makes a generation old whose spare is not clean."""
        bench = await TimedBench.start(dut)
        for count in (TICKS_WAITING, SPEC.generation_span, 1):
            await bench.insert(2)
            await bench.send((Operation.SHIFT, 0))
            await bench.insert(1)
            for _ in range(count):
                await bench.tick()
            await bench.insert(3 * GENERATION)
            await ClockCycles(dut.clk, (count + 2) * PERIOD + UNIT.longest_pause)
        await bench.finish()


if TICKS in ("tick", "period"):

    @cocotb.test()
    async def time_never_closes_the_input(dut) -> None:
        """Ends of generations by number and by age cost no clock, as close as ticks may come."""
        bench = await TimedBench.start(dut)
        bench.flow(lambda: PERIOD)
        for pause in (0.0, 0.9, 0.98, 0.0):
            count = int((1 - pause) * 3000) if pause else 8 * GENERATION
            items = [bench.item(Operation.CHECK_AND_INSERT, bench.key()) for _ in range(count)]
            await bench.driver.send(items, stalls=Stalls(pause, SEED))
        assert not any(bench.driver.waits), "the unit paused"
        await bench.finish()
        assert bench.scoreboard.now > 2 * SPEC.span


if TICKS == "period":

    @cocotb.test()
    async def ticks_come_at_the_period(dut) -> None:
        """A change counts from the next tick on; a period below the least is the least."""
        bench = await TimedBench.start(dut)
        for period in (PERIOD + 1, 5 * PERIOD, 0, PERIOD):
            dut.period.value = period
            await ClockCycles(dut.clk, 5 * PERIOD + 1)
            await bench.send((Operation.QUERY, 0))
            await ClockCycles(dut.clk, 20 * PERIOD - 1)
            await bench.send((Operation.QUERY, 0))
            await bench.settle()
            before, after = (one.time for one in bench.scoreboard.answered[-2:])
            expected = 20 * PERIOD / max(period, PERIOD)
            assert abs(after - before - expected) < 1, f"{after - before} ticks, not {expected}"
        await bench.finish()


if TICKS == "time":

    @cocotb.test()
    async def operations_of_one_time_come_every_clock(dut) -> None:
        """Also where many wait behind the first of them."""
        bench = await TimedBench.start(dut)
        for _ in range(3):
            bench.time += 1
            before = len(bench.driver.waits)
            await bench.insert(3 * GENERATION)
            waits = bench.driver.waits[before:]
            assert sum(waits) < 40
            assert not any(waits[10:])
        await bench.finish()

    @cocotb.test()
    async def an_earlier_time_is_that_which_was_reached(dut) -> None:
        """Whichever it is."""
        bench = await TimedBench.start(dut)
        for time in (100, 90, 95, 101, 0, 100, 120, 119):
            bench.time = time
            await bench.insert(2)
        await bench.finish()
