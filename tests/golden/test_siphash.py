"""SipHash: published vectors, Python's own hash, the scalar twin, and the pipeline."""

import csv
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from amaranth.sim import Simulator
from cases import daily
from hypothesis import given
from hypothesis import strategies as st
from plain_siphash import scalar_siphash

from lately.golden.hash.functions import KeyHash
from lately.golden.hash.scalar_hash import ScalarHash
from lately.golden.hash.siphash import INITIAL, message_words, siphash
from lately.hdl.hash.siphash import SipHash, siphash_latency

SEED = 2012
DATA = Path(__file__).parents[1] / "data" / "siphash_2_4.csv"
COUNTING = int.from_bytes(bytes(range(16)), "little")
WIDTHS = [1, 8, 16, 32, 56, 57, 64, 104, 128]


def words_of(message):
    """Message as a key: shape (1, words)."""
    padded = message.ljust(-(-len(message) // 8) * 8, b"\0")
    return np.frombuffer(padded, "<u8").reshape(1, -1)


def key_words(keys, key_bits):
    words = -(-key_bits // 64)
    return np.array(
        [[key >> 64 * word & (1 << 64) - 1 for word in range(words)] for key in keys], np.uint64
    ).reshape(len(keys), words)


def hash_of(message, secret, **rounds):
    return int(siphash(words_of(message), secret, key_bits=8 * len(message), **rounds)[0])


def published():
    """Vectors of the authors' reference code: length of the message 00 01 02 ..., hash."""
    with open(DATA, newline="") as file:
        return [(int(row["length"]), int(row["hash"], 16)) for row in csv.DictReader(file)]


# The function


def test_paper_s_vector():
    """Appendix A: key 00 to 0f, message 00 to 0e."""
    message, secret = bytes(range(15)), bytes(range(16))
    assert hash_of(message, COUNTING, compression=2, finalization=4) == 0xA129CA6149BE45E5
    assert scalar_siphash(message, secret, c=2, d=4) == 0xA129CA6149BE45E5


def test_published_vectors():
    assert [length for length, _ in published()] == list(range(64))
    for length, expected in published():
        message = bytes(range(length))
        assert hash_of(message, COUNTING, compression=2, finalization=4) == expected
        assert scalar_siphash(message, bytes(range(16)), c=2, d=4) == expected


def test_python_s_own_hash():
    """SipHash-1-3, with which Python hashes bytes; PYTHONHASHSEED=0 is the secret 0."""
    choose = random.Random(SEED)
    messages = [choose.randbytes(length) for length in (*range(1, 40), 255, 256, 257)]
    program = (
        "import json, sys; messages = json.load(sys.stdin); "
        "print(json.dumps([sys.hash_info.algorithm, sys.hash_info.cutoff, "
        "[hash(bytes.fromhex(message)) for message in messages]]))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps([message.hex() for message in messages]),
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        check=True,
        text=True,
    )
    algorithm, cutoff, hashes = json.loads(answer.stdout)
    assert (algorithm, cutoff) == ("siphash13", 0), "this Python hashes bytes in another way"
    for message, expected in zip(messages, hashes, strict=True):
        result = hash_of(message, 0)
        result -= (result >> 63) << 64
        assert (-2 if result == -1 else result) == expected
        assert scalar_siphash(message, bytes(16)) == hash_of(message, 0)


@given(
    key_bits=st.integers(1, 300),
    rounds=st.tuples(st.integers(1, 3), st.integers(1, 5)),
    data=st.data(),
)
def test_scalar_twin(key_bits, rounds, data):
    pairs = data.draw(
        st.lists(
            st.tuples(st.integers(0, (1 << key_bits) - 1), st.integers(0, (1 << 128) - 1)),
            min_size=1,
            max_size=5,
        )
    )
    keys, secrets = zip(*pairs, strict=True)
    chosen = {"compression": rounds[0], "finalization": rounds[1]}
    expected = [
        scalar_siphash(
            key.to_bytes(-(-key_bits // 8), "little"),
            secret.to_bytes(16, "little"),
            c=rounds[0],
            d=rounds[1],
        )
        for key, secret in pairs
    ]
    words = key_words(keys, key_bits)
    together = siphash(words, key_words(secrets, 128), key_bits=key_bits, **chosen)
    assert together.tolist() == expected
    apart = [
        siphash(words[n : n + 1], secret, key_bits=key_bits, **chosen)[0]
        for n, secret in enumerate(secrets)
    ]
    assert apart == expected


def test_without_a_secret_it_is_zero():
    keyed = KeyHash(key_bits=64, sizes=(1 << 32,), functions=1, seed=0, hash="siphash")
    twin = ScalarHash(sizes=[1 << 32], hash="siphash")
    keys = np.arange(3, dtype=np.uint64)[:, None]
    (expected,) = keyed.indices(siphash(keys, 0, key_bits=64), 0)
    assert [twin(key, 0)[0] for key in range(3)] == expected.tolist()
    assert (keyed.state(keys) == siphash(keys, 0, key_bits=64)).all()


def test_no_keys():
    assert siphash(np.zeros((0, 2), np.uint64), 1, key_bits=100).shape == (0,)


def test_words_of_a_message():
    # The length takes the top byte of the last word.
    assert [message_words(bits) for bits in (1, 56, 57, 64, 104, 120, 121)] == [
        1, 1, 2, 2, 2, 2, 3,
    ]  # fmt: skip


# The pipeline


def simulate(hasher, inputs):
    """Give one (key, secret) per clock; return what comes out `latency` clocks later."""
    outputs = []

    async def bench(ctx):
        for clock in range(len(inputs) + hasher.latency):
            if clock < len(inputs):
                ctx.set(hasher.key, inputs[clock][0])
                ctx.set(hasher.secret, inputs[clock][1])
            if clock >= hasher.latency:
                outputs.append(ctx.get(hasher.state))
            await ctx.tick()

    simulator = Simulator(hasher)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return outputs


@pytest.mark.parametrize("key_bits", daily(2, WIDTHS))
def test_pipeline_equals_golden(key_bits):
    """Secrets change as soon as they may, and keys without a secret of theirs lie between."""
    choose = random.Random(SEED + key_bits)
    print(f"seed {SEED + key_bits}")
    inputs, counted = [], []
    for burst in (1, 2, 3, 20, 1, 1):
        secret = choose.choice([0, (1 << 128) - 1, *(choose.getrandbits(128) for _ in range(8))])
        clocks = SipHash.SETTLE + burst + SipHash.HOLD
        inputs += [(choose.getrandbits(key_bits), secret) for _ in range(clocks)]
        counted += [False] * SipHash.SETTLE + [True] * burst + [False] * SipHash.HOLD
    keys, secrets = zip(*inputs, strict=True)
    expected = siphash(
        key_words(keys, key_bits), key_words(secrets, 128), key_bits=key_bits
    ).tolist()
    results = simulate(SipHash(key_bits=key_bits), inputs)
    compared = [
        (got, want) for got, want, use in zip(results, expected, counted, strict=True) if use
    ]
    assert len(compared) == 28
    assert [got for got, _ in compared] == [want for _, want in compared]


def secret_with_carry(choose, carry):
    """Return a secret of which the first sum has this carry from bit 21 to bit 60."""
    first, second = choose.getrandbits(64), choose.getrandbits(64)
    low, through = (1 << 22) - 1, (1 << 60) - (1 << 22)
    first = first | low if carry else first & ~low
    second = (second & ~through) | (~first & through) | carry
    return (first ^ INITIAL[0]) | (second ^ INITIAL[1]) << 64


def wrong_hashes(settle, *, count=12):
    """Return how many keys get a wrong hash that come so many clocks after their secret."""
    choose = random.Random(SEED)
    inputs, indices = [], []
    for number in range(count):
        secret = secret_with_carry(choose, number % 2)
        indices.append(len(inputs) + settle)
        clocks = settle + 1 + SipHash.HOLD
        inputs += [(choose.getrandbits(64), secret) for _ in range(clocks)]
    results = simulate(SipHash(key_bits=64), inputs)
    keys, secrets = zip(*(inputs[index] for index in indices), strict=True)
    expected = siphash(key_words(keys, 64), key_words(secrets, 128), key_bits=64).tolist()
    return sum(results[index] != want for index, want in zip(indices, expected, strict=True))


@pytest.mark.slow
def test_secret_settles_whatever_it_carries():
    """What is computed of a secret alone has the longest of carries, and that takes time."""
    assert wrong_hashes(SipHash.SETTLE) == 0
    assert wrong_hashes(SipHash.SETTLE - 1) > 0


@pytest.mark.parametrize("key_bits", daily(1, [8, 64]))
def test_extreme_keys(key_bits):
    keys = [0, (1 << key_bits) - 1] * 3 + [1 << bit for bit in range(key_bits)]
    for secret in (0, (1 << 128) - 1):
        inputs = [(0, secret)] * SipHash.SETTLE + [(key, secret) for key in keys]
        expected = siphash(key_words(keys, key_bits), secret, key_bits=key_bits).tolist()
        # The last keys leave with the secret still held.
        assert simulate(SipHash(key_bits=key_bits), inputs)[SipHash.SETTLE :] == expected


def test_latency():
    assert [siphash_latency(bits) for bits in (8, 32, 56, 57, 64, 104, 128)] == [
        21, 21, 21, 26, 26, 26, 31,
    ]  # fmt: skip
    assert SipHash(key_bits=104).latency == siphash_latency(104)
