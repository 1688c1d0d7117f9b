"""The contract that all models share, held against each of them."""

import inspect
import re
from abc import ABC
from copy import deepcopy
from dataclasses import fields
from functools import partial
from inspect import getattr_static, signature

import numpy as np
import pytest
from every_model import MODELS, RINGS, build, model_class, times, used

from lately import golden
from lately.golden import (
    Filter,
    Operation,
    Results,
    SlidingFilter,
    Specification,
    SpecificationError,
    from_spec,
    load,
    locks,
)
from papers import models

SHIFTING = {*RINGS, "APBF", "APBBF", "GEBF", "BlockedGEBF"}
KEYS = np.arange(60)


@pytest.fixture(params=[*MODELS, *RINGS])
def model(request):
    return used(request.param)


def test_a_family_is_at_most_four_classes_deep():
    """The layout in C of an object, which the extension brings, does not count."""
    layout = {ABC, *locks.Base.__mro__}
    kinds = [golden.TimeLimitedRing, *golden.filter.MODELS.values()]
    classes = [kind for kind in kinds if kind.__module__.startswith("lately.golden.")]
    depths = {kind.__name__: len({*kind.__mro__} - layout) for kind in classes}
    assert len(depths) > 9
    assert max(depths.values()) == 4, depths


def test_every_model_is_held_to_the_contract():
    kinds = {
        name
        for name in (*golden.__all__, *models.__all__)
        if isinstance(kind := model_class(name), type)
        and issubclass(kind, Filter)
        and kind.specification.family
    }
    assert kinds == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_constructor_takes_the_fields_of_the_specification(name):
    kind = model_class(name)
    taken = inspect.signature(kind).parameters
    required = {name for name, each in taken.items() if each.default is each.empty}
    assert required == set(kind.specification.required_fields())
    assert required <= set(MODELS[name])
    assert set(taken) - {"secret", "partitioned"} <= set(kind.specification.field_names())
    for missing in required:
        with pytest.raises(TypeError, match=f"missing a required .*argument: '{missing}'"):
            kind(**{key: value for key, value in MODELS[name].items() if key != missing})
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        kind(**MODELS[name], other=1)


@pytest.mark.parametrize("name", MODELS)
def test_parameter_wrong(name):
    """Each integer below and above its range, and values that are no integers."""
    kind = model_class(name)
    wrong_type = SpecificationError if issubclass(kind, SlidingFilter) else TypeError
    for field in fields(kind.specification):
        if "range" not in field.metadata or field.name not in inspect.signature(kind).parameters:
            continue
        low, high = field.metadata["range"]
        shown = "2**48" if high == 1 << 48 and wrong_type is SpecificationError else high
        cases = [(SpecificationError, low - 1, f"must be at least {low}, not {low - 1}")]
        if high is not None:
            cases.append((SpecificationError, high + 1, f"must be at most {shown}, not {high + 1}"))
        for value in (1.5, "2", True):
            cases.append((wrong_type, value, f"must be an integer, not {value!r}"))
        for error, value, message in cases:
            with pytest.raises(error, match=f"^{field.name}: {re.escape(message)}$"):
                kind(**MODELS[name] | {field.name: value})


@pytest.mark.parametrize("name", [*MODELS, *RINGS])
def test_keys_wrong(name):
    """No method that takes keys performs anything of a batch with a wrong key."""
    model, before = (build(name, key_bits=8) for _ in range(2))
    for target in (model, before):
        target.insert([1], *times(target, 0, 1))
    methods = ["insert", "query", "age", "check_and_insert", "remove", "last_update", "ages"]
    methods += ["inspect", "inspect_and_insert", "posterior", "posterior_and_insert"]
    clear_and_insert = partial(model.perform, [Operation.CLEAR, Operation.INSERT])
    calls = [getattr(model, each) for each in methods if hasattr(model, each)]
    for keys, error, message in (
        ([1.0, 2.0], TypeError, "keys: must be integers, text or bytes, not float"),
        ([1, 256], ValueError, "keys: must be below 2**8, not 0x100"),
        ([1, -129], ValueError, "keys: must be at least -2**7, not -129"),
        ([[1, 2]], ValueError, "keys: must have shape (n,) for 8-bit keys, not (1, 2)"),
        ([[[7]]], ValueError, "keys: must have shape (n,) for 8-bit keys, not (1, 1, 1)"),
    ):
        for call in (*calls, clear_and_insert):
            with pytest.raises(error, match=f"^{re.escape(message)}$"):
                call(keys, *times(model, 5, len(keys)))
    assert model == before
    assert model.counters == before.counters


