"""The inferential filter against its scalar twin, at exact edges, and in state files."""

import json
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import PATHS, taking
from scalar_inferential import ScalarInferential
from small_filters import as_keys
from timing_oracle import TimingOracle

from lately.golden import (
    BlockTimingBloomFilter,
    InferentialFilter,
    SpecificationError,
)
from lately.golden.timestamp import distinct as d
from lately.golden.timestamp.inferential import age_posterior

UNIFORM = {"kind": "uniform", "universe": 300}
SMALL = {
    "window": 9,
    "cells": 20,
    "hashes": 2,
    "block": 4,
    "distinct": UNIFORM,
    "probability": 0.1,
}


# The scalar twin


def sampled(reach):
    """Every second number of insertions, so that others are interpolated."""
    at = sorted({*range(1, reach, 2), reach})
    return {"kind": "sampled", "at": at, "values": [1 + 0.7 * (length - 1) for length in at]}


@st.composite
def filters(draw):
    window, block = draw(st.integers(1, 20)), draw(st.integers(1, 12))
    distinct = draw(
        st.sampled_from(
            [
                {"kind": "all-distinct"},
                {"kind": "uniform", "universe": draw(st.integers(1, 30))},
                {"kind": "power-law", "universe": draw(st.integers(2, 30))},
                sampled(window + block - 1),
            ]
        )
    )
    with taking(draw(st.sampled_from(PATHS))):
        return InferentialFilter(
            window=window,
            block=block,
            cells=draw(st.integers(2, 40)),
            hashes=draw(st.integers(1, 4)),
            padding=draw(st.one_of(st.none(), st.integers(0, 9))),
            distinct=distinct,
            probability=draw(st.floats(0.01, 0.5)),
            false_positive=draw(st.floats(0, 3)),
            false_negative=draw(st.floats(0, 3)),
            recurring=draw(st.booleans()),
            seed=draw(st.integers(0, 3)),
            key_bits=draw(st.sampled_from([4, 64, 100])),
        )


def twin_of(model):
    kind, rest = model.distinct["kind"], {**model.distinct}
    del rest["kind"]
    if kind == "sampled":
        rest = {"at": rest["at"], "distinct": rest["values"]}
    names = {
        "all-distinct": d.all_distinct,
        "uniform": d.uniform_distinct,
        "power-law": d.power_law_distinct,
        "sampled": d.interpolated_distinct,
    }
    count = partial(names[kind], **rest)
    return ScalarInferential(
        TimingOracle(model.model), D=lambda j: float(count(j)), recurring=model.recurring
    )


@given(model=filters(), data=st.data())
def test_scalar_twin(model, data):
    """Key by key, with the parameters of the filter or with those that a query has of each key."""
    twin = twin_of(model)
    keys = data.draw(st.lists(st.integers(0, 15), min_size=1, max_size=60), "keys")
    while keys:
        size = data.draw(st.integers(1, len(keys)), "size")
        batch, keys = keys[:size], keys[size:]
        window = data.draw(st.one_of(st.none(), st.integers(1, model.window)), "window")
        given, rows = said(model, size, data)
        kind = data.draw(st.sampled_from(CALLS), "kind")
        answers = perform(model, kind, as_keys(batch, model.key_bits), window, given)
        for key, answer, said_of_key in zip(batch, answers, rows, strict=True):
            assert agrees(answer, twin, key, window, *said_of_key)
            if kind != "query":
                twin.filter.insert(key)
        assert model.insertions == twin.filter.insertions
        timestamps = [twin.filter.timestamp(cell) for cell in range(model.cells)]
        assert model.model.timestamps.tolist() == timestamps
        posterior = model.posterior(as_keys(range(16), model.key_bits), window).tolist()
        expected = [twin.posterior(key, model.probability, window) for key in range(16)]
        assert posterior == pytest.approx(expected, rel=1e-8, abs=1e-13)


CALLS = ["insert", "query", "check_and_insert", "posterior_and_insert"]


def perform(model, kind, keys, window, given):
    """Answers to a call; None for each key that is inserted only."""
    if kind == "insert":
        model.insert(keys)
        return [None] * len(keys)
    if kind == "posterior_and_insert":
        given = {name: value for name, value in given.items() if name == "probabilities"}
    return getattr(model, kind)(keys, window, **given).tolist()


def agrees(answer, twin, key, window, p_x, c_fp, c_fn):
    """Whether the twin gives the same posterior or decision, but for the last digits of costs."""
    inside = twin.posterior(key, p_x, window)
    match answer:
        case bool():
            equal = math.isclose(c_fp * (1 - inside), c_fn * inside, rel_tol=1e-9)
            return equal or answer == twin.query(key, p_x, window, c_fp=c_fp, c_fn=c_fn)
        case float():
            return answer == pytest.approx(inside, rel=1e-8, abs=1e-13)
    return answer is None


