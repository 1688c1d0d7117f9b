"""Baselines against their scalar twins and at the edges of their windows."""

from collections import deque

import numpy as np
import pytest
from cases import daily
from every_model import MODELS
from hypothesis import given
from hypothesis import strategies as st
from scalar_baselines import (
    ScalarA2Buffering,
    ScalarBloom,
    ScalarCountingBloom,
    ScalarDoubleBuffering,
    ScalarForgetful,
    ScalarStableBloom,
    ScalarSwamp,
)
from small_filters import as_keys

from papers.models import (
    A2Buffering,
    BlockedBloomFilter,
    BloomFilter,
    CountingBloomFilter,
    DoubleBuffering,
    ForgetfulBloomFilter,
    PartitionedBloomFilter,
    StableBloomFilter,
    Swamp,
    bloom,
    buffered,
    counting,
    forgetful,
    stable,
)

MODULES = (bloom, buffered, counting, forgetful, stable)

TWINS = {
    BloomFilter: ScalarBloom,
    PartitionedBloomFilter: lambda **parameters: ScalarBloom(**parameters, partitioned=True),
    BlockedBloomFilter: ScalarBloom,
    CountingBloomFilter: ScalarCountingBloom,
    StableBloomFilter: ScalarStableBloom,
    DoubleBuffering: ScalarDoubleBuffering,
    A2Buffering: ScalarA2Buffering,
    ForgetfulBloomFilter: ScalarForgetful,
    Swamp: ScalarSwamp,
}


SMALL = {
    kind: MODELS[kind.__name__] | ({"fingerprint_bits": 5} if kind is Swamp else {})
    for kind in TWINS
}


def bits_of(ones, size):
    return [position in ones for position in range(size)]


def contents(model):
    """What a model holds, in the form of `twin_contents`."""
    match model:
        case DoubleBuffering():
            return [model.active.tolist(), model.warm_up.tolist()]
        case A2Buffering():
            return [model.active1.tolist(), model.active2.tolist()]
        case Swamp():
            return model.fingerprints.tolist()
        case CountingBloomFilter():
            return [model.memory.tolist(), model.overflows, len(model.queue)]
    return model.memory.tolist()


def twin_contents(twin, model):
    match twin:
        case ScalarBloom():
            return bits_of(twin.ones, model.storage_bits)
        case ScalarDoubleBuffering():
            size = model.bits // 2
            return [bits_of(twin.active.ones, size), bits_of(twin.warm_up.ones, size)]
        case ScalarA2Buffering():
            size = model.bits // 2
            return [bits_of(twin.active1.ones, size), bits_of(twin.active2.ones, size)]
        case ScalarForgetful():
            size = model.bits // (model.past + 2)
            return [bits_of(segment.ones, size) for segment in twin.segments]
        case ScalarCountingBloom():
            return [twin.c, twin.overflows, len(twin.queue)]
        case ScalarStableBloom():
            return twin.sbf
    ordered = twin.cfb[twin.curr :] + twin.cfb[: twin.curr]
    return [fingerprint for fingerprint in ordered if fingerprint is not None]


# Scalar twins


@st.composite
def parameters_of(draw, cls):
    size = draw(st.integers(2, 40))
    hashes = draw(st.integers(1, 4))
    shared = {"seed": draw(st.integers(0, 3)), "key_bits": draw(st.sampled_from([3, 8, 64, 100]))}
    match cls.__name__:
        case "BloomFilter":
            own = {"bits": size, "hashes": hashes}
        case "PartitionedBloomFilter":
            own = {"bits": size * hashes + draw(st.integers(0, 3)), "hashes": hashes}
        case "BlockedBloomFilter":
            block_bits = draw(st.integers(2, 9))
            own = {"bits": size * block_bits, "hashes": hashes, "block_bits": block_bits}
        case "CountingBloomFilter":
            own = {
                "window": draw(st.integers(1, 12)),
                "counters": size,
                "hashes": hashes,
                "counter_bits": draw(st.integers(1, 8)),
                "saturated": draw(st.sampled_from(["kept", "decremented"])),
            }
        case "StableBloomFilter":
            own = {
                "cells": size,
                "hashes": hashes,
                "decrements": draw(st.integers(1, size)),
                "cell_bits": draw(st.integers(1, 8)),
            }
        case "DoubleBuffering" | "A2Buffering":
            generation = draw(st.integers(1, 9))
            own = {"generation": generation, "bits": 2 * size + 1, "hashes": hashes}
        case "ForgetfulBloomFilter":
            past = draw(st.integers(1, 4))
            own = {
                "generation": draw(st.integers(1, 7)),
                "past": past,
                "bits": (past + 2) * size + draw(st.integers(0, past + 1)),
                "hashes": hashes,
            }
        case "Swamp":
            own = {
                "window": draw(st.integers(1, 12)),
                "fingerprint_bits": draw(st.sampled_from([1, 2, 5, 33, 64])),
            }
    return own | shared


