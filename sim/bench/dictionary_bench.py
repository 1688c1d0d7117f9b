"""cocotb bench of a dictionary unit: one test per sentence of its contract."""

import atexit
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from numpy.typing import NDArray

from ...golden import Operation
from ...hdl.build import filter_unit, unit_profile
from ...hdl.dictionary.dictionary_figures import (
    HAZARDS,
    PATIENCE,
    RECOVERY,
    rows_latency,
    swept_per_row,
)
from ...hdl.verilog import TAG_BITS
from .dictionary_parts import (
    DictionaryItem,
    DictionaryMonitor,
    DictionaryScoreboard,
    Places,
    RingScoreboard,
)
from .parts import Driver, Pattern, Stalls, read_cells
from .unit_bench import COVERAGE, KEYED, MEMORY, NETLIST, PERIOD_NS, SEED, SPEC, UnitBench

UNIT = filter_unit(SPEC, memory=MEMORY, tag_bits=TAG_BITS)
PROFILE = unit_profile(SPEC, memory=MEMORY)
WINDOW = SPEC.window
NUMBERS = 1 << SPEC.timestamp_bits
KEYS = 1 << SPEC.key_bits
CODES = 16
NONE, QUERY, INSERT, CHECK, SHIFT, CLEAR, REMOVE = (
    Operation[name]
    for name in ("NONE", "QUERY", "INSERT", "CHECK_AND_INSERT", "SHIFT", "CLEAR", "REMOVE")
)
POOL = Places.of(SPEC, range(min(KEYS, 1 << 12)))

if COVERAGE:
    from .coverage import Collector
    from .dictionary_coverage import ColumnSampler, DictionarySampler, points, read_column
    from .ring_coverage import RingSampler, ring_points
    from .shell_coverage import ShellSampler, read_ports

    COLLECTOR = Collector(ring_points(SPEC) if SPEC.moves else points(SPEC))
    # The simulator says nothing when the last test has ended.
    atexit.register(COLLECTOR.add_to, Path(COVERAGE))