def said(model, size, data):
    """What a query says of its keys, and p_x and penalties of each as the twin takes them."""
    names = ["probabilities", "false_positive", "false_negative"]
    defaults = [model.probability, model.false_positive, model.false_negative]
    ranges = [st.floats(0.01, 0.5), st.floats(0, 3), st.floats(0, 3)]
    given, columns = {}, []
    for name, value, drawn in zip(names, defaults, ranges, strict=True):
        column = [value] * size
        if data.draw(st.booleans(), name):
            column = data.draw(st.lists(drawn, min_size=size, max_size=size), name)
            given[name] = column
        columns.append(column)
    return given, list(zip(*columns, strict=True))


def test_function_of_one_s_own():
    """What the docstring says of a D(j) that is a function."""
    keys = np.random.default_rng(4).integers(0, 300, 500)
    filter_ = InferentialFilter(**SMALL)
    alone = BlockTimingBloomFilter(window=9, block=4, cells=20, hashes=2)
    filter_.insert(keys)
    alone.insert(keys)
    inferred = age_posterior(
        alone.inspect(keys),
        0.1,
        model=alone,
        distinct=partial(d.uniform_distinct, universe=300),
    )
    assert inferred.within(9).tolist() == filter_.posterior(keys).tolist()
    assert inferred.expected().tolist() == filter_.ages(keys).expected().tolist()


# Exact edges


def alone_and_others(model):
    """Return a key, and one that touches none of its cells."""
    hashed = model._hash
    rows = np.stack(hashed.indices(hashed.state(np.arange(50, dtype=np.uint64)[:, None]), 0), 1)
    return 0, next(key for key in range(1, 50) if not {*rows[key]} & {*rows[0]})


@pytest.mark.parametrize("window", [1, 2, 12])
@pytest.mark.parametrize("block", [1, 5])
@pytest.mark.parametrize("before", [0, 3])
def test_last_insertion_of_the_window(window, block, before):
    """A key that may be in the window is reported if denials cost enough, any other never is."""
    filter_ = InferentialFilter(
        window=window, cells=200, hashes=3, block=block, distinct=UNIFORM, probability=0.01,
        false_negative=1e12,
    )  # fmt: skip
    key, other = alone_and_others(filter_.model)
    filter_.insert([other] * before + [key])
    last_of_block = (before // block + 1) * block
    for insertions in range(before + 1, before + 2 * window + 2 * block):
        assert filter_.insertions == insertions
        for v in {1, window}:
            possible = insertions < last_of_block + v
            assert (filter_.posterior([key], v)[0] > 0) == possible
            assert filter_.query([key], v)[0] == possible
            if block == 1:
                assert possible == (insertions - before - 1 < v)
        assert filter_.check_and_insert([other]).shape == (1,)


def even():
    """A filter whose one cell tells nothing: after one insertion the posterior is p_x."""
    filter_ = InferentialFilter(
        window=1, cells=1, hashes=1, distinct={"kind": "all-distinct"}, probability=0.5
    )
    filter_.insert([7])
    assert filter_.posterior([7])[0] == 0.5
    return filter_


def test_both_answers_cost_the_same():
    less = np.nextafter(1, 0)
    filter_ = even()
    assert filter_.query([7]).tolist() == [True]
    assert filter_.query([7, 7, 7], false_negative=[1, less, 2]).tolist() == [True, False, True]
    assert filter_.query([7, 7], false_positive=[less, 2]).tolist() == [True, False]
    assert filter_.check_and_insert([7], false_negative=less).tolist() == [False]
    assert filter_.check_and_insert([7]).tolist() == [True]


def test_penalty_of_zero():
    filter_ = InferentialFilter(**SMALL | {"cells": 500})
    filter_.insert(np.arange(100))
    keys = np.arange(200)
    posterior = filter_.posterior(keys)
    assert (posterior == 0).any()
    assert (posterior > 0.5).any()
    assert filter_.query(keys, false_positive=0).all()
    assert np.array_equal(filter_.query(keys, false_negative=0), posterior == 1)
    assert filter_.query(keys, false_positive=0, false_negative=0).all()
    assert InferentialFilter(**SMALL, false_positive=0).query([1]).tolist() == [True]
    assert InferentialFilter(**SMALL, false_negative=0).query([1]).tolist() == [False]


@pytest.mark.parametrize("kind", ["all-distinct", "uniform", "power-law", "sampled"])
@pytest.mark.parametrize("recurring", [False, True])
@pytest.mark.parametrize(("window", "block"), [(1, 1), (7, 1), (1, 5), (7, 3), (6, 40)])
def test_no_more_of_d_is_asked_for_than_it_must_reach(kind, recurring, window, block):
    """A sample that ends at the last number of insertions is enough; a shorter one is refused."""
    reach = window + block - 1 if recurring else block
    distinct = {
        "all-distinct": {"kind": "all-distinct"},
        "uniform": {"kind": "uniform", "universe": 1},
        "power-law": {"kind": "power-law", "universe": 1},
        "sampled": sampled(reach),
    }[kind]
    sizes = {"window": window, "block": block, "cells": 300, "hashes": 2, "recurring": recurring}
    filter_ = InferentialFilter(**sizes, distinct=distinct, probability=0.01)
    key, other = alone_and_others(filter_.model)
    filter_.insert([key])
    for _ in range(2 * (window + block)):
        posterior = filter_.posterior([key, other])
        assert ((posterior >= 0) & (posterior <= 1)).all()
        filter_.insert([other])
    if kind == "sampled" and reach > 1:
        message = f"^distinct: at must end at {reach} or more, not {reach - 1}$"
        with pytest.raises(SpecificationError, match=message):
            InferentialFilter(**sizes, distinct=sampled(reach - 1), probability=0.01)


# Contracts


@pytest.fixture
def filter_():
    return InferentialFilter(
        window=100, block=8, cells=600, hashes=4, distinct=UNIFORM, probability=1 / 300
    )


def test_batch_longer_than_a_chunk():
    sizes = {"window": 20_000, "cells": 60_000, "hashes": 3, "distinct": UNIFORM}
    together, apart = (InferentialFilter(**sizes, probability=1e-4) for _ in range(2))
    random = np.random.default_rng(5)
    keys, chances = random.integers(0, 30_000, 50_000), random.uniform(1e-5, 1e-3, 50_000)
    seen = together.check_and_insert(keys, probabilities=chances)
    parts = [
        apart.check_and_insert(keys[part], probabilities=chances[part])
        for part in np.array_split(np.arange(50_000), 7)
    ]
    assert np.array_equal(seen, np.concatenate(parts))
    assert together == apart


def test_zero_is_what_the_standard_filter_denies(filter_):
    """Theorem 2, for every window up to that of the filter."""
    filter_.insert(np.random.default_rng(4).integers(0, 300, 997))
    keys = np.arange(300)
    for window in (1, 3, 8, 40, 99, 100):
        posterior = filter_.posterior(keys, window)
        assert np.array_equal(posterior == 0, ~filter_.model.query(keys, window))
    for smaller, larger in [(1, 8), (8, 40), (99, 100)]:
        few, more = (filter_.posterior(keys, window) for window in (smaller, larger))
        assert (few <= more).all()
    assert np.array_equal(filter_.posterior(keys), filter_.posterior(keys, 100))


def test_ages_of_expired_keys(filter_):
    filter_.insert(np.arange(1000, 1200))
    ages = filter_.ages([1000, 1199], probabilities=0.01)
    assert ages.within(100)[0] == 0
    assert ages.most_likely()[0] == 100
    assert ages.expected()[0] == pytest.approx(100 + 99)
    assert ages.at(99)[0] == 0
    assert ages.at(100)[0] == pytest.approx(0.01)
    assert ages.expected()[1] < 10


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("distinct", {"kind": "all-distinct"}),
        ("probability", 0.2),
        ("false_positive", 2),
        ("false_negative", 2),
        ("recurring", True),
    ],
)
def test_filters_of_other_parameters_differ(name, value):
    assert InferentialFilter(**SMALL) != InferentialFilter(**SMALL | {name: value})
    assert InferentialFilter(**SMALL) != BlockTimingBloomFilter(
        window=9, cells=20, hashes=2, block=4
    )


