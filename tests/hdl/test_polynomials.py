"""Polynomials over GF(2^64) in hardware against golden: values, keys and changes of the secret."""

import random

import pytest
from amaranth.hdl import Module, Signal
from simulation import simulate

from lately.golden.packets.polynomial_digest import finish, keys, multiply, polynomial_digest
from lately.hdl.packets.polynomial_key import PolynomialKey, table_places
from lately.hdl.packets.polynomials import PolynomialDigest, PolynomialFinish

SEED = 15
SECRETS = (0x0F0E0D0C0B0A09080706050403020100, 1)


def random_messages(choose, count, most):
    return [
        (choose.randbytes(choose.randrange(1, most)), choose.getrandbits(56)) for _ in range(count)
    ]


def digests(width, table_bits, messages, *, gaps=0.0, component=PolynomialDigest):
    """Return the digests of some messages under each of `SECRETS`."""
    m = Module()
    m.submodules.digest = digest = component(width, table_bits=table_bits)
    octets, counts, last, closing = (Signal(bits) for bits in (width, 1, 1, 56))
    # As `AlignedBeats` has it.
    m.d.sync += [
        digest.octets.eq(octets | digest.fill),
        digest.counts.eq(counts),
        digest.last.eq(last),
        digest.closing.eq(closing),
    ]
    size, found, choose = width // 8, [], random.Random(SEED)

    async def quiet(ctx):
        for signal in (octets, counts, last):
            ctx.set(signal, 0)

    async def send(ctx):
        for secret in SECRETS:
            # Another secret comes in the middle of the load.
            ctx.set(digest.secret, secret ^ 5)
            await ctx.tick().repeat(100)
            ctx.set(digest.secret, secret)
            await ctx.tick().repeat(PolynomialKey.LAG)
            await ctx.tick().until(~digest.loading)
            for message, end in messages:
                parts = [message[at : at + size] for at in range(0, len(message), size)]
                for number, part in enumerate(parts):
                    ctx.set(octets, int.from_bytes(part, "little"))
                    ctx.set(counts, 1)
                    ctx.set(last, number == len(parts) - 1)
                    ctx.set(closing, end)
                    await ctx.tick()
                    await quiet(ctx)
                    while choose.random() < gaps:
                        await ctx.tick()
            await ctx.tick().repeat(digest.latency + 1)

    async def take(ctx):
        comes = False
        while len(found) < len(SECRETS) * len(messages):
            if comes:
                found.append(ctx.get(digest.digest))
            comes = ctx.get(digest.valid_next)
            await ctx.tick()

    simulate(m, send, take)
    return found


def check(width, table_bits, count, **options):
    print("seed", SEED)
    messages = random_messages(random.Random(SEED), count, 5 * width // 8)
    found = digests(width, table_bits, messages, **options)
    assert found == [
        polynomial_digest(octets, closing, secret, width // 8)
        for secret in SECRETS
        for octets, closing in messages
    ]


@pytest.mark.parametrize(
    ("width", "table_bits", "gaps"),
    [
        (128, 4, 0),
        pytest.param(128, 5, 0.5, marks=pytest.mark.slow),
        pytest.param(256, 4, 0.5, marks=pytest.mark.slow),
        pytest.param(512, 5, 0.3, marks=pytest.mark.slow),
    ],
)
def test_random_messages(width, table_bits, gaps):
    check(width, table_bits, 30, gaps=gaps)


def test_fill_is_the_address_in_all_tables_of_each_word():
    component = PolynomialDigest(256, table_bits=5)
    fills = set()

    async def bench(ctx):
        while len(fills) < 32:
            assert ctx.get(component.loading)
            fills.add(ctx.get(component.fill))
            await ctx.tick()

    simulate(component, bench)
    places = [(64 * word + low, high - low) for word in range(4) for low, high in table_places(5)]
    assert fills == {
        sum(address % (1 << bits) << at for at, bits in places) for address in range(32)
    }


def test_finish_takes_a_message_each_cycle():
    component = PolynomialFinish()
    choose = random.Random(SEED)
    messages = [[choose.getrandbits(bits) for bits in (64, 64, 56)] for _ in range(20)]

    async def bench(ctx):
        ctx.set(component.secret, SECRETS[0])
        for number in range(len(messages) + component.LATENCY):
            if number < len(messages):
                first, second, closing = messages[number]
                ctx.set(component.words, first | second << 64)
                ctx.set(component.closing, closing)
            if number >= component.LATENCY:
                right = finish(*messages[number - component.LATENCY], SECRETS[0])
                assert ctx.get(component.digest) == right
            await ctx.tick()

    simulate(component, bench)


@pytest.mark.parametrize(
    ("table_bits", "latency"), [(4, 20), pytest.param(5, 3, marks=pytest.mark.slow)]
)
def test_tables(table_bits, latency):
    """Each sum of products is written once, in the cycles that the docstring has."""
    component = PolynomialKey(powers=2, table_bits=table_bits, latency=latency)
    tables = table_places(table_bits)
    least = len(tables) * 2 * (table_bits + 2**table_bits)
    written = {}

    async def bench(ctx):
        cycle = 0
        address = asked = None
        ctx.set(component.secret, SECRETS[0])
        await ctx.tick().repeat(2)
        while ctx.get(component.loading) or ctx.get(component.writes):
            if ctx.get(component.hashes):
                asked = cycle if asked is None else asked
            if asked is not None:
                ctx.set(component.hashed, keys(SECRETS[0])[cycle - asked == latency + 1])
            if writes := ctx.get(component.writes):
                place = writes.bit_length() - 1, address
                assert writes.bit_count() == 1
                assert place not in written
                written[place] = ctx.get(component.value)
            address = ctx.get(component.address)
            await ctx.tick()
            cycle += 1
            assert cycle <= least + latency + 2 * component.LAG
        assert cycle >= least

    simulate(component, bench)
    assert len(written) == 2 * sum(2 ** (high - low) for low, high in tables)
    for (place, address), value in written.items():
        power, table = divmod(place, len(tables))
        low, _ = tables[table]
        for number, key in enumerate(keys(SECRETS[0])):
            factor = key if power == 0 else multiply(key, key)
            assert value >> 64 * number & (1 << 64) - 1 == multiply(factor, address << low)
