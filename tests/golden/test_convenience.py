"""Filters as Python users meet them: `for_window`, printing, `in`, `len`, copies, single keys."""

import gc
import inspect
import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from cases import daily
from every_model import MODELS, RINGS, model_class, used
from paths import PATHS, taking

import lately
import lately.golden as golden
from lately.golden import GEBF, InferentialFilter, SpecificationError
from lately.golden.analysis import apbbf_fills, apbf_false_positive_rate
from lately.golden.filter import Options
from lately.golden.ring import ring_sizes
from lately.golden.ring.ring_sizes import apbbf_sizes
from lately.golden.sampling import MAX_BYTES, sample
from lately.golden.sizing import best_hashes, expected_keys
from lately.golden.timed_filter import TIME_LIMIT
from lately.golden.timestamp.timing import timing_bits
from papers import models
from papers.models import BloomFilter

COUNTED = (
    "APBF",
    "APBBF",
    "GEBF",
    "BlockedGEBF",
    "TimingBloomFilter",
    "BlockTimingBloomFilter",
    "PartitionedTimingFilter",
    "CuckooDictionary",
    "WindowDictionary",
    "CountingBloomFilter",
    "Swamp",
    "DoubleBuffering",
    "A2Buffering",
    "ForgetfulBloomFilter",
)
TIMED = ("TimeLimitedAPBF", "TimedTimingFilter")
WINDOWLESS = {
    "BloomFilter": {"bits": 10_000, "hashes": 3},
    "PartitionedBloomFilter": {"bits": 10_000, "hashes": 3},
    "BlockedBloomFilter": {"bits": 8192, "hashes": 3, "block_bits": 256},
    "StableBloomFilter": {"cells": 1000, "hashes": 3, "decrements": 5},
    "InferentialFilter": {
        "window": 100,
        "cells": 1000,
        "hashes": 3,
        "distinct": {"kind": "all-distinct"},
        "probability": 0.01,
    },
}


def built(name, **options):
    """Return a small filter of a class."""
    cls = model_class(name)
    if name in WINDOWLESS:
        return cls(**WINDOWLESS[name], **options)
    if name in TIMED:
        return cls.for_window(100_000, 0.05, rate=0.003, **options)
    return cls.for_window(300, 0.05, **options)


# For 20,000 insertions and a rate of 0.001. The search is for the least memory, and whoever builds
# by a window only keeps bitstreams and states as long as it ends with these.
SIZES = {
    "APBF": {"k": 14, "l": 32, "generation": 625, "slice_bits": 12224},
    "APBBF": {"k": 2, "l": 27, "hashes_per_block": 8, "generation": 741, "blocks": 68},
    "GEBF": {"epochs": 6, "hashes": 10, "bits": 430990},
    "BlockedGEBF": {"epochs": 8, "hashes": 8, "block_bits": 512, "bits": 516096},
    "TimingBloomFilter": {"cells": 287554, "hashes": 10},
    "BlockTimingBloomFilter": {"cells": 314906, "hashes": 17, "block": 625},
    "PartitionedTimingFilter": {"block": 625, "cells": 29211, "hashes": 10},
    "CuckooDictionary": {"signature_bits": 0},
    "WindowDictionary": {"columns": 11, "rows": 4096, "digest_bits": 25},
    "CountingBloomFilter": {"counters": 287554, "hashes": 10},
    "Swamp": {"fingerprint_bits": 25},
    "DoubleBuffering": {"generation": 20000, "bits": 937230, "hashes": 9},
    "A2Buffering": {"generation": 20000, "bits": 584652, "hashes": 10},
    "ForgetfulBloomFilter": {"generation": 1250, "past": 16, "bits": 595566, "hashes": 11},
}


@pytest.mark.parametrize("name", COUNTED)
def test_sizes_of_a_window(name):
    spec = model_class(name).for_window(20_000, 0.001).spec
    assert {field: getattr(spec, field) for field in SIZES[name]} == SIZES[name]


def test_sizes_of_the_least_windows():
    """Where a cell more or less decides between shapes."""
    sizes = [GEBF.for_window(window, fpr).spec for window, fpr in [(1, 0.02), (2, 0.01), (2, 0.03)]]
    assert [(spec.epochs, spec.hashes, spec.bits) for spec in sizes] == [
        (1, 7, 28), (2, 6, 54), (2, 7, 42)
    ]  # fmt: skip


