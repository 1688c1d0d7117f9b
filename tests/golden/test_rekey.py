"""New secrets while the filter runs: when they count, what they keep, when they are refused."""

import re
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import PATHS, chunks_of, taking
from scipy import stats
from small_filters import (
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
    FilterSpec,
    LatelyError,
    Operation,
    RekeyError,
    SpecificationError,
    from_spec,
    preset,
)
from lately.golden.ring import sliding

SECRETS = st.integers(0, (1 << 128) - 1)

# Sparse, so that no false positive hides an expiry.
SPARSE = {
    "apbf": FilterSpec(family="apbf", k=3, l=2, slice_bits=1 << 16, generation=5),
    "apbbf": FilterSpec(
        family="apbbf", k=2, l=3, block_bits=64, hashes_per_block=4, blocks=256, generation=4
    ),
    "gebf": FilterSpec(family="gebf", window=12, epochs=3, hashes=4, bits=4 * 4 * 4096),
    "blocked-gebf": FilterSpec(
        family="blocked-gebf", window=12, epochs=3, hashes=4, bits=4 << 15, block_bits=256
    ),
}
SPARSE = {name: replace(spec, hash="siphash", rekey=True) for name, spec in SPARSE.items()}


@pytest.fixture(params=SPARSE)
def spec(request):
    return SPARSE[request.param]


# When a secret counts


def test_first_secret_is_that_of_all_segments(spec):
    assert from_spec(spec).secrets == [0] * spec.ring_segments
    assert from_spec(spec, secret=7).secrets == [7] * spec.ring_segments
    assert from_spec(spec, secret=7) != from_spec(spec, secret=8)
    key, other = np.array([5]), from_spec(spec, secret=8)
    other.insert(key)
    model = from_spec(spec, secret=7)
    model.insert(key)
    assert not np.array_equal(model.memory, other.memory)


@pytest.mark.parametrize("by", ["force", "insertion"])
def test_counts_from_the_next_shift(spec, by):
    model = from_spec(spec, secret=1)
    model.insert(np.arange(spec.generation - 1))
    model.rekey(2)
    assert model.secrets == [1] * spec.ring_segments
    # The generation's last insertion still belongs to the old secret.
    model.insert([100])
    assert model.secrets == [1] * spec.ring_segments
    model.shift() if by == "force" else model.insert([101])
    for younger in range(1, spec.ring_segments + 1):
        assert model.secrets == [2] * younger + [1] * (spec.ring_segments - younger)
        model.shift()
    assert model.secrets == [2] * spec.ring_segments


def test_counts_within_one_call(spec):
    """The shift comes in the middle of a batch: the keys before and after have their own."""
    together, apart = from_spec(spec, secret=1), from_spec(spec, secret=1)
    keys = np.arange(3 * spec.generation)
    for model in (together, apart):
        model.rekey(2)
    together.insert(keys)
    for key in keys:
        apart.insert([key])
    assert together == apart
    assert together.secrets == [2, 2] + [1] * (spec.ring_segments - 2)
    assert np.array_equal(together.age(keys), apart.age(keys))


def test_check_and_insert_that_shifts(spec):
    """It asks the ring as it was, under the old secret, and writes it as it is then."""
    model = from_spec(spec, secret=1)
    model.insert(np.arange(spec.generation))
    model.rekey(2)
    verdicts = model.perform([Operation.CHECK_AND_INSERT, Operation.QUERY], [3, 3])
    assert verdicts.age.tolist() == [0, 0]
    assert model.secrets[0] == 2
    # The youngest segment holds one key, by the secret that came with it.
    fresh = from_spec(spec, secret=2)
    fresh.shift()
    fresh.insert([3])
    assert np.array_equal(model.segment(0), fresh.segment(0))


def test_insertion_writes_each_segment_by_its_own_secret():
    spec = SPARSE["apbf"]
    model = from_spec(spec, secret=1)
    model.rekey(2)
    model.shift()
    model.insert([9])
    assert model.secrets == [2, 1, 1, 1, 1]
    for secret, segments in ((1, [1, 2]), (2, [0])):
        alone = from_spec(spec, secret=secret)
        alone.shift()
        alone.insert([9])
        for segment in range(spec.k):
            same = np.array_equal(model.segment(segment), alone.segment(segment))
            assert same == (segment in segments)


