"""Window dictionary against an exact list of digests; its edges and its rates."""

import random

import numpy as np
import pytest
from cases import daily
from dictionary_oracle import DictionaryOracle
from paths import PATHS, taking
from small_filters import as_keys

from lately.golden import (
    DICTIONARIES,
    Operation,
    WindowDictionary,
    WindowDictionarySpec,
    dictionary_preset,
    from_spec,
)
from lately.golden.analysis import column_loads, digest_false_positive_rate, stashed_entries
from lately.golden.hash.functions import offset_terms
from lately.golden.spec.dictionary_sizes import min_columns, min_digest_bits
from lately.intervals import clopper_pearson

ROOMY = {"window": 20, "columns": 4, "rows": 64, "digest_bits": 30, "stash": 4}


CODES = (
    Operation.NONE,
    Operation.QUERY,
    Operation.INSERT,
    Operation.CHECK_AND_INSERT,
    Operation.REMOVE,
    Operation.CLEAR,
)


@pytest.mark.parametrize("seed", daily(20, range(60)))
def test_like_the_definition(seed):
    """In one batch and one operation at a time, by both paths, with losses, clears and secrets."""
    print("seed", seed)
    draw = random.Random(seed)
    row_bits, columns = draw.randint(1, 4), draw.randint(1, 5)
    spec = WindowDictionarySpec(
        window=draw.randint(1, 40),
        columns=columns,
        rows=1 << row_bits,
        digest_bits=row_bits + draw.choice([1, 2, 5, 32]),
        stash=draw.randint(1, 5),
        moves=draw.choice([None, 1, 3, 40]) if columns > 1 else None,
        hash=draw.choice(["h3", "siphash"]),
        seed=seed % 4,
        key_bits=draw.choice([1, 4, 64, 100, 130]),
    )
    private = spec.hash == "siphash"
    secret = seed if private else 0
    models = []
    for path in (PATHS[seed % 2], *PATHS):
        with taking(path):
            models.append(WindowDictionary(**vars(spec), secret=secret))
    single, oracle = models[0], DictionaryOracle(spec, secret)
    universe = [draw.randrange(1 << spec.key_bits) for _ in range(draw.randint(1, 60))]
    for _ in range(10):
        count = draw.randint(0, 40)
        codes = draw.choices(CODES, [5, 15, 25, 25, 5, draw.choice([0, 1])], k=count)
        keys = [draw.choice(universe) for _ in range(count)]
        windows = [draw.randint(1, spec.window) for _ in range(count)]
        if private and draw.random() < 0.3:
            secret = draw.getrandbits(128)
            for model in models:
                model.rekey(secret)
        results = [
            model.perform(codes, as_keys(keys, spec.key_bits), windows=windows)
            for model in models[1:]
        ]
        for at, (code, key, window) in enumerate(zip(codes, keys, windows, strict=True)):
            age = oracle.age(key, window) if code & 1 and not code & 4 else -1
            status = code in (Operation.QUERY, Operation.CHECK_AND_INSERT)
            expected = age >= 0, age, status and window > oracle.covered(), oracle.covered()
            alone = single.perform([code], as_keys([key], spec.key_bits), windows=[window])
            for each in (alone, *(result.part([at]) for result in results)):
                assert (each.seen, each.age, each.status, each.covered) == expected
            if code == Operation.CLEAR:
                oracle.empty(secret)
            oracle.follow(code, key, single)
        for model in models[1:]:
            assert model == single
            assert (model.lost, model.stash_peak) == (single.lost, single.stash_peak)
            assert model.counters == single.counters


