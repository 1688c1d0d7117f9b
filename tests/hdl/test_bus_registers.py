"""Registers behind buses: every address, every field, and their effects on the unit."""

import random

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out
from bus_masters import MASTERS
from hypothesis import given, settings
from hypothesis import strategies as st
from signatures import signature
from simulation import simulate

from lately.golden import any_preset, from_spec
from lately.hdl.build import filter_unit
from lately.hdl.bus.controlled import BUSES, COUNTER_BITS, MARK_BITS, ControlledUnit
from lately.hdl.bus.register_map import ADDRESS_BITS
from lately.hdl.interface import Operation
from lately.hdl.monitors import alarm_ports
from lately.hdl.registers import REGISTERS, WORD_BITS, Access, Block
from lately.hdl.statistics import EventCounter

pytestmark = pytest.mark.rtl

SPEC = any_preset("tiny")
GENERATION, COVERED, GUARANTEED = 5, 21, 9
WINDOW = 10
ROWS = [row for row in REGISTERS if row.address is not None and row.holder is not Block.LINE]
COUNTERS = [row.name for row in ROWS if row.event]


class AllPorts(wiring.Component):
    """Stand-in for a unit that has every port that a unit can have."""

    latency = 1

    def __init__(self):
        super().__init__(
            signature(
                key=SPEC.key_bits,
                tag=4 + MARK_BITS,
                ages=4,
                ports={"generation": In(7, init=GENERATION)}
                | dict.fromkeys(COUNTERS, Out(COUNTER_BITS))
                | {
                    "guaranteed": Out(6),
                    "covered": Out(5),
                    "period": In(24),
                    "table": In(stream.Signature(StructLayout({"place": 30, "least": 5}))),
                    "swap": In(1),
                    "secret": In(stream.Signature(128)),
                    "digest_secret": In(stream.Signature(128)),
                    "action": In(2),
                    "fields": In(5),
                    "tick": In(1),
                    "tick_lost": Out(1),
                    **alarm_ports(True),
                },
            )
        )

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.covered.eq(COVERED), self.guaranteed.eq(GUARANTEED)]
        return m


def behind(bus, unit, spec=SPEC, *, waits=False):
    bus = "wishbone" if bus == "pipelined" else bus
    return ControlledUnit(unit, spec=spec, bus=bus, version=(1, 2, 3), status_bits=4, waits=waits)


def of_spec(name, bus="axi4-lite", **options):
    spec = any_preset(name)
    unit = filter_unit(spec, tag_bits=4 + MARK_BITS, statistics_bits=COUNTER_BITS, **options)
    return behind(bus, unit, spec, waits=True)