@pytest.mark.parametrize("shifts", [0, 1, 2])
def test_clear_gives_all_segments_the_newest(spec, shifts):
    model = from_spec(spec, secret=1)
    model.insert([1])
    model.rekey(2)
    for _ in range(shifts):
        model.shift()
    model.clear()
    assert model == from_spec(spec, secret=2)
    assert model.rekey_ready


def test_without_rekey_counts_from_the_next_clear(spec):
    spec = replace(spec, rekey=False)
    model = from_spec(spec, secret=1)
    model.insert(np.arange(3 * spec.generation))
    model.rekey(2)
    assert model.rekey_ready
    # One loaded later takes its place.
    model.rekey(3)
    for _ in range(2 * spec.segments):
        model.insert(np.arange(spec.generation))
        assert model.secrets == [1] * spec.ring_segments
    model.clear()
    assert model.secrets == [3] * spec.ring_segments
    assert model == from_spec(spec, secret=3)
    model.clear()
    assert model == from_spec(spec, secret=3)


# Refusals


def refused(model, secret, left):
    before, secrets = model.memory, model.secrets
    plural = "shifts" if left > 1 else "shift"
    message = (
        "rekey: must come when all segments of the ring have one secret, "
        f"not {left} {plural} before"
    )
    assert not model.rekey_ready
    with pytest.raises(RekeyError, match=f"^{re.escape(message)}$") as caught:
        model.rekey(secret)
    assert isinstance(caught.value, LatelyError)
    assert np.array_equal(model.memory, before)
    assert model.secrets == secrets


@pytest.mark.parametrize("idle", [0, 1, 3])
def test_refused_until_the_last_older_segment_has_left(spec, idle):
    """Accepted right after that shift: the spare, which it becomes, counts for nothing."""
    model = from_spec(spec, secret=1)
    for _ in range(idle):
        model.shift()
    model.rekey(2)
    for left in range(spec.ring_segments, 0, -1):
        refused(model, 3, left)
        model.shift()
    assert model.rekey_ready
    model.rekey(3)
    refused(model, 4, spec.ring_segments)
    model.shift()
    assert model.secrets == [3] + [2] * (spec.ring_segments - 1)


def test_refused_for_the_same_secret_too(spec):
    model = from_spec(spec, secret=1)
    model.rekey(1)
    refused(model, 1, spec.ring_segments)
    model.shift()
    refused(model, 1, spec.ring_segments - 1)


def test_refused_without_a_keyed_hash():
    model = from_spec(preset("tiny"))
    message = r"^secret: must not be given for hash h3, which takes none$"
    with pytest.raises(SpecificationError, match=message):
        model.rekey(1)
    with pytest.raises(SpecificationError, match=message):
        from_spec(preset("tiny"), secret=1)
    assert model.secrets == [0] * 4
    assert from_spec(preset("tiny"), secret=0) == model


@pytest.mark.parametrize("rekey", [False, True])
def test_secret_wrong(rekey):
    model = from_spec(replace(SPARSE["gebf"], rekey=rekey), secret=1)
    for kind, bad, rule in (
        (TypeError, 1.0, "must be an integer, not float"),
        (TypeError, None, "must be an integer, not NoneType"),
        (ValueError, -1, "must be at least 0, not negative"),
        (ValueError, 1 << 128, "must be below 2**128, not of 129 bits"),
    ):
        for call in (model.rekey, lambda secret: from_spec(model.spec, secret=secret)):
            with pytest.raises(kind, match=f"^secret: {re.escape(rule)}$"):
                call(bad)
    assert model == from_spec(model.spec, secret=1)


def test_classes_take_hash_and_secret():
    shared = {"k": 2, "l": 2, "block_bits": 8, "hashes_per_block": 2, "blocks": 4, "key_bits": 16}
    model = APBBF(**shared, hash="siphash", rekey=True, secret=5)
    assert model.spec == preset("siphash-tiny")
    assert model.secrets == [5] * 4


