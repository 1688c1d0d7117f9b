"""Places of a key's bits in a segment."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecificationError
from ..hash.functions import KeyHash
from ..spec import FilterSpec


@dataclass(frozen=True)
class Layout:
    """Bits of a segment: parts first, then shards, blocks and cells."""

    spec: FilterSpec
    partitioned: bool
    """Whether each hash function has its own part."""
    hash: KeyHash
    """Selects the block, if there are blocks, and a cell in each part."""
    cells: int
    """Number of bits from which one index selects: of a part in a block."""
    parts: int
    """Parts of a segment: 1 if all hash functions share the segment."""

    @classmethod
    def of(cls, spec: FilterSpec, partitioned: bool) -> "Layout":
        """Return the layout of a specification; parameters as for `Layout`.

        Raises
        ------
        TypeError
            If `partitioned` is not a bool.
        SpecificationError
            If the hash functions cannot share the bits.
        """
        if not isinstance(partitioned, bool):
            raise TypeError(f"partitioned: must be True or False, not {partitioned!r}")
        sizes, cells = spec.index_sizes, spec.cells
        if not partitioned:
            if not spec.shared_cells:
                raise SpecificationError(f"partitioned: must be True for {spec.family}, not False")
            if spec.shards > 1:
                raise SpecificationError("partitioned: must be True for several lanes, not False")
            cells = spec.shared_cells
            sizes = sizes[: -spec.parts] + (cells,) * spec.parts
        key_hash = KeyHash(
            key_bits=spec.key_bits,
            sizes=sizes,
            functions=spec.hash_functions,
            seed=spec.seed,
            hash=spec.hash,
            shards=spec.shards,
        )
        return cls(spec, partitioned, key_hash, cells, spec.parts if partitioned else 1)

    @property
    def bits(self) -> int:
        """Bits of a segment."""
        return self.parts * self.spec.segment_blocks * self.cells

    @property
    def blocked(self) -> bool:
        """Whether the first index of a hash function selects a block."""
        return len(self.hash.fields) > self.spec.parts

    def positions(self, state: NDArray[np.uint64], segment: int) -> NDArray[np.intp]:
        """Return the bits of each of n states in a physical `segment`, shape (spec.parts, n)."""
        indices = self.hash.indices(state, segment % self.hash.functions)
        parts = self.spec.parts
        block = indices[0] * self.cells if self.blocked else np.intp(0)
        stride = self.spec.segment_blocks * self.cells if self.partitioned else 0
        if self.spec.shards > 1:
            block = block + self.hash.shard(state) * self.spec.shard_bits
        return np.stack([part * stride + block + indices[part - parts] for part in range(parts)])
