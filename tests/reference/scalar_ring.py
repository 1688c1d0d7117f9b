"""Scalar twins of the rings of segments, written straight from the papers.

One key at a time, Python integers only, the papers' own notation. They are
slow and exist to be obviously right: the tests hold the array models against
them bit for bit. They share the constants of the hash functions with the
array models (`lately.golden.hash.scalar_hash`) and nothing else.

A filter with a keyed hash keeps the secret of every segment: `rekey` sets the
one that the next segment gets, and any number may be alive.
"""

from abc import ABC, abstractmethod
from typing import Any

from lately.golden.hash.scalar_hash import ScalarHash


class ScalarRing(ABC):
    """Operations that both families have in common."""

    secret: int

    @abstractmethod
    def place(self, key: int, function: int, secret: int) -> tuple[int, int]:
        """Block of a key in a segment of that hash function and secret, and its bits there."""

    @abstractmethod
    def insert(self, key: int) -> None:
        """Insert a key, after a shift if the generation is full."""

    @abstractmethod
    def query(self, key: int) -> bool:
        """Whether a key is reported."""

    def check_and_insert(self, key: int) -> bool:
        """Query, then insert."""
        seen = self.query(key)
        self.insert(key)
        return seen

    def rekey(self, secret: int) -> None:
        """Load the secret of the segments to come."""
        self.secret = secret


