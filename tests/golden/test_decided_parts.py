"""Timing filters in parts whose answers are those of a table of thresholds."""

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
from lately.golden.spec.timestamp import PartitionedTimingSpec

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
        told = model.perform(codes, keys, *times, windows=classes)
        due = plain.perform(codes, keys, *times)
        assert (told.age == due.age).all()
        assert (told.oldest == due.oldest).all()
        for at in range(400):
            phase = 0 if timed else (inserted % plain.block << bits) // plain.block
            enough = due.oldest[at] >= table[classes[at], due.age[at], phase]
            asks = codes[at] in (Operation.QUERY, Operation.CHECK_AND_INSERT)
            assert told.seen[at] == (asks and enough)
            inserted += bool(codes[at] & OperationBit.INSERT) and codes[at] < 4
            inserted *= codes[at] != Operation.CLEAR
    assert model.insertions == plain.insertions > 100


def test_table_of_an_inferential_filter():
    """Without a class, a query is of the first."""
    filter_ = InferentialFilter(
        window=48, block=16, cells=96, hashes=3, probability=0.01,
        distinct={"kind": "uniform", "universe": 100},
    )  # fmt: skip
    classes = [QueryClass(probability=0.01, false_positive=one, false_negative=1) for one in (9, 0)]
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
