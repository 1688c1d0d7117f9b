"""Upsets of memories, without and with protection.

All memory bits of tiny units are flipped under full load, one after another.
"""

import re

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Const, Fragment, Module, Signal
from garbage_memory import GarbageMemory, with_own_garbage
from simulation import simulate
from upsets import Struck

from lately.boards.export.design import Design
from lately.boards.link.link import FilterLink
from lately.golden import Operation, any_preset, preset
from lately.hdl import filter_unit
from lately.hdl.latencies import PROTECTIONS, VOTE_LATENCY, VOTES
from lately.hdl.memory.protection import Copies, deviating
from lately.hdl.memory.segment import PortableSegmentMemory
from lately.hdl.queue import ResultQueue
from lately.hdl.ring.profile import RingProfile
from lately.hdl.timing.sweep import PortSweep
from lately.hdl.timing.sweep_rules import CELL_CLOCKS, rest_interval

SEED = 1959


def make(copies):
    memories = [PortableSegmentMemory(depth=16, clear_bits=8) for _ in range(copies)]
    return Copies(memories, answers=["bit"], latency=memories[0].latency)


async def access(ctx, memory, address, *, set=0, clear=0):
    """Let an access come; return its bit and whether it is told upset."""
    ctx.set(memory.address, address)
    ctx.set(memory.set, set)
    ctx.set(memory.clear, clear)
    ctx.set(memory.clear_address, address // 8)
    await ctx.tick()
    ctx.set(memory.set, 0)
    ctx.set(memory.clear, 0)
    await ctx.tick().repeat(memory.latency - 1)
    return ctx.get(memory.bit), ctx.get(memory.upset)


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("gained", [False, True])
def test_bit_lost_or_gained_in_a_copy(copies, gained):
    memory = make(copies)
    assert memory.latency == memory.copies[0].latency + VOTE_LATENCY

    async def stream(ctx):
        await access(ctx, memory, 5, set=not gained)
        assert await access(ctx, memory, 5) == (not gained, 0)
        for copy in memory.copies:
            word = copy.words.data[0]
            right = ctx.get(word)
            ctx.set(word, right ^ 1 << 5)
            assert await access(ctx, memory, 5) == (copies == 2 or not gained, 1)
            assert await access(ctx, memory, 6) == (0, 0)
            assert await access(ctx, memory, 13) == (0, 0)
            ctx.set(word, right)
        ctx.set(memory.copies[0].words.data[0], 1 << 5)
        await access(ctx, memory, 5, clear=1)
        assert await access(ctx, memory, 5) == (0, 0)

    simulate(memory, stream)


def test_setting_a_bit_mends_it():
    memory = make(2)

    async def stream(ctx):
        await access(ctx, memory, 5, set=1)
        ctx.set(memory.copies[1].words.data[0], 0)
        assert await access(ctx, memory, 5, set=1) == (1, 1)
        assert await access(ctx, memory, 5) == (1, 0)

    simulate(memory, stream)


@pytest.mark.parametrize("copies", [1, 4])
def test_copies_wrong(copies):
    with pytest.raises(ValueError, match=rf"^Number of copies must be 2 or 3, not {copies}$"):
        make(copies)


# Timing filters


@pytest.mark.parametrize("name", ["timing-tiny", "timing-counted-tiny"])
def test_sweep_restores_bits_lost_in_a_copy(name):
    spec = any_preset(name)
    # Cycles per cell; without ticks, cycles until a free cycle.
    pace = rest_interval(spec) if not spec.timed else CELL_CLOCKS + 1

    async def script(struck):
        await struck.do([(Operation.INSERT, key) for key in range(20)])
        for number in range(spec.hashes):
            for row in range(spec.cells):
                struck.flip((number, row), row % spec.stamp_bits, copy=(number + row) % VOTES)
        before = struck._ctx.get(struck.unit.upsets)
        results = await struck.do([(Operation.QUERY, 19)] * (pace * (spec.cells + 2) + 100))
        assert all(seen for seen, _ in results)
        held = struck.held()
        assert all(len({held[number, copy, row] for copy in range(VOTES)}) == 1
                   for number in range(spec.hashes) for row in range(spec.cells))  # fmt: skip
        assert struck._ctx.get(struck.unit.upsets) > before

    Struck(spec, "tmr").run(script)


@pytest.mark.parametrize("expired", [False, True])
@pytest.mark.parametrize("protect", ["parity", "tmr"])
def test_sweep_restamps_expired_cells(protect, expired):
    sweep = PortSweep(cells=4, limit=5, stamp_bits=4)
    lost = protect == "parity"

    async def stream(ctx):
        ctx.set(sweep.clean, 1)
        ctx.set(sweep.now, 5 if expired else 4)
        ctx.set(sweep.wrong, 1)
        ctx.set(sweep.lost, lost)
        await ctx.tick().repeat(2 * CELL_CLOCKS)
        writes = sweep.writes
        *_, repairs = await ctx.tick().sample(writes.repairs).until(writes.sweeps | writes.repairs)
        assert repairs == (lost or not expired)

    simulate(sweep, stream)


def test_only_the_wrong_copy_is_written():
    kind = with_own_garbage(GarbageMemory)
    copies = [kind(depth=4, width=5) for _ in range(VOTES)]
    memory = Copies(copies, answers=["a_word", "b_word"], latency=2, registers=0, writes="write")

    async def stream(ctx):
        ctx.set(memory.a_address, 3)
        ctx.set(memory.b_address, 3)
        ctx.set(memory.value, 0b10110)
        ctx.set(memory.write, 1)
        await ctx.tick()
        ctx.set(memory.write, 0)
        for number, copy in enumerate(copies):
            ctx.set(copy.words.data[3], 0b00001)
            ctx.set(memory.value, 0b10110)
            ctx.set(memory.mend, 1 << number)
            await ctx.tick()
            ctx.set(memory.mend, 0)
            ctx.set(memory.value, 0b01001)
            await ctx.tick()
            assert ctx.get(memory.a_word) == 0b10110
            await ctx.tick()
            assert ctx.get(memory.upset) == 0
            assert [ctx.get(duplicate.words.data[3]) for duplicate in copies] == [0b10110] * 3

    simulate(memory, stream)


@pytest.mark.parametrize(
    ("words", "copies"),
    [
        ((5, 5, 5), 0b000),
        ((4, 5, 5), 0b001),
        ((5, 7, 5), 0b010),
        ((5, 5, 0), 0b100),
        # Two copies have been upset.
        ((4, 7, 5), 0b001),
    ],
)  # fmt: skip
def test_copies_that_differ_from_both_others(words, copies):
    first, *others = (Const(word, 3) for word in words)
    deviation = Signal(VOTES)
    m = Module()
    m.d.comb += deviation.eq(deviating(*(first ^ other for other in others)))

    async def stream(ctx):
        assert ctx.get(deviation) == copies

    simulate(m, stream, period=None)


# Units


@pytest.mark.parametrize("protect", PROTECTIONS)
@pytest.mark.parametrize("name", ["tiny", "two-lanes-tiny"])
def test_map_and_profile_know_the_copies(name, protect):
    unit = filter_unit(preset(name), protect=protect, memory="ecp5")
    copies, plain = PROTECTIONS[protect], RingProfile.of(preset(name), memory="ecp5")
    assert unit.profile.copies == copies
    assert unit.profile.block_rams == copies * plain.block_rams == len(unit.memory_map.memories)
    # With many block RAMs, some are far away.
    farther = unit.profile.address_registers - plain.address_registers
    assert farther == (name != "tiny" and copies > 1)
    assert unit.profile.latency == plain.latency + farther + VOTE_LATENCY * (copies > 1)
    assert ("upsets" in unit.signature.members) == (copies > 1)


def names_below(component):
    """Yield the names of all submodules of a component."""
    waiting = [Fragment.get(component, None)]
    while waiting:
        for fragment, name, _ in waiting.pop().subfragments:
            waiting.append(fragment)
            yield name


@pytest.mark.parametrize(
    ("protect", "name"),
    [
        pytest.param(
            protect,
            name,
            marks=pytest.mark.slow if name != "timing-tiny" and protect != "parity" else (),
        )
        for name in (
            "timed-tiny", "two-lanes-tiny", "timing-tiny", "timing-counted-tiny", "dictionary-tiny"
        )
        for protect in PROTECTIONS
    ],
)  # fmt: skip
def test_every_kind_of_unit_is_protected(name, protect):
    unit = filter_unit(any_preset(name), protect=protect)
    assert ("upsets" in unit.signature.members) == (protect != "none")
    copies = {name for name in names_below(unit) if re.fullmatch(r"verdicts\d", name)}
    assert len(copies) == (0 if protect == "none" else VOTES)


@pytest.mark.slow
@pytest.mark.parametrize("protect", ["parity", "tmr"])
def test_small_memories_of_lanes_are_protected(protect):
    def memories(protect):
        unit = filter_unit(preset("two-lanes-tiny"), memory="ecp5", protect=protect)
        return len(re.findall(r"^  memory ", rtlil.convert(unit, emit_src=False), re.M))

    assert memories(protect) == VOTES * memories("none") > 0


@pytest.mark.parametrize("protect", ["parity", "tmr"])
@pytest.mark.parametrize("name", ["tiny", "timing-tiny", "dictionary-tiny"])
def test_exported_unit_has_registers_of_upsets(name, protect):
    design = Design(spec=any_preset(name), name="seen", bus="wishbone", protect=protect)
    words = {word.name: word for word in design.registers.words}
    assert words["upsets_0"].address == 0xF8
    assert "upsets" in [field.name for field in words["faults"].fields]
    plain = Design(spec=any_preset(name), name="seen", bus="wishbone")
    assert not any("upsets" in word.name for word in plain.registers.words)
    votes = PROTECTIONS[protect] > 1 and name == "tiny"
    assert design.profile.latency == plain.profile.latency + VOTE_LATENCY * votes


def test_board_reports_upsets():
    link = FilterLink(preset("tiny"), clock_hz=48_000_000, baud=3_000_000, protect="tmr")
    assert link.unit.registers.registers["upsets"] == 64


# Memories outside the filter


def test_results_that_wait_in_three_copies():
    queue = ResultQueue(depth=4, tag_bits=3, verdict_bits=2, status_bits=1, copies=3)

    async def stream(ctx):
        ctx.set(queue.o.ready, 0)
        for number in range(4):
            ctx.set(queue.tag_valid, 1)
            ctx.set(queue.tag, number + 2)
            ctx.set(queue.status_valid, 1)
            ctx.set(queue.status, number)
            ctx.set(queue.valid_next, 1)
            ctx.set(queue.verdict, number - 1)
            await ctx.tick()
        for port in (queue.tag_valid, queue.status_valid, queue.valid_next):
            ctx.set(port, 0)
        ctx.set(queue.verdict, 3)
        await ctx.tick().repeat(3)
        for copies in queue.words.values():
            for row in range(4):
                ctx.set(copies[row % 3].data[row], ~ctx.get(copies[row % 3].data[row]))
        ctx.set(queue.o.ready, 1)
        for number in range(4):
            assert ctx.get(queue.o.valid)
            word = ctx.get(queue.o.payload)
            assert word == number | (number & 1) << 2 | number + 2 << 3
            await ctx.tick()

    simulate(queue, stream)