def test_parameters():
    assert InferentialFilter(**SMALL).parameters == SMALL | {
        "false_positive": 1, "false_negative": 1, "recurring": False, "padding": 2, "seed": 0,
        "key_bits": 64,
    }  # fmt: skip


@pytest.mark.parametrize(
    "distinct",
    [
        {"kind": "all-distinct"},
        {"kind": "uniform", "universe": np.int64(7)},
        {"kind": "uniform", "universe": 1 << 64},
        {"kind": "power-law", "universe": 1 << 64},
        {"kind": "sampled", "at": np.array([1, 12]), "values": np.array([1, 5.5])},
        {"kind": "sampled", "at": (1, 12), "values": (1, np.float32(5.5))},
    ],
)
def test_json_holds_the_parameters(distinct):
    chosen = {"distinct": distinct, "probability": np.float64(0.25), "recurring": True}
    filter_ = InferentialFilter(**SMALL | chosen)
    again = InferentialFilter(**json.loads(json.dumps(filter_.parameters)))
    assert again == filter_
    assert again.parameters == json.loads(json.dumps(filter_.parameters)) == filter_.parameters
    filter_.insert(np.arange(30))
    again.insert(np.arange(30))
    assert np.array_equal(again.posterior(np.arange(40)), filter_.posterior(np.arange(40)))


def test_parameters_cannot_be_changed_from_outside():
    sample = {"kind": "sampled", "at": [1, 4], "values": [1.0, 3.0]}
    filter_ = InferentialFilter(**SMALL | {"distinct": sample})
    sample["values"][1] = 4.0
    filter_.distinct["values"][1] = 2.0
    assert filter_.distinct == {"kind": "sampled", "at": [1, 4], "values": [1.0, 3.0]}
