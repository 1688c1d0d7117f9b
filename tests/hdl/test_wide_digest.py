"""Digests of frames in wide beats, compiled: every length, place and choice of fields."""

import random

import numpy as np
import pytest
from compiled_digest import CompiledDigest
from ethernet_frames import packet_frame, random_frames, sized_frame

from lately.golden.packets.comparison import Field
from lately.golden.packets.inner_layers import MOST_HEADERS
from lately.hdl.packets.frame_digest import WIDE_RESULTS
from lately.sim.bench.encapsulated import INNER, around, inner_frames, mpls
from lately.sim.bench.packets import ethernet

pytestmark = pytest.mark.slow

SEED = 15
SECRETS = (0, 0x0F0E0D0C0B0A09080706050403020100, (1 << 128) - 1)
WIDTHS = ((128, 4), (256, 5), (512, 5))
LONGEST = 9600


@pytest.fixture(scope="module", params=WIDTHS, ids=lambda param: str(param[0]))
def digest(request):
    width, table_bits = request.param
    with CompiledDigest(width, table_bits=table_bits) as model:
        yield model


def test_every_length(digest):
    """Without a pause, and each beat takes a cycle; a long header is known a few cycles later."""
    print("seed", SEED)
    choose = random.Random(SEED)
    frames = [sized_frame(choose, size) for size in range(1, LONGEST + 1)]
    digest.run(frames[:1], secret=SECRETS[1])
    at, _ = digest.check(frames, secret=SECRETS[1])
    beats = sum(-(-8 * len(frame) // digest.width) for frame in frames)
    assert at[-1] - at[0] <= beats + 8


@pytest.mark.parametrize("fields", range(32))
def test_every_place(digest, fields):
    """Each choice of fields, each number of tags and each length around a header, with gaps."""
    print("seed", SEED)
    choose = random.Random(SEED + fields)
    frames = [packet_frame(choose, tags=range(tags)) for tags in range(5) for _ in range(8)]
    frames = [frame[:size] for frame in frames for size in range(1, len(frame) + 1, 3)]
    frames += random_frames(choose, 300)
    pauses = {"idle": (0, 0.5, 0.9)[fields % 3], "stall": (0, 0.9)[fields % 2]}
    digest.check(frames, Field(fields), errors={0, 7}, secret=SECRETS[1], **pauses)


def test_changes_of_the_secret(digest):
    choose = random.Random(SEED)
    frames = random_frames(choose, 50)
    for secret in (*SECRETS, *SECRETS):
        digest.check(frames, secret=secret, idle=0.2)


def test_frames_of_one_beat_in_consecutive_cycles(digest):
    choose = random.Random(SEED)
    size = digest.width // 8
    frames = [choose.randbytes(choose.randrange(1, size + 1)) for _ in range(2000)]
    digest.run(frames[:1], secret=SECRETS[1])
    at, _ = digest.check(frames, secret=SECRETS[1])
    assert set(np.diff(at).tolist()) == {1}


def test_results_that_are_not_taken(digest):
    """The input stalls, and nothing is lost."""
    frames = [bytes([number % 256]) * 16 for number in range(20 * WIDE_RESULTS)]
    _, cycles = digest.check(frames, stall=0.97)
    assert cycles > 20 * len(frames)


@pytest.fixture(scope="module", params=[64, 128, 256, 512])
def inner(request):
    with CompiledDigest(request.param, inner=True) as model:
        yield model


@pytest.mark.parametrize("number", range(8))
def test_inner_packets(inner, number):
    """Encapsulations, whole and damaged, under all kinds of fields; layer 2 has no effect."""
    print("seed", SEED + number)
    frames = inner_frames(random.Random(SEED + number), 1000)
    fields = (Field.TOS, Field.VLAN, Field.LAYER2 | Field.TTL, Field.FRAME)[number % 4]
    pauses = {"idle": (0, 0.5, 0.9)[number % 3], "stall": (0, 0.9)[number % 2]}
    inner.check(frames, fields, errors={0, 7}, secret=SECRETS[1], **pauses)


@pytest.mark.parametrize("size", [60, 64, 65, 191, 192, 193, 1518])
def test_inner_packets_lose_no_cycle(inner, size):
    """Frames of one size come back to back, with as many headers as are passed."""
    choose = random.Random(SEED)
    deep = mpls(INNER, *range(MOST_HEADERS - 2))
    frames = [
        ethernet(0x8847, deep + choose.randbytes(1500))[:size]
        if choose.random() < 0.5
        else (around(choose, 3) + choose.randbytes(1500))[:size]
        for _ in range(400)
    ]
    inner.run(frames[:1], secret=SECRETS[1])
    at, _ = inner.check(frames, secret=SECRETS[1])
    cycles = -(-8 * size // inner.width)
    assert at[-1] - at[0] <= cycles * (len(frames) - 1) + 8