@pytest.mark.parametrize(
    "name", ["TimingBloomFilter", "BlockTimingBloomFilter", "InferentialFilter", "CuckooDictionary"]
)
def test_window_of_a_query_wrong(name):
    model, before = build(name), build(name)
    methods = ["query", "check_and_insert", "posterior", "posterior_and_insert"]
    calls = [partial(getattr(model, each), [1]) for each in methods if hasattr(model, each)]
    calls += [getattr(model, "expected_false_positive_rate", model.clear)]
    calls = [each for each in calls if "window" in signature(each).parameters]
    assert calls
    for call in calls:
        for window, error, rule in (
            (10, SpecificationError, "must be at most 9, not 10"),
            (0, SpecificationError, "must be at least 1, not 0"),
            (2.5, TypeError, "must be an integer, not 2.5"),
        ):
            with pytest.raises(error, match=f"^window: {rule}$"):
                call(window=window)
    assert model == before


@pytest.mark.parametrize("name", [*MODELS, *RINGS])
def test_messages_about_arguments_name_the_method_alone(name):
    model = build(name)
    kind, count = type(model), 0
    for method in (attribute for attribute in dir(kind) if not attribute.startswith("_")):
        made = isinstance(getattr_static(kind, method), classmethod)
        call = getattr(kind if made else model, method)
        if isinstance(call, type) or not callable(call) or "**window" in str(signature(call)):
            continue
        with pytest.raises(TypeError, match=rf"^{method}\(\) "):
            call(unknown=1)
        count += 1
    assert count > 15
    assert "tuple is refused" not in kind.insert.__doc__


@pytest.mark.parametrize("name", [*MODELS, *RINGS])
def test_no_keys(name):
    model, before = build(name), build(name)
    for none in ([], np.zeros(0, np.uint8)):
        clock = times(model, 0, 0)
        assert model.insert(none, *clock) is None
        for method, kind in (
            (model.query, np.bool_), (model.age, np.int64), (model.check_and_insert, np.bool_)
        ):  # fmt: skip
            result = method(none, *clock)
            assert (result.shape, result.dtype) == ((0,), kind)
        if name != "InferentialFilter":
            assert model.check_and_insert(none, *clock, refresh=False).shape == (0,)
        assert model.perform([], none, *clock).seen.shape == (0,)
    assert model == before
    assert not any(model.counters.values())
    assert not model.query(KEYS, *times(model, 0, 60)).any()


SIZES = {"bits", "cells", "counters", "window", "generation", "span", "capacity"}


def enlarged(name):
    """Return an empty filter; one that a part of a batch would fill has 997 times the size."""
    if name in {*RINGS, "APBF", "APBBF", "GEBF", "BlockedGEBF", "Swamp"} or "Dictionary" in name:
        return build(name)
    return build(name, **{field: 997 * MODELS[name][field] for field in SIZES & {*MODELS[name]}})


# An inferential filter of a size that costs little has a test of its own.
@pytest.mark.parametrize("name", sorted({*MODELS, *RINGS} - {"InferentialFilter"}))
def test_long_batch_is_many_short_ones(name):
    """Longer than the part of a batch that is hashed at a time."""
    together, apart = enlarged(name), enlarged(name)
    keys = np.random.default_rng(1).integers(0, 20_000, 40_000)
    clock = times(together, 0, len(keys))
    seen = together.check_and_insert(keys, *clock)
    cuts = np.array_split(np.arange(len(keys)), 7)
    parts = [apart.check_and_insert(keys[cut], *(each[cut] for each in clock)) for cut in cuts]
    assert np.array_equal(seen, np.concatenate(parts))
    assert together == apart
    assert together.counters == apart.counters
    assert 0 < together.hits == seen.sum() < 0.7 * len(seen)


