"""cocotb bench of a filter unit: one test per sentence of its contract.

The environment names the specification (LATELY_SPEC, a TOML file), the seed
of all random choices (LATELY_SEED) and the variant of the segment memories
(LATELY_MEMORY).
"""

import os
import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from ..golden import FilterSpec, Operation
from ..golden.hashing import KeyHash
from .bench import Driver, Item, Monitor, Scoreboard, Stalls, key_array, read_memory, tagged

SPEC = FilterSpec.from_toml(os.environ["LATELY_SPEC"])
SEED = int(os.environ.get("LATELY_SEED", "1"))
MEMORY = os.environ.get("LATELY_MEMORY", "portable")
PERIOD_NS = 10


class Bench:
    """A unit out of reset with its driver, monitor and scoreboard."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.scoreboard = Scoreboard(SPEC)
        self.driver = Driver(dut, SPEC, self.scoreboard)
        self.monitor = Monitor(dut, SPEC, self.scoreboard)
        self.random = random.Random(SEED)
        dut._log.info("seed %d", SEED)

    @classmethod
    async def start(cls, dut, *, generation: int = SPEC.generation) -> "Bench":
        """Start the clock and reset the unit."""
        bench = cls(dut)
        bench.set_generation(generation)
        bench.scoreboard.golden.clear()
        bench.scoreboard.golden.operations = 0
        dut.rst.value = 1
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        # Icarus runs an `always @*` only when an input changes, so every input has to.
        for level in (1, 0):
            dut.i__valid.value = level
            dut.i__payload.value = -level % (1 << len(dut.i__payload))
            await ClockCycles(dut.clk, 2)
        dut.rst.value = 0
        cocotb.start_soon(bench.monitor.run())
        # The clear that follows reset.
        await ClockCycles(dut.clk, SPEC.clear_words + SPEC.latency)
        return bench

    def set_generation(self, generation: int) -> None:
        """Program the generation length in unit and reference."""
        self.dut.generation.value = generation
        self.scoreboard.golden.generation = generation

    def key(self) -> int:
        """Return a random key, often one of a few."""
        few = self.random.random() < 0.5
        return self.random.randrange(min(1 << SPEC.key_bits, 24 if few else 1 << 64))

    def inserts(self, count: int) -> list[Item]:
        """Return check-and-inserts of random keys."""
        return tagged([(Operation.CHECK_AND_INSERT, self.key()) for _ in range(count)])

    async def drain(self) -> None:
        """Wait until all results have come, and the counters and the spare are settled."""
        for _ in range(1000):
            if not self.scoreboard.outstanding:
                break
            await ClockCycles(self.dut.clk, 20)
        await ClockCycles(self.dut.clk, SPEC.latency + SPEC.clear_words + 10)
        await FallingEdge(self.dut.clk)

    async def finish(self, *, sent: int | None = None) -> None:
        """Check that nothing is missing, and that counters and memory equal golden's."""
        await self.drain()
        board, golden = self.scoreboard, self.scoreboard.golden
        assert board.outstanding == 0, f"{board.outstanding} results are missing"
        if sent is not None:
            assert board.compared == sent, f"sent {sent}, compared {board.compared}"
        for name in ("operations", "insertions", "hits", "shifts"):
            counted, expected = int(getattr(self.dut, name).value), getattr(golden, name)
            assert counted == expected, f"{name}: expected {expected}, got {counted}"
        differing = np.argwhere(read_memory(self.dut, SPEC, MEMORY) != golden.memory)
        assert len(differing) == 0, f"memory differs at {differing[0]} and {len(differing)} bits"


@cocotb.test()
async def accepts_every_clock(dut) -> None:
    """Through shifts, one operation per clock without a pause, `latency` clocks each."""
    bench = await Bench.start(dut)
    items = bench.inserts(6 * SPEC.segments * SPEC.generation)
    await bench.driver.send(items)
    assert not any(bench.driver.waits), "the unit paused"
    await bench.finish(sent=len(items))
    assert bench.scoreboard.golden.shifts > 2 * SPEC.segments, "the ring did not wrap"


