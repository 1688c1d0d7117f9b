"""Keys with chosen cells: h3 with known constants is broken, and siphash is not by this."""

from dataclasses import replace

import numpy as np
import pytest

from campaigns.chosen_keys import ChosenKeys, index_rows, solutions
from lately.golden import Operation, from_spec, preset
from lately.golden.hash.functions import KeyHash
from lately.golden.hash.keys import check_keys
from lately.golden.ring.segments import Layout

SEED = 5


def hash_of(name, **changes):
    return Layout.of(replace(preset(name), **changes), True).hash


@pytest.mark.parametrize("key_bits", [64, 65, 104, 200])
@pytest.mark.parametrize("seed", [0, 1, (1 << 64) - 1])
def test_any_state_has_a_key(key_bits, seed):
    """The map from 64 bits of the key to the state is a permutation, and is inverted."""
    keyed = KeyHash(key_bits=key_bits, sizes=(16,), functions=1, seed=seed)
    states = np.random.default_rng(SEED).integers(0, 1 << 64, 50, np.uint64)
    above = check_keys([(1 << key_bits) - 1], keyed.key_bits)
    keys = ChosenKeys(keyed).keys_of(states, above)
    assert np.array_equal(keyed.state(keys), states)
    assert (keys[:, 1:] == above[:, 1:]).all()


@pytest.mark.parametrize("name", ["default", "gebf-default", "blocked-gebf-default"])
def test_cells_of_a_victim(name):
    spec = preset(name)
    keyed = hash_of(name)
    functions = range(spec.run)
    random = np.random.default_rng(SEED)
    victims = random.integers(0, 1 << 64, 500, np.uint64)
    keys = ChosenKeys(keyed).with_cells_of(victims, functions, random)
    assert not (keys[:, 0] == victims).any()
    for function in functions:
        mine = keyed.indices(keyed.state(keys), function)
        theirs = keyed.indices(keyed.state(check_keys(victims, keyed.key_bits)), function)
        assert np.array_equal(mine, theirs)


def test_a_stranger_is_reported_after_one_chosen_key():
    """A key that never came is reported with certainty: h3 with known constants is broken."""
    spec = preset("default")
    victims = np.random.default_rng(SEED).integers(0, 1 << 64, 300, np.uint64)
    chosen = ChosenKeys(hash_of("default")).with_cells_of(
        victims, range(spec.k), np.random.default_rng(1)
    )
    filters = {
        "h3": from_spec(spec),
        "another seed": from_spec(replace(spec, seed=1)),
        "siphash": from_spec(replace(spec, hash="siphash"), secret=12345),
    }
    counts = {}
    for name, seen in filters.items():
        assert seen.ring_position == 0
        seen.insert(chosen[:, 0])
        counts[name] = int(seen.query(victims).sum())
    assert counts["h3"] == 300
    assert counts["another seed"] <= 1
    assert counts["siphash"] <= 1


@pytest.mark.parametrize("key_bits", [65, 104, 129])
def test_kernel_of_wide_keys(key_bits):
    """Every combination of these differences leaves the state of any key as it is."""
    keyed = KeyHash(key_bits=key_bits, sizes=(16,), functions=1, seed=SEED)
    differences = ChosenKeys(keyed).kernel()
    assert differences.shape == (key_bits - 64, -(-key_bits // 64))
    random = np.random.default_rng(SEED)
    keys = check_keys([0, 1, (1 << key_bits) - 1], keyed.key_bits)
    for _ in range(20):
        picked = random.random(len(differences)) < 0.5
        difference = np.bitwise_xor.reduce(differences[picked], axis=0)
        assert np.array_equal(keyed.state(keys ^ difference), keyed.state(keys))
    assert len(np.unique(differences, axis=0)) == key_bits - 64


@pytest.mark.parametrize("name", ["apbf-default", "default", "gebf-default"])
def test_twins_of_wide_keys_are_one_key(name):
    """In every family, at every place of the ring: seen by one who sends what nobody sent."""
    spec = replace(preset(name), key_bits=104)
    model = from_spec(spec)
    random = np.random.default_rng(SEED)
    keys = random.integers(0, 1 << 40, (spec.window, 2), np.uint64)
    ages = model.perform([Operation.INSERT] * len(keys), keys).age
    assert (ages == -1).all()
    twins = keys ^ ChosenKeys(hash_of(name, key_bits=104)).kernel()[7]
    assert model.query(twins).all()
    assert np.array_equal(model.age(twins), model.age(keys))


def test_chosen_indices():
    """In two functions at once, with all that is left drawn at random."""
    keyed = hash_of("default")
    numbers = np.arange(2000)
    wanted = [numbers % 1024, numbers % 16, numbers // 16 % 16, numbers % 7, numbers % 3]
    random = np.random.default_rng(SEED)
    keys = ChosenKeys(keyed).with_indices({6: wanted, 2: wanted}, random)
    assert len(np.unique(keys)) == 2000
    states = keyed.state(keys)
    for function in (6, 2):
        assert np.array_equal(keyed.indices(states, function), wanted)


def test_indices_are_sums_of_state_bits():
    keyed = hash_of("default")
    states = np.random.default_rng(SEED).integers(0, 1 << 64, 40, np.uint64)
    block, *_ = keyed.indices(states, 3)
    rows = index_rows(keyed, 3)
    for state, index in zip(states.tolist(), block.tolist(), strict=True):
        assert index == sum(
            (state & row).bit_count() % 2 << bit for bit, row in enumerate(rows[:10])
        )


def test_solutions():
    rows = [0b1011, 0b0110, 1 << 63 | 1]
    basis, kernel = solutions(rows)
    for number, vector in enumerate(basis):
        assert [(row & vector).bit_count() % 2 for row in rows] == [
            int(number == other) for other in range(3)
        ]
    assert len(kernel) == 61
    assert not any((row & vector).bit_count() % 2 for row in rows for vector in kernel)
