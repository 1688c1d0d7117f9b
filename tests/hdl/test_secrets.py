"""Secrets of a keyed hash: when a new secret is activated, and when the next may be loaded."""

from dataclasses import replace

import pytest
from cases import daily
from simulation import simulate
from unit_streams import UnitStreams

from lately.golden import Operation, dictionary_preset, from_spec, preset
from lately.hdl.build import filter_unit
from lately.hdl.hash.siphash import Secrets, SipHash
from lately.hdl.interface import is_clear

KNOWN = Secrets.LEAD + 2
"""Clocks from a secret's acceptance until an operation may look at `adopt`."""

SETTLED = SipHash.HOLD + 2
"""Clocks from when nothing needs a pipeline any more until it takes a secret."""

SEGMENTS = 4
FIRST, SECOND = 0x11 << 100, 0x22 << 122


def course(pipelines, offered, *, turned=(), clears=(), cleared=(), clocks=70):
    """Return the outputs in each cycle for given cycles of secrets, shifts and clears."""
    secrets, outputs = Secrets(pipelines=pipelines, ring_segments=SEGMENTS), []
    ports = {name: getattr(secrets, name) for name in secrets.signature.members if name != "i"}
    ports["ready"] = secrets.i.ready

    async def bench(ctx):
        for clock in range(clocks):
            ctx.set(secrets.i.payload, offered.get(clock, 0))
            ctx.set(secrets.i.valid, clock in offered)
            ctx.set(secrets.turned, clock in turned)
            ctx.set(secrets.cleared, clock in cleared)
            if pipelines == 1:
                ctx.set(secrets.clears, clock in clears)
            outputs.append({name: ctx.get(port) for name, port in ports.items()})
            await ctx.tick()

    simulate(secrets, bench)
    return outputs


def high(outputs, name):
    return [clock for clock, values in enumerate(outputs) if values[name]]


def test_secret_waits_for_a_clear():
    cleared = [3 + KNOWN, 30]
    outputs = course(1, {3: FIRST}, turned=range(70), clears=cleared, cleared=cleared)
    assert high(outputs, "waits") == [*range(4, 31)]
    assert high(outputs, "adopt") == [*range(3 + KNOWN, 31)]
    assert high(outputs, "ready") == [*range(70)]
    assert [values["secret0"] for values in outputs] == [0] * 31 + [FIRST] * 39


def test_first_clear_that_brings_a_secret_in():
    clears, cleared = [3, 40], [3 + KNOWN + 1, 60]
    outputs = course(1, {3: FIRST, 4: SECOND, 40: SECOND}, clears=clears, cleared=cleared)
    assert high(outputs, "ready") == [*range(4), *range(3 + KNOWN + 2, 41), *range(61, 70)]
    begins = 3 + KNOWN + 2
    expected = [0] * begins + [FIRST] * (61 - begins) + [SECOND] * 9
    assert [values["secret0"] for values in outputs] == expected


def test_secret_that_replaces_another_is_known_at_once():
    outputs = course(1, {3: FIRST, 20: SECOND}, clears=[20], cleared=[21])
    assert high(outputs, "adopt") == [*range(3 + KNOWN, 22)]
    assert {values["secret0"] for values in outputs} == {0, SECOND}


def test_no_secret_is_taken_until_all_clears_have_taken_effect():
    outputs = course(1, {}, clears=[10, 11, 12, 13], cleared=[20, 30, 40, 50])
    assert high(outputs, "ready") == [*range(11), *range(51, 70)]


@pytest.mark.parametrize("clears", [False, True])
def test_pipelines_take_turns(clears):
    turns = [40, 45, 50] if clears else [40, 45, 50, 51]
    free = 48 if clears else 52
    outputs = course(2, {20: FIRST}, turned=turns, cleared=[47] if clears else [])
    assert high(outputs, "adopt") == [*range(20 + KNOWN, 41)]
    assert high(outputs, "ready") == [*range(SETTLED, 21), *range(free + SETTLED, 70)]
    assert (high(outputs, "secret0"), high(outputs, "secret1")) == ([], [*range(21, 70)])


def test_second_secret_goes_to_the_first_pipeline():
    turns = [40, 42, 44, 46]
    outputs = course(2, {20: FIRST, 60: SECOND}, turned=turns)
    assert (outputs[-1]["secret0"], outputs[-1]["secret1"]) == (SECOND, FIRST)
    assert high(outputs, "waits") == [*range(21, 41), *range(61, 70)]


def test_turn_before_the_secret_is_known_does_not_bring_it_in():
    outputs = course(2, {20: FIRST}, turned=[20 + KNOWN])
    assert high(outputs, "waits") == [*range(21, 70)]
    assert high(outputs, "ready") == [*range(SETTLED, 21)]


# Units: secrets activated by a CLEAR