def test_addresses_do_not_overlap():
    taken = set()
    for row in ROWS:
        width = COUNTER_BITS if row.event else row.width or WORD_BITS
        width = 2 * WORD_BITS if row.name == "table" else width
        words = {row.address + 4 * number for number in range(-(-width // WORD_BITS))}
        assert not words & taken
        assert max(words) < 1 << ADDRESS_BITS
        taken |= words
        bits = [bit for field in row.fields for bit in range(field.low, field.low + field.width)]
        assert len(set(bits)) == len(bits)
    assert set(BUSES) == {"axi4-lite", "wishbone", "avalon-mm"}


def test_all_registers_are_there():
    unit = behind("wishbone", AllPorts())
    assert set(unit.registers.registers) == {row.name for row in ROWS}
    assert {name for word in unit.registers.words for name in [f.name for f in word.fields]} == {
        "value", *(field.name for row in ROWS for field in row.fields)
    }  # fmt: skip


@pytest.mark.parametrize("bus", MASTERS)
def test_every_address(bus):
    unit = behind(bus, AllPorts())
    words = {word.address: word for word in unit.registers.words}
    digest = int(SPEC.fingerprint.hex(), 16)
    expected = {
        0x00: 0x4C41544C, 0x04: 0x00010203, 0x08: digest % 2**32, 0x0C: digest >> 32,
        0x10: 1 << 24 | 4 << 16 | SPEC.key_bits, 0x14: 1, 0x18: 0, 0x1C: 0,
        0x20: GENERATION, 0x24: 0xFFFFFF, 0x28: COVERED, 0x2C: GUARANTEED, 0x48: 0,
        0x4C: 0, 0x60: 0x102,
    } | dict.fromkeys([*range(0x68, 0x100, 4)], 0)  # fmt: skip
    written = {0x14, 0x1C, 0x20, 0x24, *range(0x30, 0x48, 4), *range(0x4C, 0x64, 4)}
    assert {*expected, *written} == set(words)

    async def bench(ctx):
        master = MASTERS[bus](ctx, unit)
        for address in range(0, 1 << ADDRESS_BITS, 4):
            failed, value = await master.access(address)
            assert failed == (address not in expected), hex(address)
            assert failed or value == expected[address], hex(address)
            failed, _ = await master.access(address, data=0, strobe=0)
            assert failed == (address not in written), hex(address)
        assert words[0x30].fields[0].access is Access.WRITE

    simulate(unit, bench)


@pytest.mark.parametrize("bus", MASTERS)
def test_settings_and_strobes(bus):
    unit = behind(bus, AllPorts())
    inner = unit.unit

    async def bench(ctx):
        master = MASTERS[bus](ctx, unit)
        assert await master.access(0x24, 0x12345678) == (False, None)
        assert await master.access(0x24) == (False, 0x345678)
        assert ctx.get(inner.period) == 0x345678
        for strobe, expected in ((1, 0x3456FF), (2, 0x34FFFF), (4, 0xFFFFFF), (8, 0xFFFFFF)):
            await master.access(0x24, 0xFFFFFFFF, strobe)
            assert await master.access(0x24) == (False, expected)
        assert await master.access(0x20, 127) == (False, None)
        assert ctx.get(inner.generation) == 127
        assert await master.access(0x28, 0) == (True, None)
        assert await master.access(0x28) == (False, COVERED)
        assert await master.access(0x14, 0xFFFFFF00, 14) == (False, None)
        assert await master.access(0x14) == (False, 1)

    simulate(unit, bench)


def test_streams():
    unit = behind("axi4-lite", AllPorts())
    inner = unit.unit

    async def bench(ctx):
        master = MASTERS["axi4-lite"](ctx, unit)
        for port, address, count, status in ((inner.secret, 0x30, 4, 2), (inner.table, 0x40, 2, 4)):
            for number in range(count):
                assert not ctx.get(port.valid)
                word = 0x11111111 * (number + 1)
                assert await master.access(address + 4 * number, word) == (False, None)
            value = sum(0x11111111 * (number + 1) << 32 * number for number in range(count))
            payload = port.payload if count == 4 else port.payload.as_value()
            assert ctx.get(port.valid)
            assert ctx.get(payload) == value % (1 << len(payload))
            assert await master.access(0x18) == (False, status)
            assert await master.access(address, 0) == (True, None)
            assert ctx.get(payload) == value % (1 << len(payload))
            ctx.set(port.ready, 1)
            await ctx.tick()
            ctx.set(port.ready, 0)
            assert not ctx.get(port.valid)
            assert await master.access(0x18) == (False, 0)
            assert await master.access(address, 0) == (False, None)

    simulate(unit, bench)


@pytest.mark.parametrize("bus", MASTERS)
def test_secrets_do_not_come_back(bus):
    unit = behind(bus, AllPorts())
    secrets = [0x13579BDF + 0x01010101 * number for number in range(8)]
    outputs = [value for _, member, value in unit.signature.flatten(unit) if member.flow is Out]
    seen = set()

    async def watch(ctx):
        async for _, _, *values in ctx.tick().sample(*outputs):
            seen.update(values)

    async def bench(ctx):
        master = MASTERS[bus](ctx, unit)
        addresses = [*range(0x30, 0x40, 4), *range(0x50, 0x60, 4)]
        for taken in (0, 1):
            ctx.set(unit.unit.secret.ready, taken)
            ctx.set(unit.unit.digest_secret.ready, taken)
            for address, word in zip(addresses, secrets, strict=True):
                assert await master.access(address, word) == (False, None)
            # Readable registers show the value.
            assert await master.access(0x24, 0x123456) == (False, None)
            for address in range(0, 1 << ADDRESS_BITS, 4):
                seen.add((await master.access(address))[1])

    simulate(unit, bench, background=[watch])
    assert 0x123456 in seen
    assert not seen & {*secrets}


ACCESSES = st.tuples(
    st.integers(0, (1 << ADDRESS_BITS) // 4 - 1),
    st.none() | st.integers(0, (1 << 32) - 1),
    st.integers(0, 15),
)


@pytest.mark.parametrize("bus", MASTERS)
@settings(max_examples=max(1, settings().max_examples // 100), deadline=None)
@given(accesses=st.lists(ACCESSES, min_size=60, max_size=80))
def test_any_accesses_are_answered(bus, accesses):
    unit = behind(bus, AllPorts())
    known = {word.address for word in unit.registers.words}

    async def bench(ctx):
        master = MASTERS[bus](ctx, unit)
        for index, data, strobe in accesses:
            failed, value = await master.access(4 * index, data, strobe)
            assert failed or 4 * index in known
            assert failed or data is not None or value is not None
        assert await master.access(0x00) == (False, 0x4C41544C)
        assert await master.access(0x04) == (False, 0x00010203)
        assert await master.access(0x28) == (False, COVERED)

    simulate(unit, bench)


def test_orders_of_a_clock():
    unit = behind("axi4-lite", AllPorts())
    counted = []

    async def count(ctx):
        async for *_, swap, valid, operation in ctx.tick().sample(
            unit.unit.swap, unit.unit.i.valid, unit.unit.i.p.operation
        ):
            counted.extend(["swap"] * swap + [operation] * valid)

    async def bench(ctx):
        master = MASTERS["axi4-lite"](ctx, unit)
        ctx.set(unit.unit.i.ready, 1)
        for data in (0x11, 0x05, 0x03, 0x1F):
            assert await master.access(0x14, data, 14) == (False, None)
            await ctx.tick().repeat(30)
            assert counted == []
            assert await master.access(0x14, data) == (False, None)
            await ctx.tick().repeat(30)
            swap = ["swap"] * (data >> 4)
            # Both together are a CLEAR.
            alone = [Operation.CLEAR] if data & 4 else [Operation.SHIFT] if data & 2 else []
            assert counted == swap + alone
            counted.clear()

    simulate(unit, bench, background=[count])


def test_faults():
    unit = behind("axi4-lite", AllPorts())
    inner = unit.unit
    positions = {"shortened": 1, "overfilled": 2, "lost": 3}

    async def bench(ctx):
        master = MASTERS["axi4-lite"](ctx, unit)
        ctx.set(unit.i.valid, 1)
        await ctx.tick()
        ctx.set(unit.i.valid, 0)
        assert await master.access(0x1C) == (False, 1)
        assert await master.access(0x1C, 0xFE) == (False, None)
        assert await master.access(0x1C) == (False, 1)
        assert await master.access(0x1C, 1) == (False, None)
        for name, position in positions.items():
            ctx.set(getattr(inner, name), 1)
            await ctx.tick()
            assert await master.access(0x1C) == (False, 1 << position)
            assert await master.access(0x1C, 1 << position) == (False, None)
            assert await master.access(0x1C) == (False, 0)
        # All counters return to 0, which is not an event.
        ctx.set(inner.fault, 1)
        await ctx.tick()
        ctx.set(inner.fault, 0)
        for name in positions:
            ctx.set(getattr(inner, name), 0)
        ctx.set(inner.alarms, 0xABCD)
        assert await master.access(0x1C) == (False, 1 << 5)
        assert await master.access(0x48) == (False, 0xABCD)
        assert await master.access(0x1C, 1 << 5) == (False, None)
        assert await master.access(0x1C) == (False, 0)

    simulate(unit, bench)


@pytest.mark.parametrize("bus", MASTERS)
def test_no_event_is_lost_as_its_bit_is_cleared(bus):
    """Send one event at each distance from the write that clears its bit."""
    unit = behind(bus, AllPorts())
    bit, distances, watched = 1 << 6, 16, 30
    passed = low = distance = 0
    lows = []

    async def drive(ctx):
        nonlocal passed, low
        while True:
            ctx.set(unit.unit.tick_lost, passed == distance)
            low += passed < watched and not ctx.get(unit.irq)
            passed += 1
            await ctx.tick()

    async def bench(ctx):
        nonlocal passed, low, distance
        assert await MASTERS[bus](ctx, unit).access(0x4C, bit) == (False, None)
        for later in range(distances):
            passed = distance = 0
            await ctx.tick().repeat(6)
            assert ctx.get(unit.irq)
            passed, low, distance = 0, 0, later
            # The new master pauses like the previous one.
            await MASTERS[bus](ctx, unit).access(0x1C, bit)
            await ctx.tick().repeat(watched)
            lows.append(low)
            left = bit if low != lows[0] else 0
            assert await MASTERS[bus](ctx, unit).access(0x1C) == (False, left)

    simulate(unit, bench, background=[drive])
    before = lows.count(lows[0])
    assert 0 < before < distances - 5
    assert lows == [lows[0]] * before + [*range(distances - before)]


def test_interrupts():
    unit = behind("wishbone", AllPorts())
    inner = unit.unit
    events = {0: unit.i.valid, 5: inner.fault, 6: inner.tick_lost}

    async def bench(ctx):
        master = MASTERS["wishbone"](ctx, unit)
        for position, event in events.items():
            ctx.set(event, 1)
            await ctx.tick()
            ctx.set(event, 0)
            assert not ctx.get(unit.irq)
            for mask in (0x7F ^ 1 << position, 0x7F, 0, 1 << position):
                assert await master.access(0x4C, mask) == (False, None)
                assert await master.access(0x4C) == (False, mask)
                assert ctx.get(unit.irq) == mask >> position & 1
            assert await master.access(0x1C, 1 << position) == (False, None)
            assert not ctx.get(unit.irq)
            assert await master.access(0x4C, 0) == (False, None)

    simulate(unit, bench)


class Counting(AllPorts):
    """Counts the requests, and the requests whose key is even."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        for name, event in (("operations", self.i.valid),
                            ("hits", self.i.valid & ~self.i.p.key[0])):  # fmt: skip
            m.submodules[name] = counter = EventCounter(width=16)
            m.d.comb += [counter.event.eq(event), getattr(self, name).eq(counter.count)]
        return m


def test_snapshot_is_of_a_single_cycle(monkeypatch):
    monkeypatch.setattr(EventCounter, "DIGIT", 4)
    monkeypatch.setattr("lately.hdl.bus.register_bank.RegisterBank.WRITE_LATENCY", 30)
    unit = behind("axi4-lite", Counting())
    seed = 5
    print("seed", seed)
    choose = random.Random(seed)
    counts = [(0, 0)]

    async def events(ctx):
        operations = hits = 0
        while True:
            valid, key = choose.random() < 0.95, choose.randrange(2)
            ctx.set(unit.i.valid, valid)
            ctx.set(unit.i.p.key, key)
            operations, hits = operations + valid, hits + (valid and not key)
            await ctx.tick()
            counts.append((operations, hits))

    async def bench(ctx):
        master = MASTERS["axi4-lite"](ctx, unit)
        for _ in range(30):
            await ctx.tick().repeat(choose.randrange(1, 20))
            before = len(counts)
            assert await master.access(0x14, 9) == (False, None)
            counters = [(await master.access(address))[1] for address in (0x80, 0x90)]
            again = [(await master.access(address))[1] for address in (0x80, 0x90)]
            assert counters == again
            # Counters are exact a few cycles after the events.
            assert tuple(counters) in counts[before - 2 :]

    simulate(unit, bench, background=[events])
    assert counts[-1][0] > 1000


# Commands between the operations of a stream


@pytest.mark.parametrize(
    "name",
    ["tiny", *(pytest.param(preset_name, marks=pytest.mark.slow) for preset_name in
               ("two-lanes-tiny", "dictionary-tiny", "timed-tiny"))],
)  # fmt: skip
def test_orders_beside_golden(name):
    unit = of_spec(name)
    inner = unit.unit
    lanes = inner.signature.lanes
    outer, request, answer = (
        unit.signature.of_lane(unit.i.p, 0),
        inner.signature.of_lane(inner.i.p, 0),
        unit.signature.of_lane(unit.o.p, 0),
    )
    seed = 3
    print("seed", seed)
    choose = random.Random(seed)
    performed, results = [], []
    (control,) = unit.registers.find("control")
    asked = [2, 4, 6, 2, 2] if "shift" in [field.name for field in control.fields] else [4, 4]

    async def watch(ctx):
        operation = inner.i.p.alone if lanes > 1 else request.operation
        taken = inner.i.valid & inner.i.ready, unit.o.valid & unit.o.ready
        async for *_, came, went, code, key, seen in ctx.tick().sample(
            *taken, operation, request.key, answer.seen
        ):
            if came:
                # Without an operation in `alone`, the operation is in the lane.
                performed.append((int(getattr(code, "value", code)) or 3, key))
            if went:
                results.append(seen)

    async def drive(ctx):
        ctx.set(outer.operation, Operation.CHECK_AND_INSERT.value)
        if lanes > 1:
            ctx.set(outer.valid, 1)
        if name == "dictionary-tiny":
            ctx.set(outer.window, WINDOW)
        while True:
            ctx.set(unit.i.valid, choose.random() < 0.8)
            ctx.set(outer.key, choose.randrange(12))
            ctx.set(unit.o.ready, choose.random() < 0.7)
            await ctx.tick()

    async def bench(ctx):
        master = MASTERS["axi4-lite"](ctx, unit)
        for bits in asked:
            await ctx.tick().repeat(60)
            assert await master.access(0x14, 1 | bits) == (False, None)
            # Another command has to wait.
            assert await master.access(0x14, 1 | bits) == (True, None)
            while (await master.access(0x18))[1] & 1:
                pass
        await master.access(0x14, 0)
        await ctx.tick().repeat(120)
        assert not ctx.get(unit.i.ready)
        assert await master.access(0x14, 8) == (False, None)
        counted = await master.access(0x80)
        model.append(counted[1])

    model = []
    simulate(unit, bench, background=[watch, drive])
    alone = (Operation.SHIFT.value, Operation.CLEAR.value)
    orders = [code for code, _ in performed if code in alone]
    assert orders == [5 if bits & 4 else 4 for bits in asked]
    assert model == [len(performed)]
    assert results == expected_of(name, performed)
    assert len(results) > 50


def expected_of(name, performed):
    """Return the golden model's results of the operations that have results."""
    spec = any_preset(name)
    codes, keys = (np.array(column) for column in zip(*performed, strict=True))
    times = np.zeros(len(codes), np.int64) if spec.timed else None
    windows = WINDOW if spec.query_field else None
    seen = from_spec(spec).perform(codes.astype(np.uint8), keys, times, windows).seen
    return [int(verdict) for verdict, code in zip(seen, codes, strict=True) if code < 4]


class TimedOrders:
    """SHIFT and CLEAR from registers in a unit whose requests carry times."""

    def __init__(self, seed):
        self.unit = of_spec("timed-tiny", "wishbone", ticks="time", time_bits=16)
        self.choose = random.Random(seed)
        # Requests that are offered: "steady", "late" or "none".
        self.mode = "steady"
        self.performed, self.results = [], []

    async def watch(self, ctx):
        """Note what is performed, at the latest time of a request so far, and the results."""
        unit, inner, reached = self.unit, self.unit.unit, 0
        taken = inner.i.valid & inner.i.ready, unit.o.valid & unit.o.ready
        async for *_, came, went, code, request, result in ctx.tick().sample(
            *taken, inner.i.p.operation.as_value(), unit.i.p, unit.o.p
        ):
            if came:
                reached = reached if code & 4 else max(reached, request.time)
                self.performed.append((code, request.key, reached))
            if went:
                self.results.append((result.seen, result.status, result.time))

    async def drive(self, ctx):
        """Offer one request after another; late ones come after all before them have expired."""
        i, choose, time = self.unit.i, self.choose, 0
        ctx.set(i.p.operation, Operation.CHECK_AND_INSERT)
        ctx.set(self.unit.o.ready, 1)
        while True:
            time += 13 if self.mode == "late" else choose.random() < 1 / 60
            ctx.set(i.p.key, choose.randrange(12))
            ctx.set(i.p.time, max(time - choose.choice([0, 0, 0, 1, 5]), 0))
            ctx.set(i.valid, 1)
            while not (await ctx.tick().sample(i.ready))[-1]:
                pass
            ctx.set(i.valid, 0)
            # Payloads without `valid` have no meaning.
            ctx.set(i.p.time, choose.randrange(1 << 14))
            while self.mode == "none":
                await ctx.tick()

    async def order(self, ctx):
        """Give orders, behind which no request waits, or a steady one, or a late one."""
        choose, access = self.choose, MASTERS["wishbone"](ctx, self.unit).access
        for later in 5 * ("steady", "none", "late"):
            await ctx.tick().repeat(choose.randrange(80, 120))
            self.mode = "steady" if later == "steady" else "none"
            await ctx.tick().repeat(4)
            assert await access(0x14, choose.choice([3, 3, 3, 5])) == (False, None)
            # The command still waits.
            self.mode = later
            while (await access(0x18))[1] & 1:
                pass
            self.mode = "steady"
        await access(0x14, 0)
        await ctx.tick().repeat(200)
        await access(0x14, 8)
        self.shortened = (await access(0xA0))[1]


def test_orders_take_effect_at_the_time_that_was_reached():
    seed = 6
    print("seed", seed)
    run = TimedOrders(seed)
    simulate(run.unit, run.order, background=[run.watch, run.drive])
    codes, keys, times = (np.array(column) for column in zip(*run.performed, strict=True))
    model = from_spec(any_preset("timed-tiny"))
    expected = model.perform(codes.astype(np.uint8), keys, times)
    answers = zip(codes, expected.seen, expected.status, times, strict=True)
    assert run.results == [tuple(answer) for code, *answer in answers if code < 4]
    assert run.shortened == model.shortened > 0


# Errors


def test_bus_wrong():
    with pytest.raises(KeyError, match="avalon"):
        behind("avalon", AllPorts())
