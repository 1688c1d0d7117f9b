"""State files of all models that are whole, but not of a model's making: a line says why."""

import json
import math
import re
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
from every_model import MODELS, RINGS, build, used

from lately.golden import Operation, StateFileError, TimedFilter, load
from lately.golden.state_files import read_state, write_state

NULLABLE = {"times", "settled"}
"""Numbers of which -1 stands for a time that never was."""

LATER = {"events", "late", "clock"}
"""Numbers that files of earlier versions lack."""


def filled(name, keys, **sizes):
    model = build(name, **sizes)
    model.insert(keys)
    return model


MADE = {name: partial(used, name) for name in (*MODELS, *RINGS)}
MADE["cuckoo with a list"] = partial(
    filled, "CuckooDictionary", np.arange(100), window=12, positions=5
)
MADE["dictionary with losses"] = partial(
    filled, "WindowDictionary", np.arange(100), window=30, columns=2, rows=4, digest_bits=7, stash=3
)
MADE["block without insertions"] = partial(filled, "BlockTimingBloomFilter", np.arange(44))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "filter.state"


@pytest.fixture(params=[*MODELS, "apbf in time", "cuckoo with a list"])
def state(request, path):
    """Header and arrays of a model that has been used."""
    MADE[request.param]().save(path)
    return read_state(path)


def refusal(path, header, arrays):
    """Write a state, and return why it is refused."""
    write_state(path, json.loads(json.dumps(header)), arrays)
    with pytest.raises(StateFileError, match="damaged filter state: ") as caught:
        load(path)
    return str(caught.value).partition("damaged filter state: ")[2]


def leaves(value, path=()):
    """Return the places of all numbers; of a list the first and the last."""
    if isinstance(value, dict):
        return [leaf for key, part in value.items() for leaf in leaves(part, (*path, key))]
    if isinstance(value, list):
        ends = sorted({0, len(value) - 1})
        return [leaf for key in ends for leaf in leaves(value[key], (*path, key))]
    return [(path, value)]


def changed(tree, path, value):
    """Return a copy of nested tables with another value at a place."""
    tree = deepcopy(tree)
    part = tree
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return tree


def test_numbers(state, path):
    """Each is refused if it is no integer, or no bool if it was a bool, or negative."""
    header, arrays = state
    for field, known in leaves(header["numbers"]):
        values = [1.5] + [True] * (type(known) is int)
        values += [-1] * (not NULLABLE & {*field} and field[0] != "slices")
        for value in values:
            numbers = changed(header["numbers"], field, value)
            assert refusal(path, {**header, "numbers": numbers}, arrays), field


@pytest.mark.parametrize("name", MADE)
def test_numbers_that_are_huge(name, path):
    """A state that is loaded takes every operation afterwards."""
    MADE[name]().save(path)
    header, arrays = read_state(path)
    loaded = 0
    for field, known in leaves(header["numbers"]):
        for value in (1 << 61, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 64) * (
            known is not None
        ):
            write_state(
                path, header | {"numbers": changed(header["numbers"], field, value)}, arrays
            )
            try:
                model = load(path)
            except StateFileError:
                continue
            loaded += 1
            now = [max(model.latest, 0)] if isinstance(model, TimedFilter) else []
            for keys in (np.arange(30), 5):
                model.check_and_insert(keys, *now)
                model.query(keys, *now)
                model.age(keys, *now)
                model.insert(keys, *now)
            for operation in {*model.supported} - {Operation.CLEAR}:
                model.perform([operation], [5], *([moment] for moment in now))
            model.to_bytes()
            model.clear()
    assert loaded > 0


def test_tables_of_numbers_that_are_none(state, path):
    header, arrays = state
    tables = [name for name, value in header["numbers"].items() if isinstance(value, dict)]
    for name in tables:
        for value in (None, [1], 1, "events"):
            numbers = {**header["numbers"], name: value}
            assert refusal(path, {**header, "numbers": numbers}, arrays), (name, value)


def test_numbers_that_are_missing(state, path):
    header, arrays = state
    for name in header["numbers"].keys() - LATER:
        numbers = {key: value for key, value in header["numbers"].items() if key != name}
        assert refusal(path, {**header, "numbers": numbers}, arrays) == repr(name)


def test_arrays(state, path):
    header, arrays = state
    for name, array in arrays.items():
        others = {key: value for key, value in arrays.items() if key != name}
        assert refusal(path, header, others)
        wrong = [array.astype(np.int16), array[:-1], np.append(array, array[:1], axis=0)]
        for damaged in wrong[: None if len(array) else 1]:
            assert refusal(path, header, others | {name: damaged}), name


