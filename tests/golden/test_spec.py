"""Specifications: every rule with its message, text round trips, and figures by hand."""

import math
import os
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lately.golden import PRESETS, FilterSpec, SpecificationError, preset
from lately.golden.analysis import apbf_false_positive_rate
from lately.golden.spec import AgePartitionedSpec, APBFSpec

APBF = {"family": "apbf", "k": 3, "l": 2, "slice_bits": 64}
APBBF = {
    "family": "apbbf", "k": 2, "l": 3, "block_bits": 64, "hashes_per_block": 4, "blocks": 16,
}  # fmt: skip
GEBF = {"family": "gebf", "window": 100, "epochs": 4, "hashes": 2, "bits": 640}
BLOCKED = {**GEBF, "family": "blocked-gebf", "block_bits": 32}


def refusal(values):
    with pytest.raises(SpecificationError) as caught:
        FilterSpec.from_dict(values)
    message = str(caught.value)
    assert "\n" not in message
    return message


# Rules

KNOWN = "apbf, apbbf, gebf, blocked-gebf"
MOST = 1 << 32
RANGE = f"must give at most 2**32 cells or blocks in a part, not {MOST + 1}"
FIELDS = f"must be one of {', '.join(APBFSpec.field_names())}"
REFUSED = [  # fields, others in their place, message
    *((APBF, {"family": family}, f"family: must be one of {KNOWN}, not {family!r}")
      for family in ("bloom", "APBF", "", None, 3, ["gebf"], {"gebf": 1}, "a\nb")),
    (APBF, {"seed": -1}, "seed: must be at least 0, not -1"),
    (APBF, {"seed": 1 << 64}, f"seed: must be below 2**64, not {1 << 64}"),
    (APBF, {"lanes": 3}, "lanes: must be 1, 2 or 4, not 3"),
    (APBF, {"lanes": 2},
     "slice_bits: must be a multiple of 3, the number of shards for 2 lanes, not 64"),
    (APBBF, {"blocks": 64, "lanes": 4},
     "blocks: must be a multiple of 6, the number of shards for 4 lanes, not 64"),
    (APBF, {"slice_bits": 96, "lanes": 2, "hash": "siphash", "rekey": True},
     "rekey: must be False with several lanes, not True"),
    (APBF, {"clear": 24}, "clear: must be a power of two, not 24"),
    *((APBF, {"hash": bad}, f"hash: must be one of h3, siphash, not {bad!r}")
      for bad in ("sip", "H3", "", None, 3, True, ["h3"])),
    *((APBF, {"hash": "siphash", "rekey": bad}, f"rekey: must be True or False, not {bad!r}")
      for bad in (0, 1, "true", None, 1.0, np.True_)),
    (APBF, {"rekey": True}, "rekey: must be False for hash h3, not True"),
    (BLOCKED, {"block_bits": 48}, "block_bits: must be a power of two, not 48"),
    *((APBBF, {"hashes_per_block": bad},
       f"hashes_per_block: must divide block_bits = 64 and be smaller, not {bad}")
      for bad in (3, 64, 128)),
    # 5 segments of 2 parts of 2 bits, or of a block.
    (GEBF, {"bits": 19}, "bits: must be at least 20 (2 per hash and segment), not 19"),
    (BLOCKED, {"bits": 159}, "bits: must be at least 160 (one block in each segment), not 159"),
    (BLOCKED, {"hashes": 32}, "hashes: must be below block_bits = 32, not 32"),
    (APBF, {"slice_bits": MOST + 1}, f"slice_bits: {RANGE}"),
    (APBBF, {"blocks": MOST + 1}, f"blocks: {RANGE}"),
    (GEBF, {"hashes": 1, "epochs": 1, "bits": 2 * MOST + 2}, f"bits: {RANGE}"),
    (APBF, {"generation": 10, "window": 21},
     "window: must be at most 20 (2 generations of 10 insertions), not 21"),
    (GEBF, {"generation": 24},
     "window: must be at most 96 (4 generations of 24 insertions), not 100"),
    *((APBF, {name: 5}, f"{shown}: unknown field, {FIELDS} (value 5)")
      for name, shown in (("windows", "windows"), ("", "''"), ("K", "K"))),
    (APBF, {"a\nb": "c\nd"}, f"'a\\nb': unknown field, {FIELDS} (value 'c\\nd')"),
]  # fmt: skip