@pytest.mark.parametrize("fpr", [0.1, 0.01, 0.001, 1e-6])
@pytest.mark.parametrize("name", ["GEBF", "BlockedGEBF"])
def test_sizes_that_fit_the_words_of_a_computer(name, fpr):
    """At most 3 % more bits than the least, for columns that cost a computer a tenth less."""
    chosen = model_class(name).for_window(20_000, fpr)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ring_sizes, "_fitting", lambda shapes, sizes: sizes(min(shapes)))
        sizes = chosen._sizes.__wrapped__(20_000, fpr)
    smallest = model_class(name)(**sizes, digest=chosen.digest)
    costs = [model.nbytes * model.spec.hashes for model in (chosen, smallest)]
    assert smallest.spec.bits <= chosen.spec.bits <= ring_sizes.TOLERATED * smallest.spec.bits
    assert chosen.spec == smallest.spec or costs[0] < 0.92 * costs[1]


def test_options_match_the_constructors():
    taken = set()
    for name in (*COUNTED, *TIMED):
        cls = model_class(name)
        taken |= inspect.signature(cls).parameters.keys() - {"span", *cls._sizes(300, 0.05)}
    assert taken == Options.__annotations__.keys()


@pytest.mark.parametrize("name", TIMED)
def test_longest_span(name):
    cls = model_class(name)
    assert cls.for_window(TIME_LIMIT - 1, 0.5, rate=1e-17).span == TIME_LIMIT - 1
    with pytest.raises(SpecificationError, match=f"^span: must be at most {TIME_LIMIT - 1}, not"):
        cls.for_window(TIME_LIMIT, 0.5, rate=1.0)  # Too many keys, too: the span is told first.


def test_rate_that_a_size_just_meets():
    """A ring that is the smallest for just its rate does not do for the next lower one."""
    rate = apbf_false_positive_rate(2, 27, fills=apbbf_fills(2, 27, 256, 8))
    exact, lower = (apbbf_sizes(20_000, fpr) for fpr in (rate, math.nextafter(rate, 0)))
    assert (exact["k"], exact["l"], exact["hashes_per_block"]) == (2, 27, 8)
    assert (lower["k"], lower["l"]) != (2, 27)


def test_most_keys_that_are_expected():
    assert expected_keys(1 << 20, 1 << 20) == (1 << 40) + 1
    with pytest.raises(SpecificationError, match=r"^rate: .* at most 2\*\*40 keys"):
        expected_keys(1 << 20, (1 << 20) + 1)
    assert expected_keys(1, 0.001) == 2


@pytest.mark.parametrize("keys", [1, 2, 5, 13])
@pytest.mark.parametrize("name", [*COUNTED[:4], *TIMED])
def test_the_rate_of_few_keys_is_kept(name, keys):
    """Right after an insertion, in a steady stream; 4 deviations of the mean over 100 filters."""
    fpr, rates = 0.001, []
    sized = model_class(name).for_span(f"{keys}s", fpr, rate=1)
    for seed in range(100):
        model = type(sized).from_spec(replace(sized.spec, seed=seed))
        times = (np.arange(4 * keys + seed % (2 * keys)) + 1) * 10**9
        model.insert(np.arange(len(times)), times)
        rates.append(model.estimated_false_positive_rate(times[-1]))
    assert np.mean(rates) - 4 * np.std(rates) / 10 < fpr


def test_best_hashes():
    assert [best_hashes(cells, 100) for cells in (1, 72, 73, 1000)] == [1, 1, 1, 7]
    assert [best_hashes(cells, 2) for cells in (4, 5)] == [1, 2]


@pytest.mark.parametrize("window", daily(3, [1, 2, 10, 1000, 20_000]))
@pytest.mark.parametrize("name", COUNTED + TIMED)
def test_window_and_rate_are_kept_by_analysis(name, window):
    cls = model_class(name)
    for fpr in (0.3, 0.01, 1e-4):
        if name in TIMED:
            model = cls.for_window(1000 * window, fpr, rate=0.001)
            assert model.span == 1000 * window
        else:
            model = cls.for_window(window, fpr)
            assert window_of(model) >= window
        assert 0 < model.fpr <= fpr


@pytest.mark.parametrize(
    "name", ["CountingBloomFilter", "DoubleBuffering", "A2Buffering", "ForgetfulBloomFilter"]
)
@pytest.mark.parametrize("fpr", [0.1, 0.01, 1e-4])
def test_sizes_of_any_number_of_bits_are_no_larger_than_the_rate_asks(name, fpr):
    model = model_class(name).for_window(1000, fpr)
    assert 0.998 * fpr < model.fpr <= fpr


def window_of(model):
    if hasattr(model.spec, "guaranteed_window"):
        return model.spec.guaranteed_window
    return getattr(model, "window", getattr(model, "past", 1) * getattr(model, "generation", 0))


