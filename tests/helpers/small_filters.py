"""Small filters and streams of all families, their scalar twins, and what defines them."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st
from paths import PATHS, taking
from scalar_ring import ScalarAPBBF, ScalarAPBF, ScalarGEBF
from scalar_time_limited import ScalarTimeLimitedRing

from lately.golden import (
    APBBF,
    APBF,
    GEBF,
    BlockedGEBF,
    FilterSpec,
    Operation,
    from_spec,
)
from lately.golden.hash.scalar_hash import ScalarHash

CLASSES = {"apbf": APBF, "apbbf": APBBF, "gebf": GEBF, "blocked-gebf": BlockedGEBF}

COUNTERS = ("operations", "insertions", "hits", "shifts")


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
    block_bits = draw(st.sampled_from([4, 8, 16]))
    blocks = shards * draw(st.integers(1, 4))
    extra = draw(st.integers(0, block_bits))
    return FilterSpec(
        **shared,
        hashes=min(hashes, block_bits - 1),
        block_bits=block_bits,
        bits=(epochs + 1) * blocks * block_bits + extra,
    )


@st.composite
def filters(draw, lanes=(1, 2, 4), paths=PATHS):
    """Build a filter through its class, from a specification, for one of the paths."""
    spec = draw(specs(lanes=lanes))
    with taking(draw(st.sampled_from(paths))):
        return build(draw, spec)


def build(draw, spec):
    cls = CLASSES[spec.family]
    if spec.lanes > 1:
        return cls.from_spec(spec)
    if spec.family.endswith("gebf"):
        names = {"window", "epochs", "hashes", "bits", "seed", "key_bits", "hash", "rekey"}
        names |= {"block_bits"} if spec.family == "blocked-gebf" else set()
        chosen = {name: getattr(spec, name) for name in names}
        return cls(**chosen, partitioned=draw(st.booleans()))
    return cls(
        **{
            name: value
            for name, value in spec.to_dict().items()
            if name not in ("family", "window", "lanes", "clear")
        }
    )


def twin_of(model):
    spec = model.spec
    shared = {"seed": spec.seed, "key_bits": spec.key_bits, "hash": spec.hash}
    shared["secret"] = model.secrets[0]
    shared["shards"] = spec.shards
    if spec.family == "apbf":
        return ScalarAPBF(
            k=spec.k, l=spec.l, slice_bits=spec.slice_bits, generation=spec.generation, **shared
        )
    if spec.family == "apbbf":
        return ScalarAPBBF(
            k=spec.k,
            l=spec.l,
            block_bits=spec.block_bits,
            hashes_per_block=spec.hashes_per_block,
            blocks=spec.blocks,
            generation=spec.generation,
            **shared,
        )
    return ScalarGEBF(
        window=spec.window,
        epochs=spec.epochs,
        hashes=spec.hashes,
        bits=spec.bits,
        block_bits=getattr(spec, "block_bits", None),
        partitioned=model.partitioned,
        **shared,
    )


def timed_twin(spec):
    """Twin of the ring of a specification with a span."""
    return ScalarTimeLimitedRing(
        twin_of(from_spec(spec.untimed)),
        k=spec.run,
        l=spec.window_generations,
        generation=spec.generation,
        span=spec.span,
        generation_span=spec.generation_span,
        when_full=spec.when_full,
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


def blocks_of(model, index):
    """Segment of the ring as the scalar models hold it: an integer per block."""
    spec = model.spec
    segment = model.segment(index)
    parts = len(segment)
    # Axes: block, part, cell; cell 0 of part 0 is the lowest bit.
    cells = segment.reshape(parts, spec.segment_blocks, -1).swapaxes(0, 1)
    return [sum(1 << int(bit) for bit in np.flatnonzero(block.reshape(-1))) for block in cells]


def segments_of(model):
    return [blocks_of(model, index) for index in range(model.spec.ring_segments)]


def spare_of(model):
    return model.memory[(model.ring_position - 1) % model.spec.segments]


def counters_of(model):
    return [getattr(model, name) for name in COUNTERS]


@dataclass
class Definition:
    """Segments computed afresh from the keys of the generations, nothing ever updated.

    After ``q`` shifts since its insertion, a key is in the segments ``q`` to
    ``q + run - 1`` of those that the ring still has.
    """

    spec: FilterSpec
    next_length: int = 0
    length: int = 0
    generations: list = field(default_factory=lambda: [[]])

    def __post_init__(self):
        spec = self.spec
        self.next_length = self.length = spec.generation
        self.hash = ScalarHash(
            key_bits=spec.key_bits,
            sizes=list(spec.index_sizes),
            functions=spec.hash_functions,
            seed=spec.seed,
            hash=spec.hash,
            shards=spec.shards,
        )

    def bits(self, key, segment):
        """Set of (block, bit) that a key has in a segment."""
        spec = self.spec
        position = (segment - (len(self.generations) - 1)) % spec.segments
        indices = self.hash(key, position if spec.hash_functions > 1 else 0)
        # One lane has one shard, whatever takes the place of the hash.
        before = self.hash.shard(key) * spec.index_sizes[0] if spec.shards > 1 else 0
        if len(indices) == spec.parts:
            block, cells = 0, [before + index for index in indices]
        else:
            block, *cells = indices
            block += before
        return {(block, part * spec.cells + cell) for part, cell in enumerate(cells)}

    def segment(self, segment):
        held = set()
        for shifts, keys in enumerate(reversed(self.generations)):
            if shifts <= segment < shifts + self.spec.run:
                for key in keys:
                    held |= self.bits(key, segment)
        return held

    def blocks(self, segment):
        held = self.segment(segment)
        return [
            sum(1 << bit for other, bit in held if other == block)
            for block in range(self.spec.segment_blocks)
        ]

    def age(self, key):
        spec = self.spec
        matches = [self.bits(key, i) <= self.segment(i) for i in range(spec.ring_segments)]
        for start in range(spec.window_generations + 1):
            if all(matches[start : start + spec.run]):
                return start
        return -1

    def shift(self):
        self.generations.append([])
        self.length = self.next_length

    def perform(self, operation, key):
        asks = operation in (Operation.QUERY, Operation.CHECK_AND_INSERT)
        age = self.age(key) if asks else -1
        if operation in (Operation.INSERT, Operation.CHECK_AND_INSERT):
            if len(self.generations[-1]) >= self.length:
                self.shift()
            self.generations[-1].append(key)
        if operation == Operation.SHIFT:
            self.shift()
        if operation == Operation.CLEAR:
            self.generations = [[]]
            self.length = self.next_length
        return age


OPERATIONS = st.one_of(
    st.sampled_from([code for code in Operation if code != Operation.REMOVE]),
    st.sampled_from([Operation.INSERT, Operation.CHECK_AND_INSERT, Operation.QUERY]),
)