def test_refused():
    for fields, others, message in REFUSED:
        assert refusal({**fields, **others}) == message
    assert refusal({}) == f"family: must be one of {KNOWN}, not None"
    with pytest.raises(TypeError, match="family"):
        FilterSpec()
    with pytest.raises(
        SpecificationError, match=r"^preset: must be one of default, .*, not 'huge'"
    ):
        preset("huge")


TAKEN = [  # fields, others in their place, and what a specification then has
    (APBF, {"seed": (1 << 64) - 1}, {"seed": (1 << 64) - 1}),
    (APBF, {"key_bits": 4096}, {"key_bits": 4096}),
    (APBF, {"key_bits": 1, "clear": 1}, {"key_bits": 1, "clear": 1}),
    (APBF, {"hash": "siphash"}, {"rekey": False}),
    (APBF, {"hash": "siphash", "rekey": True}, {"rekey": True}),
    (APBBF, {"hashes_per_block": 32}, {"cells": 2}),
    (GEBF, {"bits": 20}, {"cells": 2}),
    (BLOCKED, {"bits": 160}, {"segment_blocks": 1}),
    (BLOCKED, {"hashes": 31}, {"cells": 1}),
    (APBF, {"slice_bits": MOST}, {"part_bits": MOST}),
    (APBF, {"generation": 10, "window": 20}, {"window": 20}),
    (APBF, {"window": 20}, {"generation": 10}),
    (APBF, {"window": 21}, {"generation": 11, "window": 21, "guaranteed_window": 22}),
    (APBF, {"window": 1}, {"generation": 1}),
    *((GEBF, {"window": window}, {"generation": length})
      for window, length in ((100, 25), (101, 26), (3, 1))),
]  # fmt: skip


def test_taken():
    for fields, others, expected in TAKEN:
        spec = FilterSpec(**fields | others)
        assert {name: getattr(spec, name) for name in expected} == expected
        assert hash(spec) == hash(FilterSpec(**fields | others))
    assert FilterSpec(**APBF, seed=0, hash="h3", rekey=False) == FilterSpec(**APBF)
    with pytest.raises(FrozenInstanceError):
        spec.k = 4


@pytest.mark.parametrize(("lanes", "shards"), [(1, 1), (2, 3), (4, 6)])
def test_shards(lanes, shards):
    spec = FilterSpec(**APBF | {"slice_bits": 64 * shards}, lanes=lanes)
    assert (spec.shards, spec.part_bits, spec.shard_bits) == (shards, 64 * shards, 64)
    assert spec.index_sizes == (64,)


def test_shards_of_blocks():
    spec = FilterSpec(**APBBF | {"blocks": 6 * 128}, lanes=4)
    assert spec.index_sizes == (128, *(spec.cells,) * spec.parts)
    assert spec.shard_bits == 128 * spec.cells


def test_shards_of_bits_are_whole():
    spec = FilterSpec(
        family="gebf", window=100, epochs=4, hashes=2, bits=5 * 2 * (6 * 8 + 5), lanes=4
    )
    assert (spec.cells, spec.shard_bits) == (48, 8)
    spec = FilterSpec(
        family="blocked-gebf", window=100, epochs=4, hashes=2, block_bits=16,
        bits=5 * 16 * (3 * 4 + 2), lanes=2,
    )  # fmt: skip
    assert (spec.segment_blocks, spec.index_sizes[0]) == (12, 4)


def test_segment_of_five_slices():
    """APBF paper, section 6: k = 2 with 5 slices per segment, each as full as one of k = 10."""
    slices = FilterSpec(family="apbf", k=10, l=20, slice_bits=1000)
    parts = {"block_bits": 5000, "hashes_per_block": 5, "blocks": 1}
    segments = FilterSpec(family="apbbf", k=2, l=4, **parts)
    assert (segments.cells, segments.parts, segments.index_sizes) == (1000, 5, (1,) + (1000,) * 5)
    assert segments.memory_bits == slices.memory_bits
    assert segments.generation == 5 * slices.generation + 1 == 346
    rates = segments.segment_false_positive_rates(phase=1.0)
    assert rates == pytest.approx([(1 - 2**-0.5) ** 5] + [2**-5] * 5, rel=0.01)


# Derived figures, by hand