GEBF = replace(preset("gebf-tiny"), hash="siphash")
TIMED = replace(GEBF, window=32, generation=16, span=64, when_full="shorten")
UNITS = {
    "ring": (GEBF, {}),
    "ring in time": (TIMED, {"ticks": "time", "time_bits": 16}),
    "dictionary": (replace(dictionary_preset("tiny"), hash="siphash"), {}),
}
CLEAR = {"operation": int(Operation.CLEAR)}
HELD = range(14)
ASKED = range(80)
AFTER = [*[(Operation.INSERT, key) for key in HELD], *[(Operation.QUERY, key) for key in ASKED]]


class Loaded:
    """A unit and its operations; secrets are loaded between CLEARs."""

    def __init__(self, kind):
        self.kind = kind
        self.spec, options = UNITS[kind]
        self.unit = filter_unit(self.spec, **options)
        i = self.unit.i
        self.cleared = i.valid & i.ready & is_clear(i.p.operation)

    async def load(self, ctx, secret):
        """Offer a secret until it is taken."""
        ctx.set(self.unit.secret.payload, secret)
        ctx.set(self.unit.secret.valid, 1)
        await ctx.tick().until(self.unit.secret.ready)
        ctx.set(self.unit.secret.valid, 0)

    async def until_clear(self, ctx, *, clocks=0):
        """Wait until so many clocks after the one in which a CLEAR is accepted."""
        while not ctx.get(self.cleared):
            await ctx.tick()
        if clocks:
            await ctx.tick().repeat(clocks)

    def requests(self, time=0):
        return [self.request({"operation": int(code), "key": key}, time) for code, key in AFTER]

    def request(self, fields, time=0):
        """Return a request with the longest window, and a time where the unit needs one."""
        others = {"ring": {}, "ring in time": {"time": time}, "dictionary": {"window": 40}}
        return fields | others[self.kind]

    def answers(self, secret):
        """Return the golden model's results after a CLEAR that activates a secret."""
        model = from_spec(self.spec)
        model.rekey(secret)
        codes, keys = map(list, zip((Operation.CLEAR, 0), *AFTER, strict=True))
        times = {"times": [0] * len(codes)} if self.kind == "ring in time" else {}
        return model.perform(codes, keys, **times).seen[1:].tolist()

    def run(self, requests, load):
        return [seen for (seen,) in UnitStreams(self.unit, ("seen",)).run(requests, load)]


@pytest.mark.parametrize("kind", daily(1, UNITS))
def test_clear_of_the_reset_brings_in_no_secret(kind):
    loaded = Loaded(kind)
    clear = loaded.request(CLEAR)

    async def load(ctx):
        await loaded.load(ctx, 0x5678)

    results = loaded.run([*loaded.requests(), 50, clear, *loaded.requests()], load)
    assert results[: len(AFTER)] == loaded.answers(0)
    assert results[1 + len(AFTER) :] == loaded.answers(0x5678)


@pytest.mark.slow
@pytest.mark.parametrize("kind", daily(1, UNITS))
def test_only_a_clear_keeps_secrets_out(kind):
    loaded, secret = Loaded(kind), 0x1234 << 64
    every = range(16) if kind == "dictionary" else range(Operation.SHIFT + 1)
    codes = [code for code in every if code != Operation.CLEAR]
    requests = [loaded.request({"operation": code, "key": 9}) for code in codes]

    async def load(ctx):
        await ctx.tick().repeat(500)
        await loaded.load(ctx, secret)

    results = loaded.run([*requests, 600, loaded.request(CLEAR), *loaded.requests()], load)
    assert results[len(codes) + 1 :] == loaded.answers(secret)


@pytest.mark.parametrize("kind", daily(1, UNITS))
def test_clears_in_a_row_let_secrets_in_again(kind):
    loaded, secret, ready = Loaded(kind), 0x5678, []
    clear, shift = loaded.request(CLEAR), loaded.request({"operation": int(Operation.SHIFT)})

    async def load(ctx):
        await ctx.tick().repeat(600)
        for _ in range(40):
            ready.append(ctx.get(loaded.unit.secret.ready))
            await ctx.tick()
        await loaded.load(ctx, secret)

    requests = [200, clear, clear, shift, clear, 500, clear, *loaded.requests()]
    results = loaded.run(requests, load)
    assert ready == [1] * 40
    assert results[5:] == loaded.answers(secret)


def test_clears_that_wait_for_their_time_keep_secrets_out():
    loaded, secret, taken = Loaded("ring in time"), 0x5678, []
    requests = [loaded.request(CLEAR, time) for time in range(3)] + loaded.requests(3)

    async def load(ctx):
        await ctx.tick().repeat(100)
        for _ in range(3):
            await loaded.until_clear(ctx, clocks=1)
        await loaded.load(ctx, secret)
        taken.append(secret)

    results = loaded.run([200, *requests], load)
    assert taken == [secret]
    assert results[3:] == loaded.answers(0)
