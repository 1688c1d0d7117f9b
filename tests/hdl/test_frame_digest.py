"""Digests of Ethernet frames in hardware against the golden model.

By default, every width is simulated with few frames; a long run compiles it and uses many.
"""

import random

import pytest
from digest_benches import CompiledDigest, SimulatedDigest
from ethernet_frames import beats, packet_frame, random_frames, sized_frame
from simulation import simulate

from lately.golden.packets.comparison import Field
from lately.golden.packets.packet_layers import MAX_HEADERS, MAX_READ
from lately.golden.packets.polynomial_digest import keys, multiply
from lately.hdl.packets.frame_digest import WIDE_RESULTS
from lately.hdl.packets.inner_parser import InnerParser
from lately.hdl.packets.polynomials import PolynomialKey, table_ranges
from lately.sim.bench.packets import (
    INNER,
    LAYER2,
    LIKE_ETHERNET,
    TUNNELS,
    around,
    ethernet,
    gre,
    inner_frames,
    ip4,
    ip6,
    mpls,
)

SEED = 15
SECRETS = (0, 0x0F0E0D0C0B0A09080706050403020100, (1 << 128) - 1)
LONGEST = 9600
SHORTEST = 60  # bytes of the shortest frame that always enters at full rate
LENGTHS = (1, 13, 14, 16, 33, 34, 54, 60, 64, 65, 66, 67, 128, 1514)
"""Lengths of which each is at an edge of beats or headers."""

CASES = [
    pytest.param((SimulatedDigest, 64, 4, False), id="64"),
    pytest.param((SimulatedDigest, 128, 4, False), id="128"),
    pytest.param((SimulatedDigest, 64, 4, True), id="64-inner"),
    *(
        pytest.param((CompiledDigest, width, table_bits, inner), marks=pytest.mark.slow,
                     id=f"{width}-{table_bits}{'-inner' * inner}-compiled")
        for inner in (False, True)
        for width, table_bits in ((64, 4), (128, 4), (256, 4), (256, 5), (512, 4), (512, 5))
    ),
]  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def digest(request):
    kind, width, table_bits, inner = request.param
    with kind(width, table_bits=table_bits, inner=inner) as bench:
        bench.by_day = kind is SimulatedDigest
        yield bench


def drawn(digest, choose, count):
    print("seed", SEED)
    return (inner_frames if digest.inner else random_frames)(choose, count)


def test_random_frames(digest):
    daily = (Field.TOS | Field.VLAN, Field.LAYER2, Field.FRAME)
    fields = daily if digest.by_day else map(Field, range(32))
    for number, chosen in enumerate(fields):
        choose = random.Random(SEED + number)
        frames = drawn(digest, choose, 16 if digest.by_day else 1000)
        frames = [frame + choose.randbytes(choose.choice([0, 0, 300])) for frame in frames]
        pauses = {"idle": (0.5, 0, 0.9)[number % 3], "stall": (0.5, 0)[number % 2]}
        before = () if number else frames[:2]
        digest.check(frames, chosen, errors={3, 4, 15}, secret=SECRETS[1], before=before, **pauses)


def header_edges():
    """Return frames that end near each limit of the header parser."""
    for tags in range(5):
        for kind, layer3 in ((0x0800, ip4(bytes(60))), (0x86DD, ip6(bytes(60)))):
            whole = ethernet(kind, layer3, tags=range(tags))
            yield from (whole[:size] for size in {13, 14, 15, 17, 18, 21, 22, 25, 26, len(whole)})
            begin = 14 + 4 * tags
            header = 20 if kind == 0x0800 else 40
            yield from (whole[: begin + header + more] for more in (-1, 0, 1))
    for words in (0, 4, 5, 6, 15):
        for size in (0, 1, 19, 20, 4 * words - 1, 4 * words, 65535):
            packet = bytearray(ip4(bytes(60), size=max(0, size)))
            packet[0] = 0x40 | words
            yield ethernet(0x0800, bytes(packet))
    for size in (0, 1, 65535):
        for protocol in (58, 59, 60, 59 << 1 & 255):
            for tags in range(4):
                layer3 = ip6(bytes(60), size=size, protocol=protocol)
                yield ethernet(0x86DD, layer3, tags=range(tags))
    for tag in (0x8100, 0x88A8, 0x9100, 0x9200):
        yield bytes(12) + tag.to_bytes(2, "big") + ethernet(0x0800, ip4(bytes(30)))[10:]
    for version in range(16):
        yield ethernet(0x0800, bytes([version << 4 | 5]) + ip4(b"")[1:])
        yield ethernet(0x86DD, bytes([version << 4]) + ip6(b"")[1:])