# family, g, window, slack, memory, storage, index sizes, hash functions
FIGURES = {
    # n = ln(1/2) / ln(15/16) = 10.74; g = floor(1024 n / 2); 7 segments of 65536 bits.
    "default": (5498, 27490, 10996, 458752, 524288, (1024, 16, 16, 16, 16), 8),
    # g = floor(4096 n / 3); 12 segments of 262144 bits.
    "large": (14663, 131967, 43989, 3145728, 3407872, (4096, 16, 16, 16, 16), 13),
    # g = floor(256 n / 2); 6 segments of 16384 bits.
    "small": (1374, 5496, 2748, 98304, 114688, (256, 16, 16, 16, 16), 7),
    # n = ln(1/2) / ln(3/4) = 2.409; g = floor(4 n / 2); 4 segments of 32 bits.
    "tiny": (4, 8, 8, 128, 160, (4, 4, 4), 5),
    # g = floor(16384 ln 2 / 10); 17 slices.
    # g = floor(16 n / 2); 4 segments of 128 bits.
    "timed-tiny": (19, 38, 38, 512, 640, (16, 4, 4), 5),
    "apbf-default": (1135, 7945, 11350, 278528, 294912, (16384,), 18),
    "apbf-tiny": (7, 14, 21, 160, 192, (32,), 6),
    # Epochs of 20000 / 8; 9 segments of 4 parts.
    "gebf-default": (2500, 20000, 2500, 294912, 327680, (8192,) * 4, 1),
    "gebf-tiny": (8, 16, 8, 96, 128, (16, 16), 1),
    # 9 segments of 32768 bits in 512 blocks.
    "blocked-gebf-default": (
        2500, 20000, 2500, 294912, 327680, (512, 16, 16, 16, 16), 1,
    ),
    "blocked-gebf-tiny": (8, 16, 8, 96, 128, (4, 4, 4), 1),
    # g = floor(3 * 1024 n / 2) and floor(6 * 1024 n / 2); the indices are those in a shard.
    "two-lanes": (16496, 82480, 32992, 1376256, 1572864, (1024, 16, 16, 16, 16), 8),
    "four-lanes": (32993, 164965, 65986, 2752512, 3145728, (1024, 16, 16, 16, 16), 8),
    # g = floor(24 n / 2) and floor(48 n / 2) with the n of tiny.
    "two-lanes-tiny": (28, 56, 56, 768, 960, (8, 4, 4), 5),
    "four-lanes-tiny": (57, 114, 114, 1536, 1920, (8, 4, 4), 5),
}  # fmt: skip
# The hash changes none of them.
FIGURES |= {"siphash-default": FIGURES["default"], "siphash-tiny": FIGURES["tiny"]}


@pytest.mark.parametrize("name", FIGURES)
def test_figures(name):
    spec = preset(name)
    assert (
        spec.generation,
        spec.window,
        spec.slack,
        spec.memory_bits,
        spec.storage_bits,
        spec.index_sizes,
        spec.hash_functions,
    ) == FIGURES[name]
    assert spec.guaranteed_window == spec.window


def test_figures_cover_the_presets():
    assert set(FIGURES) | {"apbbf-default", "apbbf-tiny"} == set(PRESETS)
    assert preset("apbbf-default") is preset("default")
    assert preset("apbbf-tiny") is preset("tiny")


def test_keyed_presets():
    keyed = {"hash": "siphash", "rekey": True}
    assert preset("siphash-default") == replace(preset("default"), **keyed)
    assert preset("siphash-tiny") == replace(preset("tiny"), key_bits=16, **keyed)


@pytest.mark.parametrize("spec", PRESETS.values(), ids=PRESETS)
def test_ring(spec):
    partitioned = isinstance(spec, AgePartitionedSpec)
    run, target = (spec.k, spec.l) if partitioned else (1, spec.epochs)
    assert spec.run == run
    assert spec.window_generations == target
    assert spec.ring_segments == run + target
    assert spec.segments == run + target + 1


def test_sizes_that_do_not_divide():
    spec = FilterSpec(**{**GEBF, "bits": 650, "hashes": 3})
    assert spec.cells == 650 // 5 // 3
    assert spec.memory_bits == 5 * 3 * 43
    spec = FilterSpec(**{**BLOCKED, "bits": 5 * 32 * 2 + 159, "hashes": 3})
    assert (spec.segment_blocks, spec.cells, spec.part_bits) == (2, 10, 20)


