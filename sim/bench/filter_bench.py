"""cocotb bench of a filter unit: one test per sentence of its contract."""

import atexit
import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from numpy.typing import NDArray

from ...golden import Operation
from ...hdl.interface import unpack
from ...hdl.unit import FilterUnit
from ...hdl.verilog import TAG_BITS, time_options
from .parts import Driver, Item, Monitor, Pattern, Scoreboard, Stalls, tagged
from .ring_bench import HASH, SPEC, RingBench, states
from .timed_parts import TimedMonitor, TimedScoreboard
from .unit_bench import COVERAGE, KEYED, MEMORY, PERIOD_NS, SEED, TIME_OPTIONS

UNIT = FilterUnit(SPEC, memory=MEMORY, **time_options(SPEC, **TIME_OPTIONS))
PROFILE = UNIT.profile
# At which operations can come one per clock.
GENERATION = max(SPEC.generation, UNIT.minimum_generation)

if COVERAGE:
    from .coverage import Collector, Ports, Sampler, points

    COLLECTOR = Collector(points(SPEC))
    # The simulator says nothing when the last test has ended.
    atexit.register(COLLECTOR.add_to, Path(COVERAGE))


class Bench(RingBench):
    """A unit out of reset with its driver, monitor and scoreboard."""

    # Operations are told a clock before they come in, and a CLEAR heeds what comes in with it.
    secret_lead = FilterUnit.SECRET_LEAD if SPEC.rekey else -1
    settled = UNIT.longest_pause + UNIT.latency

    @classmethod
    async def start(cls, dut, *, generation: int = GENERATION) -> Self:
        """Start the clock and reset the unit."""
        ports = UNIT.signature
        timed = SPEC.timed
        scoreboard = TimedScoreboard(SPEC, ports) if timed else Scoreboard(SPEC)
        monitor = (TimedMonitor if timed else Monitor)(dut, ports, scoreboard)
        bench = cls(dut, scoreboard, Driver(dut, ports, scoreboard), monitor)
        bench.stop_time()
        if COVERAGE:
            cocotb.start_soon(bench.cover())
        return await bench.reset(generation=generation)

    async def cover(self) -> None:
        """Show every clock to the coverage, for ever."""
        dut, sampler = self.dut, Sampler(SPEC, COLLECTOR)
        while True:
            await FallingEdge(dut.clk)
            request = unpack(UNIT.signature.request, int(dut.i__payload.value))
            valid = bool(dut.o__valid.value)
            result = self.monitor.decode(int(dut.o__payload.value)) if valid else None
            loads = KEYED and dut.secret__valid.value and dut.secret__ready.value
            sampler.clock(
                Ports(
                    rst=bool(dut.rst.value),
                    offered=bool(dut.i__valid.value),
                    ready=bool(dut.i__ready.value),
                    operation=request["operation"],
                    key=request["key"],
                    valid=valid,
                    taken=bool(dut.o__ready.value),
                    seen=result is not None and result.seen,
                    age=result.age if result else 0,
                    generation=int(dut.generation.value),
                    secret=int(dut.secret__payload.value) if loads else None,
                )
            )

    def pool(self) -> tuple[list[int], NDArray[np.int_]]:
        """Return many random keys and their first index in the first segment."""
        keys = [self.random.randrange(1 << SPEC.key_bits) for _ in range(3000)]
        return keys, HASH.indices(states(keys), 0)[0]

    def inserts(self, count: int, draw: Callable[[], int] | None = None) -> list[Item]:
        """Return check-and-inserts of random keys, drawn as `key` does or as told."""
        draw = draw or self.key
        return tagged([(Operation.CHECK_AND_INSERT, draw()) for _ in range(count)])

    def operations(self, count: int) -> list[Item]:
        """Return check-and-inserts of random keys."""
        return self.inserts(count)

    async def finish(self) -> None:
        """Check that nothing is missing, and that counters and memory equal golden's."""
        await super().finish()
        self.check_counters()
        self.check_memory(UNIT.memory_map)


