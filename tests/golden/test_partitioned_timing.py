"""Partitioned timing Bloom filters against their scalar twin, and the edges of their windows."""

from copy import deepcopy

import numpy as np
import pytest

from lately.golden import (
    DecisionTable,
    InferentialFilter,
    Operation,
    PartitionedTimingFilter,
    QueryClass,
    SpecificationError,
    TimedTimingFilter,
    load,
)
from lately.golden.operations import OperationBit
from lately.golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec

LARGE = {"hashes": 3, "cells": 1 << 12}


@pytest.mark.parametrize("silence", [0, 1, 2**31, 2**40])
@pytest.mark.parametrize(("period", "phase"), [(1, 0), (10, 0), (10, 9)])
def test_reported_to_the_end_of_each_window_of_time(period, phase, silence):
    """At exactly w, and until the tick after it; by the filter's own window at W."""
    for ticks in range(9):
        model = TimedTimingFilter(span=8 * period, period=period, **LARGE)
        start = silence * period + phase
        model.insert([5], [start])
        last = start - phase + (ticks + 1) * period - 1
        asked = [start + ticks * period, last, last + 1]
        verdicts = model.perform([1, 1, 1], [5] * 3, asked, ticks * period)
        assert verdicts.seen.tolist() == [True, True, False]
        assert verdicts.age.tolist() == [ticks, ticks, ticks + 1]
        assert model.query([5] * 3, asked).tolist() == [True, True, ticks < 8]
        for window in {ticks * period, max(0, ticks * period - period + 1)}:
            assert model.query([5] * 3, asked, window=window).tolist() == [True, True, False]
            for refresh in (True, False):
                seen = deepcopy(model).check_and_insert(5, last + 1, window=window, refresh=refresh)
                assert (seen, model.query(5, last, window=[window])) == (False, True)


@pytest.mark.parametrize("silence", [9, 2**16, 2**40, 2**61])
def test_nothing_comes_again_after_silence(silence):
    model = TimedTimingFilter(span=8, stamp_bits=5, **LARGE)
    model.insert([5], [3])
    verdicts = model.perform([1, 3, 1], [5] * 3, [3 + silence] * 3)
    assert verdicts.seen.tolist() == [False, False, True]
    assert verdicts.age.tolist() == [9, 9, 0]
    assert verdicts.oldest.tolist() == [3] * 3
    assert set(model.memory.ravel().tolist()) == {0, 9}


def test_block_ends_with_its_last_insertion():
    model = PartitionedTimingFilter(window=8, block=4, **LARGE)
    model.insert([1, 2, 3])
    assert model.age([1]).tolist() == [0]
    model.insert([4])
    assert model.age([1, 4, 9]).tolist() == [1, 1, -1]
    model.insert([5])
    assert model.age([5]).tolist() == [0]


def test_long_streams_are_cut_without_a_trace():
    """More operations than are hashed at a time, with a CLEAR in a later piece."""
    seed = 20261123
    print(f"seed {seed}")
    draw = np.random.default_rng(seed)
    operations = draw.choice([1, 2, 3], 80_000, p=[0.3, 0.3, 0.4])
    operations[70_000] = Operation.CLEAR
    keys = draw.integers(0, 3000, 80_000)
    windows = draw.integers(0, 9, 80_000) * 100
    whole = PartitionedTimingFilter(window=800, block=100, hashes=3, cells=1000)
    pieces = PartitionedTimingFilter(window=800, block=100, hashes=3, cells=1000)
    verdicts = whole.perform(operations, keys, windows=windows)
    cuts = [(at, at + 7777) for at in range(0, 80_000, 7777)]
    parts = [pieces.perform(operations[a:b], keys[a:b], windows=windows[a:b]) for a, b in cuts]
    for name in verdicts._fields:
        joined = np.concatenate([getattr(part, name) for part in parts])
        assert np.array_equal(getattr(verdicts, name), joined)
    assert whole == pieces


def test_false_positive_rate():
    """Of fresh keys with a full window: 99.9 % interval over 200 filters, of relative width 2 %."""
    seed = 20261123
    print(f"seed {seed}")
    keys = np.random.default_rng(seed).permutation(100_000)
    rates = []
    for number in range(200):
        model = PartitionedTimingFilter(window=400, block=10, hashes=3, cells=400, seed=number)
        model.insert(keys[: 800 + number % 10])
        rates.append(model.query(keys[5000:15_000]).mean())
    mean, error = np.mean(rates), 3.3 * np.std(rates) / np.sqrt(len(rates))
    print(f"{mean:.5f} within {error:.5f}, expected {model.fpr:.5f}")
    assert error < 0.02 * mean
    assert abs(mean - model.fpr) < error


@pytest.mark.parametrize(
    ("span", "stamp_bits", "chosen", "sweep"),
    [(29, None, 6, 33), (29, 5, 5, 1), (1, None, 2, 1), (32, None, 7, 94), (1, 64, 64, 2**64 - 3)],
)
def test_bits_of_a_stamp(span, stamp_bits, chosen, sweep):
    spec = TimedTimingSpec(span=span, stamp_bits=stamp_bits, **LARGE)
    assert (spec.stamp_bits, spec.sweep_blocks) == (chosen, sweep)
    assert TimedTimingFilter(span=span, stamp_bits=stamp_bits, **LARGE).spec == spec


# Timing filters in parts whose answers are those of a table of thresholds


SEED = 16180
COUNTED = {"window": 48, "block": 16, "hashes": 3, "cells": 32, "key_bits": 12}
TIMED = {"span": 8, "period": 2, "hashes": 3, "cells": 32, "key_bits": 12}


def random_table(draw, model):
    return draw.integers(0, model.hashes + 2, model.thresholds.shape)