# False positives


def test_npws_by_hand():
    full = 1 - (1 - 1 / 16384) ** 11350
    assert preset("apbf-default").npws == pytest.approx(
        sum(full**i for i in range(10)) / 7, rel=1e-12
    )
    # A block holds a binomial number of keys.
    load, odds = 2 * 5498, 1 / 1024
    block = sum(
        math.comb(4, s) * (-1) ** s * (1 - odds * (1 - (15 / 16) ** s)) ** load for s in range(5)
    )
    assert preset("default").npws == pytest.approx((1 + block) / 5, rel=1e-9)
    assert preset("gebf-default").npws == 1 / 8


def test_worst_rate_by_hand():
    spec = preset("apbf-default")
    fills = [1 - (1 - 1 / 16384) ** (1135 * (i + 1)) for i in range(10)]
    expected = apbf_false_positive_rate(10, 7, fills=fills + fills[-1:] * 7)
    assert spec.worst_false_positive_rate == pytest.approx(expected, rel=1e-10)
    spec = preset("gebf-default")
    segment = (1 - (1 - 1 / 8192) ** 2500) ** 4
    assert spec.worst_false_positive_rate == pytest.approx(1 - (1 - segment) ** 9, rel=1e-10)
    empty_guard = 1 - (1 - segment) ** 8
    assert spec.false_positive_rate(phase=0) == pytest.approx(empty_guard, rel=1e-10)


@pytest.mark.parametrize("spec", PRESETS.values(), ids=PRESETS)
def test_mean_rate_is_that_after_each_insertion(spec):
    """All of them, or a sample at even distances where a sum would take long."""
    moments = np.arange(1, spec.generation + 1)
    if spec.generation > 500:
        moments = (np.arange(500) + 0.5) / 500 * spec.generation + 0.5
    rates = [spec.false_positive_rate(phase=i / spec.generation) for i in moments]
    print(f"mean {spec.mean_false_positive_rate:.9g}, of the moments {np.mean(rates):.9g}")
    assert spec.mean_false_positive_rate == pytest.approx(np.mean(rates), rel=1e-5)


def test_mean_rate_of_generations_of_one_insertion_is_the_worst():
    spec = FilterSpec(family="gebf", window=4, epochs=4, hashes=3, bits=5 * 3 * 8)
    assert spec.generation == 1
    assert spec.mean_false_positive_rate == spec.worst_false_positive_rate


@pytest.mark.parametrize("generation", [32, 33])
def test_mean_rate_as_a_sum_and_as_an_integral(generation):
    spec = FilterSpec(family="apbf", k=3, l=4, slice_bits=128, generation=generation)
    rates = [spec.false_positive_rate(phase=i / generation) for i in range(1, generation + 1)]
    assert spec.mean_false_positive_rate == pytest.approx(np.mean(rates), rel=1e-5)


@pytest.mark.parametrize("spec", PRESETS.values(), ids=PRESETS)
def test_rate_grows_to_the_worst(spec):
    rates = [spec.false_positive_rate(phase=phase / 8) for phase in range(9)]
    assert rates == sorted(rates)
    assert rates[0] < spec.mean_false_positive_rate < rates[-1]
    assert rates[-1] == spec.worst_false_positive_rate
    with pytest.raises(ValueError, match=r"phase: must be between 0 and 1, not 1\.5"):
        spec.false_positive_rate(phase=1.5)


# Text


@pytest.mark.parametrize("spec", PRESETS.values(), ids=PRESETS)
def test_toml_round_trip(spec, tmp_path):
    path = tmp_path / "filter.toml"
    spec.to_toml(path)
    assert path.read_text() == spec.toml()
    assert FilterSpec.from_toml(path) == spec
    assert FilterSpec.from_toml(str(path)) == spec
    assert FilterSpec.from_dict(spec.to_dict()) == spec
    assert None not in spec.to_dict().values()


