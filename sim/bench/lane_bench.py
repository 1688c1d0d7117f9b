"""cocotb bench of a unit of several lanes: one test per sentence of its contract."""

import itertools

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotb.utils import get_sim_time

from ...golden import Operation
from ...hdl.lanes.unit import LaneUnit
from ...hdl.verilog import TAG_BITS
from .beats import Beat, BeatDriver, BeatScoreboard
from .parts import Item, Monitor, Pattern, Stalls
from .ring_bench import HASH, SPEC, RingBench, states
from .unit_bench import MEMORY, PERIOD_NS, SEED

UNIT = LaneUnit(SPEC, memory=MEMORY)
LANES = SPEC.lanes
KEYS = 1 << SPEC.key_bits
PROFILE = UNIT.profile

CODES = (Operation.NONE, Operation.QUERY, Operation.INSERT, Operation.CHECK_AND_INSERT)
"""What a lane can do."""


class Bench(RingBench):
    """A unit out of reset with its driver, monitor and scoreboard."""

    secret_lead = LaneUnit.SECRET_LEAD
    settled = 4 * PROFILE.latency + 2 * PROFILE.clear_cycles

    @classmethod
    async def start(cls, dut) -> "Bench":
        """Start the clock and reset the unit."""
        scoreboard = BeatScoreboard(SPEC)
        driver = BeatDriver(dut, UNIT.signature, scoreboard, seed=SEED + 3)
        bench = cls(dut, scoreboard, driver, Monitor(dut, UNIT.signature, scoreboard))
        return await bench.reset(generation=SPEC.generation)

    def beat(
        self, *operations: tuple[Operation, int] | None, turn: Operation = Operation.NONE
    ) -> Beat:
        """Return a beat of (operation, key) pairs, or None, from lane 0 on, with random tags."""
        items = [
            None if one is None else Item(*one, self.random.randrange(1 << TAG_BITS))
            for one in operations
        ]
        return Beat(turn, (*items, *[None] * (LANES - len(items))))

    def full(self, operations: list[tuple[Operation, int]]) -> list[Beat]:
        """Lay operations out in full beats; what is left is in the last."""
        return [self.beat(*operations[at : at + LANES]) for at in range(0, len(operations), LANES)]

    def inserts(self, count: int) -> list[Beat]:
        """Return full beats of check-and-inserts of random keys."""
        return self.full([(Operation.CHECK_AND_INSERT, self.key()) for _ in range(count * LANES)])

    def operations(self, count: int) -> list[Beat]:
        """Return random beats."""
        return [self.anything() for _ in range(count)]

    def anything(self) -> Beat:
        """Return a random beat."""
        draw = self.random
        turn = Operation.NONE
        if draw.random() < 0.06:
            turn = draw.choice([*[Operation.SHIFT] * 3, Operation.CLEAR])
        codes = draw.choices([None, *CODES], [3, 1, 2, 2, 8], k=LANES)
        return self.beat(
            *[None if code is None else (code, self.key()) for code in codes], turn=turn
        )

    async def finish(self) -> None:
        """Check that nothing is missing, and that counters and memory equal golden's."""
        await super().finish()
        self.check_counters()
        self.check_memory(UNIT.memory_map)


def operations_per_clock(bench: Bench) -> float:
    """Return operations over the clocks from the first acceptance to the last."""
    times = bench.driver.times
    operations = sum(item is not None for beat in bench.driver.accepted for item in beat.lanes)
    return operations / ((times[-1] - times[0]) / PERIOD_NS + 1)


def keys_of_one_shard() -> list[int]:
    """Return keys that all belong to the first shard."""
    keys = list(range(min(KEYS, 256)))
    shards = HASH.shard(states(keys))
    return [key for key, shard in zip(keys, shards.tolist(), strict=True) if shard == 0]


