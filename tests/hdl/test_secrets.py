"""Secrets of a keyed hash: with which turn a new one comes in, and when the next may be loaded."""

import pytest
from amaranth.sim import Simulator

from lately.hdl.hash.secrets import Secrets
from lately.hdl.hash.siphash import SipHash

KNOWN = Secrets.LEAD + 2
"""Clocks from a secret's acceptance until an operation may look at `adopt`."""

SETTLED = SipHash.HOLD + 2
"""Clocks from when nothing needs a pipeline any more until it takes a secret."""

SEGMENTS = 4
FIRST, SECOND = 0x11 << 100, 0x22 << 100


def course(pipelines, offered, *, turned=(), cleared=(), clocks=70):
    """Return what is told in each clock; secrets, turns and clears come in some of them."""
    secrets, told = Secrets(pipelines=pipelines, ring_segments=SEGMENTS), []
    ports = {name: getattr(secrets, name) for name in secrets.signature.members if name != "i"}
    ports["ready"] = secrets.i.ready

    async def bench(ctx):
        for clock in range(clocks):
            ctx.set(secrets.i.payload, offered.get(clock, 0))
            ctx.set(secrets.i.valid, clock in offered)
            ctx.set(secrets.turned, clock in turned)
            ctx.set(secrets.cleared, clock in cleared)
            told.append({name: ctx.get(port) for name, port in ports.items()})
            await ctx.tick()

    simulator = Simulator(secrets)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return told


def high(told, name):
    return [clock for clock, one in enumerate(told) if one[name]]


def test_secret_waits_for_a_clear():
    """For one by an operation that looked at `adopt` when the hash knew it already."""
    told = course(1, {3: FIRST}, turned=range(70), cleared=[3 + KNOWN, 30])
    assert high(told, "waits") == [*range(4, 31)]
    assert high(told, "adopt") == [*range(3 + KNOWN, 31)]
    assert high(told, "ready") == [*range(70)]
    assert [one["secret0"] for one in told] == [0] * 31 + [FIRST] * 39


def test_first_clear_that_brings_a_secret_in():
    told = course(1, {3: FIRST}, cleared=[3 + KNOWN + 1])
    assert high(told, "secret0") == [*range(3 + KNOWN + 2, 70)]


def test_secret_that_replaces_another_is_known_anew():
    told = course(1, {3: FIRST, 20: SECOND}, cleared=[20 + KNOWN, 40])
    assert high(told, "adopt") == [*range(3 + KNOWN, 21), *range(20 + KNOWN, 41)]
    assert {one["secret0"] for one in told} == {0, SECOND}


@pytest.mark.parametrize("clears", [False, True])
def test_pipelines_take_turns(clears):
    """One is loaded when nothing is in the ring that the other was not used for."""
    turns = [40, 45, 50] if clears else [40, 45, 50, 51]
    free = 48 if clears else 52
    told = course(2, {20: FIRST}, turned=turns, cleared=[47] if clears else [])
    assert high(told, "adopt") == [*range(20 + KNOWN, 41)]
    assert high(told, "ready") == [*range(SETTLED, 21), *range(free + SETTLED, 70)]
    assert (high(told, "secret0"), high(told, "secret1")) == ([], [*range(21, 70)])


def test_second_secret_goes_to_the_first_pipeline():
    turns = [40, 42, 44, 46]
    told = course(2, {20: FIRST, 60: SECOND}, turned=turns)
    assert (told[-1]["secret0"], told[-1]["secret1"]) == (SECOND, FIRST)
    assert high(told, "waits") == [*range(21, 41), *range(61, 70)]


def test_turn_before_the_secret_is_known_does_not_bring_it_in():
    told = course(2, {20: FIRST}, turned=[20 + KNOWN])
    assert high(told, "waits") == [*range(21, 70)]
    assert high(told, "ready") == [*range(SETTLED, 21)]
