"""`check_buildable`: accepted options can be built, and refusals have a message of one line."""

import re
from dataclasses import fields

import pytest
from amaranth.hdl import Fragment
from cases import daily
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lately.golden import FilterSpec, SpecificationError, from_spec, preset
from lately.golden.spec.base import DIGESTS, HASHES, Specification
from lately.golden.spec.ring import WHEN_FULL
from lately.hdl.build import FAMILIES, filter_unit, unit_profile
from lately.hdl.latencies import (
    MAX_MEMORIES,
    MAX_PARTS,
    MAX_SEGMENTS,
    MAX_WORDS,
    PROTECTIONS,
    TICKS,
)

APBF = {"family": "apbf", "k": 2, "l": 2, "slice_bits": 48, "key_bits": 8}
APBBF = {"family": "apbbf", "k": 2, "l": 2, "block_bits": 8, "hashes_per_block": 2, "blocks": 24,
         "key_bits": 8}  # fmt: skip
GEBF = {"family": "gebf", "window": 64, "epochs": 2, "hashes": 2, "bits": 288, "key_bits": 8}
DICTIONARY = {"family": "window-dictionary", "window": 40, "columns": 3, "rows": 16,
              "digest_bits": 8, "stash": 4, "key_bits": 8}  # fmt: skip
TIMING = {"family": "timed-timing", "span": 24, "hashes": 2, "cells": 16, "key_bits": 8}
COUNTED = {"family": "partitioned-timing", "window": 24, "hashes": 2, "cells": 8, "key_bits": 8,
           "stamp_bits": 8}  # fmt: skip
BASES = [
    *({**ring, "lanes": lanes} for ring in (APBF, APBBF, GEBF) for lanes in (2, 4)),
    {**APBF, "slice_bits": 32}, {**APBBF, "blocks": 16}, {**GEBF, "bits": 192},
    {**GEBF, "family": "blocked-gebf", "block_bits": 8, "bits": 384},
    {**APBBF, "blocks": 16, "span": 12}, {**GEBF, "bits": 192, "span": 12},
    DICTIONARY, {**DICTIONARY, "stash": 8, "moves": 8},
    TIMING, {**TIMING, "classes": 2}, COUNTED, {**COUNTED, "classes": 2},
]  # fmt: skip
"""Specifications that hardware can hold, in few fields; the others are derived."""

CHOICES = {"lanes": [1, 2, 4], "hash": [*HASHES], "rekey": [False, True],
           "when_full": [*WHEN_FULL], "digest": [*DIGESTS]}  # fmt: skip
SIZES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 64, 1024]


def values_of(item):
    """Return a strategy for a field: small values, and values at the limits."""
    if item.name in CHOICES:
        return st.sampled_from(CHOICES[item.name])
    minimum, maximum = item.metadata["range"]
    maximum = maximum or (1 << 64) - 1
    small = [size for size in SIZES if minimum <= size <= maximum]
    return st.sampled_from([*small, minimum, minimum + 1, maximum - 1, maximum])


@st.composite
def requests(draw):
    """Draw a specification with up to three fields at a limit, and options of its unit."""
    values = dict(draw(st.sampled_from(BASES)))
    kind = Specification.of_family(values["family"])
    for item in draw(st.lists(st.sampled_from(fields(kind)), max_size=3)):
        values[item.name] = draw(values_of(item))
    memories = [cls.profile.MEMORIES for base, cls in FAMILIES.items() if issubclass(kind, base)]
    shape = {
        "memory": draw(st.sampled_from(memories[0])),
        "levels": draw(st.sampled_from([1, 2, 16])),
        "protect": draw(st.sampled_from([*PROTECTIONS])),
    }
    options = {"self_check": draw(st.booleans()), "tag_bits": draw(st.sampled_from([0, 1, 8]))}
    if values.get("span"):
        options["ticks"] = draw(
            st.sampled_from(TICKS if issubclass(kind, FilterSpec) else TICKS[:2])
        )
    return kind, values, shape, options


def require_single_line(error):
    assert str(error)
    assert "\n" not in str(error)


