"""Messages of the golden models, by the type of the error: the name, the rule and the value."""

import math
import re
from datetime import UTC, date, datetime, timedelta
from functools import partial

import numpy as np
import pytest
from every_model import MODELS, build, model_class

from campaigns.chosen_keys import ChosenKeys, solutions
from lately.golden import (
    APBBF,
    APBF,
    GEBF,
    BlockedGEBF,
    DecisionTable,
    FilterSpec,
    InferentialFilter,
    PartitionedTimingFilter,
    QueryClass,
    SpecificationError,
    TimedTimingFilter,
    TimeLimitedRing,
    WindowDictionary,
    WindowDictionarySpec,
    dictionary_preset,
    from_spec,
    preset,
)
from lately.golden.hash.functions import KeyHash
from lately.golden.hash.keys import check_keys
from lately.golden.hash.siphash import check_secret
from lately.golden.packets.comparison import Comparison, Field, FieldError, parse_fields
from lately.golden.packets.copies import CopyRule
from lately.golden.packets.frame_deduplicator import FrameDeduplicator
from lately.golden.spec import APBFSpec, GEBFSpec
from lately.golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec
from lately.golden.timestamp import distinct as d
from lately.golden.timestamp import inferential as posteriors
from lately.golden.timestamp.inferential import minimum_penalty
from papers import models
from papers.models.cells import (
    stable_decrements,
    stable_false_positive_rate,
    stable_zero_fraction,
    swamp_bits_per_element,
)
from papers.models.cuckoo import cuckoo_error_bound, time_decaying_space_bound

RINGS = (APBF, APBBF, GEBF, BlockedGEBF)
UNIT = 'must be a text such as "10min" or a timedelta'
KINDS = "integers (nanoseconds), 64-bit floats (seconds), datetime64 or datetime"
NUMBERS = [0, 1, -0.5, 1.5, math.nan]
FRAMES = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)
ROOMY = {"window": 20, "columns": 4, "rows": 64, "digest_bits": 30, "stash": 4}
PARTS = {"hashes": 3, "cells": 32}
COUNTED = PARTS | {"window": 48, "block": 16}
TABLE = {"classes": 1} | COUNTED
SAMPLE = {"kind": "sampled", "at": [1, 4], "values": [1, 3]}
INFERENTIAL = {
    "window": 9, "cells": 20, "hashes": 2, "block": 4, "probability": 0.1,
    "distinct": {"kind": "uniform", "universe": 300},
}  # fmt: skip
PENALTIES = {"false_positive": 1, "false_negative": 1}
QUERY_CLASS = {"probability": 0.1} | PENALTIES
STABLE = {"cells": 100, "hashes": 3, "decrements": 5, "cell_bits": 1}


def ring(kind, **options):
    return kind(**MODELS[kind.__name__] | options)


def keyed(**options):
    return ring(GEBF, hash="siphash", rekey=True, **options)


def timed(family="gebf", **options):
    return TimeLimitedRing(FilterSpec(family=family, span=50, **MODELS["GEBF"]), **options)


def key_hash(**changes):
    return KeyHash(**{"key_bits": 64, "sizes": (16,), "functions": 1, "seed": 0} | changes)


def inferential(**changes):
    return InferentialFilter(**INFERENTIAL | changes)


def distinct(**sample):
    return inferential(distinct=SAMPLE | sample)


def decisions(classes, bits):
    return DecisionTable.of(inferential(window=96, block=8), classes, bits)


def clocked(**options):
    return GEBF.for_span("10s", 1e-5, rate=10, **options)


def setting(model, name, value):
    """Return a call that sets an attribute."""
    return lambda: setattr(model(), name, value)


