"""Presets of all families under one roof."""

import pytest

from lately.golden import (
    ALL_PRESETS,
    DICTIONARIES,
    PRESETS,
    TIMINGS,
    SpecificationError,
    any_preset,
    from_spec,
)


def test_every_preset_is_there():
    names = [*PRESETS, *(f"dictionary-{name}" for name in DICTIONARIES)]
    names += [f"timing-{name}" for name in TIMINGS]
    assert list(ALL_PRESETS) == names
    assert any_preset("gebf-tiny") is PRESETS["gebf-tiny"]
    assert any_preset("dictionary-1000") is DICTIONARIES["1000"]
    assert from_spec(any_preset("dictionary-10000")).window == 10_000


def test_unknown():
    with pytest.raises(SpecificationError, match=r"^preset: must be one of default, .*dictionary-"):
        any_preset("1000")