TIMED = {**APBBF, "blocks": 16, "span": 12}
DEEP = {**APBF, "slice_bits": 1 << 28, "generation": 1 << 29}
REFUSED = [
    ({**APBF, "slice_bits": 1}, {},
     "slice_bits: must give at least 2 bits per part of a segment in hardware, not 1"),
    ({**APBF, "slice_bits": 6, "lanes": 4}, {},
     "slice_bits: must give at least 2 bits per part of a shard in hardware, not 6"),
    (DEEP, {}, f"slice_bits: must give at most {MAX_WORDS} words of memory in hardware, "
     f"not {5 << 28}"),
    (DEEP, {"memory": "ecp5"},
     f"slice_bits: must give at most {MAX_MEMORIES} block RAMs, not {5 << 14}"),
    ({**APBF, "slice_bits": 32, "l": 300}, {},
     f"l: must give at most {MAX_SEGMENTS} segments in hardware, including the spare, not 303"),
    ({**APBF, "slice_bits": 1 << 13, "clear": 1 << 13}, {},
     "clear: must be at most 4096 in hardware, not 8192"),
    ({**GEBF, "hashes": 1024, "bits": 3 << 14}, {},
     f"bits: must give at most {MAX_MEMORIES} memories in hardware, not 4096"),
    ({**DICTIONARY, "rows": 1 << 30, "digest_bits": 31}, {},
     f"rows: must be at most {MAX_WORDS // 3} for 3 columns in hardware, not {1 << 30}"),
    ({**TIMING, "hashes": 300}, {}, f"hashes: must be at most {MAX_PARTS} in hardware, not 300"),
    ({**TIMING, "cells": 1 << 30}, {},
     f"cells: must be at most {MAX_WORDS // 2} for 2 hashes in hardware, not {1 << 30}"),
    ({**COUNTED, "window": 30, "block": 6, "classes": 1}, {},
     "block: must be a power of two for a table of thresholds, not 6"),
    ({**TIMING, "span": 9000, "classes": 2}, {"memory": "ecp5"},
     "classes: must give at most 16384 table entries in the two banks together, not 65536"),
    ({**TIMING, "span": 1 << 26, "classes": 2}, {},
     f"classes: must give at most {MAX_WORDS} table entries in the two banks together, not "
     "536870912"),
    ({**APBF, "slice_bits": 6 * 256, "lanes": 4, "clear": 16, "generation": 67}, {},
     "generation: must be at least 68 (256 bits per part / 16 cleared per cycle = 16 cycles, plus "
     "one to shift, 4 insertions in each), not 67"),
    ({**APBF, "slice_bits": 64, "clear": 128}, {},
     "clear: must be at most the 64 bits of a part, not 128"),
    *((values, {}, f"{values['family']}: block and part sizes must be powers of two in hardware, "
       f"not {size}")
      for values, size in (({**APBF, "slice_bits": 100}, 100), ({**APBBF, "blocks": 17}, 17),
                           ({**GEBF, "bits": 390}, 65),
                           ({**GEBF, "family": "blocked-gebf", "block_bits": 8, "bits": 72}, 3))),
    ({**TIMED, "lanes": 2, "blocks": 48}, {}, "lanes: must be 1 with a span, not 2"),
    ({**TIMED, "generation": 15, "clear": 16}, {},
     "generation: must be at least 16 for a time-based window, not 15"),
    ({**TIMED, "span": 1}, {},
     "generation_span: must be at least 2 ticks in hardware, not 1"),
    ({**DICTIONARY, "window": 15}, {},
     "window: must be at least 16 in hardware, where 8 operations are in flight, not 15"),
    ({**DICTIONARY, "rows": 1 << 15, "digest_bits": 20}, {"memory": "ecp5"},
     "rows: must be at most 16384 for ecp5, the number of bits in a block RAM, not 32768"),
    ({**DICTIONARY, "moves": 64, "stash": 3}, {},
     "stash: must be at least 4 in hardware with moves, because each of 3 columns may hold an "
     "entry, not 3"),
    *(({**row, "cells": 12}, {}, "cells: must be a power of two greater than 1 in hardware, not 12")
      for row in (TIMING, COUNTED)),
    ({**TIMING, "cells": 1 << 15}, {"memory": "ecp5"},
     "cells: must be at most 16384, the number of bits in an ecp5 block RAM, not 32768"),
    ({**COUNTED, "window": 5, "hashes": 1, "cells": 16, "stamp_bits": 5}, {},
     "stamp_bits: the sweep of 16 cells per part needs 40 insertions before a stamp repeats, but "
     "with 5 bits it has 25: 25 blocks of 1"),
    (DICTIONARY, {"memory": "sram"},
     "memory: must be 'portable' or 'ecp5' for family window-dictionary, not 'sram'"),
    (TIMING, {"memory": "sram"},
     "memory: must be 'portable' or 'ecp5' for family timed-timing, not 'sram'"),
    *((values, {"protect": "some"}, "protect: must be 'none', 'parity' or 'tmr', not 'some'")
      for values in (APBF, DICTIONARY)),
    (TIMED, {"ticks": "clock"},
     "ticks: must be 'tick', 'period' or 'time' for family apbbf, not 'clock'"),
    (TIMING, {"ticks": "time"},
     "ticks: must be 'tick' or 'period' for family timed-timing, not 'time'"),
    (APBF, {"report_covered": True},
     "report_covered: requires a ring with a time-based window"),
    *((values, {option: -1}, f"{option}: must be at least {low}, not -1")
      for values in (BASES[6], BASES[0], DICTIONARY)
      for option, low in (("tag_bits", 0), ("statistics_bits", 0), ("time_bits", 1),
                          ("levels", 1))),
]  # fmt: skip