@pytest.mark.parametrize("cls", TWINS)
@given(data=st.data())
def test_scalar_twin(cls, data):
    parameters = data.draw(parameters_of(cls), "parameters")
    chunk = data.draw(st.sampled_from([1, 3, 1 << 14]), "chunk")
    model, twin = cls(**parameters), TWINS[cls](**parameters)
    assert model.parameters == {**model.parameters, **parameters}
    key = st.integers(0, (1 << model.key_bits) - 1)
    pool = data.draw(st.lists(key, min_size=1, max_size=12), "pool")
    calls = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["insert", "query", "check_and_insert"]),
                st.lists(st.sampled_from(pool), max_size=20),
            ),
            max_size=8,
        ),
        "calls",
    )
    inserted = 0
    for kind, keys in calls:
        expected = []
        for one in keys:
            if kind != "insert":
                expected.append(twin.query(one))
            if kind != "query":
                twin.insert(one)
        with pytest.MonkeyPatch.context() as patch:
            for module in MODULES:
                patch.setattr(module, "_CHUNK", chunk)
            answers = getattr(model, kind)(as_keys(keys, model.key_bits))
        if kind == "insert":
            assert answers is None
        else:
            assert answers.dtype == np.bool_
            assert answers.tolist() == expected
        inserted += len(keys) if kind != "query" else 0
        assert contents(model) == twin_contents(twin, model)
        assert model.insertions == inserted
        if cls is Swamp:
            assert model.multiplicity(as_keys(pool, model.key_bits)).tolist() == [
                twin.multiplicity(one) for one in pool
            ]
            assert model.distinct() == twin.distinct()
    model.clear()
    assert model == cls(**parameters)


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize(
    ("model", "window"),
    [
        (lambda **seed: BloomFilter(bits=200, hashes=3, **seed), 600),
        (lambda **seed: PartitionedBloomFilter(bits=200, hashes=3, **seed), 600),
        (lambda **seed: BlockedBloomFilter(bits=200, hashes=3, block_bits=32, **seed), 600),
        (lambda **seed: CountingBloomFilter(window=50, counters=64, hashes=3, **seed), 50),
        (
            lambda **seed: CountingBloomFilter(
                window=50, counters=64, hashes=3, counter_bits=1, **seed
            ),
            50,
        ),
        (lambda **seed: DoubleBuffering(generation=30, bits=200, hashes=3, **seed), 31),
        (lambda **seed: A2Buffering(generation=30, bits=200, hashes=3, **seed), 31),
        (
            lambda **seed: ForgetfulBloomFilter(generation=10, past=3, bits=300, hashes=2, **seed),
            31,
        ),
        (lambda **seed: Swamp(window=50, fingerprint_bits=6, **seed), 50),
    ],
)
def test_no_false_negative_in_crowded_filters(model, window, seed):
    """Fullness and repetition add reports and take none."""
    model = model(seed=seed)
    live = deque(maxlen=window)
    for key in np.random.default_rng(seed).integers(0, 200, 400).tolist():
        assert model.check_and_insert([key])[0] or key not in live
        live.append(key)
        assert model.query(list(live)).all()


@pytest.mark.parametrize("seed", daily(3, range(8)))
def test_decremented_counters_miss_nothing_before_an_overflow(seed):
    rng = np.random.default_rng(seed)
    model = CountingBloomFilter(
        window=20, counters=50, hashes=2, counter_bits=3, saturated="decremented", seed=seed
    )
    live = deque(maxlen=20)
    for key in rng.integers(0, 30, 400).tolist():
        model.insert([key])
        live.append(key)
        if model.overflows:
            break
        assert model.query(list(live)).all()


# Sizes


def test_storage():
    assert BloomFilter(bits=61, hashes=2).storage_bits == 61
    assert PartitionedBloomFilter(bits=61, hashes=3).storage_bits == 60
    assert BlockedBloomFilter(bits=61, hashes=3, block_bits=8).storage_bits == 56
    assert DoubleBuffering(generation=5, bits=61, hashes=3).storage_bits == 60
    assert A2Buffering(generation=5, bits=61, hashes=3).storage_bits == 60
    assert ForgetfulBloomFilter(generation=5, past=2, bits=61, hashes=3).storage_bits == 60
    assert StableBloomFilter(cells=61, hashes=2, decrements=1, cell_bits=3).storage_bits == 183
    model = CountingBloomFilter(window=10, counters=61, hashes=2, key_bits=100)
    assert (model.storage_bits, model.queue_bits) == (244, 1000)
