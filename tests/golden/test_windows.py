"""The ends of all windows, insertion by insertion, held against the table in README.md."""

import re
from pathlib import Path

import numpy as np
import pytest
from every_model import model_class

import lately.golden as golden
from papers import models

ROWS = {
    name: (guaranteed, forgotten)
    for name, guaranteed, forgotten in re.findall(
        r"^\| `(\w+)`[^|]*\|[^|]*\| (d [^|]*) \| (d [^|]*) \|",
        (Path(__file__).parents[2] / "README.md").read_text("utf-8"),
        re.MULTILINE,
    )
}
"""Conditions on d by family: guaranteed reported, and forgotten."""

SIZES = {
    "APBF": {"k": 3, "l": 4, "slice_bits": 1 << 12, "generation": 3},
    "APBBF": {
        "k": 3, "l": 4, "block_bits": 64, "hashes_per_block": 4, "blocks": 128, "generation": 3,
    },
    "GEBF": {"window": 6, "epochs": 3, "hashes": 6, "bits": 1 << 14},
    "BlockedGEBF": {"window": 6, "epochs": 3, "hashes": 6, "bits": 1 << 16, "block_bits": 512},
    "PartitionedTimingFilter": {"window": 12, "block": 3, "cells": 1 << 12, "hashes": 4},
    "WindowDictionary": {"window": 6, "columns": 4, "rows": 16, "digest_bits": 30},
}  # fmt: skip
NUMBER = {"W": "window", "B": "block", "r": "epochs", "k": "k", "l": "l"}
LONGEST = 24
PHASES = 6
KEY = 1 << 40


def names(model, window):
    """Return the numbers that the table's conditions use."""
    numbers = {name: getattr(model.spec, field, None) for name, field in NUMBER.items()}
    return {**numbers, "g": getattr(model, "generation", None), "w": window}


def holds(condition, d, **numbers):
    """Whether a condition of the table, for instance "d ≥ (k + l) g", holds."""
    text = condition.partition(",")[0].replace("≤", "<=").replace("≥", ">=").replace(" g", " * g")
    return eval(text, {"d": d, **numbers})


def course(build, phase, found):
    """Return what `found` says of a key after each further insertion; some were `phase` before."""
    model = build()
    model.insert(np.arange(phase))
    model.insert(KEY)
    said = []
    for d in range(LONGEST):
        said.append(found(model))
        model.insert(1000 + d)
    return np.array(said)


def reported(build, found=lambda model: model.query(KEY)):
    """Return for each number d of later insertions whether all phases report, and whether any."""
    each = np.array([course(build, phase, found) for phase in range(PHASES)])
    return each.all(axis=0), each.any(axis=0)


@pytest.mark.parametrize("name", ROWS)
def test_window_of_the_table(name):
    def build():
        return model_class(name)(**SIZES[name])

    def trace(model):
        return model.matches([KEY]).any() if hasattr(model, "matches") else model.query(KEY)

    numbers = names(build(), build().spec.window)
    guaranteed, forgotten = (
        np.array([holds(condition, d, **numbers) for d in range(LONGEST)])
        for condition in ROWS[name]
    )
    assert guaranteed.tolist() == reported(build)[0].tolist()
    assert forgotten.tolist() == (~reported(build, trace)[1]).tolist()


@pytest.mark.parametrize("w", [3, 6, 9])
@pytest.mark.parametrize("name", ["PartitionedTimingFilter", "WindowDictionary"])
def test_shorter_windows_of_the_table(name, w):
    def build():
        return model_class(name)(**SIZES[name] | {"window": 12})

    def found(model):
        asked = model.perform([golden.Operation.QUERY], [KEY], windows=[w])
        return asked.seen[0]

    every, some = reported(build, found)
    guaranteed, forgotten = ROWS[name]
    numbers = names(build(), w)
    assert every.tolist() == [holds(guaranteed, d, **numbers) for d in range(LONGEST)]
    assert (~some).tolist() == [holds(forgotten, d, **numbers) for d in range(LONGEST)]


@pytest.mark.parametrize(
    ("name", "parameters", "guaranteed", "last"),
    [
        ("TimingBloomFilter", {"window": 6, "cells": 1 << 14, "hashes": 4}, 5, 5),
        ("BlockTimingBloomFilter", {"window": 6, "block": 3, "cells": 1 << 14, "hashes": 4}, 5, 7),
        ("CuckooDictionary", {"window": 6, "signature_bits": 30}, 5, 5),
        ("CountingBloomFilter", {"window": 6, "counters": 1 << 14, "hashes": 4}, 5, 5),
        ("Swamp", {"window": 6, "fingerprint_bits": 50}, 5, 5),
        ("DoubleBuffering", {"generation": 6, "bits": 1 << 14, "hashes": 6}, 6, 11),
        ("A2Buffering", {"generation": 6, "bits": 1 << 14, "hashes": 6}, 6, 11),
        ("ForgetfulBloomFilter", {"generation": 3, "past": 2, "bits": 1 << 14, "hashes": 6}, 6, 8),
    ],
)
def test_windows_of_other_models(name, parameters, guaranteed, last):
    every, some = reported(lambda: model_class(name)(**parameters))
    assert np.flatnonzero(~every)[0] - 1 == guaranteed
    assert np.flatnonzero(some)[-1] == last


BEYOND = {"APBF", "APBBF", "GEBF", "BlockedGEBF", "DoubleBuffering", "A2Buffering"}
BEYOND |= {"ForgetfulBloomFilter"}
"""Models that report a key for as many further insertions as their window, not one fewer."""


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            *BEYOND,
            "TimingBloomFilter",
            "BlockTimingBloomFilter",
            "PartitionedTimingFilter",
            "CuckooDictionary",
            "WindowDictionary",
            "CountingBloomFilter",
            "Swamp",
        }
    ),
)
def test_for_window(name):
    every, _ = reported(lambda: model_class(name).for_window(6, 1e-6))
    last = np.flatnonzero(~every)[0] - 1
    assert last == (6 if name in BEYOND else 5)


@pytest.mark.parametrize(
    "build",
    [
        lambda: models.TimeLimitedAPBF(k=4, l=3, span=12, capacity=50),
        lambda: golden.TimedTimingFilter(span=12, period=3, cells=1 << 12, hashes=4),
    ],
)
def test_spans(build):
    """A key is reported until its age is the span, and the last tick's end if there are ticks."""
    said = np.zeros((PHASES, 2 * LONGEST), bool)
    for phase in range(PHASES):
        model = build()
        model.insert(np.arange(phase), np.arange(phase))
        model.insert(KEY, phase)
        ages = np.arange(2 * LONGEST)
        said[phase] = model.query([KEY] * len(ages), phase + ages)
    period = getattr(build(), "period", 1)
    assert np.flatnonzero(~said.all(axis=0))[0] == 13
    assert np.flatnonzero(said.any(axis=0))[-1] == 12 + period - 1
