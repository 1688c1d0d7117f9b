"""A small filter of every family, under the names of their classes."""

import numpy as np

from lately import golden
from lately.golden import FilterSpec, TimedFilter, from_spec
from papers import models

MODELS = {
    "APBF": {"k": 3, "l": 4, "slice_bits": 61},
    "APBBF": {"k": 2, "l": 3, "block_bits": 8, "hashes_per_block": 2, "blocks": 4},
    "GEBF": {"window": 12, "epochs": 3, "hashes": 2, "bits": 96},
    "BlockedGEBF": {"window": 12, "epochs": 3, "hashes": 2, "bits": 128, "block_bits": 16},
    "TimeLimitedAPBF": {"k": 3, "l": 4, "span": 50, "capacity": 20},
    "TimingBloomFilter": {"window": 9, "cells": 61, "hashes": 2},
    "BlockTimingBloomFilter": {"window": 9, "block": 4, "cells": 61, "hashes": 2},
    "PartitionedTimingFilter": {"window": 12, "block": 4, "cells": 29, "hashes": 2},
    "TimedTimingFilter": {"span": 60, "period": 4, "cells": 29, "hashes": 2},
    "InferentialFilter": {
        "window": 9,
        "cells": 61,
        "hashes": 2,
        "distinct": {"kind": "uniform", "universe": 1000},
        "probability": 0.01,
    },
    "CuckooDictionary": {"window": 9, "signature_bits": 2},
    "WindowDictionary": {"window": 9, "columns": 4, "rows": 16, "digest_bits": 9},
    "BloomFilter": {"bits": 61, "hashes": 2},
    "PartitionedBloomFilter": {"bits": 61, "hashes": 3},
    "BlockedBloomFilter": {"bits": 61, "hashes": 2, "block_bits": 8},
    "CountingBloomFilter": {"window": 11, "counters": 31, "hashes": 2, "counter_bits": 2},
    "StableBloomFilter": {"cells": 41, "hashes": 2, "decrements": 3, "cell_bits": 2},
    "DoubleBuffering": {"generation": 6, "bits": 101, "hashes": 2},
    "A2Buffering": {"generation": 6, "bits": 101, "hashes": 2},
    "ForgetfulBloomFilter": {"generation": 4, "past": 3, "bits": 203, "hashes": 2},
    "Swamp": {"window": 7, "fingerprint_bits": 9},
}
RINGS = {
    f"{family} in time": {"family": family, "span": 50, **MODELS[name]}
    for family, name in {
        "apbf": "APBF", "apbbf": "APBBF", "gebf": "GEBF", "blocked-gebf": "BlockedGEBF",
    }.items()
}  # fmt: skip
"""Specifications of rings whose window is a span of time."""


def model_class(name):
    """Return the class of a model, of the package or of the papers."""
    return getattr(models, name) if name in models.__all__ else getattr(golden, name)


def build(name, **options):
    """Return an empty filter."""
    if name in RINGS:
        return from_spec(FilterSpec(**RINGS[name] | options, seed=5))
    return model_class(name)(**MODELS[name] | options, seed=5)


def times(model, start, count):
    """Timestamps, for a model that takes them."""
    return [np.arange(start, start + 3 * count, 3)] if isinstance(model, TimedFilter) else []


def used(name):
    """Return a filter with 40 insertions of 23 keys."""
    model = build(name)
    model.insert(np.arange(40) % 23, *times(model, 0, 40))
    return model
