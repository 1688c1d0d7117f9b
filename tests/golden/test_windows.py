"""The ends of all windows, insertion by insertion, held against the table in README.md."""

import inspect
import re
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
from cases import daily
from every_model import model_class
from paths import PATHS, taking

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
SHORTER = ("TimingBloomFilter", "BlockTimingBloomFilter", "CuckooDictionary")
"""Other filters whose queries may have shorter windows."""
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


def course(build, phase, reports):
    """Return what `reports` says of a key after each insertion; some were `phase` before."""
    model = build()
    model.insert(np.arange(phase))
    model.insert(KEY)
    said = []
    for d in range(LONGEST):
        said.append(reports(model))
        model.insert(1000 + d)
    return np.array(said)


def reported(build, reports=lambda model: model.query(KEY)):
    """Return for each number d of later insertions whether all phases report, and whether any."""
    each = np.array([course(build, phase, reports) for phase in range(PHASES)])
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


def inserts_what_is_older(model, w):
    seen = model.check_and_insert(KEY, window=w, refresh=False)
    assert seen or model.query(KEY, window=1)
    return seen


def asked_for(w):
    """Return ways to ask for the key within a window."""
    return (
        lambda model: model.query(KEY, window=w),
        lambda model: model.query([0, KEY], [1, w])[1],
        lambda model: inserts_what_is_older(deepcopy(model), w),
        lambda model: deepcopy(model).check_and_insert([KEY], window=[w])[0],
        lambda model: model.look_up([KEY], windows=[w]).seen[0],
    )


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("w", [1, 4, 6, 8, 12])
@pytest.mark.parametrize("name", ["PartitionedTimingFilter", "WindowDictionary", *SHORTER])
def test_shorter_windows_of_the_table(name, w, path):
    """A window that ends within a block of a partitioned filter is rounded up."""

    def build():
        with taking(path):
            return model_class(name)(**(SIZES | OTHERS)[name] | {"window": 12})

    block = getattr(build(), "block", 1)
    rounded = -(-w // block) * block if name == "PartitionedTimingFilter" else w
    guaranteed, forgotten = ROWS.get(name, ("d < w", "d ≥ w + B - 1"))
    numbers = names(build(), rounded)
    numbers["B"] = block
    for reports in asked_for(w)[: 4 if name in SHORTER else 5]:
        every, some = reported(build, reports)
        assert every.tolist() == [holds(guaranteed, d, **numbers) for d in range(LONGEST)]
        assert (~some).tolist() == [holds(forgotten, d, **numbers) for d in range(LONGEST)]


OTHERS = {
    "TimingBloomFilter": {"window": 6, "cells": 1 << 14, "hashes": 4},
    "BlockTimingBloomFilter": {"window": 6, "block": 3, "cells": 1 << 14, "hashes": 4},
    "CuckooDictionary": {"window": 6, "signature_bits": 30},
    "CountingBloomFilter": {"window": 6, "counters": 1 << 14, "hashes": 4},
    "Swamp": {"window": 6, "fingerprint_bits": 50},
    "DoubleBuffering": {"generation": 6, "bits": 1 << 14, "hashes": 6},
    "A2Buffering": {"generation": 6, "bits": 1 << 14, "hashes": 6},
    "ForgetfulBloomFilter": {"generation": 3, "past": 2, "bits": 1 << 14, "hashes": 6},
}
"""Models without a row in README.md."""

LAST = {
    "TimingBloomFilter": 5, "BlockTimingBloomFilter": 7, "CuckooDictionary": 5,
    "CountingBloomFilter": 5, "Swamp": 5, "DoubleBuffering": 11, "A2Buffering": 11,
    "ForgetfulBloomFilter": 8,
}  # fmt: skip
"""Further insertions after which a key of theirs can still be reported, at most."""

TURNING = {"APBF", "APBBF", "GEBF", "BlockedGEBF"}
TURNING |= {"DoubleBuffering", "A2Buffering", "ForgetfulBloomFilter"}
"""Models that report a key for d = W, too; d is the number of insertions after its own."""


@pytest.mark.parametrize("sized", daily(1, [True, False]))
@pytest.mark.parametrize("name", [*SIZES, *OTHERS])
def test_every_window_covers_all_d_below_it(name, sized):
    def build():
        cls = model_class(name)
        return cls.for_window(6, 1e-6) if sized else cls(**{**SIZES, **OTHERS}[name])

    every, some = reported(build)
    window = build().window
    assert window == 6 if sized else window >= 6
    assert every[:window].all()
    assert every[window : window + 2].tolist() == [name in TURNING, False]
    if name in LAST and not sized:
        assert np.flatnonzero(some)[-1] == LAST[name]


@pytest.mark.parametrize("name", [*SIZES, *OTHERS])
def test_every_family_states_its_window_in_the_same_words(name):
    text = " ".join(inspect.getdoc(model_class(name)).split())
    assert f"for all d {'<=' if name in TURNING else '<'} " in text
    assert "where d is the number of insertions after its own" in text


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