class ScalarAPBBF(ScalarRing):
    """APBBF of section 6; with one block of one part it is the APBF of section 5.

    The ring has one position more than the paper's k + l, for the spare.
    Of several shards each has as many of the blocks, or of the bits of a slice.
    """

    def __init__(
        self,
        *,
        k: int,
        l: int,
        block_bits: int,
        hashes_per_block: int,
        blocks: int,
        generation: int,
        secret: int = 0,
        shards: int = 1,
        **hashing: Any,
    ) -> None:
        self.k, self.l, self.g = k, l, generation
        self.B, self.b = block_bits, hashes_per_block
        self.n = 0
        self.blocked = blocks > 1 or hashes_per_block > 1
        if self.blocked:
            self.shard_size = blocks // shards
            sizes = [self.shard_size] + [self.B // self.b] * self.b
        else:
            self.shard_size = self.B // shards
            sizes = [self.shard_size]
        self.h = ScalarHash(sizes=sizes, functions=k + l + 1, shards=shards, **hashing)
        self.secret = secret
        self.secrets = [secret] * (k + l + 1)
        # One integer per block and physical segment; bit i of it is cell i of the block.
        self.buffer = [[0] * blocks for _ in range(k + l + 1)]

    def pos(self, i: int) -> int:
        """Position in the circular buffer of logical segment i."""
        generations = (self.n - 1) // self.g if self.n else 0
        return (i - generations) % (self.k + self.l + 1)

    def place(self, key: int, function: int, secret: int) -> tuple[int, int]:
        """Block of a key in a segment of that hash function and secret, and its bits there."""
        indices = self.h(key, function, secret)
        indices[0] += self.h.shard(key, secret) * self.shard_size
        block = indices[0] if self.blocked else 0
        cells = indices[-self.b :]
        return block, sum(
            1 << (part * (self.B // self.b) + cell) for part, cell in enumerate(cells)
        )

    def _bits(self, i: int, key: int) -> tuple[int, int]:
        """Block of a key in logical segment i, and its bits there."""
        return self.place(key, self.pos(i), self.secrets[self.pos(i)])

    def _matches(self, i: int, key: int) -> bool:
        block, bits = self._bits(i, key)
        return self.buffer[self.pos(i)][block] & bits == bits

    def insert(self, key: int) -> None:
        """Add (section 5.1): shift if the generation is full, then set the bits of k segments."""
        shift = self.n > 0 and self.n % self.g == 0
        self.n += 1
        if shift:
            # The position before s_0 is the spare; the one that left the ring becomes it.
            spare = self.buffer[self.pos(-1)]
            spare[:] = [0] * len(spare)
            self.secrets[self.pos(0)] = self.secret
        for i in range(self.k):
            block, bits = self._bits(i, key)
            self.buffer[self.pos(i)][block] |= bits

    def query(self, key: int) -> bool:
        """Algorithm 1: look backwards for k consecutive matches."""
        i, p, c = self.l, 0, 0
        while i >= 0:
            if self._matches(i, key):
                c, i = c + 1, i + 1
                if p + c == self.k:
                    return True
            else:
                i, p, c = i - self.k, c, 0
        return False

    def age(self, key: int) -> int:
        """Return the smallest j with k matches from segment j on, or -1 (query of section 5.1)."""
        for j in range(self.l + 1):
            if all(self._matches(i, key) for i in range(j, j + self.k)):
                return j
        return -1

    def segment(self, index: int) -> list[int]:
        """Blocks of logical segment `index`, each as an integer."""
        return self.buffer[self.pos(index)]


class ScalarAPBF(ScalarAPBBF):
    """APBF of section 5: a segment is one slice of m bits."""

    def __init__(self, *, slice_bits: int, **parameters: Any) -> None:
        super().__init__(block_bits=slice_bits, hashes_per_block=1, blocks=1, **parameters)


class ScalarGEBF(ScalarRing):
    """GEBF: r + 1 segments, one current; the next one is cleared at each epoch's end.

    With `block_bits` the first hash selects a block and the probes stay in it.
    """

    def __init__(
        self,
        *,
        window: int,
        epochs: int,
        hashes: int,
        bits: int,
        block_bits: int | None = None,
        partitioned: bool = True,
        secret: int = 0,
        shards: int = 1,
        **hashing: Any,
    ) -> None:
        self.r, self.k = epochs, hashes
        self.epoch = -(-window // epochs)
        self.partitioned = partitioned
        segment_bits = bits // (epochs + 1)
        self.blocked = bool(block_bits)
        # Bits that do not divide evenly among the shards and parts are left unused.
        if block_bits:
            self.shard_size = segment_bits // block_bits // shards
            self.blocks = self.shard_size * shards
            self.probe_range = block_bits // hashes if partitioned else block_bits
            sizes = [self.shard_size] + [self.probe_range] * hashes
        else:
            self.shard_size = (segment_bits // hashes if partitioned else segment_bits) // shards
            self.blocks = 1
            self.probe_range = self.shard_size * shards
            sizes = [self.shard_size] * hashes
        self.h = ScalarHash(sizes=sizes, shards=shards, **hashing)
        self.secret = secret
        self.secrets = [secret] * (epochs + 1)
        self.segments = [[0] * self.blocks for _ in range(epochs + 1)]
        self.current = 0
        self.in_epoch = 0

    def place(self, key: int, function: int, secret: int) -> tuple[int, int]:
        """Block of a key in a segment of that secret, and its bits there; functions are one."""
        indices = self.h(key, 0, secret)
        base = self.h.shard(key, secret) * self.shard_size
        block = base + indices[0] if self.blocked else 0
        bits = 0
        for part, cell in enumerate(indices[-self.k :]):
            cell += 0 if self.blocked else base
            bits |= 1 << (part * self.probe_range * self.partitioned + cell)
        return block, bits

    def _bits(self, key: int, segment: int) -> tuple[int, int]:
        return self.place(key, 0, self.secrets[segment])

    def insert(self, key: int) -> None:
        """Insert into the current segment, after moving on if its epoch is over."""
        if self.in_epoch == self.epoch:
            self.current = (self.current + 1) % (self.r + 1)
            self.segments[self.current] = [0] * self.blocks
            self.secrets[self.current] = self.secret
            self.in_epoch = 0
        block, bits = self._bits(key, self.current)
        self.segments[self.current][block] |= bits
        self.in_epoch += 1

    def query(self, key: int) -> bool:
        """Whether any segment holds all bits of the key."""
        return any(self._matches(key, segment) for segment in range(self.r + 1))

    def _matches(self, key: int, segment: int) -> bool:
        block, bits = self._bits(key, segment)
        return self.segments[segment][block] & bits == bits

    def age(self, key: int) -> int:
        """Epochs since the youngest segment that holds all bits of the key, or -1."""
        for age in range(self.r + 1):
            if self._matches(key, (self.current - age) % (self.r + 1)):
                return age
        return -1

    def segment(self, index: int) -> list[int]:
        """Blocks of the segment that is `index` epochs old, each as an integer."""
        return self.segments[self.current - index]