@pytest.mark.parametrize(("stash", "moves"), [(1, None), (1, 8), (2, 3)])
def test_no_key_of_the_guaranteed_window_is_missed(stash, moves):
    """Overloaded, so that entries are evicted after younger ones; both paths agree."""
    print("seed", stash)
    rng = np.random.default_rng(stash)
    codes = rng.choice(CODES, 8000, p=[0.02, 0.35, 0.2, 0.4, 0.03, 0])
    codes[2000] = Operation.CLEAR
    keys, windows = rng.integers(0, 4000, 8000), rng.integers(1, 2001, 8000)
    models = []
    for path in PATHS:
        with taking(path):
            models.append(WindowDictionary(
                window=2000, columns=3, rows=512, digest_bits=40, stash=stash, moves=moves
            ))  # fmt: skip
        assert models[-1].compiled == (path == "compiled")
    fast, slow = models
    results, expected = (model.perform(codes, keys, windows=windows) for model in models)
    assert all(np.array_equal(*both) for both in zip(results, expected, strict=True))
    assert fast == slow
    assert (fast.lost, fast.stash_peak) == (slow.lost, slow.stash_peak)
    last, insertions, guaranteed = {}, 0, 0
    for code, key, window, age, status in zip(
        codes, keys.tolist(), windows.tolist(), results.age, results.status, strict=True
    ):
        if code == Operation.CLEAR:
            last, insertions = {}, 0
        elif code & Operation.QUERY:
            due = insertions - last.get(key, -2000)
            assert age in (due, -1)
            if due < window and not status:
                guaranteed += 1
                assert age == due
        if code in (Operation.INSERT, Operation.CHECK_AND_INSERT):
            insertions += 1
            last[key] = insertions
        elif code == Operation.REMOVE:
            last.pop(key, None)
    assert guaranteed > 50


# Edges


@pytest.mark.parametrize("window", [1, 2, 3, 20])
def test_forgets_at_exactly_the_window(window):
    model = WindowDictionary(**ROOMY | {"window": window})
    for start in range(4):
        model.clear()
        model.insert(np.arange(100, 100 + start))
        model.insert([1])
        for age in range(window):
            # n - 1 insertions after its own it is reported still, after n no more.
            assert model.age([1]).tolist() == [age]
            assert model.query([1]).tolist() == [True]
            assert model.query([1, 1, 1], [window, age + 1, max(1, age)]).tolist() == [
                True,
                True,
                age == 0,
            ]
            model.insert([1000 + age])
        assert model.age([1]).tolist() == [-1]
        assert not model.query(1)
        model.insert([7])
        assert not model.query(1)


def test_moves_make_room():
    """What finds no cell otherwise: nothing waits in the stash, and answers are the same."""
    sizes = {"window": 100, "columns": 3, "rows": 64, "digest_bits": 30, "stash": 64}
    still, moving = WindowDictionary(**sizes), WindowDictionary(**sizes, moves=64)
    keys = np.random.default_rng(5).integers(0, 400, 5000)
    assert np.array_equal(still.check_and_insert(keys), moving.check_and_insert(keys))
    assert np.array_equal(still.age(np.arange(400)), moving.age(np.arange(400)))
    assert still.stash_peak > 5
    assert moving.stash_peak == 0


# Rates


def test_rate_formula():
    assert digest_false_positive_rate(1, 1) == 0.5
    assert digest_false_positive_rate(1000, 20) == pytest.approx(1 - (1 - 2**-20) ** 1000)
    assert digest_false_positive_rate(1, 60) == pytest.approx(2**-60)