SPECIFICATIONS = [
    # Rings and secrets
    (lambda: APBF(preset("apbf-tiny"), partitioned=False),
     "partitioned: must be True for apbf, not False"),
    (lambda: from_spec(preset("tiny"), secret=1),
     "secret: must not be given for hash 'h3'"),
    (lambda: from_spec(preset("tiny")).rekey(1),
     "secret: must not be given for hash 'h3'"),
    *((partial(ring, kind, secret=1), "secret: must not be given for hash 'h3'")
      for kind in RINGS),
    *((partial(ring, kind, rekey=value), f"rekey: must be True or False, not {value!r}")
      for kind in RINGS for value in (None, 1.5, "x", 0, 1, [])),
    *((partial(ring, kind, **{name: value}), f"{name}: must be one of {known}, not {value!r}")
      for kind in RINGS for value in (None, 1.5, "x", True, 3, ["h3"])
      for name, known in {"hash": "h3, siphash", "digest": "blake2b, siphash"}.items()),
    *((partial(APBFSpec, **MODELS["APBF"], **{name: None}), f"{name}: must be an integer, not None")
      for name in ("seed", "key_bits", "lanes")),
    (lambda: TimeLimitedRing(timed().spec.untimed),
     "span: must be given for TimeLimitedRing, not None"),
    (lambda: GEBF.from_spec(timed().spec),
     "span: GEBF counts insertions, so it must be None, not 50"),
    (lambda: clocked(joinable=True, when_full="shorten"),
     "when_full: must be overfill, not 'shorten'"),
    # Sizes of windows and spans
    (lambda: GEBF.for_window(0), "window: must be at least 1, not 0"),
    (lambda: GEBF.for_window((1 << 40) + 1),
     "window: must be at most 1099511627776, not 1099511627777"),
    (lambda: GEBF.for_window(10, 1), "fpr: must be above 0 and below 1, not 1"),
    (lambda: GEBF.for_window(10, 0.0), "fpr: must be above 0 and below 1, not 0.0"),
    *((partial(models.TimeLimitedAPBF.for_window, 100, rate=rate), "rate: must be above 0 and ...")
      for rate in (0, 1 << 40)),
    *((partial(model_class(name).for_window, keys, fpr), f"window: {name} cannot hold {keys} "
       f"keys at fpr {fpr}; reduce the window or increase fpr")
      for name, keys, fpr in (
          ("WindowDictionary", 1000, 1e-10), ("GEBF", 1 << 40, 1e-300), ("BlockedGEBF", 1, 1e-300),
          ("APBF", 1 << 40, 0.5), ("TimingBloomFilter", 1, 1e-300))),
    (lambda: WindowDictionary.for_window(1000, 1e-10, stash=3),
     "digest_bits: must be from 9 to 40 ..."),
    (lambda: GEBF.for_span("1s", rate=0), "rate: must be above 0 ..."),
    (lambda: clocked(partitioned=False), "partitioned: must be True with a span, not False"),
    (lambda: clocked(when_full="explode"), "when_full: must be one of shorten, overfill..."),
    *((partial(kind.for_span, span, rate=1), f"span: must be {rule}...")
      for kind in (GEBF, TimedTimingFilter) for span, rule in (
          ("10 parsecs", "a number above 0 and a unit (ns, us, ms, s, "),
          (timedelta(0), "above 0, not datetime.timedelta(0)"),
          (np.timedelta64(1500, "ps"), "a whole number of nanoseconds below"),
          (np.timedelta64(5), "a whole number of nanoseconds below"),
          (np.timedelta64(10**6, "D"), "a whole number of nanoseconds below"),
          ("0.5ns", "a whole number of nanoseconds, not '0.5 ns'"))),
    (lambda: models.TimeLimitedAPBF(
        k=4, l=5, span=1000, capacity=100_000, slice_bits_limit=100_000),
     "capacity: 100000 keys need slices of 115416 bits, above slice_bits_limit = 100000"),
    # Timing filters
    (lambda: PartitionedTimingSpec(**PARTS, window=21, block=4),
     "window: must be a multiple of block = 4, not 21"),
    (lambda: TimedTimingSpec(**PARTS, span=9, period=2),
     "span: must be a multiple of period = 2, not 9"),
    *((partial(TimedTimingSpec, **PARTS, span=span, stamp_bits=bits),
       f"stamp_bits: must be at least {bits + 1} for a window of {span} blocks and the sweep, "
       f"not {bits}")
      for span, bits in ((29, 4), (30, 5))),
    (lambda: PartitionedTimingSpec(**COUNTED, phase_bits=2),
     "phase_bits: must not be given without classes, not 2"),
    (lambda: PartitionedTimingSpec(**COUNTED, classes=0), "classes: must be at least 1, not 0"),
    (lambda: PartitionedTimingSpec(**COUNTED, classes=2, phase_bits=5),
     "phase_bits: must be at most 4 for blocks of 16, not 5"),
    (lambda: TimedTimingSpec(**PARTS, span=8, period=2, classes=2, phase_bits=1),
     "phase_bits: must be 0 if the filter has a span, not 1"),
    (lambda: PartitionedTimingSpec(window=8, cells=16, classes=1, hashes=255),
     "hashes: must be at most 254 with classes, not 255"),
    (lambda: PartitionedTimingFilter(**COUNTED).decide_by(np.zeros((0, 5, 1), int)),
     "classes: must be given for a table, not None"),
    *((lambda table=table: PartitionedTimingFilter(**TABLE).decide_by(table), f"thresholds: {rule}")
      for table, rule in (
          (np.zeros((2, 5, 1), int), "must have shape (1, 5, 1), not (2, 5, 1)"),
          (np.full((1, 5, 1), 5), "must be 0 to 4, not 5"),
          (np.full((1, 5, 1), -1), "must be 0 to 4, not -1"))),
    # Inferential filters
    *((partial(inferential, probability=value),
       f"probability: must be more than 0 and less than 1, not {value}")
      for value in (0, 1.0, -0.1, math.nan)),
    *((partial(inferential, **{name: value}), f"{name}: must be finite and at least 0, not {value}")
      for name in PENALTIES for value in (-1, -1e-9, math.inf, math.nan)),
    *((partial(inferential, distinct=value), f"distinct: {rule}") for value, rule in (
        ({"kind": "zipf"},
         "kind must be one of all-distinct, uniform, power-law, sampled, not 'zipf'"),
        ({"universe": 7}, "kind must be one of ..., not None"),
        ({"kind": "uniform"}, "must have the entries kind, universe, not ['kind']"),
        ({"kind": "all-distinct", "universe": 7},
         "must have the entries kind, not ['kind', 'universe']"),
        ({"kind": "uniform", "universe": 0}, "universe: must be at least 1, not 0"),
        ({"kind": "power-law", "universe": (1 << 64) + 1},
         f"universe: must be at most {1 << 64}, not {(1 << 64) + 1}"))),
    *((partial(distinct, **sample), f"distinct: {rule}") for sample, rule in (
        ({"at": [2, 4]}, "at must increase from 1, not [2, 4]"),
        ({"at": [1, 1]}, "at must increase from 1, not [1, 1]"),
        ({"at": [0, 4]}, "at: must be at least 1, not 0"),
        ({"at": [1, 3]}, "at must end at 4 or more, not 3"),
        ({"at": [], "values": []}, "at and values must have the same length, not (0, 0)"),
        ({"values": [1]}, "at and values must have the same length, not (2, 1)"),
        ({"values": [1, 4.1]}, "the value at 4 must be between 1 and 4, not 4.1"),
        ({"values": [0.5, 4]}, "the value at 1 must be between 1 and 1, not 0.5"),
        ({"values": [1, math.nan]}, "the value at 4 must be between 1 and 4, not nan"))),
    (lambda: decisions([QueryClass(**QUERY_CLASS, window=5000)], 2), "window: ..."),
    # Dictionaries
    *((partial(kind, **ROOMY | change), message)
      for kind in (WindowDictionary, WindowDictionarySpec) for change, message in (
          ({"rows": 48}, "rows: must be a power of two, not 48"),
          ({"digest_bits": 6}, "digest_bits: must be from 7 to 38 (6 bits select one of 64 rows, "
           "and a cell stores 1 to 32 bits), not 6"),
          ({"digest_bits": 39}, "digest_bits: must be from 7 to 38 ..."),
          ({"hash": "md5"}, "hash: must be one of h3, siphash, not 'md5'"),
          ({"hash": 3}, "hash: must be one of h3, siphash, not 3"),
          ({"stash": 0}, "stash: must be at least 1, not 0"),
          ({"columns": 65}, "columns: must be at most 64, not 65"),
          ({"columns": 1, "moves": 8}, "columns: must be at least 2 with moves, not 1"),
          ({"moves": 0}, "moves: must be at least 1, not 0"))),
    (lambda: WindowDictionary(**ROOMY, secret=1), "secret: must not be given for hash 'h3'"),
    (lambda: dictionary_preset("large"),
     "preset: must be one of tiny, 1000, 10000, ring-tiny, ..."),
    *((partial(call, [1, 2], windows), f"window: {rule}")
      for windows, rule in (([1, 21], "must be at most 20, not 21"),
                            ([0, 5], "must be at least 1, not 0"), (0, "must be at least 1, not 0"))
      for model in [WindowDictionary(**ROOMY)]
      for call in (model.query, model.check_and_insert,
                   lambda k, w, model=model: model.perform([3, 3], k, windows=w))),
    *((partial(cuckoo_error_bound, **{"positions": 1000, "signature_bits": 4} | sizes), message)
      for sizes, message in (
          ({"positions": 0}, "positions: must be at least 1, not 0"),
          ({"positions": (1 << 30) + 1}, "positions: must be at most 1073741824, not 1073741825"),
          ({"signature_bits": -1}, "signature_bits: must be at least 0, not -1"),
          ({"signature_bits": 33}, "signature_bits: must be at most 32, not 33"))),
    (lambda: models.CuckooDictionary(window=1 << 30), "positions: must be at most 1073741824..."),
    *((partial(models.CuckooDictionary.for_error_rate, window=5, error_rate=value),
       f"error_rate: must be above 0 and below 1, not {value}") for value in NUMBERS),
    (lambda: models.CuckooDictionary.for_error_rate(window=5, error_rate=1e-12),
     "error_rate: must be at least 4.66e-11..."),
    (lambda: time_decaying_space_bound(window=0, universe=5, error_rate=0.1),
     "window: must be at least 1, not 0"),
    (lambda: time_decaying_space_bound(window=5, universe=0, error_rate=0.1),
     "universe: must be at least 1, not 0"),
    (lambda: time_decaying_space_bound(window=5, universe=5, error_rate=1),
     "error_rate: must be above 0 and below 1, not 1"),
    # Baselines
    *((partial(build, name, **{field: value}), f"{field}: {rule}, not {value!r}")
      for name, field, value, rule in (
          ("PartitionedBloomFilter", "bits", 5, "must be at least 2 for each of 3 hash functions"),
          ("BlockedBloomFilter", "block_bits", 62, "must be at most bits = 61"),
          ("CountingBloomFilter", "saturated", "lost", "must be 'kept' or 'decremented'"))),
    (lambda: build("StableBloomFilter", decrements=42), "decrements: must be at most 41..."),
    *((partial(build, "ForgetfulBloomFilter", bits=bits),
       "bits: must be 2 to 2**32 for each of 5 segments...") for bits in (9, 5 * ((1 << 32) + 1))),
    *((partial(call, **STABLE | {name: value}),
       f"{name}: must be at least {value + 1}, not {value}")
      for call in (stable_zero_fraction, stable_false_positive_rate)
      for name, value in (("hashes", 0), ("decrements", 0), ("cell_bits", 0), ("cells", 3))),
    *((partial(stable_decrements, *sizes, 0.1), message) for sizes, message in (
        ((3, 3, 1), "cells: must be at least 4, not 3"),
        ((4, 0, 1), "hashes: must be at least 1, not 0"),
        ((4, 3, 0), "cell_bits: must be at least 1, not 0"))),
    *((partial(call, value), f"false_positive_rate: must be above 0 and below 1, not {value!r}")
      for value in NUMBERS for call in (
          partial(stable_decrements, 100, 3, 1), partial(swamp_bits_per_element, 100))),
    (lambda: swamp_bits_per_element(0, 0.1), "window: must be at least 1, not 0"),
    # Frames
    (lambda: FrameDeduplicator(FRAMES, width=32),
     "width: must be one of 8, 64, 128, 256, 512, not 32"),
    (lambda: FrameDeduplicator(FRAMES, on_oversize="cut"),
     "on_oversize: must be one of drop, pass, not 'cut'"),
]  # fmt: skip