def test_refused():
    for values, options, message in REFUSED:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            filter_unit(Specification.from_dict(values), **options)


@pytest.mark.parametrize("levels", daily(1, [8, 16]))
@pytest.mark.parametrize("name", daily(1, ["two-lanes-tiny", "four-lanes-tiny"]))
def test_lanes_with_many_levels(name, levels):
    Fragment.get(filter_unit(preset(name), levels=levels), None)


def test_golden_accepts_more_than_hardware():
    for values in ({**APBF, "l": 1021}, {**TIMING, "hashes": 300}):
        model = from_spec(Specification.from_dict(values))
        times = {"now": [0, 0]} if "span" in values else {}
        assert len(model.check_and_insert([1, 2], **times)) == 2


def is_small(spec):
    """Whether a unit is elaborated in well under a second."""
    cells = [
        getattr(spec, name, 1) for name in ("hashes", "columns", "segments", "parts", "shards")
    ]
    rows = [getattr(spec, name, 1) for name in ("cells", "rows", "shard_bits")]
    others = [getattr(spec, name, 0) for name in ("stash", "classes")]
    size = 1
    for count in cells:
        size *= count
    return (
        size <= 24
        and max(rows) <= 256
        and max(value or 0 for value in others) <= 16
        and spec.key_bits <= 65
        and (not spec.query_field or spec.window_blocks <= 256)
    )


def check(request):
    kind, values, shape, options = request
    try:
        spec = kind(**kind.fields_of(values))
    except SpecificationError as error:
        return require_single_line(error)
    try:
        unit_profile(spec, **shape).check_buildable()
    except SpecificationError as error:
        require_single_line(error)
        with pytest.raises(SpecificationError):
            filter_unit(spec, **shape, **options)
        return None
    unit = filter_unit(spec, **shape, **options)
    return Fragment.get(unit, None) if is_small(spec) else None


FAST = {"deadline": None, "database": None, "derandomize": True,
        "suppress_health_check": [*HealthCheck]}  # fmt: skip


@settings(max_examples=15, **FAST)
@given(requests())
def test_accepted_options_can_be_built(request):
    check(request)


@pytest.mark.slow
@settings(max_examples=3000, **FAST)
@given(requests())
def test_random_accepted_options_can_be_built(request):
    check(request)