@pytest.mark.statistics
@pytest.mark.parametrize("name", daily(1, ["1000", "10000"]))
def test_false_positive_rate(name):
    """Of fresh keys, for several windows; intervals of 99.9 %, seed 12."""
    model = from_spec(dictionary_preset(name))
    rng = np.random.default_rng(12)
    for window in (model.window, model.window // 3):
        hits, trials, expected = 0, 0, []
        for _ in range(40):
            model.insert(rng.integers(0, 1 << 62, model.window, np.uint64))
            fresh = rng.integers(1 << 63, 1 << 64, 100_000, np.uint64)
            hits += int(model.query(fresh, window).sum())
            trials += len(fresh)
            expected.append(model.expected_false_positive_rate(window))
        low, high = clopper_pearson(hits, trials, confidence=0.999)
        theory = digest_false_positive_rate(window, model.digest_bits)
        print(f"{name}, window {window}: {hits / trials:.6f} in [{low:.6f}, {high:.6f}]: {theory}")
        assert low <= theory <= high
        assert low <= np.mean(expected) <= high
    assert model.lost == 0


@pytest.mark.statistics
@pytest.mark.parametrize(("columns", "rows"), [(4, 256), (6, 128), (2, 1024)])
def test_column_loads(columns, rows):
    """Entries offered to each column, from its share of live cells; 100 windows, seed 7."""
    model = WindowDictionary(window=600, columns=columns, rows=rows, digest_bits=30, stash=256)
    rng = np.random.default_rng(7)
    counts = []
    model.insert(rng.integers(0, 1 << 63, 1200))
    for _ in range(100):
        model.insert(rng.integers(0, 1 << 63, 600))
        live = np.count_nonzero(model.memory[0], axis=1)
        counts.append([*live, model.stashed])
    loads = column_loads(600, columns=columns, rows=rows)
    expected = [rows * x / (1 + x) for x in loads[:-1]] + [rows * loads[-1]]
    mean, error = np.mean(counts, axis=0), np.std(counts, axis=0) / 10
    print(mean, expected, error)
    # The flow from one column to the next is not quite Poisson: 2 % of a column, 5 errors.
    assert (np.abs(mean - expected) <= 0.02 * rows + 5 * error).all()


@pytest.mark.statistics
@pytest.mark.parametrize("name", ["1000", "10000", "ring-1000", "ring-10000"])
def test_stash_of_presets_is_large_enough(name):
    model = from_spec(dictionary_preset(name))
    rng = np.random.default_rng(9)
    for _ in range(20):
        model.insert(rng.integers(0, 1 << 63, 100_000))
    print(f"{name}: stash {model.stash_peak} of {model.stash}")
    assert model.lost == 0
    assert model.guaranteed_window == model.window


# The map from digests to cells


@pytest.mark.parametrize("row_bits", [1, 5, 11])
@pytest.mark.parametrize("rest_bits", [1, 2, 9, 12, 32])
def test_offset_terms(row_bits, rest_bits):
    terms = offset_terms(columns=8, row_bits=row_bits, rest_bits=rest_bits, seed=1)
    assert terms[0] == ((),) * row_bits
    for column in terms[1:]:
        assert {len(set(each)) for each in column} <= set(range(min(3, rest_bits) + 1))
        assert {bit for each in column for bit in each} <= set(range(rest_bits))
    assert offset_terms(columns=8, row_bits=row_bits, rest_bits=rest_bits, seed=2) != terms


def test_columns_share_few_digests():
    """Digests that share a cell of one column seldom share one of another."""
    for name in ("1000", "10000"):
        spec = dictionary_preset(name)
        shape = {"columns": spec.columns, "row_bits": spec.row_bits, "rest_bits": spec.rest_bits}
        terms = offset_terms(**shape, seed=0)
        rests = np.arange(1 << spec.rest_bits)
        maps = []
        for column in terms:
            rows = np.zeros_like(rests)
            for bit, each in enumerate(column):
                for term in each:
                    rows ^= (rests >> term & 1) << bit
            maps.append(rows)
        for number in range(spec.columns):
            for other in range(number):
                # Of full rank, it would be 1 and 2.
                assert (maps[number] == maps[other]).sum() <= 4


# Specifications, parameters and files


def test_presets():
    assert {name: (spec.timestamp_bits, spec.cell_bits) for name, spec in DICTIONARIES.items()} == {
        "tiny": (9, 14),
        "1000": (14, 25),
        "10000": (15, 27),
        "ring-tiny": (10, 15),
        "ring-1000": (14, 25),
        "ring-10000": (15, 27),
    }
    # Block RAMs of 18,432 bits: words of 18 bits by 1,024, or of 9 by 2,048.
    small, default = DICTIONARIES["1000"], DICTIONARIES["10000"]
    assert small.columns * -(-small.cell_bits // 18) == 10
    assert default.columns * -(-default.cell_bits // 9) == 30
    small, default = DICTIONARIES["ring-1000"], DICTIONARIES["ring-10000"]
    assert small.columns * -(-small.cell_bits // 18) == 6
    assert default.columns * -(-default.cell_bits // 9) == 24
    small = DICTIONARIES["1000"]
    assert small.storage_bits == 5 * 1024 * 25 + 4 * (1 + 14 + 20)


def test_timestamps_are_just_long_enough():
    """n + 10 rows + 256 codes: the least power of two that has them."""
    for window in (4096 - 10 * 256 - 256, 4096 - 10 * 256 - 255):
        spec = WindowDictionarySpec(window=window, columns=2, rows=256, digest_bits=20)
        assert spec.timestamp_bits == (12 if window + 10 * 256 + 256 <= 4096 else 13)


@pytest.mark.parametrize("window", [1, 10, 300, 1000, 10_000, 50_000])
def test_for_window(window):
    model = WindowDictionary.for_window(window, 0.001)
    assert model.window == window
    assert model.fpr <= 0.001
    assert column_loads(window, columns=model.columns, rows=model.rows)[-1] * model.rows <= 0.01
    model.insert(np.arange(3 * window))
    assert model.lost == 0
    assert model.query(np.arange(2 * window, 3 * window)).all()


def test_secret_is_zero_unless_given():
    plain = WindowDictionary(**ROOMY, hash="siphash")
    zero = WindowDictionary(**ROOMY, hash="siphash", secret=0)
    for model in (plain, zero):
        model.insert([1, 2])
    assert plain == zero


def test_secret_counts_from_the_next_clear():
    model = WindowDictionary(**ROOMY, hash="siphash", secret=5)
    model.rekey(6)
    model.insert([1, 2])
    assert model.age([1, 2]).tolist() == [1, 0]
    memory = model.memory
    model.clear()
    model.insert([1, 2])
    assert not np.array_equal(model.memory, memory)
    other = WindowDictionary(**ROOMY, hash="siphash", secret=6)
    other.insert([1, 2])
    assert model == other


# Sizes of hardware


def test_shape_tells_whether_entries_move():
    plain, moving = dictionary_preset("1000"), dictionary_preset("ring-1000")
    assert plain.shape == "window-dictionary 5 x 1,024, D=20"
    assert moving.shape == "window-dictionary 3 x 1,024, D=20, moves"


def test_digest_is_the_shortest_that_keeps_the_rate():
    """At the rate of 20 bits itself 20 are enough, and below it they are not."""
    rate = digest_false_positive_rate(1000, 20)
    assert min_digest_bits(1000, rate) == 20
    assert min_digest_bits(1000, rate * (1 - 1e-9)) == 21


def test_columns_with_moves_are_the_fewest_that_keep_the_share():
    """Two at least, and as many as leave one insertion in 40 without a cell; 8 at most."""
    rows = 256
    assert min_columns(1, rows, moves=True) == 2
    for columns in range(2, 9):
        kept = [
            window
            for window in range(1, columns * rows)
            if stashed_entries(window, columns=columns, rows=rows) <= window / 40
        ]
        more = None if columns == 8 else columns + 1
        assert min_columns(kept[-1], rows, moves=True) == columns
        assert min_columns(kept[-1] + 1, rows, moves=True) == more


@pytest.mark.statistics
@pytest.mark.parametrize("path", PATHS)
def test_removals_erase_exactly_the_keys_with_the_digests(path):
    """As often as the page of an exported unit states, and no counter shows it."""
    with taking(path):
        model = WindowDictionary(window=4000, columns=5, rows=4096, digest_bits=17, stash=8)
    oracle, keys = DictionaryOracle(model.spec), np.random.default_rng(8).integers(0, 1 << 63, 4000)
    model.insert(keys)
    model.remove(keys[:2000])
    gone = {oracle.digest(int(key)) for key in keys[:2000]}
    erased = np.array([oracle.digest(int(key)) in gone for key in keys[2000:]])
    assert (model.query(keys[2000:]) == ~erased).all()
    assert (model.lost, model.guaranteed_window) == (0, 4000)
    low, high = clopper_pearson(int(erased.sum()), 2000, confidence=0.999)
    assert low < digest_false_positive_rate(2000, model.digest_bits) < high
