"""Rings of all families with a span of time: their twin, and each promise at its edge."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import PATHS, taking
from small_filters import (
    as_keys,
    segments_of,
    spare_of,
    specs,
    timed_twin,
)

from lately.golden import (
    GEBF,
    FilterSpec,
    Operation,
    PoolStatus,
    RotationPolicy,
    RotationState,
    SpecificationError,
    TimeLimitedRing,
    from_spec,
    load,
    preset,
)
from lately.golden.ring.rotation import STATUSES

FAMILIES = {
    "apbf": {"k": 4, "l": 5, "slice_bits": 1 << 20, "generation": 10},
    "apbbf": {
        "k": 3, "l": 5, "block_bits": 64, "hashes_per_block": 4, "blocks": 1 << 16,
        "generation": 10,
    },
    "gebf": {"window": 50, "epochs": 5, "hashes": 4, "bits": 6 << 22},
    "blocked-gebf": {
        "window": 50, "epochs": 5, "hashes": 4, "bits": 6 << 22, "block_bits": 256,
    },
}  # fmt: skip
"""So large that a chance match is not to be expected; 5 generations of 10 insertions."""

EACH = pytest.mark.parametrize("family", FAMILIES)
BOTH = pytest.mark.parametrize("when_full", ["shorten", "overfill"])


def ring(family, span=1000, **changed):
    return TimeLimitedRing(FilterSpec(family=family, span=span, **FAMILIES[family] | changed))


# Against the twin


@st.composite
def timed_specs(draw):
    spec = replace(draw(specs()), lanes=1)
    span = draw(st.sampled_from([1, 2, 5, 13, 40, 1000]))
    least = span // spec.window_generations + 1
    return replace(
        spec,
        span=span,
        generation_span=draw(st.integers(least, span + 1)),
        when_full=draw(st.sampled_from(["shorten", "overfill"])),
    )


def stream(spec, seed, count):
    """Operations, keys and times: bursts, equal times, slow spells and silences."""
    rng = np.random.default_rng(seed)
    span = spec.span
    steps = rng.choice([0, 1, span // 4 + 1, span // 2, span, span + 1, 3 * span, 1 << 40], count)
    steps *= rng.random(count) < rng.choice([0.01, 0.1, 0.5])
    steps += (rng.random(count) < rng.choice([0, 0.3, 1])) * rng.integers(0, 3, count)
    codes = rng.choice(6, count, p=[0.04, 0.2, 0.34, 0.36, 0.04, 0.02])
    pool = [int(key) for key in rng.integers(0, 1 << min(62, spec.key_bits), 12)]
    return codes, [pool[i] for i in rng.integers(0, 12, count)], np.cumsum(steps)


def one_by_one(twin, code, key, now):
    """Perform an operation on the twin; its age, and the guarantees of its answer."""
    age, guarantees = -1, (twin.status(now), twin.guaranteed_span(now))
    if code in (Operation.QUERY, Operation.CHECK_AND_INSERT):
        age = twin.age(key, now)
    if code in (Operation.INSERT, Operation.CHECK_AND_INSERT):
        twin.insert(key, now)
    elif code == Operation.SHIFT:
        twin.shift(now)
    elif code == Operation.CLEAR:
        twin.clear()
    return age, *guarantees


@given(spec=timed_specs(), seed=st.integers(0, 1 << 32), data=st.data())
def test_twin(spec, seed, data):
    """160 operations an example: every answer, guarantee, counter and bit."""
    model, twin = TimeLimitedRing(spec), timed_twin(spec)
    codes, keys, times = stream(spec, seed, 160)
    cuts = sorted(data.draw(st.sets(st.integers(1, 159), max_size=4), "cuts"))
    for part in np.split(np.arange(160), cuts):
        batch = [keys[i] for i in part]
        expected = [one_by_one(twin, codes[i], keys[i], int(times[i])) for i in part]
        got = model.perform(codes[part], as_keys(batch, spec.key_bits), times[part])
        assert got.age.tolist() == [age for age, _, _ in expected]
        assert got.seen.tolist() == [age >= 0 for age, _, _ in expected]
        assert [STATUSES[code] for code in got.status] == [status for _, status, _ in expected]
        assert got.covered.tolist() == [span + 1 for _, _, span in expected]
        blocks = range(spec.segment_blocks)
        assert segments_of(model) == [[s.blocks.get(b, 0) for b in blocks] for s in twin.s]
        assert not spare_of(model).any()
        assert model.settled_times == [s.t for s in twin.s]
        for name in ("shortened", "overfilled", "shifts"):
            assert getattr(model, name) == getattr(twin, name)
        now = int(times[part[-1]])
        for later in (now, now + spec.span, now + spec.span + 1):
            assert model.status(later) == twin.status(later)
            assert model.guaranteed_span(later) == twin.guaranteed_span(later)
            ages = model.age(as_keys(batch, spec.key_bits), later)
            assert ages.tolist() == [twin.age(key, later) for key in batch]
        twin.g = model.generation = data.draw(st.integers(1, 9), "generation")


# What is promised, at its edge


@BOTH
@EACH
def test_reported_at_the_span_and_not_after(family, when_full):
    model = ring(family, when_full=when_full)
    model.insert([7], [50])
    assert model.query([7] * 4, [50, 51, 1050, 1051]).tolist() == [True, True, True, False]
    assert model.age([7, 7], [1050, 1051]).tolist() == [0, -1]


@BOTH
@EACH
def test_check_and_insert_at_the_span_and_after(family, when_full):
    """Though its own insertion turns the ring first, or finds it empty."""
    for age, seen in ((1000, True), (1001, False)):
        model = ring(family, when_full=when_full)
        verdicts = model.perform([3, 3], [7, 7], [0, age])
        assert verdicts.seen.tolist() == [False, seen]
        assert (model.shifts, model.shortened) == (1, 0)
        assert (model.operations, model.hits, model.insertions) == (2, seen, 2)


@EACH
def test_check_answers_from_before_its_turn(family):
    """The one slice of the run that is past the span would be one position less old after it."""
    for now, seen in ((1000, True), (1001, False)):
        model = ring(family)
        verdicts = model.perform([2, 2, 3], [7, 8, 7], [0, 201, now])
        assert model.shifts == 2
        assert verdicts.seen.tolist() == [False, False, seen]


def bursty_times(count, seed):
    """Steps of 0 to 9, with a burst in one tick, and silences of up to three spans."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(0, 10, count)
    steps[count // 2 : count // 2 + 200] = 0
    steps[rng.integers(0, count, 8)] = rng.integers(300, 3000, 8)
    return np.cumsum(steps)


def asked_later(times, ages):
    """Insertions of keys 0, 1, ... at `times`, each asked for at an age: codes, keys, times."""
    count = len(times)
    codes = np.repeat([Operation.INSERT, Operation.QUERY], count)
    all_times = np.concatenate([times, times + ages])
    order = np.lexsort((codes == Operation.QUERY, all_times))
    return codes[order], np.tile(np.arange(count), 2)[order], all_times[order]


@pytest.mark.parametrize("seed", [1, 2])
@EACH
def test_overfill_reports_at_the_very_span_at_any_rate(family, seed):
    model = ring(family, when_full="overfill")
    codes, keys, times = asked_later(bursty_times(3000, seed), 1000)
    verdicts = model.perform(codes, keys, times)
    assert verdicts.seen[codes == Operation.QUERY].all()
    assert (verdicts.covered == 1001).all()
    assert model.overfilled > 500
    assert model.shortened == 0


@EACH
def test_shorten_reports_at_the_very_span_at_the_rate_it_is_made_for(family):
    model = ring(family)
    codes, keys, times = asked_later(np.arange(0, 10_000, 21), 1000)
    verdicts = model.perform(codes, keys, times)
    assert verdicts.seen[codes == Operation.QUERY].all()
    assert not verdicts.status.any()
    assert model.shifts == 10_000 // 210


@EACH
def test_shorten_reports_for_the_guaranteed_span_and_not_longer(family):
    """At four times that rate; the key of the loss itself is the next older one."""
    model = ring(family)
    times = np.arange(0, 5000, 5)
    model.insert(np.arange(93), times[:93])
    for stop in range(100, 1001, 7):
        model.insert(np.arange(stop - 7, stop), times[stop - 7 : stop])
        now = int(times[stop - 1])
        kept = model.guaranteed_span(now)
        assert 200 <= kept < 300
        assert model.query(np.flatnonzero(times[:stop] >= now - kept), now).all()
        (lost,) = np.flatnonzero(times == now - kept - 1)
        assert not model.query([lost], now)[0]
    lost = now - kept - 1
    assert model.status(lost + 1000) is PoolStatus.WINDOW_SHORTENED
    assert model.guaranteed_span(lost + 1000) == 999
    assert model.status(lost + 1001) is PoolStatus.OK
    assert model.guaranteed_span(lost + 1001) == 1000


@EACH
def test_nothing_is_reported_after_the_span_of_the_last_insertion(family):
    model = ring(family, when_full="overfill")
    times = bursty_times(500, 3)
    model.insert(np.arange(500), times)
    assert model.query([499], times[-1] + 1000)[0]
    assert not model.query(np.arange(500), times[-1] + 1001).any()


@pytest.mark.parametrize("silence", [1001, 3000, 1 << 20, 1 << 40, (1 << 62) - 400])
@BOTH
@EACH
def test_silence(family, when_full, silence):
    model = ring(family, when_full=when_full)
    model.insert(np.arange(300), np.arange(300))
    now = 299 + silence
    assert not model.query(np.arange(300), now).any()
    assert model.status(now) is PoolStatus.OK
    assert model.guaranteed_span(now) == 1000
    verdicts = model.perform([3, 1, 3, 1], [5, 5, 6, 299], [now] * 4)
    assert verdicts.seen.tolist() == [False, True, False, False]
    # Of k > 1 slices that are written, k - 1 were overfull before, and are it still.
    traces = when_full == "overfill" and model.spec.run > 1
    after = "rate exceeded" if traces else "ok"
    assert [STATUSES[code] for code in verdicts.status] == ["ok"] + [after] * 3


@EACH
def test_generation_ends_by_number_at_the_insertion_that_finds_it_full(family):
    model = ring(family)
    verdicts = model.perform([2] * 10 + [1, 0, 3, 1], [*range(10), 0, 0, 10, 0], [0] * 14)
    assert model.shifts == 1
    assert verdicts.age.tolist() == [-1] * 10 + [0, -1, -1, 1]


@EACH
def test_generation_ends_by_age_at_the_very_tick(family):
    """201 after its first insertion, not its last; only an insertion turns."""
    model = ring(family)
    model.insert([0, 1], [100, 150])
    for now, code, shifts in ((300, 2, 0), (301, 1, 0), (301, 0, 0), (301, 3, 1), (501, 2, 1)):
        model.perform([code], [now], [now])
        assert model.shifts == shifts
    model.insert([2], [502])
    assert model.shifts == 2


@EACH
def test_overfull_slices_tell_until_the_last_of_them_is_past_the_span(family):
    model = ring(family, when_full="overfill")
    k = model.spec.run
    verdicts = model.perform([2] * 63, np.arange(63), [0] * 63)
    # Five settled generations and the present one of 10, and one insertion too many.
    assert [STATUSES[code] for code in verdicts.status[60:]] == ["ok"] + ["rate exceeded"] * 2
    assert model.overfilled == 3
    assert model.status(1000) is PoolStatus.RATE_EXCEEDED
    assert model.status(1001) is PoolStatus.OK
    # A generation each of one insertion, until the k overfull slices have settled.
    last = [0, *(1001 + 201 * turn for turn in range(k))]
    model.insert(np.arange(k), last[1:])
    assert model.shifts == 5 + k
    if k > 1:
        assert model.status(last[-2] + 1000) is PoolStatus.RATE_EXCEEDED
    assert model.status(max(last[-1], last[-2] + 1001)) is PoolStatus.OK


@EACH
def test_shift_retires_a_slice_that_counts(family):
    model = ring(family)
    model.insert([7], [0])
    for shifts in range(1, 6):
        model.shift(0)
        assert model.age([7], 0).tolist() == [shifts]
    assert (model.shortened, model.status(0)) == (0, PoolStatus.OK)
    model.shift(0)
    assert model.age([7], 0).tolist() == [-1]
    assert (model.shifts, model.shortened, model.guaranteed_span(0)) == (6, 1, -1)
    assert model.status(1000) is PoolStatus.WINDOW_SHORTENED
    assert model.status(1001) is PoolStatus.OK


@EACH
def test_shift_retires_a_slice_past_the_span(family):
    for now, shortened in ((1000, 1), (1001, 0)):
        model = ring(family)
        model.insert([7], [0])
        verdicts = model.perform([4] * 6, [0] * 6, [now] * 6)
        assert model.shortened == shortened
        assert verdicts.covered.tolist() == [1001] * 6
        assert model.guaranteed_span(now) == 1000 - shortened


@EACH
def test_shift_is_an_event_in_time(family):
    model = ring(family)
    model.insert([7], [10])
    model.shift(50)
    assert (model.latest, model.last_insertion) == (50, 10)
    model.shift(9)
    assert model.latest == 50
    model.insert([8], 49)
    assert (model.last_insertion, model.late) == (50, 1)


@EACH
def test_clear_begins_anew_and_counts_on(family):
    model = ring(family)
    model.insert(np.arange(200), np.arange(200))
    counters = model.insertions, model.shifts, model.shortened
    assert min(counters) > 0
    verdicts = model.perform([2, 5, 1], [7, 7, 7], [300] * 3)
    assert verdicts.seen.tolist() == [False] * 3
    assert [STATUSES[code] for code in verdicts.status] == ["window shortened"] * 2 + ["ok"]
    assert verdicts.covered.tolist()[2] == 1001
    assert not model.memory.any()
    assert model == ring(family)
    model.insert([1], [70])
    model.clear()
    model.insert([1], [0])
    assert model.insertions == counters[0] + 3


@EACH
def test_generation_counts_from_the_next_turn_on(family):
    model = ring(family)
    model.generation = 3
    model.insert(np.arange(10), [0] * 10)
    assert (model.shifts, model.generation) == (0, 3)
    model.insert(np.arange(3), [0] * 3)
    assert model.shifts == 1
    model.insert([1], [0])
    assert model.shifts == 2
    for value, error in ((0, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match=f"^generation: must be .*, not {value}$"):
            model.generation = value


@given(spec=specs(), seed=st.integers(0, 1 << 32))
def test_policy_without_a_span_turns_as_filters_that_count_insertions(spec, seed):
    rng = np.random.default_rng(seed)
    codes = rng.choice(6, 80, p=[0.05, 0.2, 0.35, 0.35, 0.03, 0.02]).astype(np.uint8)
    turns, model = RotationState(RotationPolicy.of(spec)), from_spec(spec)
    passage = turns.follow(codes, np.sort(rng.integers(0, 100, 80)))
    forced = codes == Operation.SHIFT
    shifts = []
    for code in codes:
        model.perform([code], as_keys([0], spec.key_bits))
        shifts.append(model.shifts)
    assert np.cumsum(passage.turned | forced).tolist() == shifts
    assert (turns.insertions, turns.shifts) == (model.insertions, model.shifts)
    assert (turns.shortened, turns.overfilled, turns.guaranteed_span(100)) == (0, 0, -1)
    assert not passage.status.any()


# Bits, secrets, files


@EACH
def test_bits_are_those_of_the_filter_that_counts_insertions(family):
    """Under "shorten", with a span that nothing outlasts."""
    spec = FilterSpec(family=family, **FAMILIES[family])
    counted, timed = from_spec(spec), from_spec(replace(spec, span=1 << 40))
    rng = np.random.default_rng(4)
    codes = rng.choice(5, 500, p=[0.1, 0.2, 0.3, 0.35, 0.05])
    keys = rng.integers(0, 60, 500)
    verdicts = timed.perform(codes, keys, np.arange(500))
    assert np.array_equal(verdicts.age, counted.perform(codes, keys).age)
    assert np.array_equal(timed.memory, counted.memory)
    assert (timed.ring_position, timed.shifts) == (counted.ring_position, counted.shifts)
    assert timed.storage_bits == counted.storage_bits
    assert timed.worst_false_positive_rate == spec.worst_false_positive_rate


def test_secrets(tmp_path):
    spec = replace(preset("siphash-tiny"), span=1000)
    model = TimeLimitedRing(spec, secret=3)
    model.insert([1], [0])
    model.rekey(1 << 100)
    assert not model.rekey_ready
    model.shift(5)
    assert model.secrets == [1 << 100] + [3] * (spec.ring_segments - 1)
    model.insert([2], [6])
    assert model.query([1, 2], 6).all()
    model.save(tmp_path / "state", secrets=True)
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o600
    assert load(tmp_path / "state") == model


def test_span_missing():
    spec = FilterSpec(family="gebf", **FAMILIES["gebf"])
    message = "^span: must be given for TimeLimitedRing, not None$"
    with pytest.raises(SpecificationError, match=message):
        TimeLimitedRing(spec)
    message = "^span: must not be given for GEBF, which counts insertions, not 9$"
    with pytest.raises(SpecificationError, match=message):
        GEBF.from_spec(replace(spec, span=9))


# Bursts


@given(seed=st.integers(0, 1 << 32))
def test_longest_generations_keep_all_that_fits(seed):
    """No slice is lost while no span has more keys than the generations hold, in any bursts."""
    rng = np.random.default_rng(seed)
    writes, settled, generation = (int(number) for number in rng.integers(1, 5, 3))
    span = int(rng.integers(1, 60))
    policy = RotationPolicy(
        writes=writes, settled=settled, generation=generation, span=span, generation_span=span + 1
    )
    most = settled * generation + 1
    # As many at a time as the span has room for: now and then all, at once.
    times, now = [], 0
    while len(times) < 300:
        now += int(rng.choice([0, 1, span // 2, span, span + 1]))
        room = most - sum(now - time <= span for time in times)
        times += [now] * int(rng.choice([0, min(1, room), room]))
    turns = RotationState(policy)
    turns.follow(np.full(len(times), Operation.INSERT, np.uint8), np.array(times))
    assert turns.shortened == 0
    # One key more, in a span that begins with the last of a generation, is one too many.
    times = [0] * (generation - 1) + [1] + [span + 1] * most
    for count in (len(times) - 1, len(times)):
        turns = RotationState(policy)
        turns.follow(np.full(count, Operation.INSERT, np.uint8), np.array(times[:count]))
        assert turns.shortened == (count == len(times))


# Rates


@pytest.mark.parametrize("name", ["apbf-tiny", "tiny", "gebf-tiny", "blocked-gebf-tiny"])
def test_estimated_rate_is_of_what_counts(name):
    spec = replace(preset(name), span=100, key_bits=64)
    model = from_spec(spec)
    rng = np.random.default_rng(4)
    count = 4 * spec.generation
    model.insert(rng.integers(0, 1 << 63, count, np.uint64), np.arange(count) * 25)
    fresh = rng.integers(0, 1 << 63, 20_000, np.uint64)
    rates = []
    for now in range(model.last_insertion, model.last_insertion + 101, 20):
        rates.append(model.estimated_false_positive_rate(now))
        deviation = np.sqrt(rates[-1] * (1 - rates[-1]) / len(fresh))
        assert abs(model.query(fresh, now).mean() - rates[-1]) < 5 * deviation
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > rates[-1] > 0
    assert model.estimated_false_positive_rate(model.last_insertion + 101) == 0
    # The bits are there all the same.
    assert (model.fill_ratios()[: spec.run] > 0).all()


@given(spec=timed_specs(), seed=st.integers(0, 1 << 32), data=st.data())
def test_turns_of_both_paths(spec, seed, data):
    """The loop that is compiled and the one in numpy tell the same, and go on alike."""
    spec = spec if data.draw(st.booleans(), "span") else spec.untimed
    several = RotationState(RotationPolicy.of(spec)), RotationState(RotationPolicy.of(spec))
    codes, _, times = stream(replace(spec, span=spec.span or 50), seed, 120)
    for part in np.split(np.arange(120), [1, 70]):
        found = []
        for path, turns in zip(PATHS, several, strict=True):
            with taking(path):
                found.append(turns.follow(codes[part].astype(np.uint8), times[part]))
        assert all((one == other).all() for one, other in zip(*found, strict=True))
        assert several[0].numbers() == several[1].numbers()
        for turns in several:
            turns.generation = 1 + seed % 40


@pytest.mark.parametrize("path", PATHS)
def test_a_full_generation_goes_on_until_exactly_the_last_time_of_the_oldest_segment(path):
    spec = FilterSpec(
        family="apbf", k=2, l=3, slice_bits=64, generation=4, span=9, when_full="overfill"
    )
    turns = RotationState(RotationPolicy.of(spec))
    shifts = [Operation.SHIFT] * (turns.policy.writes + turns.policy.settled)
    codes = np.array([Operation.INSERT, *shifts, *[Operation.INSERT] * 7], np.uint8)
    times = np.array([*[0] * (1 + len(shifts)), *[9] * 6, 10])
    with taking(path):
        passage = turns.follow(codes, times)
    assert passage.turned[-7:].tolist() == [False] * 6 + [True]
    assert turns.overfilled == 2
