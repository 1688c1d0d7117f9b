"""Filters against their scalar twins and against the definition of a segment, bit for bit."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import PATHS, chunks_of, taking
from scalar_ring import ScalarGEBF
from small_filters import (
    CLASSES,
    OPERATIONS,
    Definition,
    as_keys,
    counters_of,
    filters,
    key_lists,
    segments_of,
    spare_of,
    specs,
    twin_of,
)

from lately.golden import (
    APBBF,
    APBF,
    GEBF,
    PRESETS,
    BlockedGEBF,
    FilterSpec,
    Operation,
    SlidingFilter,
    SpecificationError,
    from_spec,
    preset,
)
from lately.golden.hash.scalar_hash import ScalarHash

# Scalar twins


@given(model=filters(), data=st.data())
def test_scalar_twin(model, data):
    spec = model.spec
    twin = twin_of(model)
    keys = data.draw(key_lists(spec.key_bits, 60), "keys")
    inserted = hits = operations = 0
    while keys:
        size = data.draw(st.integers(1, len(keys)), "size")
        batch, keys = keys[:size], keys[size:]
        array = as_keys(batch, spec.key_bits)
        kind = data.draw(st.sampled_from(["insert", "query", "age", "check_and_insert"]), "kind")
        if kind == "insert":
            model.insert(array)
            for key in batch:
                twin.insert(key)
        else:
            answers = getattr(model, kind)(array).tolist()
            assert answers == [getattr(twin, kind)(key) for key in batch]
        if "insert" in kind:
            inserted += size
            operations += size
        if kind == "check_and_insert":
            hits += sum(answers)
        assert segments_of(model) == [twin.segment(i) for i in range(spec.ring_segments)]
        assert not spare_of(model).any()
        shifts = max(0, inserted - 1) // spec.generation
        assert counters_of(model) == [operations, inserted, hits, shifts]
        assert model.ring_position == -shifts % spec.segments
        if spec.family in ("apbf", "apbbf"):
            assert model.ring_position == twin.pos(0)


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
        own = hasher.shard(key)
        used.add(own)
        seen = bool(whole.check_and_insert([key])[0])
        assert seen == bool(parts[own].query([key])[0])
        if inserted and inserted % 40 == 0:
            for part in parts:
                part.shift()
        parts[own].insert([key])
    assert used == set(range(shards))
    assert np.array_equal(whole.memory, np.concatenate([part.memory for part in parts], axis=2))


@given(model=filters(), data=st.data())
def test_one_key_sets_the_bits_of_the_twin(model, data):
    key = data.draw(st.integers(0, (1 << model.spec.key_bits) - 1))
    twin = twin_of(model)
    model.insert(as_keys([key], model.spec.key_bits))
    twin.insert(key)
    written = segments_of(model)
    assert written == [twin.segment(i) for i in range(model.spec.ring_segments)]
    assert all(any(blocks) for blocks in written[: model.spec.run])
    assert not any(any(blocks) for blocks in written[model.spec.run :])
    assert model.age(as_keys([key], model.spec.key_bits)).tolist() == [0]


# Definition: a segment holds the keys of `run` consecutive generations


@given(
    spec=specs(),
    path=st.sampled_from(PATHS),
    chunk=st.sampled_from([1, 3, 7, 1 << 15]),
    data=st.data(),
)
def test_mixed_operations(spec, path, chunk, data):
    with taking(path):
        model, alone, definition = from_spec(spec), from_spec(spec), Definition(spec)
    keys = data.draw(key_lists(spec.key_bits, 60), "keys")
    codes = data.draw(st.lists(OPERATIONS, min_size=len(keys), max_size=len(keys)), "operations")
    while keys:
        size = data.draw(st.integers(1, len(keys)), "size")
        array = as_keys(keys[:size], spec.key_bits)
        with chunks_of(chunk):
            verdicts = model.perform(codes[:size], array)
        expected = [
            definition.perform(code, key) for code, key in zip(codes, keys[:size], strict=False)
        ]
        assert verdicts.age.tolist() == expected
        assert verdicts.seen.tolist() == [age >= 0 for age in expected]
        singles = [alone.perform(codes[i : i + 1], array[i : i + 1]).age[0] for i in range(size)]
        assert singles == expected
        assert segments_of(model) == [definition.blocks(i) for i in range(spec.ring_segments)]
        assert not spare_of(model).any()
        assert model.ring_position == -(len(definition.generations) - 1) % spec.segments
        assert model == alone
        assert counters_of(model) == counters_of(alone)
        if data.draw(st.booleans(), "change"):
            value = data.draw(st.integers(1, 9), "generation")
            model.generation = alone.generation = definition.next_length = value
        keys, codes = keys[size:], codes[size:]


@given(model=filters(), data=st.data())
def test_batch_is_one_by_one(model, data):
    spec = model.spec
    alone = type(model).__new__(type(model))
    SlidingFilter.__init__(alone, spec, partitioned=model.partitioned)
    keys = as_keys(data.draw(key_lists(spec.key_bits, 80)), spec.key_bits)
    seen = model.check_and_insert(keys)
    singles = [bool(alone.check_and_insert(keys[i : i + 1])[0]) for i in range(len(keys))]
    assert seen.tolist() == singles
    assert model == alone
    assert counters_of(model) == counters_of(alone)


# Contracts


@pytest.fixture(params=["apbf-tiny", "apbbf-tiny", "gebf-tiny", "blocked-gebf-tiny"])
def spec(request):
    return preset(request.param)


@pytest.fixture
def model(spec):
    return from_spec(spec)


def test_twin_knows_the_oldest_segment(spec):
    model = from_spec(spec)
    twin = twin_of(model)
    keys = [7, *[200] * (spec.generation * spec.window_generations)]
    model.insert(keys)
    for key in keys:
        twin.insert(key)
    assert model.age([7]).tolist() == [twin.age(7)] == [spec.window_generations]


def test_check_and_insert_answers_before_the_shift(spec):
    # The key is in its last generation when the insertion that drops it asks for it.
    model = from_spec(spec)
    model.insert([7])
    for _ in range(spec.window_generations):
        model.shift()
    model.insert(np.full(spec.generation, 200))
    assert model.age([7]).tolist() == [spec.window_generations]
    verdicts = model.perform([Operation.CHECK_AND_INSERT, Operation.QUERY], [200, 200])
    assert verdicts.age.tolist() == [0, 0]
    assert model.shifts == spec.window_generations + 1


def test_first_insertion_does_not_shift(spec):
    model = from_spec(spec)
    model.insert(np.arange(spec.generation))
    assert (model.shifts, model.ring_position) == (0, 0)
    model.insert([0])
    assert (model.shifts, model.ring_position) == (1, spec.segments - 1)


def test_counters(model):
    codes = [
        Operation.NONE,
        Operation.QUERY,
        Operation.INSERT,
        Operation.QUERY,
        Operation.CHECK_AND_INSERT,
        Operation.SHIFT,
        Operation.CLEAR,
        Operation.QUERY,
    ]
    verdicts = model.perform(codes, np.full(len(codes), 3))
    assert verdicts.seen.tolist() == [False, False, False, True, True, False, False, False]
    assert counters_of(model) == [8, 2, 2, 1]
    model.clear()
    model.shift()
    assert counters_of(model) == [10, 2, 2, 2]


def test_forced_shift_ends_the_generation(spec, model):
    model.insert([1])
    model.shift()
    model.insert(np.arange(spec.generation))
    assert model.shifts == 1
    model.insert([2])
    assert model.shifts == 2


def test_shift_after_a_full_generation_is_not_repeated(spec, model):
    model.insert(np.arange(spec.generation))
    model.shift()
    model.insert([1])
    assert model.shifts == 1


# Changed generation


def test_generation_counts_from_the_next_shift(spec, model):
    model.insert([1])
    model.generation = 2
    assert model.generation == 2
    model.insert(np.arange(spec.generation - 1))
    assert model.shifts == 0
    model.insert([1, 2])
    assert model.shifts == 1
    model.insert([3])
    assert model.shifts == 2


def test_generation_counts_from_clear(model):
    model.generation = 1
    model.clear()
    model.insert([1, 2, 3])
    assert model.shifts == 2


def test_generation_counts_within_one_call(spec, model):
    model.generation = 1
    model.insert(np.arange(spec.generation + 4))
    assert model.shifts == 4


@pytest.mark.parametrize("value", [0, -3, np.int64(0)])
def test_generation_wrong(model, value):
    message = re.escape(f"generation: must be at least 1, not {value}")
    with pytest.raises(ValueError, match=f"^{message}$"):
        model.generation = value
    assert model.generation == model.spec.generation


@pytest.mark.parametrize("value", [2.5, "3", None, True])
def test_generation_not_an_integer(model, value):
    with pytest.raises(TypeError, match=f"^generation: must be an integer, not {value!r}$"):
        model.generation = value
    assert model.generation == model.spec.generation


def test_generation_of_numpy(model):
    model.generation = np.int64(3)
    assert type(model.generation) is int


# Refusals: nothing is performed


def test_nothing_to_do_with_wide_keys():
    model = APBF(k=2, l=2, slice_bits=64, key_bits=100)
    none = np.zeros((0, 2), np.uint64)
    model.insert(none)
    assert model.query(none).shape == (0,)
    assert model.perform([], none).age.shape == (0,)


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


def test_partitioned_wrong():
    with pytest.raises(
        SpecificationError, match=r"^partitioned: must be True for apbf, not False$"
    ):
        APBF.__base__.__init__(APBF.__new__(APBF), preset("apbf-tiny"), partitioned=False)


def test_classes_take_defaults_of_the_specification():
    assert APBF(k=10, l=7, slice_bits=16384).spec == preset("apbf-default")
    blocked = APBBF(k=2, l=5, block_bits=64, hashes_per_block=4, blocks=1024)
    assert blocked.spec == preset("default")
    assert GEBF(window=20000, epochs=8, hashes=4, bits=9 * 4 * 8192).spec == preset("gebf-default")
    assert BlockedGEBF(
        window=20000, epochs=8, hashes=4, bits=9 * 32768, block_bits=64
    ).spec == preset("blocked-gebf-default")


def test_equal(spec, model):
    other = from_spec(spec)
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


# Memory


@pytest.mark.parametrize("spec", [spec for spec in PRESETS.values() if not spec.timed])
def test_memory_shape(spec):
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


def test_memory_is_a_copy(model):
    model.memory[:] = True
    model.segment(0)[:] = True
    assert not model.memory.any()


def test_spare_is_empty_at_every_step(spec, model):
    rng = np.random.default_rng(1)
    for key in rng.integers(0, 256, 4 * spec.segments * spec.generation):
        model.insert([key])
        assert not spare_of(model).any()
        assert model.segment(0).any()
        assert np.array_equal(model.segment(0), model.memory[model.ring_position])


def test_fill_ratios_youngest_first(spec, model):
    rng = np.random.default_rng(1)
    model.insert(rng.integers(0, 256, 5 * spec.segments * spec.generation))
    ratios = [model.segment(index).mean() for index in range(spec.ring_segments)]
    assert model.fill_ratios().tolist() == ratios
    model.shift()
    assert model.fill_ratios().tolist() == [0, *ratios[:-1]]


@pytest.mark.parametrize("name", ["apbf-tiny", "apbbf-tiny", "gebf-tiny", "blocked-gebf-tiny"])
def test_estimated_rate_counts_the_matches(name):
    """Over the hash of every place, the estimate is the mean of what is reported."""
    spec = preset(name)
    model = from_spec(spec)
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


def test_estimated_rate_of_an_empty_filter(model):
    assert model.estimated_false_positive_rate() == 0


def test_scalar_twin_has_one_shard_by_default():
    shape = {"window": 8, "epochs": 2, "hashes": 2, "bits": 96, "seed": 1, "key_bits": 16}
    one, other = ScalarGEBF(**shape), ScalarGEBF(**shape, shards=1)
    for model in (one, other):
        for key in range(20):
            model.insert(key)
    assert one.segments == other.segments
