"""Specifications of every family: the register, files, and fields that a family lacks."""

import copy
import math
import pickle
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from every_model import MODELS, model_class

import papers.models as papers_models
from lately.golden import (
    ALL_PRESETS,
    DICTIONARIES,
    FAMILIES,
    PRESETS,
    TIMINGS,
    FilterSpec,
    Specification,
    SpecificationError,
    any_preset,
    from_spec,
)
from lately.golden.spec import APBFSpec, GEBFSpec

VALUES = {model_class(name).specification.family: values for name, values in MODELS.items()}
"""Fields of a small filter of every family."""

# Least and most of the integers; where nothing is said, they are counts.
COUNT, CELLS, TIME = (1, 1 << 48), (2, 1 << 32), (1, (1 << 62) - 1)
RING = {"span": TIME, "generation_span": (1, 1 << 62)}
AGED = RING | {"k": (1, 4096), "l": (1, (1 << 15) - 1)}
EPOCHS = RING | {"epochs": (1, (1 << 15) - 1), "hashes": (1, 4096)}
STAMPED = {"window": (1, 1 << 30), "cells": (1, 1 << 30), "hashes": (1, 1024)}
BLOCKS = {"padding": (0, 1 << 30), "block": (1, 1 << 30)}
PARTS = {"stamp_bits": (2, 64), "classes": (1, 4096), "phase_bits": (0, 31)}
LIMITS = {
    "apbf": AGED,
    "apbbf": AGED | {"hashes_per_block": (1, 4096)},
    "gebf": EPOCHS,
    "blocked-gebf": EPOCHS,
    "time-limited-apbf": {"span": TIME, "slice_bits_limit": CELLS},
    "timing": STAMPED | BLOCKS,
    "block-timing": STAMPED | BLOCKS,
    "partitioned-timing": STAMPED | BLOCKS | PARTS,
    "timed-timing": STAMPED | PARTS | {"span": TIME, "period": TIME},
    "inferential": STAMPED | BLOCKS,
    "cuckoo": {"signature_bits": (0, 32), "positions": (1, 1 << 30)},
    "window-dictionary": {
        "window": (1, 1 << 30), "columns": (1, 64), "rows": (2, 1 << 30), "digest_bits": (1, 62),
        "stash": (1, 256), "moves": (1, 1 << 16),
    },
    "bloom": {"bits": CELLS},
    "partitioned-bloom": {"bits": CELLS},
    "blocked-bloom": {"bits": CELLS, "block_bits": (2, 1 << 48)},
    "counting-bloom": {"counters": CELLS, "counter_bits": (1, 8)},
    "stable-bloom": {"cells": CELLS, "cell_bits": (1, 8)},
    "double-buffering": {"bits": (4, 1 << 33)},
    "a2-buffering": {"bits": (4, 1 << 33)},
    "forgetful-bloom": {},
    "swamp": {"fingerprint_bits": (1, 64)},
}  # fmt: skip

NO_INTEGERS = {
    "digest", "distinct", "false_negative", "false_positive", "hash", "probability", "recurring",
    "rekey", "saturated", "when_full",
}  # fmt: skip


@pytest.fixture(params=VALUES)
def spec(request):
    return Specification.from_dict({"family": request.param, **VALUES[request.param]})


def refusal(values):
    with pytest.raises(SpecificationError) as caught:
        Specification.from_dict(values)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_every_family_is_registered():
    assert papers_models.__all__
    assert set(Specification.families()) == set(VALUES)
    assert tuple(FilterSpec.families()) == tuple(FAMILIES)


def test_class_is_that_of_the_family(spec):
    assert type(spec) is Specification.of_family(spec.family)
    assert Specification(family=spec.family, **VALUES[spec.family]) == spec
    assert type(spec)(**VALUES[spec.family]) == spec


def test_text_round_trip(spec, tmp_path):
    path = tmp_path / "filter.toml"
    spec.to_toml(path)
    assert Specification.from_toml(path) == spec
    assert type(spec).from_toml(path) == spec
    assert spec.toml().startswith(f'family = "{spec.family}"\n')


def test_copies(spec):
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert copy.deepcopy(spec) == spec
    with pytest.raises(FrozenInstanceError):
        spec.seed = 1


def test_model(spec):
    model = from_spec(spec)
    assert type(model.spec) is type(spec)
    for name, value in VALUES[spec.family].items():
        assert getattr(model.spec, name) == value


def test_field_of_another_family_does_not_exist(spec):
    others = {
        name for family in VALUES for name in Specification.of_family(family).required_fields()
    }
    names = {field.name for field in fields(spec)}
    for name in others - names:
        assert name in dir(FilterSpec) or not hasattr(spec, name)
        assert refusal({"family": spec.family, **VALUES[spec.family], name: 2}) == (
            f"{name}: must not be given for family {spec.family}, not 2"
        )


def test_required_field_missing(spec):
    for name in spec.required_fields():
        rest = {key: value for key, value in VALUES[spec.family].items() if key != name}
        assert refusal({"family": spec.family, **rest}) == (
            f"{name}: required for family {spec.family}"
        )


def test_limits(spec):
    known = {"key_bits": (1, 4096), "seed": (0, None)} | LIMITS[spec.family]
    ranged = [field for field in fields(spec) if "range" in field.metadata]
    assert {field.name for field in fields(spec)} - {field.name for field in ranged} <= NO_INTEGERS
    assert {field.name: field.metadata["range"] for field in ranged} == {
        field.name: known.get(field.name, COUNT) for field in ranged
    }


@pytest.mark.parametrize("family", ["partitioned-timing", "timed-timing"])
def test_slack_of_stamped_parts(family):
    """All but one of the insertions, or units of time, of the block in which a key came."""
    spec = Specification.from_dict({"family": family, **VALUES[family]})
    assert (spec.block_units, spec.slack) == (4, 3)