@cocotb.test()
async def latency_is_as_specified(dut) -> None:
    """Every result comes `latency` clocks after its acceptance, if nothing is in its way."""
    bench = await Bench.start(dut)
    await bench.driver.send(bench.inserts(3 * SPEC.generation))
    await bench.finish()
    pairs = zip(bench.driver.times, bench.monitor.times, strict=True)
    latencies = {(delivered - accepted) / PERIOD_NS for accepted, delivered in pairs}
    assert latencies == {SPEC.latency}, f"{latencies} clocks, not {SPEC.latency}"


@cocotb.test()
@cocotb.parametrize(into=[0.0, 0.5, 0.9], out=[0.0, 0.5, 0.9])
async def random_operations(dut, into: float, out: float) -> None:
    """Everything mixed, with pauses on both sides; nothing is lost, doubled or reordered."""
    bench = await Bench.start(dut)
    bench.monitor.stalls = Stalls(out, SEED + 1)
    codes = (0, 1, 1, 2, 2, *[3] * 12, 4, 6, 7)
    choices = [(bench.random.choice(codes), bench.key()) for _ in range(400)]
    choices[200] = (Operation.CLEAR, 0)
    await bench.driver.send(tagged(choices), stalls=Stalls(into, SEED + 2))
    await bench.finish(sent=len(choices))


@cocotb.test()
async def same_key_back_to_back(dut) -> None:
    """The second of two equal keys sees the first, in the next clock and across shifts."""
    bench = await Bench.start(dut)
    pairs = []
    for _ in range(3 * SPEC.generation):
        key = bench.key()
        repeats = bench.random.randrange(1, 5)
        pairs += [(Operation.CHECK_AND_INSERT, key)] * repeats
    await bench.driver.send(tagged(pairs))
    await bench.finish(sent=len(pairs))


@cocotb.test()
async def every_distance_between_equal_keys(dut) -> None:
    """An insertion is seen by a query 1, 2, 3, ... clocks later, with other keys between."""
    bench = await Bench.start(dut)
    operations = []
    for distance in range(1, 12):
        key = bench.key()
        operations.append((Operation.INSERT, key))
        operations += [(Operation.QUERY, bench.key()) for _ in range(distance - 1)]
        operations.append((Operation.QUERY, key))
    await bench.driver.send(tagged(operations))
    await bench.finish(sent=len(operations))


@cocotb.test()
async def every_key_in_one_block(dut) -> None:
    """Keys that meet in one block (word, if there are no blocks) of a segment, at full rate."""
    bench = await Bench.start(dut)
    hasher = KeyHash(
        key_bits=SPEC.key_bits,
        sizes=SPEC.index_sizes,
        functions=SPEC.hash_functions,
        seed=SPEC.seed,
    )
    pool = [bench.random.randrange(1 << SPEC.key_bits) for _ in range(3000)]
    index = hasher.indices(hasher.state(hasher.check_keys(key_array(pool, SPEC))), 0)[0]
    index = index if SPEC.segment_blocks > 1 else index // SPEC.clear
    together = [key for key, same in zip(pool, index == index[0], strict=True) if same]
    items = tagged(
        [(Operation.CHECK_AND_INSERT, bench.random.choice(together)) for _ in range(500)]
    )
    await bench.driver.send(items)
    assert not any(bench.driver.waits), "the unit paused"
    await bench.finish(sent=len(items))


@cocotb.test()
async def query_of_the_shifting_operation_sees_the_old_ring(dut) -> None:
    """The operation that shifts asks before the shift and inserts after it."""
    bench = await Bench.start(dut)
    window = SPEC.window_generations * SPEC.generation
    key = bench.key()
    operations = [(Operation.INSERT, bench.key()) for _ in range(SPEC.generation - 1)]
    # The last of its generation, asked for by the very operation that ends the guarantee.
    operations.append((Operation.INSERT, key))
    operations += [(Operation.INSERT, bench.key()) for _ in range(window)]
    operations += [(Operation.CHECK_AND_INSERT, key), (Operation.QUERY, key)]
    await bench.driver.send(tagged(operations))
    await bench.finish(sent=len(operations))
    assert bench.monitor.outcomes[-2].seen, "the key was lost within the window"
    assert bench.monitor.outcomes[-1].age == 0, "the insertion did not follow the shift"