def inner_edges():
    """Return frames with each encapsulation, and packets that begin near the read limit."""
    yield from [*LAYER2.values(), *TUNNELS.values()]
    yield from (ethernet(0x8847, mpls(packet, 20)) for packet in LIKE_ETHERNET)
    packets = [INNER]
    while len(packets) <= MAX_HEADERS:
        packets.append(ip4(packets[-1], protocol=4))
    frames = [ethernet(0x0800, packet) for packet in packets[-3:]]
    packet = ip4(INNER, protocol=4, options=bytes(40))
    for size in range(0, 44, 4):
        inside = ip4(packet, protocol=4, options=bytes(size))
        frames.append(ethernet(0x0800, ip4(ip4(inside, protocol=4), protocol=4)))
        frames.append(ethernet(0x0800, ip4(gre(ethernet(0x0800, inside), 0x6558), protocol=47)))
    yield from frames + [frame[: MAX_READ + more] for frame in frames for more in (-1, 0, 1)]


def test_edges(digest):
    frames = [*(inner_edges if digest.inner else header_edges)()]
    fields = Field.TOS if digest.inner else Field.VLAN
    digest.check(frames[:: 8 if digest.by_day and digest.width > 64 else 1], fields)


def test_every_byte(digest):
    choose, frames = random.Random(SEED), []
    whole = [packet_frame(choose, tags=range(tags), shortest=80) for tags in range(5)]
    if digest.inner:
        whole = [*LAYER2.values(), *TUNNELS.values()]
        whole += [around(choose, choose.randrange(1, 4)) for _ in range(56)]
    for frame in whole:
        frames += [frame[:size] for size in range(1, min(len(frame), MAX_READ) + 1)]
        for at in range(12, min(len(frame), MAX_READ)):
            for value in (0, 1, frame[at] ^ 4, choose.randrange(256)):
                frames.append(frame[:at] + bytes([value]) + frame[at + 1 :])
    share = len(frames) // 40 if digest.by_day else 1
    fields = Field.FRAME if digest.by_day else Field.TOS | Field.VLAN
    digest.check(frames[::share], fields, secret=SECRETS[1])