def test_integer_out_of_its_range(spec):
    for field in fields(spec):
        if "range" not in field.metadata:
            continue
        minimum, maximum = field.metadata["range"]
        values = {"family": spec.family, **VALUES[spec.family]}
        for low in (minimum - 1, -(10**30)):
            below = refusal({**values, field.name: low})
            assert below == f"{field.name}: must be at least {minimum}, not {low}"
        # A seed has no largest value here: its message, with a power of two, is tested by itself.
        if maximum is not None:
            shown = "2**48" if maximum == 1 << 48 else maximum
            for high in (maximum + 1, 10**400):
                above = refusal({**values, field.name: high})
                assert above == f"{field.name}: must be at most {shown}, not {high}"
        for other in (True, False, 2.0, "2", [2], np.int64(2), math.nan):
            message = f"{field.name}: must be an integer, not {other!r}"
            assert refusal({**values, field.name: other}) == message


def test_family_of_another_base():
    with pytest.raises(SpecificationError, match=r"^family: must be one of apbf, .*, not 'swamp'$"):
        FilterSpec(family="swamp", **VALUES["swamp"])
    with pytest.raises(SpecificationError, match=r"^family: must be one of gebf, not 'apbf'$"):
        GEBFSpec(family="apbf", **VALUES["apbf"])


def test_family_that_another_replaces():
    rule = "must be apbf, which has the same fields and replaces the pooled filter"
    with pytest.raises(
        SpecificationError, match=f"^family: {rule}, not 'pooled-time-limited-apbf'$"
    ):
        Specification.from_dict({"family": "pooled-time-limited-apbf", **VALUES["apbf"], "span": 9})


def test_abstract_class_needs_a_family():
    with pytest.raises(TypeError, match="FilterSpec needs the keyword argument 'family'"):
        FilterSpec(k=3, l=2, slice_bits=64)
    with pytest.raises(TypeError, match="slices"):
        APBFSpec(k=3, l=2, slices=64)


def test_shape_in_few_words():
    epochs = {"window": 100, "epochs": 4, "hashes": 2, "bits": 640}
    blocks = {"k": 2, "l": 3, "block_bits": 64, "hashes_per_block": 4, "blocks": 16}
    fields_of = {
        "apbf": {"k": 3, "l": 2, "slice_bits": 64}, "apbbf": blocks, "gebf": epochs,
        "blocked-gebf": epochs | {"block_bits": 32},
    }  # fmt: skip
    shapes = [FilterSpec(family=family, **values).shape for family, values in fields_of.items()]
    assert shapes == [
        "apbf k=3 l=2, 64 bits",
        "apbbf k=2 l=3 b=4, 16 x 64",
        "gebf r=4 k=2, 64 bits",
        "blocked-gebf r=4 k=2, 4 x 32",
    ]


def test_with_generations():
    spec = APBFSpec(k=3, l=2, slice_bits=64)
    longer = spec.with_generations(4)
    assert (longer.l, longer.generation, longer.window) == (4, 14, 56)


# Presets of all families under one roof


def test_every_preset_is_there():
    names = [*PRESETS, *(f"dictionary-{name}" for name in DICTIONARIES)]
    names += [f"timing-{name}" for name in TIMINGS]
    assert list(ALL_PRESETS) == names
    assert any_preset("gebf-tiny") is PRESETS["gebf-tiny"]
    assert any_preset("dictionary-1000") is DICTIONARIES["1000"]
    assert from_spec(any_preset("dictionary-10000")).window == 10_000


def test_unknown():
    with pytest.raises(SpecificationError, match=r"^preset: unknown '1000'; see `lately list pre"):
        any_preset("1000")


# A preset stays what it is: bitstreams, states and exported units have its digest.
DIGESTS = {
    "default": "4cb0856478932f2c",
    "large": "4f308ba5839a03b7",
    "small": "e6d4bcf69576d4af",
    "tiny": "143d22d13cce49e5",
    "apbbf-default": "4cb0856478932f2c",
    "apbbf-tiny": "143d22d13cce49e5",
    "apbf-default": "0a8f43bbe0e15937",
    "apbf-tiny": "0110e8f0d02d63cd",
    "gebf-default": "89cf1e9371607399",
    "gebf-tiny": "3417fbf946616037",
    "blocked-gebf-default": "71f96af09149cff7",
    "blocked-gebf-tiny": "2751cc962a11858f",
    "siphash-default": "54230e05d100d4eb",
    "siphash-tiny": "b7e7e0f2126da524",
    "two-lanes": "dc47f45da68ce70d",
    "four-lanes": "8bf88c4e0bb4eb5d",
    "two-lanes-tiny": "b8683c664db577e8",
    "four-lanes-tiny": "6aa6c0675f11066a",
    "timed-tiny": "89af4320486b8439",
    "dictionary-tiny": "67a63bca684f68f8",
    "dictionary-1000": "ddaeac7a7e547946",
    "dictionary-10000": "a8c0ea444dc859d2",
    "dictionary-ring-tiny": "129038c57e280e4c",
    "dictionary-ring-1000": "6aa0b224ef03653e",
    "dictionary-ring-10000": "52d774d2efdab313",
    "timing-tiny": "15258581de4fbcf5",
    "timing-small": "9b9dbeabd52bcf4e",
    "timing-default": "6da747038c8c8065",
    "timing-counted-tiny": "fdb34aff69d34c62",
    "timing-counted-default": "a986476bdc8d78be",
}


def test_presets_stay():
    assert {name: spec.fingerprint.hex()[:16] for name, spec in ALL_PRESETS.items()} == DIGESTS