@cocotb.test()
async def forced_shifts_wait_for_the_spare(dut) -> None:
    """A shift right after another waits until the spare is clean, and loses nothing."""
    bench = await Bench.start(dut)
    operations = [(Operation.CHECK_AND_INSERT, bench.key()) for _ in range(2)]
    operations += [(Operation.SHIFT, 0)] * 3
    operations += [(Operation.CHECK_AND_INSERT, bench.key()) for _ in range(2)]
    await bench.driver.send(tagged(operations * 2 * SPEC.segments))
    await bench.finish()
    # The one after a held shift is not taken before the shift is.
    waited = max(bench.driver.waits[8:])
    assert waited == SPEC.clear_words, f"waited {waited} clocks, not {SPEC.clear_words}"


@cocotb.test()
@cocotb.parametrize(above=[0, 1])
async def shortest_generations_do_not_pause(dut, above: int) -> None:
    """At the minimum and one above it, still one operation per clock."""
    bench = await Bench.start(dut, generation=SPEC.minimum_generation + above)
    items = bench.inserts(4 * SPEC.segments * (SPEC.minimum_generation + above))
    await bench.driver.send(items)
    assert not any(bench.driver.waits), "the unit paused"
    await bench.finish(sent=len(items))


@cocotb.test()
async def shorter_generations_pause_and_stay_right(dut) -> None:
    """Below the minimum, shifts wait for the spare and verdicts are those of golden."""
    bench = await Bench.start(dut, generation=max(1, SPEC.minimum_generation - 1))
    items = bench.inserts(3 * SPEC.segments * SPEC.minimum_generation)
    await bench.driver.send(items)
    assert any(bench.driver.waits), "no shift waited"
    await bench.finish(sent=len(items))


@cocotb.test()
async def generation_is_programmable(dut) -> None:
    """A new length counts from the next shift on."""
    bench = await Bench.start(dut)
    for generation in (SPEC.generation, SPEC.generation + 3, SPEC.minimum_generation):
        # Set while the unit is idle, so that unit and reference agree on the moment.
        await bench.drain()
        bench.set_generation(generation)
        await RisingEdge(dut.clk)
        await bench.driver.send(bench.inserts(3 * SPEC.generation + 1))
    await bench.finish()


@cocotb.test()
async def clear_forgets_everything(dut) -> None:
    """After a clear the unit pauses for the sweep and then knows no key."""
    bench = await Bench.start(dut)
    keys = [bench.key() for _ in range(2 * SPEC.generation)]
    operations = [(Operation.INSERT, key) for key in keys] + [(Operation.CLEAR, 0)]
    operations += [(Operation.QUERY, key) for key in keys]
    await bench.driver.send(tagged(operations))
    await bench.finish(sent=len(operations))
    assert not any(outcome.seen for outcome in bench.monitor.outcomes), "a key survived"
    waits = bench.driver.waits[len(keys) + 1 :]
    assert max(waits) == SPEC.clear_words, f"paused {max(waits)} clocks, not {SPEC.clear_words}"


@cocotb.test()
async def reset_in_mid_stream(dut) -> None:
    """Reset drops what is under way and clears the memory."""
    bench = await Bench.start(dut)
    for cut in (1, SPEC.latency // 2, SPEC.latency + 3, SPEC.generation + 1):
        sending = cocotb.start_soon(bench.driver.send(bench.inserts(500)))
        await ClockCycles(dut.clk, SPEC.clear_words + cut)
        sending.cancel()
        bench.driver.release()
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        dut.rst.value = 0
        bench.scoreboard.forget(SPEC)
    before = bench.scoreboard.compared
    items = bench.inserts(2 * SPEC.generation)
    await bench.driver.send(items)
    await bench.finish()
    assert bench.scoreboard.compared - before == len(items)


@cocotb.test()
async def blocked_output_stops_the_input(dut) -> None:
    """With nobody taking results the unit stops accepting, and goes on where it stopped."""
    bench = await Bench.start(dut)
    bench.monitor.stalls = Stalls(1.0)
    items = bench.inserts(200)
    sending = cocotb.start_soon(bench.driver.send(items))
    await ClockCycles(dut.clk, 150)
    stopped = len(bench.driver.accepted)
    assert SPEC.latency <= stopped < 150, f"accepted {stopped} operations without an outlet"
    bench.monitor.stalls = Stalls()
    await sending
    await bench.finish(sent=len(items))