def test_lengths(digest):
    """A long header is known a few cycles later, so each beat then takes a cycle."""
    choose = random.Random(SEED)
    frames = [sized_frame(choose, size)
              for size in (LENGTHS if digest.by_day else range(1, LONGEST + 1))]  # fmt: skip
    if not digest.by_day:
        digest.warm()
    at, _ = digest.check(frames, Field.TOS | Field.VLAN, errors={4, 12})
    shortest = 8 * SHORTEST if digest.inner or digest.width == 64 else 8
    cycles = [-(-max(shortest, 8 * len(frame)) // digest.width) for frame in frames]
    assert at[-1] - at[0] <= sum(cycles) + 8


@pytest.mark.parametrize("fields", [Field.TOS, Field.FRAME])
def test_messages_of_65_words(digest, fields):
    """The counter of 64-bit words is 0 again at the last word, as at the first."""
    packet, frame = ethernet(0x0800, ip4(bytes(494))), ethernet(0x0800, ip4(bytes(480)))
    frames = [part for whole in (packet, frame) for part in (whole, whole[:60])]
    digest.check(frames, fields, idle=0.5)
    digest.check(frames, fields)


@pytest.mark.slow
def test_longest_frames(digest):
    whole = ethernet(0x0800, ip4(bytes(1000), size=0))
    long = bytearray(ethernet(0x86DD, ip6(bytes(65535), size=65535), tags=[1, 2, 3]) + bytes(100))
    digest.check([whole, bytes(long), bytes((1 << 16) + 9), whole])


def test_frames_that_follow_each_other_lose_no_cycle(digest):
    choose, count = random.Random(SEED), 25 if digest.by_day else 400
    sizes = [60 if digest.width == 64 else 16] if digest.by_day else [60, 64, 65, 191, 193, 1518]
    deep = ethernet(0x8847, mpls(INNER, *range(MAX_HEADERS - 2))) + choose.randbytes(1500)
    shallow = [packet_frame(choose), around(choose, 3)][digest.inner] + choose.randbytes(1500)
    if not digest.by_day:
        digest.warm()
    for size in sizes:
        frames = [choose.choice([deep, shallow])[:size] for _ in range(count)]
        at, _ = digest.check(frames)
        assert at[-1] - at[0] <= -(-8 * size // digest.width) * (count - 1) + 8


def test_results_wait_for_the_receiver(digest):
    count, stall = 20 * WIDE_RESULTS, 0.97
    if digest.by_day:
        count, stall = (14, 0.97) if digest.width == 64 else (WIDE_RESULTS + 16, 0.9)
    frames = [bytes([number % 256]) * 16 for number in range(count)]
    _, cycles = digest.check(frames, stall=stall)
    assert cycles > 0.6 * count / (1 - stall)


@pytest.mark.slow
def test_changes_of_the_secret(digest):
    frames = drawn(digest, random.Random(SEED), 50)
    for secret in (*SECRETS, *SECRETS):
        digest.check(frames, secret=secret, idle=0.2)


@pytest.mark.parametrize(
    ("width", "cycles"), [(64, 68), pytest.param(512, 61, marks=pytest.mark.slow)]
)
def test_latency_of_inner_layers(width, cycles):
    parser = InnerParser(width, beats=128, frames=128)

    async def bench(ctx):
        for beat in beats(ethernet(0x0800, ip4(bytes(26))), width=width):
            ctx.set(parser.beat, beat)
            ctx.set(parser.valid, 1)
            await ctx.tick()
        ctx.set(parser.valid, 0)
        for cycle in range(cycles + 1):
            assert ctx.get(parser.layers_valid) == (cycle == cycles)
            await ctx.tick()

    simulate(parser, bench)


@pytest.mark.parametrize(
    ("table_bits", "latency"), [(4, 20), pytest.param(5, 3, marks=pytest.mark.slow)]
)
def test_tables_of_polynomials(table_bits, latency):
    component = PolynomialKey(powers=2, table_bits=table_bits, latency=latency)
    tables, secret = table_ranges(table_bits), SECRETS[1]
    min_cycles = len(tables) * 2 * (table_bits + 2**table_bits)
    written = {}

    async def bench(ctx):
        cycle = 0
        address = asked = None
        ctx.set(component.secret, secret)
        await ctx.tick().repeat(3)
        while ctx.get(component.loading) or ctx.get(component.writes):
            if ctx.get(component.hashes):
                asked = cycle if asked is None else asked
            if asked is not None:
                ctx.set(component.hashed, keys(secret)[cycle - asked == latency + 1])
            if writes := ctx.get(component.writes):
                position = writes.bit_length() - 1, address
                assert writes.bit_count() == 1
                assert position not in written
                written[position] = ctx.get(component.value)
            address = ctx.get(component.address)
            await ctx.tick()
            cycle += 1
            assert cycle <= min_cycles + latency + 2 * component.LAG
        assert cycle >= min_cycles

    simulate(component, bench)
    assert len(written) == 2 * sum(2 ** (high - low) for low, high in tables)
    for (index, address), value in written.items():
        power, table = divmod(index, len(tables))
        low, _ = tables[table]
        for number, key in enumerate(keys(secret)):
            factor = key if power == 0 else multiply(key, key)
            assert value >> 64 * number & (1 << 64) - 1 == multiply(factor, address << low)