@pytest.mark.parametrize("name", [*MODELS, *RINGS])
def test_counters_are_those_of_the_operations(name, tmp_path):
    model = build(name)
    codes = np.array([2, 3, 0, 1, 5, 3, 3, 1], np.uint8)
    results = model.perform(codes, [7] * 8, *times(model, 0, 8))
    hits = int(results.seen.sum())
    assert 2 <= hits <= 4
    model.query([7], *times(model, 50, 1))
    model.age([7], *times(model, 50, 1))
    expected = {"operations": 8, "insertions": 4, "hits": hits}
    assert {name: model.counters[name] for name in expected} == expected
    model.insert([8], *times(model, 60, 1))
    hits += int(model.check_and_insert([8], *times(model, 70, 1)).sum())
    model.clear()
    expected = {"operations": 11, "insertions": 6, "hits": hits}
    assert {name: model.counters[name] for name in expected} == expected
    model.save(tmp_path / "state")
    assert load(tmp_path / "state").counters == deepcopy(model).counters == model.counters


def test_results_are_one_record(model):
    results = model.perform([1, 0], [1, 1], *times(model, 200, 2))
    kinds = {name: array.dtype for name, array in results._asdict().items()}
    assert type(results) is Results
    assert kinds == dict.fromkeys(kinds, np.int64) | {"seen": np.bool_, "status": np.uint8}
    assert {array.shape for array in results} == {(2,)}
    assert not results.seen[1]


def test_windows_of_a_filter_that_has_one(model):
    if not model.spec.query_field:
        with pytest.raises(ValueError, match=r"windows: .* does not support query windows"):
            model.perform([1], [1], *times(model, 200, 1), windows=[1])


def test_ages_are_wide_and_of_a_stated_unit(model):
    ages = model.age(KEYS, *times(model, 200, 60))
    assert ages.dtype == model.perform([1], [1], *times(model, 200, 1)).age.dtype == np.int64
    assert (ages >= -1).all()
    assert type(model).age_unit in ("insertions", "generations", "blocks")


def test_queries_change_nothing(model):
    before = deepcopy(model)
    for name in ("query", "age", "posterior", "ages", "inspect", "last_update"):
        if hasattr(model, name):
            getattr(model, name)(KEYS, *times(model, 200, 60))
    assert model == before


def test_memory_is_a_copy(model):
    before = model.memory
    assert before.any()
    model.memory[:] = 0
    assert np.array_equal(model.memory, before)


@pytest.mark.parametrize("name", [*MODELS, *RINGS])
def test_clear_is_a_new_filter(name):
    model = used(name)
    model.clear()
    assert model == build(name)


@pytest.mark.parametrize("name", [*MODELS, *RINGS])
def test_an_operation_is_done_or_refused(name):
    """Rings shift, dictionaries of digests remove, and all others refuse both."""
    for operation, kinds in ((Operation.SHIFT, SHIFTING), (Operation.REMOVE, {"WindowDictionary"})):
        model, before = used(name), used(name)
        assert hasattr(model, operation.name.lower()) == (name in kinds)
        arguments = [Operation.INSERT, operation], [1, 1], *times(model, 200, 2)
        if name in kinds:
            model.perform(*arguments)
            assert model != before
            continue
        message = f"operations: {type(model).__name__} does not support {operation.name}"
        with pytest.raises(ValueError, match=message):
            model.perform(*arguments)
        assert model == before


