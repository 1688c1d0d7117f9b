"""Rings that count insertions: shards, equality, shapes and rates that sequences do not show."""

import numpy as np
import pytest
from small_filters import CLASSES

from lately.golden import (
    APBBF,
    APBF,
    GEBF,
    PRESETS,
    BlockedGEBF,
    FilterSpec,
    Operation,
    from_spec,
    preset,
)
from lately.golden.hash.scalar_hash import ScalarHash


@pytest.mark.parametrize("family", CLASSES)
@pytest.mark.parametrize("lanes", [2, 4])
def test_shards_are_filters_that_turn_together(family, lanes):
    """A filter of shards is one filter for each, with the shifts of all at the same places."""
    shards = {2: 3, 4: 6}[lanes]
    shared = {"family": family, "seed": 5}
    sizes = {
        "apbf": {"k": 3, "l": 4, "slice_bits": 64, "generation": 40},
        "apbbf": {
            "k": 2, "l": 3, "block_bits": 16, "hashes_per_block": 2, "blocks": 8, "generation": 40,
        },
        "gebf": {"window": 160, "epochs": 4, "hashes": 3, "bits": 5 * 3 * 32},
        "blocked-gebf": {
            "window": 160, "epochs": 4, "hashes": 2, "block_bits": 16, "bits": 5 * 16 * 8,
        },
    }[family]  # fmt: skip
    large = {
        name: value * (shards if name in ("slice_bits", "blocks", "bits") else 1)
        for name, value in sizes.items()
    }
    whole = from_spec(FilterSpec(**shared, **large, lanes=lanes))
    parts = [from_spec(FilterSpec(**shared, **sizes)) for _ in range(shards)]
    for part in parts:
        part.generation = 1 << 40
        part.clear()
    hasher = ScalarHash(
        key_bits=64, sizes=list(whole.spec.index_sizes), functions=whole.spec.hash_functions,
        seed=5, shards=shards,
    )  # fmt: skip
    used = set()
    for inserted, key in enumerate(np.random.default_rng(1).integers(0, 150, 700).tolist()):
        shard = hasher.shard(key)
        used.add(shard)
        seen = bool(whole.check_and_insert([key])[0])
        assert seen == bool(parts[shard].query([key])[0])
        if inserted and inserted % 40 == 0:
            for part in parts:
                part.shift()
        parts[shard].insert([key])
    assert used == set(range(shards))
    assert np.array_equal(whole.memory, np.concatenate([part.memory for part in parts], axis=2))


def test_wide_keys_differ_in_every_word():
    model = APBF(k=4, l=2, slice_bits=4096, key_bits=200)
    base = np.array([[1, 2, 3, 4]], np.uint64)
    model.insert(base)
    assert model.query(base).all()
    for word in range(4):
        other = base.copy()
        other[0, word] += 1
        assert not model.query(other).any()
    model.shift()
    model.clear()
    assert not model.query(base).any()


# Construction and equality


def test_classes_take_defaults_of_the_specification():
    assert APBF(k=10, l=7, slice_bits=16384).spec == preset("apbf-default")
    blocked = APBBF(k=2, l=5, block_bits=64, hashes_per_block=4, blocks=1024)
    assert blocked.spec == preset("default")
    assert GEBF(window=20000, epochs=8, hashes=4, bits=9 * 4 * 8192).spec == preset("gebf-default")
    assert BlockedGEBF(
        window=20000, epochs=8, hashes=4, bits=9 * 32768, block_bits=64
    ).spec == preset("blocked-gebf-default")


def test_equal():
    model, other = (from_spec(preset("tiny")) for _ in range(2))
    assert model == other
    model.insert([1])
    assert model != other
    other.insert([1])
    assert model == other
    # A repeated key leaves the bits, not the place in the generation.
    model.insert([1])
    assert np.array_equal(model.memory, other.memory)
    assert model != other
    other.insert([1])
    # Counters are no state.
    other.perform([Operation.NONE], [0])
    assert model == other
    model.generation = 1
    assert model != other


def test_equal_needs_the_same_specification():
    assert APBF(k=2, l=2, slice_bits=64) != APBF(k=2, l=2, slice_bits=64, seed=1)
    shared = {"window": 8, "epochs": 2, "hashes": 2, "bits": 96}
    assert GEBF(**shared) != GEBF(**shared, partitioned=False)
    assert APBF(k=2, l=2, slice_bits=64) != "filter"
    with pytest.raises(TypeError, match="unhashable"):
        hash(APBF(k=2, l=2, slice_bits=64))


def test_integers_of_numpy_are_secrets():
    shape = {"window": 8, "epochs": 2, "hashes": 2, "bits": 96, "hash": "siphash"}
    assert GEBF(**shape, secret=np.uint64(7)) == GEBF(**shape, secret=7)
    assert GEBF(**shape, secret=(1 << 128) - 1).secrets == [(1 << 128) - 1] * 3


# Memory


def test_memory_shape():
    for spec in PRESETS.values():
        model = from_spec(spec)
        assert model.memory.shape == (spec.segments, spec.parts, spec.part_bits)
        assert model.memory.size == spec.storage_bits
        assert model.segment(0).shape == (spec.parts, spec.part_bits)
        assert model.fill_ratios().shape == (spec.ring_segments,)


def test_memory_shape_not_partitioned():
    shared = {"window": 8, "epochs": 2, "hashes": 3, "bits": 100}
    assert GEBF(**shared, partitioned=False).memory.shape == (4, 1, 33)
    assert GEBF(**shared).memory.shape == (4, 3, 11)
    blocked = BlockedGEBF(**shared, block_bits=16, partitioned=False)
    assert blocked.memory.shape == (4, 1, 32)


@pytest.mark.parametrize("name", ["apbf-tiny", "apbbf-tiny", "gebf-tiny", "blocked-gebf-tiny"])
def test_estimated_rate_counts_the_matches(name):
    """Over the hash of every place, the estimate is the mean of what is reported."""
    spec = preset(name)
    model = from_spec(spec)
    assert model.estimated_false_positive_rate() == 0
    model.insert(np.random.default_rng(2).integers(0, 256, 3 * spec.generation))
    estimate = model.estimated_false_positive_rate()
    rates = []
    for index in range(spec.ring_segments):
        bits = model.segment(index).reshape(spec.parts, spec.segment_blocks, spec.cells)
        shares = bits.mean(axis=2).prod(axis=0)
        rates.append(shares.mean())
    # Enumerate which segments match.
    expected = 0.0
    for pattern in range(1 << spec.ring_segments):
        match = [pattern >> i & 1 for i in range(spec.ring_segments)]
        if any(all(match[j : j + spec.run]) for j in range(spec.window_generations + 1)):
            expected += np.prod([r if m else 1 - r for r, m in zip(rates, match, strict=True)])
    assert 0 < estimate < 1
    assert estimate == pytest.approx(expected, rel=1e-12)