class Bench(UnitBench):
    """A unit out of reset with its driver, monitor and scoreboard."""

    # Operations are told a clock before they come in, and a CLEAR heeds what comes in with it.
    secret_lead = -1
    settled = PROFILE.longest_pause + PROFILE.latency

    @classmethod
    async def start(cls, dut) -> Self:
        """Start the clock and reset the unit."""
        scoreboard = (RingScoreboard if SPEC.moves else DictionaryScoreboard)(SPEC)
        driver = Driver(dut, UNIT.signature, scoreboard)
        monitor = DictionaryMonitor(dut, UNIT.signature, scoreboard)
        bench = cls(dut, scoreboard, driver, monitor)
        if COVERAGE:
            cocotb.start_soon(bench.cover())
        return await bench.reset()

    async def cover(self) -> None:
        """Show every clock to the coverage, for ever."""
        shell = ShellSampler(COLLECTOR, latency=PROFILE.latency, most_rest=1)
        column = ColumnSampler(SPEC, COLLECTOR, lag=rows_latency(SPEC))
        ring = RingSampler(SPEC, COLLECTOR)
        while True:
            await FallingEdge(self.dut.clk)
            ports = read_ports(self.dut, UNIT.signature)
            shell.clock(ports)
            if SPEC.moves:
                ring.clock(self.dut)
            else:
                column.clock(ports, read_column(self.dut))

    def item(self, operation: int, key: int, window: int = WINDOW) -> DictionaryItem:
        """Return an operation with a random tag."""
        return DictionaryItem(operation, key, self.random.randrange(1 << TAG_BITS), window)

    def items(self, operations: Iterable[tuple[int, ...]]) -> list[DictionaryItem]:
        """Return operations, each with its key and maybe a window, with random tags."""
        return [self.item(*one) for one in operations]

    async def send(self, *operations: tuple[int, ...], stalls: Stalls | None = None) -> None:
        """Send such operations."""
        await self.driver.send(self.items(operations), stalls=stalls)

    def mixture(self, count: int) -> Iterator[DictionaryItem]:
        """Yield operations of all kinds, few of which are performed alone, on few keys or many."""
        draw = self.random
        keys = draw.choice((3, 20, 60, KEYS))
        for _ in range(count):
            if draw.random() < 0.02:
                keys = draw.choice((3, 20, 60, KEYS))
            code = draw.choice((0, 1, 1, 2, 2, *[3] * 6, 8, 8, 9, 10, 11))
            if draw.random() < 0.02:
                code = draw.randrange(4, 8) + draw.choice((0, 8))
            yield self.item(code, draw.randrange(keys), draw.randint(0, WINDOW))

    def operations(self, count: int) -> list[DictionaryItem]:
        """Return random operations."""
        return [*self.mixture(count)]

    async def settle(self) -> None:
        """Wait for all that is under way; starts and ends after an edge."""
        await self.drain()
        await RisingEdge(self.dut.clk)

    async def finish(self) -> None:
        """Check that nothing is missing, and that counters, guarantee and cells equal golden's."""
        await super().finish()
        board = self.scoreboard
        guaranteed = int(self.dut.guaranteed.value)
        if SPEC.moves:
            self.check_told()
        else:
            assert guaranteed == board.golden.guaranteed_window, f"{guaranteed} guaranteed"
        self.check_counts(**board.counts)
        if COVERAGE:
            DictionarySampler(board.golden.spec, COLLECTOR, clock=PERIOD_NS).follow(board.performed)
        if self.shows_memory:
            self.check_memory()

    def check_told(self) -> None:
        """Check that nothing is told to be lost, or not to be vouched for, unless it is."""
        board, lost = self.scoreboard, int(self.dut.lost.value)
        board.counts["lost"] = lost
        if not lost and not COVERAGE:
            # With coverage the counter is narrow, and comes round.
            guaranteed = int(self.dut.guaranteed.value)
            assert guaranteed == WINDOW, f"{guaranteed} guaranteed without a loss"
            assert {*board.told} <= {"vouched for"}, f"{board.told} without a loss"
        if COVERAGE:
            for answer in board.told:
                COLLECTOR.sample("answer", answer)

    def check_memory(self) -> None:
        """Hold all live cells against golden's; with moves their entries, wherever they lie.

        As many as the stash has places may be on their way.
        """
        golden, found = self.scoreboard.golden, self.live_cells()
        if SPEC.moves:
            there, due = ({*map(tuple, golden.entries_of(found).tolist())},
                          {*map(tuple, golden.entries.tolist())})  # fmt: skip
            assert there <= due, f"{len(there - due)} entries that golden has not"
            guaranteed = int(self.dut.guaranteed.value)
            away = [age for digest, age in due - there if age <= guaranteed]
            assert len(away) <= SPEC.stash, f"{len(away)} entries in no cell"
            return
        for number, expected in enumerate(golden.memory.swapaxes(0, 1)):
            assert found[:, number].tolist() == expected.tolist(), f"column {number}"

    def live_cells(self) -> NDArray[np.int64]:
        """Return age plus 1 and rest of the live entry in each cell, as the golden model does."""
        shape = {"depth": SPEC.rows, "width": SPEC.cell_bits}
        paths = [("core", f"column{number}", "memory") for number in range(SPEC.columns)]
        cells = np.stack([
            read_cells(self.dut, path, variant=MEMORY, **shape, netlist=NETLIST) for path in paths
        ])  # fmt: skip
        distances = (self.scoreboard.counts["insertions"] - (cells >> 1)) % NUMBERS
        live = (cells & 1 > 0) & (distances <= WINDOW)
        return np.stack([distances * live, (cells >> 1 + SPEC.timestamp_bits) * live])


def keys_of_one_cell(count: int) -> list[int]:
    """Return keys of different digests that share their cells in the first column."""
    there = np.flatnonzero(POOL.rows[0] == POOL.rows[0, 0])
    _, first = np.unique(POOL.digests[there], return_index=True)
    return [int(key) for key in there[np.sort(first)][:count]]


def keys_of_one_column() -> list[int]:
    """Return keys whose digests all have cells of their own in the first column."""
    _, first = np.unique(POOL.rows[0], return_index=True)
    return [int(key) for key in np.sort(first)]