def keys_of_one_cell() -> tuple[int, int]:
    """Return two keys that meet in as many cells as any, of those a cleared filter writes first."""
    pool = np.arange(min(1 << SPEC.key_bits, 1 << 14))
    functions = range(min(SPEC.run, SPEC.hash_functions))
    states_of = states(pool.tolist())
    rows = np.stack([row for function in functions for row in HASH.indices(states_of, function)])
    for shared in range(len(rows), 0, -1):
        _, first, met = np.unique(rows[:shared], axis=1, return_index=True, return_counts=True)
        if met.max() > 1:
            start = first[met.argmax()]
            same = (rows[:shared] == rows[:shared, [start]]).all(axis=0)
            return tuple(pool[same][:2].tolist())
    raise AssertionError("no two keys share a cell")


@cocotb.test()
async def accepts_every_clock(dut) -> None:
    """Through shifts, one operation per clock without a pause, `latency` clocks each."""
    bench = await Bench.start(dut)
    await bench.perform(bench.inserts(6 * SPEC.segments * GENERATION))
    assert not any(bench.driver.waits), "the unit paused"
    assert bench.scoreboard.golden.shifts > 2 * SPEC.segments, "the ring did not wrap"


@cocotb.test()
async def latency_is_as_specified(dut) -> None:
    """Every result comes `latency` clocks after its acceptance, if nothing is in its way."""
    bench = await Bench.start(dut)
    await bench.perform(bench.inserts(3 * GENERATION))
    pairs = zip(bench.driver.times, bench.monitor.times, strict=True)
    latencies = {(delivered - accepted) / PERIOD_NS for accepted, delivered in pairs}
    assert latencies == {UNIT.latency}, f"{latencies} clocks, not {UNIT.latency}"