@pytest.mark.parametrize("name", COUNTED + TIMED)
def test_window_and_rate_are_kept(name):
    """Of 40,000 fresh keys, over four windows of random keys; 4 deviations of the filter."""
    window, fpr, cls = 1500, 0.03, model_class(name)
    timed = name in TIMED
    # Few ticks in a span, so that it matters when in a tick a query is.
    options = {"period": 25 * window} if name == "TimedTimingFilter" else {}
    sized = (100 * window, fpr) if timed else (window, fpr)
    model = cls.for_window(*sized, **({"rate": 0.01} if timed else {}), **options)
    rng = np.random.default_rng(5)
    keys = rng.integers(0, 1 << 63, 6 * window)
    fresh = rng.integers(1 << 63, (1 << 64) - 1, 40_000, dtype=np.uint64)
    seen = []
    for end in range(150, 6 * window + 1, 150):
        part = slice(end - 150, end)
        model.insert(keys[part], *([100 * np.arange(part.start, part.stop)] if timed else []))
        now = [100 * (end - 1)] if timed else []
        assert model.query(keys[max(0, end - window) : end], *now).all()
        if end > 2 * window:
            part = fresh[len(seen) * 1000 : (len(seen) + 1) * 1000]
            seen.append(model.query(part, *now).mean())
    assert len(seen) == 40
    print(name, np.mean(seen), model)
    assert model.fpr <= fpr
    deviation = math.sqrt(model.fpr / 40_000)
    assert np.mean(seen) == pytest.approx(model.fpr, rel=0.15, abs=4 * deviation)


def test_options_reach_the_constructor():
    model = GEBF.for_window(100, seed=7, key_bits=104, hash="siphash", secret=3)
    assert (model.spec.seed, model.spec.key_bits, model.secrets[0]) == (7, 104, 3)


OTHER_LIBRARIES = [
    ([20_000], {}, "expected keyword arguments, not 20000"),
    ([20_000, 0.01], {}, "expected keyword arguments, not 20000"),
    ([], {"fpr": 0.01, "window": 20_000}, "(missing a required|got an unexpected keyword) arg.*"),
]


@pytest.mark.parametrize("name", [*COUNTED, *TIMED])
def test_numbers_of_other_libraries(name):
    chooser = "span, fpr, rate=rate" if name in TIMED else "window, fpr"
    for arguments, parameters, message in OTHER_LIBRARIES:
        message = rf"^{name}: {message}; {name}\.for_window\({chooser}\) chooses all parameters$"
        with pytest.raises(TypeError, match=message):
            model_class(name)(*arguments, **parameters)


@pytest.mark.parametrize("name", WINDOWLESS)
def test_no_window(name):
    with pytest.raises(SpecificationError, match=f"^for_window: {name} guarantees no window$"):
        model_class(name).for_window(100)


def test_repr():
    with taking("compiled"):
        model = GEBF.for_window(20_000, fpr=0.01)
    text = "<GEBF: window of 20,000 insertions, false-positive rate 0.01, 43.8 KiB held, 0% filled>"
    assert repr(model) == str(model) == text
    model.insert(np.arange(30_000))
    assert repr(model).endswith("KiB held, 39% filled>")
    timed = models.TimeLimitedAPBF.for_window(1000, 0.5, rate=1)
    assert repr(timed).startswith("<TimeLimitedAPBF: window of 1,000 units of time, false-")
    assert repr(built("BloomFilter")) == "<BloomFilter: no window, 9.8 KiB held, 0% filled>"


@pytest.mark.parametrize("name", [*COUNTED, *TIMED, *WINDOWLESS])
def test_add_and_update_as_a_set_has_them(name):
    model, twin = built(name, seed=3), built(name, seed=3)
    now = {"now": 300} if name in TIMED else {}
    assert model.add("a", **now) is None
    assert model.update(["b", "c"], np.arange(5), iter({"d": 1}), **now) is None
    model.update(**now)
    for keys in ("a", ["b", "c"], range(5), ["d"]):
        twin.insert(keys, **now)
    assert model == twin
    assert model.counters == twin.counters
    with pytest.raises(TypeError, match=r"^add: expected a single key, not list$"):
        model.add(["a"], **now)
    with pytest.raises(TypeError, match=r"^update: expected an iterable of keys, not str$"):
        model.update("abc", **now)
    assert model == twin


@pytest.mark.parametrize("name", [*MODELS, *RINGS])
def test_window_and_rate_by_the_same_names(name):
    model = used(name)
    assert model.fpr is None or 0 < model.fpr < 1
    assert model.nbytes > 0
    if name in WINDOWLESS and name != "InferentialFilter":
        assert model.window is None
    else:
        assert model.window == getattr(model, "span", model.window) >= 6


@pytest.mark.parametrize("block", [1, 7])
def test_bits_of_timing_filters_are_foreseen(block):
    for window, cells, hashes in [(100, 300, 3), (100, 301, 3), (5, 64, 1)]:
        sizes = {"window": window, "cells": cells, "hashes": hashes, "block": block}
        assert golden.BlockTimingBloomFilter(**sizes).storage_bits == timing_bits(**sizes)


# Memory