# Twins


@given(model=filters(lanes=(1,)), data=st.data())
def test_scalar_twin(model, data):
    spec = replace(model.spec, hash="siphash", rekey=True)
    secret = data.draw(SECRETS, "secret")
    partitioned = model.partitioned
    model = type(model).__new__(type(model))
    with taking(data.draw(st.sampled_from(PATHS), "path")):
        sliding.SlidingFilter.__init__(model, spec, partitioned=partitioned, secret=secret)
    twin = twin_of(model)
    keys = data.draw(key_lists(spec.key_bits, 60), "keys")
    while keys:
        if model.rekey_ready and data.draw(st.booleans(), "rekey"):
            secret = data.draw(SECRETS, "secret")
            model.rekey(secret)
            twin.rekey(secret)
        size = data.draw(st.integers(1, len(keys)), "size")
        batch, keys = keys[:size], keys[size:]
        kind = data.draw(st.sampled_from(["insert", "query", "age", "check_and_insert"]), "kind")
        answers = getattr(model, kind)(as_keys(batch, spec.key_bits))
        expected = [getattr(twin, kind)(key) for key in batch]
        assert kind == "insert" or answers.tolist() == expected
        assert segments_of(model) == [twin.segment(i) for i in range(spec.ring_segments)]


class KeyedDefinition(Definition):
    """Definition whose segments have the secrets of the generations that they came with."""

    def __init__(self, spec, secret):
        super().__init__(spec)
        self.secrets = [secret]
        self.waiting = None
        # Generation that the newest secret came with; long past, if the ring has no other.
        self.came = -spec.ring_segments

    def secret_of(self, segment):
        return self.secrets[max(0, len(self.generations) - 1 - segment)]

    def bits(self, key, segment):
        kept = self.hash
        self.hash = lambda key, function: kept(key, function, self.secret_of(segment))
        try:
            return super().bits(key, segment)
        finally:
            self.hash = kept

    def shift(self):
        super().shift()
        if self.spec.rekey and self.waiting is not None:
            self.secrets.append(self.waiting)
            self.waiting = None
            self.came = len(self.generations) - 1
        else:
            self.secrets.append(self.secrets[-1])

    def perform(self, operation, key):
        age = super().perform(operation, key)
        if operation == Operation.CLEAR:
            newest = self.secrets[-1] if self.waiting is None else self.waiting
            self.secrets, self.waiting = [newest], None
            self.came = -self.spec.ring_segments
        return age

    def shifts_to_rekey(self):
        """Shifts until the oldest segment of the ring came with the newest secret or after it."""
        if not self.spec.rekey:
            return 0
        if self.waiting is not None:
            return self.spec.ring_segments
        oldest = len(self.generations) - self.spec.ring_segments
        return max(0, self.came - oldest)


@given(
    spec=specs(lanes=(1,)),
    path=st.sampled_from(PATHS),
    chunk=st.sampled_from([1, 3, 7, 1 << 15]),
    data=st.data(),
)
def test_mixed_operations(spec, path, chunk, data):
    """Shifts and clears among them; every secret is another."""
    spec = replace(spec, hash="siphash", rekey=data.draw(st.booleans(), "rekey"))
    secrets = count(1 << 70)
    first = next(secrets)
    with taking(path):
        model, alone = from_spec(spec, secret=first), from_spec(spec, secret=first)
    definition = KeyedDefinition(spec, first)
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
        singles = [alone.perform(codes[i : i + 1], array[i : i + 1]).age[0] for i in range(size)]
        assert singles == expected
        assert segments_of(model) == [definition.blocks(i) for i in range(spec.ring_segments)]
        assert not spare_of(model).any()
        ring = range(spec.ring_segments)
        assert model.secrets == [definition.secret_of(segment) for segment in ring]
        assert model == alone
        assert counters_of(model) == counters_of(alone)
        left = definition.shifts_to_rekey()
        assert model.rekey_ready == (left == 0)
        if left:
            refused(model, 0, left)
        elif data.draw(st.booleans(), "load"):
            definition.waiting = next(secrets)
            model.rekey(definition.waiting)
            alone.rekey(definition.waiting)
        keys, codes = keys[size:], codes[size:]