@cocotb.test()
@cocotb.parametrize(into=[0.0, 0.5, 0.9], out=[0.0, 0.5, 0.9])
async def random_operations(dut, into: float, out: float) -> None:
    """Everything mixed, with pauses on both sides; nothing is lost, doubled or reordered."""
    bench = await Bench.start(dut)
    bench.monitor.stalls = Stalls(out, SEED + 1)
    codes = (0, 1, 1, 2, 2, *[3] * 12, 4, 6, 7)
    # Pauses make many clocks of few operations.
    count = 150 if max(into, out) > 0.5 else 400
    choices = [(bench.random.choice(codes), bench.key()) for _ in range(count)]
    choices[count // 2] = (Operation.CLEAR, 0)
    await bench.perform(tagged(choices), stalls=Stalls(into, SEED + 2))


@cocotb.test()
async def same_key_back_to_back(dut) -> None:
    """The second of two equal keys sees the first, in the next clock and across shifts."""
    bench = await Bench.start(dut)
    pairs = []
    for _ in range(3 * GENERATION):
        key = bench.key()
        repeats = bench.random.randrange(1, 5)
        pairs += [(Operation.CHECK_AND_INSERT, key)] * repeats
    await bench.perform(tagged(pairs))


@cocotb.test()
async def every_distance_between_equal_keys(dut) -> None:
    """An insertion is seen by a query 1, 2, 3, ... clocks later, with other keys between."""
    bench = await Bench.start(dut)
    operations = []
    for distance in range(1, PROFILE.latency + 2):
        key = bench.key()
        operations.append((Operation.INSERT, key))
        operations += [(Operation.QUERY, bench.key()) for _ in range(distance - 1)]
        operations.append((Operation.QUERY, key))
    await bench.perform(tagged(operations))


@cocotb.test()
async def every_key_in_one_block(dut) -> None:
    """Keys that meet in one block (word, if there are no blocks) of a segment, at full rate."""
    bench = await Bench.start(dut)
    pool, index = bench.pool()
    index = index if SPEC.segment_blocks > 1 else index // SPEC.clear
    together = [key for key, same in zip(pool, index == index[0], strict=True) if same]
    await bench.perform(bench.inserts(500, partial(bench.random.choice, together)))
    assert not any(bench.driver.waits), "the unit paused"


@cocotb.test()
async def every_distance_between_keys_of_one_cell(dut) -> None:
    """A cell that one key sets is seen by another key 1, 2, 3, ... clocks later."""
    # A generation that holds all: they meet in the youngest segment, of the first position.
    longest = 2 * SPEC.generation - 1
    bench = await Bench.start(dut, generation=longest)
    first, second = keys_of_one_cell()
    for start in range(1, PROFILE.latency + 2, longest - 1):
        operations = [(Operation.CLEAR, 0)]
        for distance in range(start, min(start + longest - 1, PROFILE.latency + 2)):
            operations.append((Operation.INSERT, first))
            operations += [(Operation.NONE, bench.key()) for _ in range(distance - 1)]
            operations.append((Operation.QUERY, second))
        await bench.driver.send(tagged(operations))
    await bench.finish()


@cocotb.test()
async def every_pair_of_operations(dut) -> None:
    """Each operation follows each, those that are undefined included, in either mode."""
    bench = await Bench.start(dut)
    pairs = itertools.product(range(8), repeat=2)
    operations = [(code, bench.key()) for pair in pairs for code in pair]
    for generation in (SPEC.generation, 1):
        bench.set_generation(generation)
        await ClockCycles(dut.clk, FilterUnit.GENERATION_LEAD)
        await bench.driver.send(tagged([(Operation.SHIFT, 0), *operations]))
        await bench.drain()
        await RisingEdge(dut.clk)
    await bench.finish()


@cocotb.test()
async def forced_shift_at_every_phase(dut) -> None:
    """A SHIFT may come before the first insertion of a generation, after the last, and between."""
    bench = await Bench.start(dut)
    operations = []
    for phase in range(SPEC.generation + 1):
        operations += [(Operation.CHECK_AND_INSERT, bench.key()) for _ in range(phase)]
        operations.append((Operation.SHIFT, 0))
    await bench.perform(tagged(operations))


@cocotb.test()
async def shift_and_clear_right_after_an_automatic_shift(dut) -> None:
    """They come while the spare is being cleared: the SHIFT waits, the CLEAR starts anew."""
    bench = await Bench.start(dut)
    for code in (Operation.SHIFT, Operation.CLEAR) * 2:
        operations = [(Operation.SHIFT, 0)]
        operations += [(Operation.INSERT, bench.key()) for _ in range(SPEC.generation + 1)]
        operations += [(code, 0)]
        operations += [(Operation.CHECK_AND_INSERT, bench.key()) for _ in range(2)]
        await bench.driver.send(tagged(operations))
        await bench.drain()
        await RisingEdge(dut.clk)
        await bench.driver.send(tagged([(code, 0)]))
    await bench.finish()


@cocotb.test()
async def every_age_is_told(dut) -> None:
    """A key is reported with each age of the window in turn, from every place of the queue."""
    bench = await Bench.start(dut)
    places = 128
    operations = []
    for age in range(SPEC.window_generations + 1):
        key = bench.key()
        operations += [(Operation.CLEAR, 0), (Operation.INSERT, key)]
        operations += [(Operation.SHIFT, 0)] * age
        operations += [(Operation.QUERY, key)] * places
    await bench.perform(tagged(operations))
    ages = [outcome.age for outcome in bench.monitor.outcomes if outcome.seen]
    assert ages == sorted(ages), "a key became younger"
    assert [ages.count(age) for age in range(SPEC.window_generations + 1)] == (
        [places] * (SPEC.window_generations + 1)
    )


@cocotb.test()
async def pauses_of_every_length(dut) -> None:
    """Either side, or both, pause for 1 to 9 clocks while the queue is empty, and while it is full.

    Tags are drawn at random, so that every place of the queue holds everything.
    """
    bench = await Bench.start(dut)
    draw = bench.random.randrange

    def items() -> list[Item]:
        return [
            Item(Operation.CHECK_AND_INSERT, bench.key(), draw(1 << TAG_BITS)) for _ in range(90)
        ]

    await bench.perform_with_pauses(items, Pattern([*[*range(1, 10)] * 8, 150]), unpaused=3)


@cocotb.test()
async def query_of_the_shifting_operation_sees_the_old_ring(dut) -> None:
    """The operation that shifts asks before the shift and inserts after it."""
    bench = await Bench.start(dut)
    window = SPEC.window_generations * GENERATION
    key = bench.key()
    operations = [(Operation.INSERT, bench.key()) for _ in range(GENERATION - 1)]
    # The last of its generation, asked for by the very operation that ends the guarantee.
    operations.append((Operation.INSERT, key))
    operations += [(Operation.INSERT, bench.key()) for _ in range(window)]
    operations += [(Operation.CHECK_AND_INSERT, key), (Operation.QUERY, key)]
    await bench.perform(tagged(operations))
    assert bench.monitor.outcomes[-2].seen, "the key was lost within the window"
    assert bench.monitor.outcomes[-1].age == 0, "the insertion did not follow the shift"


@cocotb.test()
async def forced_shifts_wait_for_the_spare(dut) -> None:
    """A shift right after another waits until the spare is clean, and loses nothing."""
    bench = await Bench.start(dut)
    operations = [(Operation.CHECK_AND_INSERT, bench.key()) for _ in range(2)]
    operations += [(Operation.SHIFT, 0)] * 3
    operations += [(Operation.CHECK_AND_INSERT, bench.key()) for _ in range(2)]
    await bench.perform(tagged(operations * 2 * SPEC.segments))
    # The one after a held shift is not taken before the shift is.
    waited = max(bench.driver.waits[8:])
    assert PROFILE.clear_cycles <= waited <= UNIT.longest_pause, f"waited {waited} clocks"


@cocotb.test()
async def shift_pauses_little_when_the_spare_is_clean(dut) -> None:
    """A shift long after the last one costs a fixed number of clocks."""
    bench = await Bench.start(dut)
    operations = [(Operation.CHECK_AND_INSERT, bench.key()), (Operation.SHIFT, 0)]
    operations += [(Operation.CHECK_AND_INSERT, bench.key()) for _ in range(2)]
    for _ in range(SPEC.segments + 1):
        await ClockCycles(dut.clk, UNIT.longest_pause)
        await bench.driver.send(tagged(operations))
        assert bench.driver.waits[-4:] == [0, 0, FilterUnit.SHIFT_PAUSE, 0]
    await bench.finish()


@cocotb.test()
@cocotb.parametrize(above=[0, 1])
async def shortest_generations_do_not_pause(dut, above: int) -> None:
    """At the minimum and one above it, still one operation per clock."""
    bench = await Bench.start(dut, generation=UNIT.minimum_generation + above)
    await bench.perform(bench.inserts(4 * SPEC.segments * (UNIT.minimum_generation + above)))
    assert not any(bench.driver.waits), "the unit paused"


@cocotb.test()
async def shorter_generations_pause_and_stay_right(dut) -> None:
    """Below the minimum, shifts wait for the spare and verdicts are those of golden."""
    bench = await Bench.start(dut, generation=max(1, UNIT.minimum_generation - 1))
    await bench.perform(bench.inserts(3 * SPEC.segments * UNIT.minimum_generation))
    assert any(bench.driver.waits), "no shift waited"


@cocotb.test()
async def generation_is_programmable(dut) -> None:
    """A new length counts from the next shift on."""
    bench = await Bench.start(dut)
    longest = (1 << len(dut.generation)) - 1
    lengths = (GENERATION, UNIT.minimum_generation, 1, 2, GENERATION + 3, longest, longest - 1)
    for generation in lengths:
        # Set while the unit is idle, so that unit and reference agree on the moment.
        await bench.drain()
        bench.set_generation(generation)
        await ClockCycles(dut.clk, FilterUnit.GENERATION_LEAD)
        await bench.driver.send(bench.inserts(2 * longest + 1))
    await bench.finish()


@cocotb.test()
async def clear_forgets_everything(dut) -> None:
    """After a clear the unit pauses for the sweep and then knows no key."""
    bench = await Bench.start(dut)
    keys = [bench.key() for _ in range(2 * GENERATION)]
    operations = [(Operation.INSERT, key) for key in keys] + [(Operation.CLEAR, 0)]
    operations += [(Operation.QUERY, key) for key in keys]
    await bench.perform(tagged(operations))
    assert not any(outcome.seen for outcome in bench.monitor.outcomes), "a key survived"
    waits = bench.driver.waits[len(keys) + 1 :]
    assert PROFILE.clear_cycles <= max(waits) <= UNIT.longest_pause, f"paused {max(waits)} clocks"


@cocotb.test()
async def reset_in_mid_stream(dut) -> None:
    """Reset drops what is under way and clears the memory."""
    bench = await Bench.start(dut)
    for cut in (1, UNIT.latency // 2, UNIT.latency + 3, GENERATION + 1):
        await bench.interrupt(bench.inserts(500), clocks=PROFILE.clear_cycles + cut)
    await bench.perform(bench.inserts(2 * GENERATION))


@cocotb.test()
async def blocked_output_stops_the_input(dut) -> None:
    """With nobody taking results the unit stops accepting, and goes on where it stopped."""
    bench = await Bench.start(dut)
    accepted = await bench.perform_blocked(bench.inserts(200), clocks=150)
    assert UNIT.latency <= accepted < 150, f"accepted {accepted} operations without an outlet"
