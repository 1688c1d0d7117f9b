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