WRONG_OPERATIONS = [
    ([2], ValueError, "must have shape (2,) like the keys, not (1,)"),
    (2, ValueError, "must have shape (2,) like the keys, not ()"),
    ([2, 6], ValueError, "must be values of Operation, not 6"),
    ([2, -1], ValueError, "must be values of Operation, not -1"),
    ([Operation.CLEAR, 1 << 40], ValueError, f"must be values of Operation, not {1 << 40}"),
    ([2.0, 1.0], TypeError, "must be integers, not float64"),
    ([True, True], TypeError, "must be integers, not bool"),
    (["INSERT", "QUERY"], TypeError, "must be integers, not <U6"),
]


def test_operations_wrong(model):
    before = deepcopy(model)
    for operations, error, message in WRONG_OPERATIONS:
        with pytest.raises(error, match=f"^operations: {re.escape(message)}$"):
            model.perform(operations, [50, 51], *times(model, 200, 2))
    assert model == before


@pytest.mark.parametrize("name", ["TimeLimitedAPBF", *RINGS])
def test_timestamps_of_mixed_operations(name):
    model, before = used(name), used(name)
    with pytest.raises(ValueError, match="times: must not decrease, but 199 follows 200"):
        model.perform([2, 1], [1, 1], [200, 199])
    assert model == before


# Ages by hand: key 0 first, then eight others, all inserted one after another


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("Swamp", {"window": 9, "fingerprint_bits": 40}, 8),
        ("CuckooDictionary", {"window": 9, "signature_bits": 30}, 8),
        ("WindowDictionary", {"window": 9, "columns": 4, "rows": 16, "digest_bits": 30}, 8),
        ("TimingBloomFilter", {"window": 9, "cells": 1 << 16, "hashes": 4}, 8),
        # Two blocks back, of which one insertion may be of the next block.
        ("BlockTimingBloomFilter", {"window": 9, "block": 4, "cells": 1 << 16, "hashes": 4}, 5),
        ("ForgetfulBloomFilter", {"generation": 3, "past": 3, "bits": 1 << 16, "hashes": 4}, 2),
        ("APBF", {"k": 4, "l": 5, "slice_bits": 1 << 12, "generation": 3}, 2),
        ("DoubleBuffering", {"generation": 20, "bits": 1 << 16, "hashes": 4}, 0),
    ],
)
def test_age_of_a_key(name, parameters, expected):
    model = model_class(name)(**parameters)
    model.insert(np.arange(9))
    assert model.age([0, 99]).tolist() == [expected, -1]
    assert model.perform([3, 3], [0, 99]).age.tolist() == [expected, -1]


def test_age_of_a_key_in_generations_of_time():
    sizes = {"k": 4, "l": 5, "slice_bits": 1 << 12, "generation": 3}
    model = from_spec(golden.FilterSpec(family="apbf", span=50, **sizes))
    model.insert(np.arange(9), np.arange(9))
    assert model.age([0, 99], 9).tolist() == [2, -1]
    assert model.age([0], 50 + 2 + 3).tolist() == [-1]


def test_equality_leaves_counters_out():
    model = models.BloomFilter(bits=61, hashes=2)
    model.insert([1])
    twin = deepcopy(model)
    twin.insert([1])
    assert model == twin
    assert model.insertions != twin.insertions
    assert model != models.BloomFilter(bits=61, hashes=2, seed=1)
    assert model != models.PartitionedBloomFilter(bits=61, hashes=2)


def test_specification(model, tmp_path):
    empty = from_spec(model.spec)
    assert type(empty) is type(model)
    model.clear()
    assert empty == model
    assert empty.spec == model.spec == type(model).specification.from_dict(model.spec.to_dict())
    model.spec.to_toml(tmp_path / "spec.toml")
    assert from_spec(Specification.from_toml(tmp_path / "spec.toml")) == model


def test_specification_of_numpy_integers():
    model = models.Swamp(window=np.int64(7), fingerprint_bits=9)
    assert model.spec == models.Swamp(window=7, fingerprint_bits=9).spec


def test_specification_of_another_family():
    message = "family: must be swamp for Swamp, not 'apbf'"
    with pytest.raises(SpecificationError, match=message):
        models.Swamp.from_spec(golden.preset("apbf-tiny"))