@cocotb.test()
async def full_beats(dut) -> None:
    """All lanes check and insert through several turns of the ring."""
    bench = await Bench.start(dut)
    beats = bench.inserts((2 * SPEC.segments + 1) * SPEC.generation // LANES + 1)
    await bench.perform(beats)
    assert bench.scoreboard.golden.shifts >= 2 * SPEC.segments, "the ring did not wrap"


@cocotb.test()
async def queries_flow_in_all_lanes(dut) -> None:
    """Where nothing turns and no shard has too much, beats are taken in almost every clock."""
    bench = await Bench.start(dut)
    keys = [bench.random.randrange(KEYS) for _ in range(300 * LANES)]
    await bench.perform(bench.full([(Operation.QUERY, key) for key in keys]))
    rate = operations_per_clock(bench)
    assert rate > 0.95 * LANES, f"{rate} operations per clock"


@cocotb.test()
async def latency_is_as_specified(dut) -> None:
    """On an idle unit an answer comes `latency` clocks after its beat, or less than `poll` more."""
    bench = await Bench.start(dut)
    # As much later each time as brings the beat to every clock between two looks.
    pause = 10 * UNIT.poll + 1
    for _ in range(UNIT.poll):
        await bench.driver.send([bench.beat((Operation.QUERY, bench.key()))])
        await ClockCycles(dut.clk, pause)
    await bench.finish()
    pairs = zip(bench.driver.times, bench.monitor.times, strict=True)
    latencies = [(delivered - accepted) / PERIOD_NS for accepted, delivered in pairs]
    assert min(latencies) >= UNIT.latency, f"{min(latencies)} clocks"
    assert max(latencies) < UNIT.latency + UNIT.poll, f"{max(latencies)} clocks"


@cocotb.test()
@cocotb.parametrize(into=[0.0, 0.5, 0.9], out=[0.0, 0.5, 0.9])
async def random_beats(dut, into: float, out: float) -> None:
    """Everything mixed, with pauses on both sides; nothing is lost, doubled or reordered."""
    bench = await Bench.start(dut)
    bench.monitor.stalls = Stalls(out, SEED + 1)
    # Pauses make many clocks of few beats.
    beats = [bench.anything() for _ in range(50 if max(into, out) > 0.5 else 90)]
    await bench.perform(beats, stalls=Stalls(into, SEED + 2))
    assert bool(bench.monitor.held) == bool(out), "no answer waited, or one did"


@cocotb.test()
@cocotb.parametrize(company=["others", "none", "its own key"])
async def ring_turns_for_an_insertion_in_every_lane(dut, company: str) -> None:
    """Lanes before it are of the old generation, its own query too; what follows is of the new."""
    bench = await Bench.start(dut)
    for lane in range(LANES):
        beats = [bench.beat(turn=Operation.SHIFT)]
        alone = company == "none"
        before = SPEC.generation - (0 if alone else lane)
        beats += bench.full([(Operation.INSERT, bench.key()) for _ in range(before)])
        keys = [bench.key() for _ in range(LANES)]
        if company == "its own key":
            keys = keys[:1] * LANES
        turning = [
            None if alone and n != lane else (Operation.CHECK_AND_INSERT, keys[n])
            for n in range(LANES)
        ]
        beats.append(bench.beat(*turning))
        beats += bench.full([(Operation.QUERY, key) for key in keys])
        await bench.driver.send(beats)
    await bench.finish()
    assert bench.scoreboard.turned == dict.fromkeys(range(LANES), 1)


@cocotb.test()
async def turn_comes_before_the_lanes(dut) -> None:
    """SHIFT and CLEAR at every phase of a generation, with full lanes, some, and none."""
    bench = await Bench.start(dut)
    beats = []
    for phase in range(0, SPEC.generation // LANES + 2, 2):
        turn = Operation.CLEAR if phase % 8 == 6 else Operation.SHIFT
        beats += bench.inserts(phase)
        lanes = [(Operation.CHECK_AND_INSERT, bench.key()) for _ in range(phase // 2 % LANES)]
        beats.append(bench.beat(*lanes, turn=turn))
        beats += bench.inserts(1)
    await bench.perform(beats)


@cocotb.test()
async def turns_one_after_another(dut) -> None:
    """Each waits for the spare of the one before, and nothing is lost meanwhile."""
    bench = await Bench.start(dut)
    beats = []
    for pair in itertools.product((Operation.SHIFT, Operation.CLEAR), repeat=2):
        for pause in range(4):
            beats += bench.inserts(3)
            beats += [bench.beat((Operation.INSERT, bench.key()), turn=pair[0])]
            beats += bench.inserts(pause)
            beats += [bench.beat((Operation.QUERY, bench.key()), turn=pair[1])]
    await bench.perform(beats)


@cocotb.test()
async def every_combination_on_one_key(dut) -> None:
    """A lane sees what those before it did to its key, with and without a turn."""
    bench = await Bench.start(dut)
    turns = (Operation.NONE, Operation.SHIFT, Operation.CLEAR)
    lanes = itertools.product((None, *CODES), repeat=LANES)
    combinations = list(itertools.product(turns, lanes))
    beats = []
    for turn, codes in bench.random.sample(combinations, min(100, len(combinations))):
        key = bench.key()
        beats.append(
            bench.beat(*[None if code is None else (code, key) for code in codes], turn=turn)
        )
        beats.append(bench.beat((Operation.QUERY, key)))
    await bench.perform(beats)


@cocotb.test()
async def one_key_flows(dut) -> None:
    """A single key is not bound by its shard, which performs one operation per clock."""
    bench = await Bench.start(dut)
    key = bench.key()
    beats = bench.full([(Operation.CHECK_AND_INSERT, key)] * (5 * SPEC.generation))
    await bench.perform(beats)
    rate = operations_per_clock(bench)
    assert rate > 1, f"{rate} operations per clock"


@cocotb.test()
async def hot_key(dut) -> None:
    """Half of all operations are on one key, in whatever lane."""
    bench = await Bench.start(dut)
    hot = bench.key()
    keys = [hot if bench.random.random() < 0.5 else bench.key() for _ in range(300 * LANES)]
    codes = bench.random.choices(CODES[1:], [1, 1, 4], k=len(keys))
    await bench.perform(bench.full(list(zip(codes, keys, strict=True))))


@cocotb.test()
async def keys_of_one_shard_wait(dut) -> None:
    """One operation per clock is left of keys that belong to one shard, and all are right."""
    bench = await Bench.start(dut)
    keys = keys_of_one_shard()
    # No key twice in a beat, so that none is known without its shard.
    stream = [keys[number % len(keys)] for number in range(300 * LANES)]
    await bench.perform(bench.full([(Operation.CHECK_AND_INSERT, key) for key in stream]))
    assert any(bench.driver.waits), "no beat waited"


@cocotb.test()
async def every_age_is_told(dut) -> None:
    """A key is reported with each age of the window in turn, and not after it, in every lane."""
    bench = await Bench.start(dut)
    beats, window = [], SPEC.window_generations
    for age in range(window + 2):
        key = bench.key()
        beats.append(bench.beat((Operation.INSERT, key), turn=Operation.CLEAR))
        beats += [bench.beat(turn=Operation.SHIFT)] * age
        beats.append(bench.beat(*[(Operation.QUERY, key)] * LANES))
    await bench.perform(beats)
    asked = [beat.lanes[0] and beat.lanes[0].operation == Operation.QUERY for beat in beats]
    last = [answer for answer, one in zip(bench.monitor.outcomes, asked, strict=True) if one]
    ages = [[lane.age for lane in answer if lane and lane.seen] for answer in last]
    assert ages[: window + 1] == [[age] * LANES for age in range(window + 1)]


@cocotb.test()
async def pauses_of_every_length(dut) -> None:
    """Either side, or both, pause for 1 to 9 clocks, with few beats under way and with many."""
    bench = await Bench.start(dut)
    taking = Pattern([*range(1, 10)] * 3 + [PROFILE.lane_slots + 32])
    await bench.perform_with_pauses(lambda: bench.inserts(20), taking, unpaused=2)


@cocotb.test()
async def blocked_output_stops_the_input(dut) -> None:
    """With nobody taking answers the unit stops accepting, and goes on where it stopped."""
    bench = await Bench.start(dut)
    beats = bench.inserts(2 * PROFILE.lane_slots)
    accepted = await bench.perform_blocked(beats, clocks=4 * PROFILE.lane_slots)
    assert UNIT.latency <= accepted <= PROFILE.lane_slots, f"accepted {accepted} without an outlet"


@cocotb.test()
async def generation_is_programmable(dut) -> None:
    """A new length counts from the next shift on; one that is too short is the shortest."""
    bench = await Bench.start(dut)
    longest, shortest = (1 << len(dut.generation)) - 1, UNIT.minimum_generation
    for generation in (shortest, longest, shortest + 1, SPEC.generation + 3, longest - 1, 1):
        # Set while the unit is idle, so that unit and reference agree on the moment.
        await bench.drain()
        bench.set_generation(generation)
        bench.scoreboard.golden.generation = max(generation, shortest)
        await ClockCycles(dut.clk, LaneUnit.GENERATION_LEAD)
        await bench.perform(bench.inserts((2 * longest + 3) // LANES))


if SPEC.hash == "siphash":

    @cocotb.test()
    @cocotb.parametrize(into=[0.0, 0.7])
    async def secret_comes_in_with_a_clear(dut, into: float) -> None:
        """It is that of the clear's own beat, and not of the beat before it, at full rate.

        While it waits, beats keep their distance; before and afterwards they need not.
        """
        bench = await Bench.start(dut)
        sending = cocotb.start_soon(
            bench.driver.send(
                [bench.beat(*[(Operation.CHECK_AND_INSERT, bench.key())] * LANES,
                            turn=Operation.CLEAR if number % 20 == 0 else Operation.NONE)
                 for number in range(220)],
                stalls=Stalls(into, SEED + 2),
            )
        )  # fmt: skip
        pauses = []
        for _ in range(4):
            secret = bench.random.getrandbits(128)
            await bench.load_secret(secret)
            loaded = get_sim_time("ns")
            while bench.scoreboard.golden.secrets != [secret] * SPEC.ring_segments:
                assert not sending.done(), "no clear is left"
                await RisingEdge(dut.clk)
            adopted = bench.driver.times[-1]
            await ClockCycles(dut.clk, bench.random.randrange(1, 60))
            since = [time for time in bench.driver.times if time > loaded + 2 * PERIOD_NS]
            waited = since[: 1 + next(n for n, time in enumerate(since) if time >= adopted)]
            cycles = [round(time / PERIOD_NS) for time in waited]
            pauses += [after - before for before, after in itertools.pairwise(cycles)]
        await sending
        await bench.finish()
        assert min(pauses) >= LaneUnit.SECRET_PACE


@cocotb.test()
async def reset_in_mid_stream(dut) -> None:
    """Reset drops what is under way and clears the memory."""
    bench = await Bench.start(dut)
    bench.monitor.stalls = Stalls(0.5, SEED)
    for cut in (1, UNIT.latency // 2, UNIT.latency + 3, 3 * UNIT.latency):
        beats = [bench.anything() for _ in range(4 * UNIT.latency)]
        await bench.interrupt(beats, clocks=PROFILE.clear_cycles + cut)
    await bench.perform(bench.inserts(2 * SPEC.generation))