PARAMETERS = {"probability", "false_positive", "false_negative", "distinct", "recurring", "block",
              "more"}  # fmt: skip

# Model, place of a number (or name of a parameter) or of an array's values, value, and message.
WRONG = [
    # Time-limited filters: 40 insertions, 7 shifts, the last at 117; k = 3.
    ("TimeLimitedAPBF", ["function"], 3, "function: 3 does not fit the filter"),
    ("TimeLimitedAPBF", ["generation", 0], 0, "generation: 0 does not fit"),
    ("TimeLimitedAPBF", ["generation", 1], 10**9, "insertions left: 1000000000 does not fit"),
    ("TimeLimitedAPBF", ["generation"], [1], "not enough values"),
    ("TimeLimitedAPBF", ["times", 1], -2, "last insertion: -2 does not fit"),
    ("TimeLimitedAPBF", ["times", 0], 118, "first insertion: 118 does not fit"),
    ("TimeLimitedAPBF", ["counters", 1], 41, "shifts: 41 does not fit"),
    ("TimeLimitedAPBF", ["slices"], [[8, 0, -1]] * 6, "slices: 6 does not fit"),
    ("TimeLimitedAPBF", ["slices", 2, 0], 0, "bits of a slice: 0 does not fit"),
    ("TimeLimitedAPBF", ["slices", 2, 0], (1 << 24) + 1, "bits of a slice: 16777217 does not fit"),
    ("TimeLimitedAPBF", ["slices", 2, 1], 41, "insertions into a slice: 41 does not fit"),
    ("TimeLimitedAPBF", ["slices", 2, 2], 5, "settled time: 5 does not fit"),
    ("TimeLimitedAPBF", ["slices", 3, 2], 118, "settled time: 118 does not fit"),
    ("TimeLimitedAPBF", ["slices", 4, 2], 103, "settled time: 103 does not fit"),
    # Rings with a span.
    ("apbf in time", ["ring", "ring", 0], 10, "numbers [10, "),
    ("apbf in time", ["turns", "generation", 0], 41, "insertions of the generation: 41 does not"),
    ("apbf in time", ["turns", "generation", 1], 0, "length of the generation: 0 does not fit"),
    ("apbf in time", ["turns", "generation"], [1, 2], "not enough values"),
    ("apbf in time", ["turns", "times", 3], 1 << 62, "last operation: 4611686018427387904 does"),
    ("apbf in time", ["turns", "times", 1], 118, "last insertion: 118 does not fit"),
    ("apbf in time", ["turns", "times", 0], 118, "first insertion: 118 does not fit"),
    ("apbf in time", ["turns", "times", 2], 118, "last retired insertion: 118 does not fit"),
    ("apbf in time", ["turns", "counters", 2], 41, "shortened: 41 does not fit the filter"),
    ("apbf in time", ["turns", "counters", 3], 41, "overfilled: 41 does not fit the filter"),
    ("apbf in time", ["turns", "settled"], [-1] * 6, "settled times: 6 does not fit the filter"),
    ("apbf in time", ["turns", "settled", 0], 3, "settled time: 3 does not fit the filter"),
    ("apbf in time", ["turns", "settled", 3], 118, "settled time: 118 does not fit the filter"),
    ("apbf in time", ["turns", "settled", 4], 103, "settled time: 103 does not fit the filter"),
    ("apbf in time", ["turns", "overfull"], [False] * 6, "overfull slices: 6 does not fit"),
    ("apbf in time", ["turns", "overfull", 0], 1, "overfull slices: must be True or False, not ["),
    # Timing filters.
    ("BlockTimingBloomFilter", ["insertions"], 1 << 70, "insertions: 1180591620717411303424 does"),
    ("BlockTimingBloomFilter", ["insertions"], 6, "timestamps: do not match the 6 insertions"),
    ("block without insertions", "timestamps", 11, "timestamps: do not match the 44 insertions"),
    ("BlockTimingBloomFilter", "timestamps", 99, "timestamps: must be at most 12, not 99"),
    ("BlockTimingBloomFilter", ["block"], 0, "block: must be at least 1, not 0"),
    ("TimedTimingFilter", ["last"], 115, "stamps: must be at most 29, not 30"),
    # Inferential filters.
    ("InferentialFilter", ["probability"], 1, "probability: must be more than 0"),
    ("InferentialFilter", ["probability"], 10**400, "probability: must be more than 0"),
    ("InferentialFilter", ["false_positive"], None, "false_positive: must be a number"),
    ("InferentialFilter", ["false_negative"], math.inf, "false_negative: must be finite and at"),
    ("InferentialFilter", ["distinct"], [1], "distinct: must be a mapping with the key 'kind'"),
    ("InferentialFilter", ["distinct"], {"kind": ["uniform"]}, "distinct: kind must be"),
    ("InferentialFilter", ["recurring"], 1, "recurring: must be True or False, not 1"),
    ("InferentialFilter", ["more"], 1, "unexpected keyword argument 'more'"),
    # Dictionaries.
    ("cuckoo with a list", ["coin"], 0, "coin: must be 1 to 2**64 - 1, not 0"),
    (
        "cuckoo with a list",
        ["coin"],
        1 << 64,
        "coin: must be 1 to 2**64 - 1, not 18446744073709551616",
    ),
    ("cuckoo with a list", ["overflow_peak"], 1, "overflow_peak: must be at least 4, not 1"),
    ("cuckoo with a list", "timestamps", 25, "timestamps: must be at most 24, not 25"),
    ("cuckoo with a list", "timestamps", -1, "timestamps: must be at least 0, not -1"),
    ("cuckoo with a list", "other_positions", 5, "other_positions: must be at most 4, not 5"),
    ("cuckoo with a list", "signatures", 4, "signatures: must be at most 3, not 4"),
    ("dictionary with losses", ["lost"], 101, "lost: 101 does not fit the parameters"),
    ("dictionary with losses", ["youngest_lost"], 101, "youngest_lost: 101 does not fit the"),
    ("dictionary with losses", "cells", (101, 0), "cells: must be at most 100"),
    ("dictionary with losses", "cells", (-1, 0), "cells: must be at least 0"),
    ("dictionary with losses", "cells", (0, 32), "cells: must be at most 31"),
    ("dictionary with losses", "stash_times", 101, "stash_times: must be at most 100"),
    ("dictionary with losses", "stash", 128, "stash: must be at most 127"),
    # Baselines.
    ("CountingBloomFilter", "counters", 4, "counters: must be at most 3, not 4"),
    ("CountingBloomFilter", ["insertions"], 2, "queue: holds more than 2"),
    ("StableBloomFilter", "cells", 4, "cells: must be at most 3, not 4"),
    ("Swamp", "buffer", 1 << 9, "buffer: must be at most 511, not 512"),
    ("Swamp", ["insertions"], 2, "buffer: holds more than 2"),
    ("DoubleBuffering", ["filled"], 7, "filled: 7 does not fit the parameters"),
    ("A2Buffering", ["filled"], 7, "filled: 7 does not fit the parameters"),
    ("ForgetfulBloomFilter", ["filled"], 5, "filled: 5 does not fit the parameters"),
]