@cocotb.test()
async def accepts_every_clock(dut) -> None:
    """One operation per clock, whatever the mixture."""
    bench = await Bench.start(dut)
    draw = bench.random
    codes = (NONE, QUERY, INSERT, CHECK, CHECK, CHECK, REMOVE)
    count = max(2000, 4 * NUMBERS)
    operations = [(draw.choice(codes), draw.randrange(KEYS)) for _ in range(count)]
    await bench.perform(bench.items(operations))
    # With moves it rests while there is little room.
    most = PATIENCE * (1 + len(operations) // RECOVERY) if SPEC.moves else 0
    assert sum(bench.driver.waits) <= most, "the unit paused"
    assert bench.scoreboard.counts["insertions"] > 2 * NUMBERS


@cocotb.test()
async def latency_is_as_specified(dut) -> None:
    """Every result comes `latency` clocks after its acceptance, if nothing is in its way."""
    bench = await Bench.start(dut)
    await bench.perform(bench.items((CHECK, bench.key()) for _ in range(60)))
    pairs = zip(bench.driver.times, bench.monitor.times, strict=True)
    latencies = {(delivered - accepted) / PERIOD_NS for accepted, delivered in pairs}
    assert latencies == {PROFILE.latency}, f"{latencies} clocks, not {PROFILE.latency}"


@cocotb.test()
@cocotb.parametrize(into=[0.0, 0.5, 0.9], out=[0.0, 0.5, 0.9])
async def random_operations(dut, into: float, out: float) -> None:
    """Everything mixed, with pauses on both sides; nothing is lost, doubled or reordered."""
    bench = await Bench.start(dut)
    bench.monitor.stalls = Stalls(out, SEED + 1)
    count = 300 if max(into, out) > 0.5 else 1000
    await bench.perform([*bench.mixture(count)], stalls=Stalls(into, SEED + 2))


@cocotb.test()
@cocotb.parametrize(second=["digest", "cell"])
async def every_distance_between_operations(dut, second: str) -> None:
    """Of one digest, or two of one cell: each kind sees what each kind did 1, 2, 3, ... before."""
    bench = await Bench.start(dut)
    first, other = keys_of_one_cell(2)
    other = first if second == "digest" else other
    # What is done before, and then; a removal of nothing is as good as none.
    kinds = ((REMOVE, INSERT), (INSERT, CHECK), (INSERT, REMOVE), (INSERT, QUERY | REMOVE))
    for distance in range(1, HAZARDS + 3):
        filler = [(NONE, 7)] * (distance - 1)
        for (before, one), (_, two) in itertools.product(kinds, repeat=2):
            await bench.send((before, first))
            await ClockCycles(dut.clk, 12)
            await bench.send(
                (one, first), *filler, (two, other), *filler, (QUERY, first), (QUERY, other)
            )
            await ClockCycles(dut.clk, 12)
            await bench.send((REMOVE, other))
    await bench.finish()


@cocotb.test()
async def removed_and_inserted_elsewhere(dut) -> None:
    """Nothing is left of what was removed, though an insertion follows that takes another cell."""
    bench = await Bench.start(dut)
    first, second = keys_of_one_cell(2)
    pause = [(NONE, 0)] * 15
    for distance in range(1, HAZARDS + 3):
        await bench.send((INSERT, first), (INSERT, second), (REMOVE, first), *pause)
        await bench.send((REMOVE, second), *pause[1:distance], (CHECK, second), *pause)
        await bench.send((QUERY, second), (REMOVE, second), *pause, (QUERY, second))
    await bench.finish()
    assert not bench.monitor.outcomes[-1].seen


@cocotb.test()
async def every_pair_of_operations(dut) -> None:
    """Each sum of bits follows each, those that are undefined included."""
    bench = await Bench.start(dut)
    pairs = itertools.product(range(CODES), repeat=2)
    await bench.perform(bench.items((code, bench.key()) for pair in pairs for code in pair))


@cocotb.test()
async def a_key_is_reported_for_the_whole_window_and_no_longer(dut) -> None:
    """At each age, by queries for windows about it; with 0 nothing is seen."""
    bench = await Bench.start(dut)
    key, *others = keys_of_one_column()
    await bench.send((INSERT, key))
    for age in range(WINDOW + 2):
        windows = {0, 1, *(min(max(age + more, 0), WINDOW) for more in (0, 1)), WINDOW}
        await bench.send(*[(QUERY, key, window) for window in sorted(windows)])
        await bench.send((INSERT, others[age % len(others)]))
    await bench.finish()
    ages = {outcome.age for outcome in bench.monitor.outcomes if outcome.seen}
    assert ages == {*range(WINDOW)}


if SPEC.moves:

    @cocotb.test()
    async def more_digests_than_the_window(dut) -> None:
        """What does not fit is told, and what is vouched for is right; later that is all again."""
        bench = await Bench.start(dut)
        keys = [*range(KEYS)]
        bench.random.shuffle(keys)
        for _ in range(3):
            for at, key in enumerate(keys):
                age = bench.random.randrange(WINDOW)
                await bench.send((CHECK, key), (QUERY, keys[at - age], age + 1))
            await bench.send(*[(REMOVE, key) for key in keys[::3]])
            await bench.send(*[(CHECK, key) for key in keys[: WINDOW // 8]] * 10)
            await bench.settle()
            assert not bench.monitor.outcomes[-1].status, "what was lost never expired"
        await bench.finish()
        crowded = SPEC.columns * SPEC.rows + SPEC.stash < WINDOW
        assert ("missing, and told" in bench.scoreboard.told) == crowded

else:

    @cocotb.test()
    async def what_is_lost_is_told(dut) -> None:
        """More digests than cells and stash hold: counted, and told until they have expired."""
        bench = await Bench.start(dut)
        pair = keys_of_one_cell(2)
        for _ in range(3):
            await bench.send(*[(CHECK, key) for key in range(min(KEYS, 256))])
            await bench.settle()
            assert bench.monitor.outcomes[-1].status, "nothing was lost"
            for age in range(2 * WINDOW):
                await bench.send((CHECK, pair[age % 2]), (QUERY, pair[0], age % WINDOW + 1))
            await bench.settle()
            assert not bench.monitor.outcomes[-1].status, "what was lost never expired"
            await bench.send((REMOVE, pair[0]), (REMOVE, pair[1]))
        await bench.finish()
        assert bench.scoreboard.counts["lost"]

    @cocotb.test()
    async def removed_from_every_place(dut) -> None:
        """From each column and from the stash, where a digest is, and where none is."""
        bench = await Bench.start(dut)
        for kind, step in itertools.product((REMOVE, QUERY | REMOVE), (1, 3)):
            keys = [*range(0, step * WINDOW, step)]
            await bench.send(*[(CHECK, key) for key in keys])
            assert bench.scoreboard.golden.stashed
            await bench.send(*[(kind, key) for key in keys for _ in range(2)])
            await bench.send(*[(QUERY, key) for key in keys])
            assert not bench.scoreboard.golden.memory.any()
            assert not bench.scoreboard.golden.stashed
        await bench.finish()


@cocotb.test()
async def hits_in_one_column_leave_clocks_to_its_sweep(dut) -> None:
    """The input rests one clock a row that is due, and no timestamp seems young."""
    bench = await Bench.start(dut)
    keys = keys_of_one_column()
    operations = [(CHECK, key) for key, _ in zip(itertools.cycle(keys), range(1500), strict=False)]
    await bench.perform(bench.items(operations))
    rests = sum(bench.driver.waits)
    assert 0 < rests <= 1.2 * len(operations) / swept_per_row(SPEC), f"{rests} clocks of rest"
    assert all(outcome.seen for outcome in bench.monitor.outcomes[len(keys) :])


@cocotb.test()
async def a_sweep_that_is_overdue_closes_the_input(dut) -> None:
    """It erases a row in two clocks, of a column that operations would write in all of them."""
    bench = await Bench.start(dut)
    keys = keys_of_one_column()
    few = keys[: len(keys) // 2]
    for _ in range(4):
        await bench.send(*[(INSERT, key) for key in keys])
        count = (WINDOW + 2 * SPEC.rows * swept_per_row(SPEC)) // len(few)
        await bench.send(*[(CHECK, key) for _ in range(count) for key in few])
    await bench.finish()
    assert max(bench.driver.waits) > 0
    assert bench.scoreboard.counts["insertions"] > NUMBERS


@cocotb.test()
async def timestamps_repeat(dut) -> None:
    """Entries that nobody touches are erased before they seem young, in cells and stash."""
    bench = await Bench.start(dut)
    draw = bench.random.randrange
    for _ in range(3):
        await bench.send(*[(INSERT, draw(KEYS)) for _ in range(WINDOW + 20)])
        few = [draw(KEYS) for _ in range(4)]
        quiet = NUMBERS - WINDOW - 20
        await bench.send(*[(CHECK, few[draw(4)]) for _ in range(quiet)])
        await bench.send(*[(QUERY, key) for key in range(0, min(KEYS, 256), 3)])
    await bench.finish()


@cocotb.test()
async def insertions_into_the_cells_that_the_sweep_has_in_hand(dut) -> None:
    """Into all cells after their entries have expired, at several paces."""
    bench = await Bench.start(dut)
    keys = keys_of_one_column()
    for pace in (0.0, 0.3, 0.6, 0.8, 0.9):
        await bench.send(*[(INSERT, key) for key in keys])
        await bench.send(*[(INSERT, keys[0])] * (WINDOW + 1))
        items = bench.items((CHECK, key) for _ in range(6) for key in keys)
        await bench.driver.send(items, stalls=Stalls(pace, SEED))
    await bench.finish()


@cocotb.test()
async def pauses_of_every_length(dut) -> None:
    """Either side, or both, pause for 1 to 9 clocks while the queue is empty, and while full."""
    bench = await Bench.start(dut)
    pauses = Pattern([*[*range(1, 10)] * 8, 150])
    await bench.perform_with_pauses(
        lambda: bench.items((CHECK, bench.key()) for _ in range(90)), pauses, unpaused=3
    )


@cocotb.test()
async def clear_forgets_everything(dut) -> None:
    """Behind insertions that are under way, once or several times; cells, stash and losses."""
    bench = await Bench.start(dut)
    for count in (1, 2, 5):
        keys = range(min(KEYS, 2 * WINDOW))
        await bench.send(*[(INSERT, key) for key in keys], *[(CLEAR, 0)] * count)
        await bench.send(*[(QUERY, key) for key in keys])
        wait = bench.driver.waits[-len(keys)]
        assert SPEC.rows <= wait <= PROFILE.longest_pause, f"paused {wait} clocks"
        await bench.settle()
        asked = bench.monitor.outcomes[-len(keys) :]
        assert not any(outcome.seen or outcome.status for outcome in asked), "a key survived"
    await bench.finish()


@cocotb.test()
async def reset_in_mid_stream(dut) -> None:
    """Reset drops what is under way, and clears memory, counters and guarantee."""
    bench = await Bench.start(dut)
    for cut in (1, PROFILE.latency // 2, PROFILE.latency + 3, 200):
        await bench.interrupt([*bench.mixture(500)], clocks=SPEC.rows + cut)
    await bench.perform(bench.items((CHECK, bench.key()) for _ in range(60)))


@cocotb.test()
async def blocked_output_stops_the_input(dut) -> None:
    """With nobody taking results the unit stops accepting, and goes on where it stopped."""
    bench = await Bench.start(dut)
    items = bench.items((CHECK, bench.key()) for _ in range(200))
    accepted = await bench.perform_blocked(items, clocks=150)
    assert PROFILE.latency <= accepted < 150, f"accepted {accepted} operations without an outlet"


if KEYED:

    @cocotb.test()
    async def secret_counts_from_the_next_clear(dut) -> None:
        """And not before; one that comes while another waits replaces it."""
        bench = await Bench.start(dut)
        for count in (1, 2, 3):
            for _ in range(count):
                secret = bench.random.getrandbits(128)
                await bench.load_secret(secret)
            await bench.send(*[(CHECK, bench.key()) for _ in range(40)], (CLEAR, 0))
            await bench.send(*[(CHECK, bench.key()) for _ in range(60)])
            await bench.settle()
        await bench.finish()

    @cocotb.test()
    async def secret_at_every_distance_from_a_clear(dut) -> None:
        """It comes in with one that is accepted with it or later; none is taken while one waits."""
        bench = await Bench.start(dut)
        for distance in range(10):
            items = bench.items([*[(CHECK, key) for key in range(5)], (CLEAR, 0),
                                 *[(CHECK, key) for key in range(5)]])  # fmt: skip
            sending = cocotb.start_soon(bench.driver.send(items))
            await ClockCycles(dut.clk, 1 + distance)
            await bench.load_secret(bench.random.getrandbits(128))
            await sending
            await bench.settle()
        await bench.finish()