# Guarantees


def test_window_across_a_new_secret_at_every_phase(spec):
    """Exactly the generations of the window are reported, as if there had been no new secret."""
    total = 3 * spec.segments * spec.generation
    keys = np.arange(1, total + 1) * 0x9E3779B1
    for first in range(1, (spec.segments + 1) * spec.generation + 1):
        model = from_spec(spec, secret=1)
        loaded = 0
        for n in range(1, total + 1):
            if n >= first and model.rekey_ready:
                loaded += 1
                model.rekey(loaded)
            model.insert(keys[n - 1 : n])
            generations = (n - 1) // spec.generation - np.arange(n) // spec.generation
            reported = generations <= spec.window_generations
            assert np.array_equal(model.age(keys[:n]), np.where(reported, generations, -1))
            since = np.arange(n)[::-1]
            assert reported[since <= spec.guaranteed_window].all()
        assert loaded >= 2


def test_no_trace_after_window_and_slack(spec):
    """Two filters that differ in one key are in one state from the bound on, not before."""
    bound = spec.guaranteed_window + spec.slack
    for first in range(1, 2 * spec.generation + 1):
        for load in range(0, bound, 3):
            pair = from_spec(spec, secret=1), from_spec(spec, secret=1)
            for model, key in zip(pair, (10**9, 10**9 + 1), strict=True):
                model.insert([*range(first - 1), key])
            for n in range(bound + 1):
                if n == load:
                    for model in pair:
                        model.rekey(2)
                past = (first - 1 + n) // spec.generation - (first - 1) // spec.generation
                assert (pair[0] != pair[1]) == (past < spec.ring_segments), (first, load, n)
                for model in pair:
                    model.insert([n + 1000])


# Rates: the seeds are clusters, one figure each, with a secret each; a two-sided t interval that
# holds at 99.99 % for all comparisons together (Bonferroni).

SEEDS = 16
STREAMS = {"sequential": 0, "stride 2**12": 12, "stride 2**32": 32}
FILTERS = {
    "apbbf": FilterSpec(
        family="apbbf", k=2, l=5, block_bits=64, hashes_per_block=4, blocks=256, generation=1374
    ),
    "apbf": FilterSpec(family="apbf", k=4, l=3, slice_bits=1 << 13),
    "gebf": FilterSpec(family="gebf", window=5000, epochs=4, hashes=4, bits=5 * 4 << 12),
}
COMPARISONS = len(STREAMS) * len(FILTERS) * 2


@pytest.mark.statistics
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("rekeyed", [False, True])
def test_rate_of_regular_keys(name, stream, rekeyed):
    """Just before a shift; `rekeyed` with half of the segments of an older secret."""
    spec = replace(FILTERS[name], hash="siphash", rekey=True)
    expected = spec.worst_false_positive_rate
    inserted = spec.ring_segments * spec.generation
    queries = round(400 / expected)
    rates = []
    for seed in range(SEEDS):
        random = np.random.default_rng([seed, 64])
        secrets = [int.from_bytes(random.bytes(16), "little") for _ in range(2)]
        model = from_spec(replace(spec, seed=seed), secret=secrets[0])
        keys = np.arange(inserted + queries, dtype=np.uint64) << np.uint64(STREAMS[stream])
        half = (spec.ring_segments // 2) * spec.generation
        model.insert(keys[:half])
        if rekeyed:
            model.rekey(secrets[1])
        model.insert(keys[half:inserted])
        assert len(set(model.secrets)) == 1 + rekeyed
        rates.append(model.query(keys[inserted:]).mean())
    spread = np.std(rates, ddof=1)
    half = stats.t.isf(1e-4 / COMPARISONS / 2, SEEDS - 1) * spread / SEEDS**0.5
    mean = np.mean(rates)
    print(f"{name}, {stream}: rate {mean:.6f} +- {half:.6f}, theory {expected:.6f}")
    assert half < 0.2 * expected, "the interval says nothing"
    assert abs(mean - expected) <= half
