"""Interface of units: fields of requests and results, and their positions."""

import pytest
from amaranth.hdl import Const, unsigned
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from signatures import signature

from lately.golden import Operation, any_preset
from lately.golden.operations import OperationBit
from lately.hdl import Operation as HardwareOperation
from lately.hdl.build import filter_unit
from lately.hdl.interface import fields, operation_bits, pack, unpack
from lately.hdl.registers import REGISTERS


def test_codes_are_those_of_the_serial_protocol():
    assert [int(code) for code in Operation] == [0, 1, 2, 3, 4, 5, 8]
    assert [code.value for code in HardwareOperation] == [int(code) for code in Operation][:6]


@pytest.mark.parametrize("code", Operation)
def test_bits_of_an_operation(code):
    alone = code in (Operation.SHIFT, Operation.CLEAR)
    assert bool(code & OperationBit.ALONE) == alone
    assert bool(code & OperationBit.REMOVE) == (code == Operation.REMOVE)
    if not alone:
        assert bool(code & OperationBit.QUERY) == ("QUERY" in code.name or "CHECK" in code.name)
        assert bool(code & OperationBit.INSERT) == ("INSERT" in code.name)


def test_operation_bits_by_name():
    view = operation_bits(Const(HardwareOperation.CLEAR))
    assert list(dict(view.shape())) == ["query", "insert", "alone"]
    assert operation_bits(Const(0, 4)).shape()["remove"].offset == 3


def test_single_lane_is_plain():
    plain = signature()
    assert list(fields(plain.request)) == [("key", 0, 20), ("operation", 20, 3), ("tag", 23, 8)]
    assert list(fields(plain.result)) == [("seen", 0, 1), ("age", 1, 3), ("tag", 4, 8)]
    assert set(plain.members) == {"i", "o"}
    assert plain.lanes == 1
    assert plain.of_lane(plain.request, 0) is plain.request


def test_fields_of_further_families():
    wide = signature(
        request={"operation": unsigned(4), "time": 40, "window": 16, "query_class": 0},
        result={"status": 2, "covered": 0},
    )
    assert list(dict(wide.request)) == ["key", "operation", "tag", "time", "window"]
    assert wide.request["operation"].shape == unsigned(4)
    assert list(fields(wide.result))[2:] == [("status", 4, 2), ("tag", 6, 8)]


def test_several_lanes_have_the_fields_of_a_single_lane():
    four, single = signature(lanes=4, request={"time": 9}), signature(request={"time": 9})
    for payload, plain in ((four.request, single.request), (four.result, single.result)):
        lane = dict(four.of_lane(payload, 3))
        assert lane.pop("valid").width == 1
        assert {name: field.shape for name, field in lane.items()} == {
            name: field.shape for name, field in plain
        }
    paths = [path for path, _, _ in fields(four.request)]
    assert paths[0] == "alone"
    assert "lanes.3.time" in paths


def test_further_ports_come_last():
    members = signature(ports={"generation": In(6, init=40), "hits": Out(32)}).members
    assert list(members) == ["i", "o", "generation", "hits"]


@pytest.mark.parametrize(
    ("name", "options", "ports"),
    [
        ("siphash-tiny", {},
         ["generation", "operations", "insertions", "hits", "shifts", "secret"]),
        ("timed-tiny", {"ticks": "period", "protect": "tmr"},
         ["generation", "operations", "insertions", "hits", "shifts", "shortened", "overfilled",
          "upsets", "covered", "period"]),
        ("two-lanes-tiny", {"self_check": True},
         ["generation", "operations", "insertions", "hits", "shifts", "fault", "alarms"]),
        ("dictionary-tiny", {"protect": "parity"},
         ["operations", "insertions", "hits", "lost", "upsets", "guaranteed"]),
        ("timing-tiny", {}, ["operations", "insertions", "hits", "tick", "tick_lost"]),
        ("timing-counted-tiny", {}, ["operations", "insertions", "hits"]),
    ],
)  # fmt: skip
def test_ports_of_units(name, options, ports):
    unit = filter_unit(any_preset(name), tag_bits=3, **options)
    assert list(unit.signature.members) == ["i", "o", *ports]
    assert unit.i.p.shape() == unit.signature.request
    assert unit.o.p.shape() == unit.signature.result
    assert unit.counters == [port for port in ports if port in {row.name for row in REGISTERS
                                                               if row.event}]  # fmt: skip


def test_requests_and_results_of_a_single_lane():
    plain = signature()
    bits = plain.pack_request([{"key": 0xABCDE, "operation": 7, "tag": 0x91}])
    assert bits == 0xABCDE | 7 << 20 | 0x91 << 23
    assert plain.unpack_result(1 | 4 << 1 | 0x91 << 4) == [{"seen": 1, "age": 4, "tag": 0x91}]


def test_requests_and_results_of_several_lanes():
    two = signature(lanes=2)
    request = {"key": 3, "operation": 3, "tag": 9}
    bits = two.pack_request([None, request], alone=Operation.SHIFT)
    assert unpack(two.request, bits) == {
        "alone": 4,
        "lanes": [
            {"valid": 0, "key": 0, "operation": 0, "tag": 0},
            {"valid": 1} | request,
        ],
    }
    result = {"seen": 1, "age": 2, "tag": 200}
    bits = pack(two.result, {"lanes": [{"valid": 1} | result, {"seen": 1}]})
    assert two.unpack_result(bits) == [result, None]


def test_packed_bits_are_those_of_the_layout():
    layout = signature(lanes=2, result={"status": 1}).result
    value = {"lanes": [{"valid": 1, "seen": 0, "age": 3, "status": 1, "tag": 7}] * 2}
    assert pack(layout, value) == layout.const(value).as_bits()
    assert unpack(layout, pack(layout, value)) == value


def test_macros_have_the_positions_of_fields():
    for lanes in (1, 4):
        unit = signature(lanes=lanes, request={"time": 5})
        lines = [line.split() for line in unit.macros()]
        macros = dict(lines)
        assert len(macros) == len(lines)
        assert all(name.isidentifier() for name in macros)
        assert macros["LANES"] == str(lanes)
        assert ("I_ALONE_AT" in macros) == (lanes > 1)
        for prefix, payload in (("I", unit.request), ("O", unit.result)):
            at, step = int(macros[f"{prefix}_LANE_AT"]), int(macros[f"{prefix}_LANE_BITS"])
            last = {
                name.removeprefix(f"lanes.{lanes - 1}."): (offset, bits)
                for name, offset, bits in fields(payload)
            }
            for name in ("key", "operation", "time") if prefix == "I" else ("seen", "age", "tag"):
                low = at + (lanes - 1) * step + int(macros[f"{prefix}_{name.upper()}_AT"])
                assert last[name] == (low, int(macros[f"{prefix}_{name.upper()}_BITS"]))


def test_requests_wrong():
    with pytest.raises(ValueError, match=r"^requests: must be 2, one for each lane, not 1$"):
        signature(lanes=2).pack_request([None])
    with pytest.raises(ValueError, match=r"^Value does not fit in 20 bits: 1048576$"):
        signature().pack_request([{"key": 1 << 20}])
    with pytest.raises(ValueError, match=r"^Value does not fit in 8 bits: -1$"):
        signature().pack_request([{"tag": -1}])
    with pytest.raises(ValueError, match=r"^time: not a field of "):
        pack(data.StructLayout({"key": 3}), {"time": 1})
