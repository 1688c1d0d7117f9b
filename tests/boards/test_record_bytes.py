# amaranth: UnusedElaboratable=no
"""Bytes of operations and results, as a board reads and writes them."""

import dataclasses

import pytest
from amaranth.hdl import Const, Module, Signal
from amaranth.sim import Simulator

from lately.boards.link.link import Link
from lately.boards.link.record_bytes import answer_bytes, is_above, is_bounded, is_unknown
from lately.golden import FilterSpec, any_preset, preset

RATES = {"clock_hz": 24_000_000, "baud": 3_000_000}


def board(name):
    """Unit and description of a board with a preset."""
    link = Link(any_preset(name), **RATES)
    return link.unit, link.information


def values(*signals):
    """Values of what depends on nothing."""
    found = []
    m = Module()
    named = [Signal.like(signal, name=f"s{at}") for at, signal in enumerate(signals)]
    m.d.comb += [to.eq(signal) for to, signal in zip(named, signals, strict=True)]

    async def bench(ctx):
        found.extend(ctx.get(signal) for signal in named)

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    return found


@pytest.mark.parametrize("longest", [1, 255, 256, 300, 70_000])
def test_window_is_compared_byte_by_byte(longest):
    information = dataclasses.replace(board("dictionary-1000")[1], window=longest)
    size, key = information.asked_bytes, 8
    tried = [0, 1, longest - 1, longest, longest + 1, longest ^ 1 << 8 * size - 1]
    tried += [longest + (1 << 8 * at) for at in range(size)] + [(1 << 8 * size) - 1]
    tried = [window for window in tried if window < 1 << 8 * size]
    above = []
    for window in tried:
        flag = Const(0)
        for at, byte in enumerate(window.to_bytes(size, "little")):
            flag = is_above(Const(byte, 8), flag, Const(1 + key + at, 8), information)
        above.append(flag)
    assert values(*above) == [window > longest for window in tried]


@pytest.mark.parametrize("removes", [False, True])
def test_codes_of_operations(removes):
    information = dataclasses.replace(board("dictionary-tiny")[1], removes=removes)
    known = [*range(6), *([8] * removes)]
    unknown = values(*(is_unknown(Const(code, 8), information) for code in range(256)))
    assert [code for code in range(256) if not unknown[code]] == known


@pytest.mark.parametrize(
    ("name", "result", "octets"),
    [
        ("tiny", {"seen": 1, "age": 1}, "81"),
        ("dictionary-1000", {"seen": 1, "age": 999, "status": 1}, "e78301"),
        ("timing-default", {"seen": 0, "age": 32769, "oldest": 3, "time": 0x2ABCDEF1},
         "018000" "03" "f1debc2a"),
        ("timing-counted-tiny", {"seen": 1, "age": 20, "oldest": 2}, "9402"),
    ],
)  # fmt: skip
def test_answer(name, result, octets):
    unit, information = board(name)
    packed = Signal(unit.signature.result, init=result)
    (found,) = values(answer_bytes(packed, information))
    assert found.to_bytes(information.verdict_bytes, "little").hex() == octets


def test_answers_that_have_room_for_all_operations():
    timed = FilterSpec(
        family="apbbf", k=2, l=2, block_bits=16, hashes_per_block=2, blocks=16, clear=8, span=6
    )  # fmt: skip
    assert not is_bounded(Link(preset("tiny"), **RATES).information)
    assert is_bounded(Link(timed, **RATES).information)
    assert not is_bounded(board("dictionary-1000")[1])
    assert is_bounded(board("timing-default")[1])