TYPES = [
    *((setting(model, "generation", value), f"generation: must be an integer, not {value!r}")
      for model in (partial(build, "GEBF"), timed) for value in (2.5, "3", None, True)),
    *((partial(ring, kind, secret=value, hash=hash),
       f"secret: must be an integer, not {type(value).__name__}")
      for kind in RINGS for hash in ("h3", "siphash") for value in (None, 1.0, "1", False, [1])),
    *((lambda bad=bad: keyed().rekey(bad), f"secret: must be an integer, not {type(bad).__name__}")
      for bad in (1.0, None)),
    *((partial(check_secret, bad), f"secret: must be an integer, not {type(bad).__name__}")
      for bad in (1.0, "1", None, True, b"\0" * 16)),
    (lambda: WindowDictionary(**ROOMY, hash="siphash").rekey("1"),
     "secret: must be an integer, not str"),
    *((partial(ring, kind, partitioned=value), f"partitioned: must be True or False, not {value!r}")
      for kind in (GEBF, BlockedGEBF) for value in (None, 1.5, "x", 0, 1, [])),
    (lambda: ["a"] in build("GEBF"), "in: expected a single key, not list"),
    (lambda: len(build("GEBF")),
     "len: a GEBF cannot count its keys, because keys share memory"),
    (lambda: GEBF.for_window(1.5), "window: must be an integer, not 1.5"),
    (lambda: GEBF.for_window(10, "1%"), "fpr: must be a number, not '1%'"),
    (lambda: GEBF.for_window(10, True), "fpr: must be a number, not True"),
    (lambda: models.TimeLimitedAPBF.for_window(100, rate="1"), "rate: must be a number, not '1'"),
    (lambda: GEBF.for_window(100, bits=5), "...multiple values for keyword argument 'bits'"),
    (lambda: GEBF.for_window(100, sed=3), "got an unexpected keyword argument 'sed'"),
    (lambda: GEBF.for_span("1s", rate=1, sed=3), "...unexpected keyword argument 'sed'..."),
    (lambda: models.BloomFilter(10_000),
     "BloomFilter: expected keyword arguments, not 10000"),
    (lambda: TimeLimitedRing(5), "TimeLimitedRing: expected keyword arguments, not 5..."),
    (lambda: GEBF(spec=5), "spec: must be a specification, not 5"),
    (lambda: models.Swamp.from_spec(5), "spec: must be a specification, not 5"),
    *((partial(kind.for_span, 600, rate=1), f"span: {UNIT}, not 600")
      for kind in (GEBF, TimedTimingFilter)),
    (lambda: clocked(max_ahead=5), "max_ahead: must be a text such as ..."),
    *((lambda now=now, name=name: getattr(clocked(), name)(["a"], now), f"now: must be {rule}")
      for name in ("insert", "query", "age") for now, rule in (
          (datetime(2017, 1, 1), "a datetime with a time zone, not ..."),
          ("10s", f"{KINDS}, not <U3"), (True, f"{KINDS}, not bool"),
          (np.float32(9), f"{KINDS}, not float32"),
          ([object()], "a datetime with a time zone, not object"),
          (date(2026, 1, 1), "a datetime with a time zone, not date"))),
    *((lambda row=row, name=name: getattr(build("TimeLimitedAPBF"), name)(*row[:2]), row[2])
      for name in ("insert", "check_and_insert", "query") for row in (
          ([1], [1.5], "now: must be integers, not float64"),
          ([1], ["now"], "now: must be integers, not <U3"),
          ([1], date(2026, 1, 1), "now: must be integers, not date"),
          ([1], None, "now: must be given for a TimeLimitedAPBF without a clock"),
          ([1.5], [20], "keys: must be integers, text or bytes, not float"))),
    (lambda: PartitionedTimingFilter(**TABLE).decide_by(np.zeros((1, 5, 1))),
     "thresholds: must be integers, not float64"),
    (lambda: PartitionedTimingFilter(**COUNTED).perform([3, 3], [1, 2], windows=[4.0, 0]),
     "windows: must be integers, not float64"),
    *((partial(WindowDictionary(**ROOMY).query, [1, 2], windows),
       f"window: must be an integer, not ...{value}")
      for windows, value in (([1.0, 2.0], "1.0)"), (2.5, "2.5"))),
    *((partial(inferential, **{name: value}), f"{name}: must be a number, not {value!r}")
      for name in ("probability", "false_positive", "false_negative")
      for value in ("0.5", None, True, [0.5], 1j)),
    *((partial(inferential, recurring=value), f"recurring: must be True or False, not {value!r}")
      for value in (0, None, "no")),
    *((partial(inferential, distinct=value), f"distinct: {rule}") for value, rule in (
        (d.all_distinct, "must be a mapping with the key 'kind', not <function all_distinct..."),
        ("uniform", "must be a mapping with the key 'kind', not 'uniform'"),
        (None, "must be a mapping with the key 'kind', not None"),
        ({"kind": "uniform", "universe": 1.5}, "universe: must be an integer, not 1.5"))),
    *((partial(distinct, **sample), f"distinct: {rule}") for sample, rule in (
        ({"at": 4}, "at must be a list, not 4"),
        ({"values": "13"}, "values must be a list, not '13'"),
        ({"at": [1, 4.0]}, "at: must be an integer, not 4.0"),
        ({"values": [1, "3"]}, "values: must be a number, not '3'"),
        ({"values": [True, 3]}, "values: must be a number, not True"))),
    (lambda: decisions([QueryClass(**QUERY_CLASS)], 1.5), "bits: must be an integer, not 1.5"),
    (lambda: posteriors.bloom_posterior([True], [[0]], 0.1, insertions=1.0),
     "insertions: must be an integer..."),
    (lambda: d.uniform_distinct([1.5], 7), "insertions: must be integers, not float64"),
    (lambda: models.CuckooDictionary.for_error_rate(window=5, error_rate="1"),
     "error_rate: must be a number, not '1'"),
    (lambda: swamp_bits_per_element(1.5, 0.1), "window: must be an integer, not 1.5"),
    *((partial(check_keys, np.array([key]), 64),
       f"keys: must be integers, text or bytes, not {kind}")
      for key, kind in ((1.0, "float64"), (True, "bool"), (1 + 0j, "complex128"))),
]  # fmt: skip

