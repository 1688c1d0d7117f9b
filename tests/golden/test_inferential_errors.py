"""Whatever an inferential filter cannot be built with or asked: an error that names it."""

import math
import re

import pytest

from lately.golden import InferentialFilter, SpecificationError
from lately.golden.timestamp import distinct as d

SMALL = {
    "window": 9,
    "cells": 20,
    "hashes": 2,
    "block": 4,
    "distinct": {"kind": "uniform", "universe": 300},
    "probability": 0.1,
}


@pytest.fixture
def filter_():
    return InferentialFilter(**SMALL | {"window": 100})


# Parameters


def of(**sample):
    return {"kind": "sampled", "at": [1, 4], "values": [1, 3]} | sample


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("probability", 0, "probability: must be more than 0 and less than 1, not 0"),
        ("probability", 1.0, "probability: must be more than 0 and less than 1, not 1.0"),
        ("probability", -0.1, "probability: must be more than 0 and less than 1, not -0.1"),
        ("probability", math.nan, "probability: must be more than 0 and less than 1, not nan"),
        ("false_positive", -1, "false_positive: must be 0 or more and finite, not -1"),
        ("false_negative", -1e-9, "false_negative: must be 0 or more and finite, not -1e-09"),
        ("false_positive", math.inf, "false_positive: must be 0 or more and finite, not inf"),
        ("false_negative", math.nan, "false_negative: must be 0 or more and finite, not nan"),
        (
            "distinct",
            {"kind": "zipf"},
            "distinct: kind must be all-distinct, uniform, power-law or sampled, not 'zipf'",
        ),
        (
            "distinct",
            {"universe": 7},
            "distinct: kind must be all-distinct, uniform, power-law or sampled, not None",
        ),
        ("distinct", {"kind": "uniform"}, "distinct: must have kind, universe, not kind"),
        (
            "distinct",
            {"kind": "all-distinct", "universe": 7},
            "distinct: must have kind, not kind, universe",
        ),
        (
            "distinct",
            {"kind": "uniform", "universe": 0},
            "distinct: universe: must be at least 1, not 0",
        ),
        (
            "distinct",
            {"kind": "power-law", "universe": (1 << 64) + 1},
            f"distinct: universe: must be at most {1 << 64}, not {(1 << 64) + 1}",
        ),
        ("distinct", of(at=[2, 4]), "distinct: at must ascend from 1, not [2, 4]"),
        ("distinct", of(at=[1, 1]), "distinct: at must ascend from 1, not [1, 1]"),
        ("distinct", of(at=[0, 4]), "distinct: at: must be at least 1, not 0"),
        ("distinct", of(at=[1, 3]), "distinct: at must reach 4 insertions, not end at 3"),
        (
            "distinct",
            of(at=[], values=[]),
            "distinct: must have as many values as at, one or more, not 0 beside 0",
        ),
        (
            "distinct",
            of(values=[1]),
            "distinct: must have as many values as at, one or more, not 1 beside 2",
        ),
        ("distinct", of(values=[1, 4.1]), "distinct: values must be between 1 and 4 at 4, not 4.1"),
        ("distinct", of(values=[0.5, 4]), "distinct: values must be between 1 and 1 at 1, not 0.5"),
        (
            "distinct",
            of(values=[1, math.nan]),
            "distinct: values must be between 1 and 4 at 4, not nan",
        ),
    ],
)
def test_parameter_wrong(name, value, message):
    with pytest.raises(SpecificationError, match=f"^{re.escape(message)}$"):
        InferentialFilter(**SMALL | {name: value})


@pytest.mark.parametrize("name", ["probability", "false_positive", "false_negative"])
@pytest.mark.parametrize("value", ["0.5", None, True, [0.5], 1j], ids=repr)
def test_parameter_that_is_no_number(name, value):
    with pytest.raises(
        TypeError, match=f"^{name}: must be a number, not {re.escape(repr(value))}$"
    ):
        InferentialFilter(**SMALL | {name: value})


@pytest.mark.parametrize("value", [0, None, "no"])
def test_recurring_wrong(value):
    with pytest.raises(TypeError, match=f"^recurring: must be True or False, not {value!r}$"):
        InferentialFilter(**SMALL | {"recurring": value})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (d.all_distinct, "distinct: must be a mapping that has a kind, not <function all_distinct"),
        ("uniform", "distinct: must be a mapping that has a kind, not 'uniform'"),
        (None, "distinct: must be a mapping that has a kind, not None"),
        ({"kind": "uniform", "universe": 1.5}, "distinct: universe: must be an integer, not 1.5"),
        (of(at=4), "distinct: at must be a list, not 4"),
        (of(values="13"), "distinct: values must be a list, not '13'"),
        (of(at=[1, 4.0]), "distinct: at: must be an integer, not 4.0"),
        (of(values=[1, "3"]), "distinct: values must be numbers, not '3'"),
        (of(values=[True, 3]), "distinct: values must be numbers, not True"),
    ],
)
def test_distinct_of_the_wrong_kind(value, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
        InferentialFilter(**SMALL | {"distinct": value})


# Queries

QUERIES = ["query", "check_and_insert", "posterior", "posterior_and_insert", "ages"]
DECISIONS = QUERIES[:2]


@pytest.mark.parametrize("call", QUERIES)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "must be more than 0 and less than 1, not 0.0"),
        ([0.5, 1], "must be more than 0 and less than 1, not 1.0"),
        (-0.1, "must be between 0 and 1, not -0.1"),
        (math.nextafter(1, 2), "must be between 0 and 1, not 1.0000000000000002"),
        (math.nan, "must be between 0 and 1, not nan"),
        ([0.5] * 3, "must have shape () or (2,), not (3,)"),
        ([0.5], "must have shape () or (2,), not (1,)"),
        ([[0.5], [0.5]], "must have shape () or (2,), not (2, 1)"),
    ],
)
def test_probabilities_wrong(filter_, call, value, message):
    with pytest.raises(ValueError, match=f"^probabilities: {re.escape(message)}$"):
        getattr(filter_, call)([1, 2], probabilities=value)
    assert filter_.insertions == 0


@pytest.mark.parametrize("call", DECISIONS)
@pytest.mark.parametrize("name", ["false_positive", "false_negative"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "must be 0 or more and finite, not -1.0"),
        ([1, math.nan], "must be 0 or more and finite, not nan"),
        (math.inf, "must be 0 or more and finite, not inf"),
        ([1, 1, 1], "must have shape () or (2,), not (3,)"),
        ([[1], [1]], "must have shape () or (2,), not (2, 1)"),
    ],
)
def test_penalties_wrong(filter_, call, name, value, message):
    with pytest.raises(ValueError, match=f"^{name}: {re.escape(message)}$"):
        getattr(filter_, call)([1, 2], **{name: value})
    assert filter_.insertions == 0
