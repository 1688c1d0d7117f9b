"""Flat ports of units: every bit of every stream is connected to its position."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from frame_streams import seeded
from signatures import signature
from simulation import simulate

from lately.golden import preset
from lately.hdl import filter_unit
from lately.hdl.bus.flat import AxisUnit, ExternUnit, RawUnit
from lately.hdl.interface import Operation
from lately.hdl.packets.deduplicator import AxisFrames
from lately.hdl.packets.frames import AxisBeat

pytestmark = pytest.mark.rtl


class Unit(wiring.Component):
    """Stand-in for a unit; a test drives its ports."""

    def elaborate(self, platform):
        return Module()


def unit(**options):
    ports = {"generation": In(5), "hits": Out(9), "secret": In(stream.Signature(128))}
    return Unit(signature(key=12, tag=7, ages=4, ports=ports, **options))


def check_straight(component, pairs, seed=1):
    """Check that the second signal of each pair follows the first without a register."""
    choose = seeded(seed)

    async def bench(ctx):
        for _ in range(20):
            expected = []
            for driven, seen in pairs:
                value = choose.getrandbits(len(driven))
                ctx.set(driven, value)
                expected.append((seen, value))
            for number, (seen, value) in enumerate(expected):
                assert (number, ctx.get(seen)) == (number, value)

    simulate(component, bench, period=None)


def handshakes(outer, inner, taken, given):
    """Return the pairs of valid and ready of two streams."""
    return [
        (getattr(outer, f"{taken}valid"), inner.i.valid),
        (inner.i.ready, getattr(outer, f"{taken}ready")),
        (inner.o.valid, getattr(outer, f"{given}valid")),
        (getattr(outer, f"{given}ready"), inner.o.ready),
    ]


def others(outer, inner, secret):
    """Return the pairs of ports outside the request and result streams."""
    return [
        (outer.generation, inner.generation),
        (inner.hits, outer.hits),
        (getattr(outer, f"{secret}data"), inner.secret.payload),
        (getattr(outer, f"{secret}valid"), inner.secret.valid),
        (inner.secret.ready, getattr(outer, f"{secret}ready")),
    ]


def test_stream_of_a_unit():
    inner = unit(request={"time": 9})
    outer = AxisUnit(inner, last=True)
    asked, result = inner.i.p, inner.o.p
    assert len(outer.s_axis_tdata) == 16
    assert (len(outer.s_axis_tuser), len(outer.m_axis_tdata), len(outer.m_axis_tuser)) == (18, 8, 6)
    check_straight(
        outer,
        [
            (outer.s_axis_tdata[:12], asked.key),
            (outer.s_axis_tuser[:3], asked.operation.as_value()),
            (outer.s_axis_tuser[3:9], asked.tag[:6]),
            (outer.s_axis_tlast, asked.tag[6]),
            (outer.s_axis_tuser[9:], asked.time),
            (result.seen, outer.m_axis_tdata[0]),
            (result.age, outer.m_axis_tdata[1:3]),
            (result.tag[:6], outer.m_axis_tuser),
            (result.tag[6], outer.m_axis_tlast),
            *handshakes(outer, inner, "s_axis_t", "m_axis_t"),
            *others(outer, inner, "s_axis_secret_t"),
        ],
    )


def test_stream_of_lanes_has_whole_bytes():
    inner = unit(lanes=2)
    outer = AxisUnit(inner)
    asked, result = inner.i.p.lanes, inner.o.p.lanes
    assert (len(outer.s_axis_tdata), len(outer.m_axis_tdata)) == (32, 16)
    check_straight(
        outer,
        [
            *((outer.s_axis_tdata[16 * lane :][:12], asked[lane].key) for lane in range(2)),
            *((result[lane].age, outer.m_axis_tdata[8 * lane :][2:4]) for lane in range(2)),
            *((result[lane].tag, outer.m_axis_tuser[7 * lane :][:7]) for lane in range(2)),
        ],
    )


@pytest.mark.parametrize("lanes", [1, 2])
def test_raw_ports(lanes):
    inner = unit(lanes=lanes)
    outer = RawUnit(inner)
    pairs = handshakes(outer, inner, "in_", "out_") + others(outer, inner, "secret_")
    for lane in range(lanes):
        asked = inner.i.p if lanes == 1 else inner.i.p.lanes[lane]
        result = inner.o.p if lanes == 1 else inner.o.p.lanes[lane]
        number = "" if lanes == 1 else lane
        for name in ("key", "tag"):
            pairs.append((getattr(outer, f"in{number}_{name}"), getattr(asked, name)))
        for name in ("seen", "age", "tag"):
            pairs.append((getattr(result, name), getattr(outer, f"out{number}_{name}")))
    if lanes > 1:
        pairs.append((outer.in_alone, inner.i.p.alone.as_value()))
    check_straight(outer, pairs)


@pytest.mark.parametrize("width", [8, 64])
def test_streams_of_frames(width):
    beats = stream.Signature(AxisBeat(width))
    inner = Unit(wiring.Signature({"i": In(beats), "o": Out(beats)}))
    outer = AxisFrames(inner)
    parts = ["data", "last", "user", *(["keep"] if width > 8 else [])]
    assert set(outer.signature.members) == {
        "aclk", "aresetn", *(f"{side}_axis_t{part}" for side in "sm"
                             for part in [*parts, "valid", "ready"]),
    }  # fmt: skip
    pairs = [(getattr(outer, f"s_axis_t{part}"), getattr(inner.i.p, part)) for part in parts]
    pairs += [(getattr(inner.o.p, part), getattr(outer, f"m_axis_t{part}")) for part in parts]
    check_straight(outer, pairs + handshakes(outer, inner, "s_axis_t", "m_axis_t"))


FAULT = 60
"""Clock of the reset."""


def test_requests_that_a_reset_loses_are_refused():
    inner = filter_unit(preset("tiny"), self_check=True, tag_bits=5)
    outer, outputs = ExternUnit(inner), []

    async def bench(ctx):
        async def edge():
            ctx.set(outer.clk, 1)
            await ctx.delay(1e-6)
            ctx.set(outer.clk, 0)
            await ctx.delay(1e-6)

        while not ctx.get(inner.i.ready):
            await edge()
        ctx.set(outer.in_valid, 1)
        ctx.set(outer.in_operation, Operation.CHECK_AND_INSERT)
        for clock in range(200):
            ctx.set(outer.in_key, clock % 4)
            ctx.set(outer.in_tag, clock % 32)
            ctx.set(inner.fault, clock == FAULT)
            names = ("out_valid", "out_refused", "out_seen", "out_tag", "overrun")
            outputs.append([ctx.get(getattr(outer, name)) for name in names])
            await edge()

    simulate(outer, bench, period=None)
    results = outputs[outer.latency :]
    assert all(valid for valid, *_ in results)
    refused = [clock for clock, (_, refused, *_) in enumerate(results) if refused]
    # Requests in flight, and all requests until the memory is clear.
    assert refused == [*range(FAULT - outer.latency + 1, refused[-1] + 1)]
    assert FAULT + 10 < refused[-1] < 150
    for clock, (_, lost, seen, tag, _) in enumerate(results):
        assert (seen, tag) == ((0, 0) if lost else (seen, clock % 32))
    assert [overrun for *_, overrun in outputs] == [clock > FAULT + 1 for clock in range(200)]