@pytest.mark.parametrize(("name", "field", "value", "message"), WRONG)
def test_value_at_its_edge(path, name, field, value, message):
    MADE[name]().save(path)
    header, arrays = read_state(path)
    if isinstance(field, str):
        arrays[field][1] = value
    elif field[0] in PARAMETERS:
        header["parameters"] |= {field[0]: value}
    else:
        header["numbers"] = changed(header["numbers"], field, value)
    assert re.search(re.escape(message), refusal(path, header, arrays))


@pytest.mark.parametrize("name", ["cuckoo with a list", "dictionary with losses"])
def test_no_damage(path, name):
    MADE[name]().save(path)
    write_state(path, *read_state(path))
    assert load(path) == MADE[name]()


def test_list_of_a_cuckoo_dictionary(path):
    model = MADE["cuckoo with a list"]()
    model.save(path)
    header, arrays = read_state(path)
    keys, times = arrays["overflow_keys"], arrays["overflow_timestamps"]
    expired, twice = times.copy(), keys.copy()
    expired[0] = (model._now + 11) % 24 + 1
    twice[1] = twice[0]
    for message, damaged in [
        ("in the order of the insertions", {"overflow_timestamps": times[::-1].copy()}),
        ("in the order of the insertions", {"overflow_timestamps": times * 0}),
        ("in the order of the insertions", {"overflow_timestamps": expired}),
        ("overflow_keys: a key occurs twice", {"overflow_keys": twice}),
        ("overflow_keys: must be uint64", {"overflow_keys": keys[:, 0]}),
        ("must have shape (n,)", {"overflow_keys": np.hstack([keys, keys])}),
    ]:
        assert message in refusal(path, header, arrays | damaged)


def test_queue_of_keys_that_are_too_wide(path):
    filled("CountingBloomFilter", [1, 2, 3], window=3, key_bits=4).save(path)
    header, arrays = read_state(path)
    arrays["queue"][:] = 16
    assert "keys: must be below 2**4" in refusal(path, header, arrays)