@pytest.mark.parametrize(("kind", "sizes", "bits"), [
    (PartitionedTimingFilter, COUNTED, 0), (PartitionedTimingFilter, COUNTED, 2),
    (PartitionedTimingFilter, COUNTED | {"block": 12}, 3), (TimedTimingFilter, TIMED, 0),
])  # fmt: skip
def test_answers_are_looked_up(kind, sizes, bits):
    """By class, age, cells and phase, of which a filter with windows tells the second and third."""
    print(f"seed {SEED}")
    draw = np.random.default_rng(SEED)
    model, plain = kind(**sizes, classes=3, phase_bits=bits), kind(**sizes)
    timed, inserted = kind is TimedTimingFilter, 0
    assert model.thresholds.shape == (3, model.window_blocks + 2, 1 << bits)
    for part in range(4):
        table = random_table(draw, model)
        model.decide_by(table)
        codes = draw.choice([*range(4), 3, 3, 3], 400)
        codes[200:201] = Operation.CLEAR
        keys, classes = draw.integers(0, 60, 400), draw.integers(0, 3, 400)
        times = [400 * part + np.arange(400) // 3] if timed else []
        if timed:
            codes[codes == Operation.CLEAR] = Operation.NONE
        results = model.perform(codes, keys, *times, windows=classes)
        due = plain.perform(codes, keys, *times)
        assert (results.age == due.age).all()
        assert (results.oldest == due.oldest).all()
        for at in range(400):
            phase = 0 if timed else (inserted % plain.block << bits) // plain.block
            enough = due.oldest[at] >= table[classes[at], due.age[at], phase]
            asks = codes[at] in (Operation.QUERY, Operation.CHECK_AND_INSERT)
            assert results.seen[at] == (asks and enough)
            inserted += bool(codes[at] & OperationBit.INSERT) and codes[at] < 4
            inserted *= codes[at] != Operation.CLEAR
    assert model.insertions == plain.insertions > 100


def test_table_of_an_inferential_filter():
    """Without a class, a query is of the first."""
    filter_ = InferentialFilter(
        window=48, block=16, cells=96, hashes=3, probability=0.01,
        distinct={"kind": "uniform", "universe": 100},
    )  # fmt: skip
    classes = [
        QueryClass(probability=0.01, false_positive=cost, false_negative=1) for cost in (9, 0)
    ]
    model = PartitionedTimingFilter(**COUNTED, classes=2, phase_bits=2)
    model.decide_by(DecisionTable.of(filter_, classes, 2).thresholds)
    model.insert(np.arange(40))
    first, second = (
        model.perform([1] * 60, np.arange(60), windows=number).seen for number in (0, 1)
    )
    assert (model.query(np.arange(60)) == first).all()
    assert second.all() > first.all()


def test_every_key_is_reported_without_a_table_and_state_is_kept(tmp_path):
    model = PartitionedTimingFilter(**COUNTED, classes=1)
    assert model.query(np.arange(9)).all()
    model.decide_by(np.full((1, 5, 1), 4))
    model.check_and_insert(np.arange(9))
    model.clear()
    assert not model.query(np.arange(9)).any()
    model.insert([3])
    model.save(tmp_path / "table.state")
    again = load(tmp_path / "table.state")
    assert again == model
    again.decide_by(np.zeros((1, 5, 1), int))
    assert again != model


def test_fields_of_filters_without_a_table_are_as_before():
    """Digests of specifications name what was built and measured."""
    assert not {"classes", "phase_bits"} & PartitionedTimingSpec(**COUNTED).to_dict().keys()
    spec = PartitionedTimingSpec(**COUNTED, classes=2)
    assert spec.to_dict().items() >= {"classes": 2, "phase_bits": 0}.items()
    assert PartitionedTimingSpec.from_dict(spec.to_dict()) == spec


def test_table_is_saved(tmp_path):
    path = tmp_path / "table.json"
    table = DecisionTable(np.arange(20, dtype=np.uint8).reshape(2, 5, 2), 18, 16, 1)
    table.save(path)
    again = DecisionTable.load(path)
    assert np.array_equal(again.thresholds, table.thresholds)
    assert again.thresholds.dtype == np.uint8
    assert (again.hashes, again.block, again.bits) == (18, 16, 1)


def test_thresholds_are_bytes():
    """One more than the hashes is the highest of them."""
    sizes = {"window": 8, "cells": 16, "classes": 1}
    PartitionedTimingSpec(**sizes, hashes=254)
    PartitionedTimingSpec(**{**sizes, "classes": None}, hashes=255)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"\xff", b'{"hashes": 1, "block": 1, "bits": 0}',
     b'{"hashes": 1, "block": 1, "bits": 0, "thresholds": [[1]]}',
     b'{"hashes": 1, "block": 1, "bits": 0, "thresholds": [[[256]]]}',
     b'{"hashes": 1, "block": 1, "bits": 0, "thresholds": [[[0.5]]]}',
     b'{"hashes": 1, "block": 1, "bits": 0, "thresholds": [[[]]]}',
     b'{"hashes": 1e999, "block": 1, "bits": 0, "thresholds": [[[1]]]}',
     b'{"hashes": 1.5, "block": 1, "bits": 0, "thresholds": [[[1]]]}',
     b'{"hashes": null, "block": 1, "bits": 0, "thresholds": [[[1]]]}', b"[" * 100_000],
)  # fmt: skip
def test_file_is_no_table(content, tmp_path):
    path = tmp_path / "table.json"
    path.write_bytes(content)
    with pytest.raises(SpecificationError, match=r"table.json: must be a table that .* wrote: "):
        DecisionTable.load(path)
