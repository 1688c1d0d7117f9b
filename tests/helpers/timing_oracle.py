"""Timing filters by their definition: of each cell, only the last insertion is known."""

from math import inf

from lately.golden.hash.scalar_hash import ScalarHash


class TimingOracle:
    """Any timing filter. The moment of an insertion is its number, or its time.

    `w`, `B`, `m`, `k` as in the inferential paper; in partitioned filters, `m` cells for each hash
    function.
    """

    def __init__(self, model):
        self.timed, self.partitioned = hasattr(model, "span"), hasattr(model, "expired_age")
        self.w, self.m, self.k = model.window, model.cells, model.hashes
        self.B = model.spec.block_units if self.partitioned else model.block
        self.P = getattr(model, "padding", None)
        self.hash = ScalarHash(sizes=[self.m] * self.k, seed=model.seed, key_bits=model.key_bits)
        self.touched, self.insertions = {}, 0

    def cells(self, key):
        """Cells that the key touches (definition 4), each with its part."""
        indices = self.hash(key, 0)
        return {*enumerate(indices)} if self.partitioned else {(0, cell) for cell in indices}

    def insert(self, key, time=0):
        moment = time if self.timed else self.insertions
        self.touched |= dict.fromkeys(self.cells(key), moment)
        self.insertions += 1

    def age(self, cell, time=0):
        """Blocks since the last insertion into the cell (definition 7)."""
        if cell not in self.touched:
            return inf
        return (time if self.timed else self.insertions) // self.B - self.touched[cell] // self.B

    def expires(self, cell, w):
        """Insertions after which the cell is expired: w after the end of the block."""
        return (self.touched[cell] // self.B + 1) * self.B + w if cell in self.touched else 0

    def evidence(self, key, w=None, time=0):
        """Return lambda_x, c_x, r_x (definitions 10 and 11) and b, for a window."""
        ages, w = {cell: self.age(cell, time) for cell in self.cells(key)}, w or self.w
        for cell in ages:
            if self.partitioned:
                ages[cell] = min(ages[cell], w // self.B + 1)
            elif self.insertions >= self.expires(cell, w):
                ages[cell] = inf
        oldest = max(ages.values())
        return oldest, [*ages.values()].count(oldest), len(ages), self.insertions % self.B

    def query(self, key, w=None):
        return self.evidence(key, w)[0] < inf

    def timestamp(self, cell):
        """Contents of a cell (section 3.2.3): what the last look of the sweep at it left there."""
        last = -(-self.w // self.B) + 1 + self.P
        swept = -(-self.m // (self.B * (self.P + 1)))
        looks = self.insertions * swept
        look = looks - 1 - (looks - 1 - cell) % self.m
        if look // swept + 1 >= self.expires((0, cell), self.w) or (0, cell) not in self.touched:
            return last + 1
        return self.touched[0, cell] // self.B % (last + 1)