VALUES = [
    *((setting(model, "generation", value), f"generation: must be at least 1, not {value}")
      for model in (partial(build, "GEBF"), timed) for value in (0, -3, np.int64(0))),
    *((call, f"secret: must {rule}") for bad, rule in (
        (-1, "not be negative"), (1 << 128, "have at most 128 bits, not 129"))
      for call in (
          *(partial(ring, kind, secret=bad, hash=hash)
            for kind in RINGS for hash in ("h3", "siphash")),
          lambda bad=bad: keyed().rekey(bad), partial(check_secret, bad),
          lambda bad=bad: WindowDictionary(**ROOMY, hash="siphash").rekey(bad))),
    (lambda: clocked(joinable=True).perform([4], [0], [10**18]),
     "operations: a joinable ring has no SHIFT; only the clock shifts it"),
    *((lambda now=now, name=name: getattr(clocked(), name)(["a"], now), f"now: {rule}")
      for name in ("insert", "query", "age") for now, rule in (
          (float("nan"), "must be finite, not nan"),
          (1e20, "must be at least 0 and below 2**62 ns, not 1e+20 s"),
          (1764399600000, "1764399600000 looks like milliseconds, but integers are nanoseconds "
           "since 1970; pass now * 1_000_000, a float of seconds, or datetimes"),
          (1.7e15, "1700000000000000.0 looks like microseconds, but floats are seconds..."),
          (10**17 - 1, "99999999999999999 is before 1973, because integers are na..."),
          (99999999.9, "99999999.9 is before 1973, because floats are seconds since 197..."),
          (-1.5, "must be at least 0 and below 2**62, not -1500000000"),
          (np.datetime64("NaT"), "must be between 1970 and 2116, and not NaT"),
          (np.datetime64("9999-01-01"), "must be between 1970 and 2116..."))),
    (lambda: clocked().perform([3], [5], [1764399600000]), "times: ..."),
    (lambda: clocked().insert(1, datetime(2100, 1, 1, tzinfo=UTC)),
     "now: must be at most 1 d ahead of the clock (max_ahead), not ..."),
    *((lambda row=row, name=name: getattr(build("TimeLimitedAPBF"), name)(*row[:2]), row[2])
      for name in ("insert", "check_and_insert", "query") for row in (
          ([1, 2], [5], "now: must have shape () or (2,), not (1,)"),
          (1, [15, 16], "now: must have shape () or (1,), not (2,)"),
          ([1], [-1], "now: must be at least 0 and below 2**62, not -1"),
          ([1], [1 << 62], f"now: must be at least 0 and below 2**62, not {1 << 62}"))),
    # Timing filters
    *((partial(PartitionedTimingFilter(**COUNTED).perform, [3, 3], [1, 2], windows=windows),
       f"windows: must {rule}") for windows, rule in (
          ([64, 0], "be at most 48, not 64"), ([4] * 3, "have shape () or (2,), not (3,)"),
          ([-4, 0], "be at least 0 and below 2**62, not -4"))),
    (lambda: PartitionedTimingFilter(**COUNTED, classes=2).perform([1, 1], [1, 2], windows=[0, 2]),
     "classes: must be below 2, not 2"),
    (lambda: PartitionedTimingFilter(**TABLE).perform([1], [1], windows=[-1]),
     "classes: must be at least 0 and below 2**62, not -1"),
    (lambda: WindowDictionary(**ROOMY).query([1, 2], [1]),
     "window: must have shape (2,), one per key, not (1,)"),
    # Inferential filters
    *((lambda call=call, value=value: getattr(inferential(), call)([1, 2], probabilities=value),
       f"probabilities: must {rule}")
      for call in ("query", "check_and_insert", "posterior", "posterior_and_insert", "ages")
      for value, rule in (
          (0, "be more than 0 and less than 1, not 0.0"),
          ([0.5, 1], "be more than 0 and less than 1, not 1.0"),
          (-0.1, "be between 0 and 1, not -0.1"), (math.nan, "be between 0 and 1, not nan"),
          (math.nextafter(1, 2), "be between 0 and 1, not 1.0000000000000002"),
          ([0.5] * 3, "have shape () or (2,), not (3,)"),
          ([0.5], "have shape () or (2,), not (1,)"),
          ([[0.5], [0.5]], "have shape () or (2,), not (2, 1)"))),
    *((lambda call=call, costs={name: value}: getattr(inferential(), call)([1, 2], **costs),
       f"{name}: must {rule}")
      for call in ("query", "check_and_insert") for name in PENALTIES
      for value, rule in (
          (-1, "be finite and at least 0, not -1.0"),
          (math.inf, "be finite and at least 0, not inf"),
          ([1, math.nan], "be finite and at least 0, not nan"),
          ([1, 1, 1], "have shape () or (2,), not (3,)"),
          ([[1], [1]], "have shape () or (2,), not (2, 1)"))),
    (lambda: build("InferentialFilter").check_and_insert([1], refresh=False),
     "refresh: must be True for InferentialFilter, not False..."),
    (lambda: decisions([], 2), "classes: must not be empty"),
    *((partial(decisions, [QueryClass(**QUERY_CLASS)], bits), f"bits: must be {rule}")
      for bits, rule in ((4, "at most 3, not 4"), (-1, "at least 0, not -1"))),
    (lambda: decisions([QueryClass(**QUERY_CLASS | {"probability": 0})], 2),
     "probabilities: must be more than 0 and less than 1, not 0.0"),
    *((partial(minimum_penalty, [0.5, 0.5], **PENALTIES | {name: [2, value]}),
       f"{name}: must be finite and at least 0, not {value}")
      for name in ("false_positive", "false_negative") for value in (-1.0, math.nan, math.inf)),
    (lambda: minimum_penalty([1.5], false_positive=1, false_negative=1),
     "posterior: must be between 0 and 1..."),
    (lambda: posteriors.bloom_posterior([[True]], [[0]], 0.1, insertions=1),
     "bits, indices: must have shapes..."),
    *((partial(d.interpolated_distinct, *arguments), message) for arguments, message in (
        (([11], [1, 10], [1, 5]), "insertions: must be 0 or between 1 and 10, not 11 to 11"),
        (([-1], [1, 10], [1, 5]), "insertions: must be at least 0, not -1"),
        (([2], [1, 10, 10], [1, 5, 6]), "at: must increase and start at 1 or more, not..."),
        (([2], [0, 10], [1, 5]), "at: must increase and start at 1 or more, not..."),
        (([2], [1, 10], [0, 5]), "distinct: must be positive, not 0..."),
        (([2], [1, 10], [1]), "distinct, at: must have the same shape (n,)..."))),
    (lambda: d.power_law_distinct([1], 0), "universe: must be at least 1, not 0"),
    (lambda: d.sampled_distinct([1, 2, 3], [4], 1), "at: must be at most 3, not 4"),
    (lambda: d.sampled_distinct([1, 2, 3], [2], 0), "trials: must be at least 1, not 0"),
    # Hash functions
    *((partial(check_keys, keys, bits), f"keys: must have shape {rule}")
      for bits, keys, rule in (
          (64, [[1, 2]], "(n,) for 64-bit keys, not (1, 2)"),
          (8, [[[1]]], "(n,) for 8-bit keys, not (1, 1, 1)"),
          (104, [[1, 2, 3]], "(n,) or (n, 2) for 104-bit keys, not (1, 3)"),
          (129, [[1, 2]], "(n,) or (n, 3) for 129-bit keys, not (1, 2)"))),
    *((partial(check_keys, np.array(keys, np.uint64), bits),
       f"keys: must be below 2**{bits}, not {shown}") for bits, keys, shown in (
          (8, [0, 256], "0x100"), (1, [2], "0x2"), (63, [1 << 63], "0x8000000000000000"),
          (104, [[0, 1 << 40]], "0x1" + "0" * 26))),
    (lambda: check_keys([3, -129, -2], 8),
     "keys: must be at least -2**7, not -129"),
    (lambda: ChosenKeys(key_hash(sizes=(1 << 32, 1 << 32))).with_cells_of(
        [1], [0], np.random.default_rng(5)),
     "functions: must leave at least one of the 64 state bits undetermined"),
    (lambda: solutions([1, 2, 3]), "rows: must be independent, but 3 have rank 2"),
    (lambda: ChosenKeys(from_spec(preset("default"))._hash).with_cells_of(
        [1], range(3), np.random.default_rng(5)),
     "rows: must be independent, but 78 have rank ..."),
    *((lambda changes=changes: ChosenKeys(key_hash(**changes)), message) for changes, message in (
        ({"hash": "siphash"}, "hash: must be 'h3', not 'siphash'"),
        ({"key_bits": 63}, "key_bits: must be at least 64, not 63"),
        ({"sizes": (16, 10)}, "sizes: must be powers of two, not 10"))),
]  # fmt: skip