def unpacked_fill(model):
    """Share of the memory that is in use, from the copy of it."""
    expired = {
        "timing": lambda: model.expired,
        "partitioned_timing": lambda: model.expired_age,
    }
    home = type(model).fill.fget.__module__.rpartition(".")[2]
    if isinstance(model, InferentialFilter):
        return np.mean(model.memory != model.model.expired)
    if home in expired:
        return np.mean(model.memory != expired[home]())
    if home == "window_dictionary":
        return np.mean(model.memory[0] != 0)
    if home == "swamp":
        return min(1, model.insertions / model.window)
    return np.mean(model.memory != 0)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", [*MODELS, *RINGS])
def test_fill_agrees_with_the_memory(name, path):
    with taking(path):
        model = used(name)
        assert 0 < model.fill < 1 or name == "Swamp"
        assert model.fill == pytest.approx(unpacked_fill(model), rel=1e-12)
        if model.spec.kind == "ring" and name not in TIMED:
            ring = range(model.spec.ring_segments)
            ratios = [model.segment(index).mean() for index in ring]
            assert model.fill_ratios().tolist() == pytest.approx(ratios, rel=1e-12)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["GEBF", "BlockedGEBF", "WindowDictionary", "BloomFilter"])
def test_fill_of_a_large_memory_is_that_of_evenly_spaced_parts(name, path, monkeypatch):
    with taking(path):
        model = large(name)
        model.insert(np.arange(60_000))
        exact = unpacked_fill(model)
        monkeypatch.setattr("lately.golden.sampling.MAX_BYTES", 1 << 17)
        assert model.fill != exact
        assert model.fill == pytest.approx(exact, abs=0.004)


def test_parts_of_a_large_memory():
    assert len(sample(np.zeros(MAX_BYTES, np.uint8))) == MAX_BYTES
    memory = np.arange(4 * MAX_BYTES, dtype=np.uint16).reshape(4, -1)
    part = sample(memory)
    assert part.shape == (4, MAX_BYTES // 8)
    assert part[0, 0] == memory[0, 0]
    assert part[3, -1] == memory[3, -1]


BUILDS = {
    "GEBF": lambda: GEBF.for_window(50_000),
    "APBF": lambda: golden.APBF.for_window(50_000),
    "TimeLimitedAPBF": lambda: models.TimeLimitedAPBF.for_window(50_000, rate=1.0),
    "BloomFilter": lambda: BloomFilter(bits=500_000, hashes=7),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", BUILDS)
def test_printing_does_not_unpack_the_bits(name, path):
    with taking(path):
        model = BUILDS[name]()
        assert model.storage_bits > 480_000
        repr(model)
        tracemalloc.start()
        try:
            repr(model)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # Parts of a fixed size are looked at one after another.
        assert peak < min(model.storage_bits, 400_000)


@pytest.mark.parametrize("path", daily(1, PATHS))
@pytest.mark.parametrize("name", daily(8, MODELS))
def test_bytes_held(name, path):
    """The arrays that a larger filter has more of are counted, as far as they are allocated."""
    with taking(path):
        # The first one imports modules and fills caches.
        large(name)
        tracemalloc.start()
        try:
            kept = large(name)
            gc.collect()
            held = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        # Tables of hash functions take about 100 KB.
        assert kept.nbytes == pytest.approx(held, abs=200_000, rel=0.01), (kept.nbytes, held)
        assert f"{kept.nbytes / 1024:,.1f} KiB held" in repr(kept)


def large(name):
    """Return a filter of a megabyte or more."""
    cls = model_class(name)
    if name in WINDOWLESS:
        sizes = {"bits": 1 << 21, "cells": 1 << 21, "block_bits": 256}
        given = WINDOWLESS[name]
        return cls(**{field: sizes.get(field, value) for field, value in given.items()})
    if name in TIMED:
        return cls.for_window(1 << 20, rate=0.25)
    return cls.for_window(1 << 18)


@pytest.mark.parametrize("name", [*MODELS, *RINGS])
def test_mistakes_with_objects_are_refused(name):
    """A parameter is fixed, and a constructor is a method of the class only."""
    model, data = used(name), used(name).to_bytes()
    fixed = {"seed", "key_bits", "digest"} | {*model.__signature__.parameters} & {*vars(model)}
    for parameter in fixed if name in models.__all__ else fixed | {"window"}:
        with pytest.raises(AttributeError):
            setattr(model, parameter, 3)
    for method in ("load", "from_bytes", "for_window", "for_span", "from_spec"):
        if hasattr(model, method):
            call = f"{type(model).__name__}.{method}"
            with pytest.raises(TypeError, match=rf"^{method}: call {call}\(...\), which returns"):
                getattr(model, method)(data)
    assert model == used(name)


def test_public_names():
    assert {*golden.__all__, "__version__", "from_bytes", "load"} <= {*dir(lately)}
    assert lately.__all__ == golden.__all__
