"""Specifications whose window is a span of time: defaults, files, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from lately.golden import (
    PRESETS,
    FilterSpec,
    SlidingFilter,
    SpecificationError,
    TimeLimitedRing,
    from_spec,
)

RINGS = {
    "apbf": {"k": 3, "l": 7, "slice_bits": 64},
    "apbbf": {"k": 2, "l": 7, "block_bits": 64, "hashes_per_block": 4, "blocks": 16},
    "gebf": {"window": 100, "epochs": 7, "hashes": 2, "bits": 640},
    "blocked-gebf": {"window": 100, "epochs": 7, "hashes": 2, "bits": 640, "block_bits": 32},
}

EACH = pytest.mark.parametrize("family", RINGS)


def ring(family, **values):
    return FilterSpec(family=family, **RINGS[family], **values)


@EACH
def test_defaults(family):
    for span, minimum in ((1, 1), (6, 1), (7, 2), (13, 2), (14, 3), (60, 9)):
        spec = ring(family, span=span)
        assert (spec.timed, spec.generation_span, spec.when_full) == (True, minimum, "shorten")
        assert 7 * (minimum - 1) <= span < 7 * minimum
        assert spec.generation == ring(family).generation


@EACH
def test_text_round_trip(family, tmp_path):
    for values in ({}, {"generation_span": 12, "when_full": "overfill"}):
        spec = ring(family, span=60, **values)
        spec.to_toml(tmp_path / "filter.toml")
        assert FilterSpec.from_toml(tmp_path / "filter.toml") == spec
        assert FilterSpec.from_dict(spec.to_dict()) == spec
        assert hash(spec) == hash(replace(spec)) != hash(spec.untimed)
        assert spec != spec.untimed == ring(family)
    shown = 'span = 60\ngeneration_span = 12\nwhen_full = "overfill"\n'
    assert shown in spec.toml()


COUNTED = [*(spec for spec in PRESETS.values() if not spec.timed), *map(ring, RINGS)]


@pytest.mark.parametrize("spec", COUNTED, ids=lambda s: s.shape)
def test_written_form_without_a_span_has_no_word_of_it(spec):
    assert not spec.timed
    assert spec.untimed == spec
    assert not {"span", "generation_span", "when_full"} & set(spec.to_dict())


def test_written_form_without_a_span_is_as_before():
    assert ring("apbf").toml() == (
        'family = "apbf"\nwindow = 98\nk = 3\nl = 7\nslice_bits = 64\ngeneration = 14\n'
        'key_bits = 64\nseed = 0\nlanes = 1\nclear = 8\nhash = "h3"\nrekey = false\n'
    )


@EACH
def test_model(family):
    spec = ring(family, span=60)
    assert type(from_spec(spec)) is TimeLimitedRing
    assert from_spec(spec).spec == spec
    assert isinstance(from_spec(spec.untimed), SlidingFilter)


LONGER = "generations to take longer than span = 60"


WRONG = [
    ({"span": 0}, "span: must be at least 1, not 0"),
    ({"span": 1 << 62}, f"span: must be at most {(1 << 62) - 1}, not {1 << 62}"),
    *(({"span": value}, f"span: must be an integer, not {value!r}")
      for value in (1.5, True, np.int64(5))),
    ({"generation_span": 5}, "generation_span: must not be given without span, not 5"),
    ({"when_full": "shorten"}, "when_full: must not be given without span, not 'shorten'"),
    ({"span": 60, "generation_span": 8},
     f"generation_span: must be at least 9 for 7 {LONGER}, not 8"),
    ({"span": 60, "generation_span": 62},
     "generation_span: must be at most 61, one more than span, not 62"),
    *(({"span": 60, "when_full": value},
       f"when_full: must be one of shorten, overfill, not {value!r}") for value in ("panic", 1)),
]  # fmt: skip


@EACH
def test_wrong(family):
    for values, message in WRONG:
        with pytest.raises(SpecificationError) as caught:
            ring(family, **values)
        assert str(caught.value) == message


@EACH
def test_edges_are_taken(family):
    for span in (1, (1 << 62) - 1):
        assert ring(family, span=span, generation_span=span + 1).generation_span == span + 1
    assert ring(family, span=60, generation_span=9) == ring(family, span=60)
