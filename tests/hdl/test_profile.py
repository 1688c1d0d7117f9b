"""Latencies and limits in profiles, compared with components and with values computed by hand."""

import re
from itertools import product

import pytest
from cases import daily

from lately.golden import PRESETS, FilterSpec, SpecificationError, any_preset, preset
from lately.hdl.build import filter_unit, unit_profile
from lately.hdl.hash.functions import hash_latency
from lately.hdl.hash.siphash import siphash_latency
from lately.hdl.memory.paged import paged_latency
from lately.hdl.memory.segment import VARIANTS
from lately.hdl.parameters import ceil_log
from lately.hdl.ring.profile import RingProfile
from lately.hdl.ring.ring import DetectorShape, detector_latencies
from lately.hdl.stages import detector_stages, hash_stages, oldest_stages, paged_stages
from lately.hdl.timing.oldest import oldest_latency

APBF = {"family": "apbf", "k": 3, "l": 2, "slice_bits": 64}
APBBF = {
    "family": "apbbf", "k": 2, "l": 3, "block_bits": 64, "hashes_per_block": 4, "blocks": 16,
}  # fmt: skip
GEBF = {"family": "gebf", "window": 100, "epochs": 4, "hashes": 2, "bits": 640}
BLOCKED = {**GEBF, "family": "blocked-gebf", "block_bits": 32}


@pytest.mark.parametrize("memory", daily(2, VARIANTS))
@pytest.mark.parametrize("spec", PRESETS.values(), ids=PRESETS)
def test_components_have_the_figures(spec, memory):
    profile = RingProfile.of(spec, memory=memory)
    unit = filter_unit(spec, memory=memory)
    assert unit.latency == profile.latency == sum(profile.latency_terms.values())
    assert unit.profile == profile
    if spec.lanes == 1:
        assert unit.minimum_generation == profile.minimum_generation


# Values computed by hand


@pytest.mark.parametrize(("lanes", "shards"), [(1, 1), (2, 3), (4, 6)])
def test_shards(lanes, shards):
    spec = FilterSpec(**APBF | {"slice_bits": 64 * shards}, lanes=lanes)
    profile = RingProfile.of(spec)
    assert profile.clear_cycles == 64 // spec.clear
    assert profile.minimum_generation == (lanes * (profile.clear_cycles + 1))
    assert profile.memories == shards * spec.segments
    assert profile.shard_spec.slice_bits == 64
    profile.check_buildable()


def test_shards_of_blocks():
    profile = RingProfile.of(FilterSpec(**APBBF | {"blocks": 6 * 128}, lanes=4))
    assert profile.minimum_generation == 4 * (profile.clear_cycles + 1)


@pytest.mark.parametrize(
    ("name", "lanes"), [("tiny", 1), ("four-lanes", 4), ("timing-tiny", 1), ("dictionary-tiny", 1)]
)
def test_operations_of_a_clock(name, lanes):
    assert unit_profile(any_preset(name)).lanes == lanes


@pytest.mark.parametrize("name", ["two-lanes", "four-lanes-tiny"])
def test_shard_spec(name):
    spec = preset(name)
    shard = RingProfile.of(spec).shard_spec
    assert (shard.lanes, shard.key_bits) == (1, 64)
    assert (shard.generation, shard.window) == (spec.generation, spec.window)
    assert shard.index_sizes == spec.index_sizes
    assert shard.part_bits == spec.shard_bits


def test_clear_of_sizes_that_do_not_divide():
    spec = FilterSpec(**{**BLOCKED, "bits": 5 * 32 * 2 + 159, "hashes": 3}, clear=8)
    assert RingProfile.of(spec).clear_cycles == 3


@pytest.mark.parametrize(("base", "value", "result"), [(2, 1, 0), (2, 2, 1), (2, 3, 2), (4, 5, 2)])
def test_ceil_log(base, value, result):
    assert ceil_log(base, value) == result
    assert isinstance(ceil_log(base, value), int)


# Rules


@pytest.mark.parametrize("spec", PRESETS.values(), ids=PRESETS)
def test_presets_are_buildable(spec):
    RingProfile.of(spec).check_buildable()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({**APBF, "slice_bits": 1024}, 32),
        ({**APBBF, "blocks": 64}, 32),
        ({**GEBF, "bits": 5 * 2 * 1024, "window": 4}, 32),
        ({**BLOCKED, "bits": 5 * 2 * 1024, "window": 4}, 32),
    ],
    ids=lambda values: values["family"] if isinstance(values, dict) else "",
)
def test_shortest_generation(values, words):
    spec = FilterSpec(**values, generation=words + 1, clear=32)
    profile = RingProfile.of(spec)
    assert (profile.clear_cycles, profile.minimum_generation) == (words, words + 1)
    RingProfile.of(spec).check_buildable()
    message = (
        f"generation: must be at least {words + 1} ({spec.part_bits} bits per part / 32 cleared "
        f"per cycle = {words} cycles, plus one to shift), not {words}"
    )
    with pytest.raises(SpecificationError, match=f"^{re.escape(message)}$"):
        RingProfile.of(FilterSpec(**values, generation=words, clear=32)).check_buildable()


@pytest.mark.parametrize(
    ("levels", "terms"), [(1, (7, 9)), (2, (4, 5)), (3, (3, 3)), (4, (3, 3)), (9, (3, 1))]
)
def test_levels(levels, terms):
    latencies = RingProfile.of(preset("default"), levels=levels).latency_terms
    assert (latencies["hash"], latencies["detector"]) == terms
    keyed = RingProfile.of(preset("siphash-default"), levels=levels).latency_terms
    assert keyed["hash"] == siphash_latency(64)


def test_stages_are_those_of_the_pipelines():
    for key_bits, levels in product((1, 4, 5, 16, 17, 64, 65, 104, 300), range(1, 5)):
        assert hash_latency(key_bits, levels=levels) == hash_stages(key_bits, "h3", levels)
    for key_bits in (8, 64, 104, 128):
        assert hash_latency(key_bits, "siphash") == hash_stages(key_bits, "siphash", 2)
    for depth, far in product((2, 16, 32, 128, 256), (False, True)):
        assert paged_latency(depth, far=far) == paged_stages(depth, far=far)
    for hashes in range(1, 17):
        assert oldest_latency(hashes) == oldest_stages(hashes)
    for parts, run, starts, levels in product((1, 4, 5), (1, 3, 5), (1, 2, 3, 7), (1, 2, 3)):
        shape = DetectorShape(run + starts, parts, run, starts)
        _, latency = detector_latencies(shape, levels=levels)
        assert latency == detector_stages(**shape._asdict(), levels=levels)