@pytest.mark.parametrize(
    ("generation", "lanes", "clear"),
    # 1,024 bits of a part, or of one of three shards.
    [
        (1025, 1, 1),
        (1024, 1, 2),
        (257, 1, 4),
        (256, 1, 8),
        (2, 1, 1024),
        (1, 1, 1024),
        (2 * 1025, 2, 1),
        (2 * 1025 - 1, 2, 2),
        (2 * 257, 2, 4),
    ],
)
def test_default_clear_is_the_least_that_zeroes_a_segment_in_time(generation, lanes, clear):
    bits = 1024 * (1 if lanes == 1 else 3)
    spec = FilterSpec(**APBF | {"slice_bits": bits, "generation": generation}, lanes=lanes)
    assert spec.clear == clear


def test_toml_text():
    assert FilterSpec(**GEBF, seed=7, clear=32).toml() == (
        'family = "gebf"\nwindow = 100\nepochs = 4\nhashes = 2\nbits = 640\ngeneration = 25\n'
        'key_bits = 64\nseed = 7\nlanes = 1\nclear = 32\nhash = "h3"\nrekey = false\n'
    )
    keyed = FilterSpec(**GEBF, hash="siphash", rekey=True).toml()
    assert keyed.endswith('clear = 4\nhash = "siphash"\nrekey = true\n')


def test_toml_of_before_there_were_keyed_hashes(tmp_path):
    path = tmp_path / "filter.toml"
    spec = FilterSpec(**GEBF)
    path.write_text(spec.toml().partition("hash = ")[0])
    assert FilterSpec.from_toml(path) == spec


def toml_refusal(path, content):
    path.write_bytes(content)
    with pytest.raises(SpecificationError) as caught:
        FilterSpec.from_toml(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


TEXT = FilterSpec(**APBF).toml().encode()
NO_TOML = [
    b"\x7fELF\x02\x01\x00\x00\xff", b"\x00" * 100, b"family = ", b"family", b'family = "gebf',
    b"k = 1\nk = 2\n", b'family = "gebf"\r\nseed = 1\x00', b"{}", b"seed = " + b"9" * 5000,
    b"k = " + b"[" * 50000, "family = 'gebf'".encode("utf-16"), b"PK\x03\x04",
]  # fmt: skip
WRONG_TOML = [
    *((content, "must be a TOML file: ") for content in NO_TOML),
    (b"", f"family: must be one of {KNOWN}, not None"),
    (TEXT.replace(b"k = 3", b"k = 0"), "k: must be at least 1, not 0"),
    (TEXT.replace(b"k = 3", b"k = true"), "k: must be an integer, not True"),
    (TEXT.replace(b"rekey = false", b"rekey = 0"), "rekey: must be True or False, not 0"),
    (TEXT.replace(b"k = 3", b'k = "3"'), "k: must be an integer, not '3'"),
    (TEXT.replace(b"k = 3", b"k = 3.0"), "k: must be an integer, not 3.0"),
    (TEXT.replace(b"\nl = 2", b""), "l: required for family apbf"),
    (b"[filter]\nk = 3", "filter: unknown field, "),
]


def test_toml_wrong(tmp_path):
    for content, message in WRONG_TOML:
        assert toml_refusal(tmp_path / "filter.toml", content).startswith(message)


@given(data=st.data())
def test_toml_damaged(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("toml") / "filter.toml"
    text = bytearray(preset("default").toml().encode())
    if data.draw(st.booleans(), "cut"):
        del text[data.draw(st.integers(0, len(text))) :]
    for _ in range(data.draw(st.integers(1, 3), "flips")):
        if text:
            text[data.draw(st.integers(0, len(text) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(text)
    try:
        spec = FilterSpec.from_toml(path)
    except SpecificationError as error:
        message = str(error)
    else:
        assert FilterSpec.from_dict(spec.to_dict()) == spec
        return
    assert message.startswith(f"{path}: ")
    assert "\n" not in message


def test_toml_absent(tmp_path):
    with pytest.raises(FileNotFoundError):
        FilterSpec.from_toml(tmp_path / "none.toml")
    with pytest.raises(IsADirectoryError):
        FilterSpec.from_toml(tmp_path)
    with pytest.raises(FileNotFoundError):
        preset("tiny").to_toml(tmp_path / "none" / "filter.toml")


def test_toml_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "filter.toml"
    preset("tiny").to_toml(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        preset("default").to_toml(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    monkeypatch.undo()
    monkeypatch.setattr(FilterSpec, "toml", full)
    with pytest.raises(OSError, match="no space left"):
        preset("default").to_toml(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