FIELDS = [
    (lambda: FrameDeduplicator(FRAMES, fields=Field.TOS | Field.NO_ID),
     "fields: must be among tos, ttl, vlan, layer2, frame..."),
    (lambda: FrameDeduplicator(FRAMES, fields=Field.LAYER2, inner=True),
     "fields: must not include layer2 if inner packets are compared"),
    (lambda: parse_fields("frame,ttl"),
     "fields: frame compares every byte, and cannot be combined with ttl..."),
    *((partial(parse_fields, text), "fields: must be none or any of tos, ttl, vlan, la...")
      for text in ("", "tos,", "TOS", "mac")),
    (lambda: CopyRule(policy="x"), "policy: must be one of last-seen, first-seen, not 'x'"),
    (lambda: CopyRule(scope="x"), "scope: must be one of any, same, other, not 'x'"),
    (lambda: CopyRule(by="x"), "by: must be one of ..."),
    (lambda: CopyRule(differs="ttl", scope="other"),
     "scope: must be 'any' or 'same' if a property must differ..."),
    *((partial(rule.check, Comparison(field)),
       "differs: ... is compared, so it cannot differ in copies")
      for rule, field in ((CopyRule(differs="ttl"), Field.TTL),
                          (CopyRule(scope="other", by="vlan"), Field.FRAME))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "rows"),
    [(SpecificationError, SPECIFICATIONS), (TypeError, TYPES), (ValueError, VALUES),
     (FieldError, FIELDS)],
)  # fmt: skip
def test_messages(error, rows):
    """Parts of a message that are left out are "..." here."""
    for number, (call, message) in enumerate(rows):
        with pytest.raises(error) as caught:
            call()
        text, pattern = str(caught.value), ".*".join(map(re.escape, message.split("...")))
        assert re.fullmatch(pattern, text), f"row {number}: {text!r} is not {message!r}"


def test_refused_calls_change_nothing():
    """A refused batch has no effect, whichever of its rows is wrong."""
    calls = [
        (keyed, lambda model: model.rekey(1 << 128)),
        (partial(build, "TimeLimitedAPBF"), lambda model: model.insert([1, 2], [5, -1])),
        (partial(build, "TimeLimitedAPBF"), lambda model: model.check_and_insert([1, 2], [5])),
        (clocked, lambda model: model.check_and_insert([1, 2], [1e9, 1e20])),
        (inferential, lambda model: model.check_and_insert([1, 2], probabilities=[0.5, 1])),
        (inferential, lambda model: model.check_and_insert([1, 2], false_positive=[1, -1])),
        (partial(PartitionedTimingFilter, **COUNTED),
         lambda model: model.perform([3, 3], [1, 2], windows=[16, 64])),
        (partial(WindowDictionary, **ROOMY), lambda model: model.check_and_insert([1, 2], [1, 21])),
    ]  # fmt: skip
    for make, call in calls:
        model, same = make(), make()
        with pytest.raises((TypeError, ValueError)):
            call(model)
        assert model == same
        assert model.counters == same.counters
