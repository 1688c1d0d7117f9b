"""Small rings of all families, and keys for them."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from lately.golden import APBBF, APBF, GEBF, BlockedGEBF, FilterSpec

CLASSES = {"apbf": APBF, "apbbf": APBBF, "gebf": GEBF, "blocked-gebf": BlockedGEBF}


@st.composite
def specs(draw, families=tuple(CLASSES), lanes=(1, 2, 4)):
    family = draw(st.sampled_from(families))
    shared = {
        "family": family,
        "key_bits": draw(st.sampled_from([1, 3, 8, 64, 100, 128])),
        "seed": draw(st.integers(0, 3)),
        "hash": draw(st.sampled_from(["h3", "siphash"])),
    }
    shared["rekey"] = shared["hash"] == "siphash" and draw(st.booleans())
    shared["lanes"] = draw(st.sampled_from(lanes if shared["hash"] == "h3" else [1]))
    shards = {1: 1, 2: 3, 4: 6}[shared["lanes"]]
    if family == "apbf":
        return FilterSpec(
            **shared,
            k=draw(st.integers(1, 5)),
            l=draw(st.integers(1, 6)),
            slice_bits=shards * draw(st.integers(1, 40)),
            generation=draw(st.integers(1, 9)),
        )
    if family == "apbbf":
        parts = draw(st.sampled_from([1, 2, 3, 4, 5, 8]))
        return FilterSpec(
            **shared,
            k=draw(st.integers(1, 3)),
            l=draw(st.integers(1, 4)),
            block_bits=parts * draw(st.sampled_from([2, 3, 4, 8])),
            hashes_per_block=parts,
            blocks=shards * draw(st.integers(1, 6)),
            generation=draw(st.integers(1, 9)),
        )
    epochs = draw(st.integers(1, 5))
    hashes = draw(st.integers(1, 4))
    shared |= {"window": draw(st.integers(1, 40)), "epochs": epochs}
    if family == "gebf":
        extra = draw(st.integers(0, 100))
        bits = 2 * shards * hashes * (epochs + 1) + extra
        return FilterSpec(**shared, hashes=hashes, bits=bits)
    block_bits = draw(st.sampled_from([4, 8, 16, 256]))
    hashes = 8 if block_bits == 256 else hashes
    blocks = shards * draw(st.integers(1, 4))
    extra = draw(st.integers(0, block_bits))
    return FilterSpec(
        **shared,
        hashes=min(hashes, block_bits - 1),
        block_bits=block_bits,
        bits=(epochs + 1) * blocks * block_bits + extra,
    )


@st.composite
def timed_specs(draw, families=tuple(CLASSES)):
    """Specifications of rings whose window is a span of time."""
    spec = replace(draw(specs(families)), lanes=1)
    span = draw(st.sampled_from([1, 2, 5, 13, 40, 1000]))
    minimum = span // spec.window_generations + 1
    return replace(
        spec,
        span=span,
        generation_span=draw(st.integers(minimum, span + 1)),
        when_full=draw(st.sampled_from(["shorten", "overfill"])),
    )


def key_lists(key_bits, size):
    """Streams over a few keys, so that most come again, often at once."""
    key = st.integers(0, (1 << key_bits) - 1)
    pools = st.lists(key, min_size=1, max_size=8)
    sizes = st.integers(1, size)
    return st.tuples(pools, sizes).flatmap(
        lambda drawn: st.lists(st.sampled_from(drawn[0]), min_size=drawn[1], max_size=drawn[1])
    )


def as_keys(keys, key_bits):
    words = -(-key_bits // 64)
    array = np.array(
        [[key >> (64 * word) & ((1 << 64) - 1) for word in range(words)] for key in keys],
        np.uint64,
    ).reshape(len(keys), words)
    return array[:, 0] if words == 1 else array
