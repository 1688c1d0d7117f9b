"""What a window dictionary reports, by its definition: the last insertion of each digest."""

from functools import cache

from lately.golden import Operation
from lately.golden.hash.functions import offset_terms
from lately.golden.hash.scalar_hash import ScalarHash
from lately.golden.operations import OperationBit


class DictionaryOracle:
    """Digests in a dict. The dictionary shows which of them it evicted, and must count these."""

    def __init__(self, spec, secret=0):
        self.spec = spec
        self.hash = ScalarHash(
            sizes=[spec.rows, 1 << spec.rest_bits], seed=spec.seed, key_bits=spec.key_bits,
            hash=spec.hash,
        )  # fmt: skip
        self.terms = offset_terms(
            columns=spec.columns, row_bits=spec.row_bits, rest_bits=spec.rest_bits, seed=spec.seed
        )
        self.offset = cache(self._offset)
        self.empty(secret)

    def empty(self, secret):
        self.secret, self.insertions, self.last, self.lost = secret, 0, {}, []

    def digest(self, key):
        """Row in the first column and remainder, in one number."""
        row, rest = self.hash(key, 0, self.secret)
        return rest << self.spec.row_bits | row

    def _offset(self, column, rest):
        """Return what a column adds to a row."""
        bits = enumerate(self.terms[column])
        return sum((sum(rest >> term & 1 for term in terms) & 1) << bit for bit, terms in bits)

    def covered(self):
        return min([self.spec.window, *(self.insertions - time for time in self.lost)])

    def age(self, key, window):
        age = self.insertions - self.last.get(self.digest(key), -window)
        return age if age < window else -1

    def follow(self, code, key, model):
        """Perform an operation that the model has just performed, and compare their contents."""
        digest, before = self.digest(key), self.age(key, self.spec.window)
        if code & OperationBit.INSERT:
            self.insertions += 1
            self.last[digest] = self.insertions
        elif code == Operation.REMOVE:
            self.last.pop(digest, None)
        self.last = {
            each: time
            for each, time in self.last.items()
            if self.insertions - time < self.spec.window
        }
        distances, rests = model.memory.tolist()
        cells = {
            rest << self.spec.row_bits | row ^ self.offset(column, rest): column
            for column, rows in enumerate(rests)
            for row, rest in enumerate(rows)
            if distances[column][row]
        }
        held = {each: self.insertions + 1 - distance for each, distance in model.entries.tolist()}
        stash = held.keys() - cells.keys()
        assert cells.keys() <= held.keys()
        assert held.items() <= self.last.items()
        assert len(stash) == model.stashed <= self.spec.stash
        for each in self.last.keys() - held.keys():
            self.lost.append(self.last.pop(each))
            # The stash was full; without moves, the entry was its oldest.
            assert len(stash) == self.spec.stash
            assert self.spec.moves or self.lost[-1] < min(held[other] for other in stash)
        assert model.lost == len(self.lost)
        assert model.guaranteed_window == self.covered()
        if code & OperationBit.INSERT and before < 0:
            # In the first free cell, so all columns before it are taken.
            rest, low = digest >> self.spec.row_bits, digest % self.spec.rows
            for column in range(cells.get(digest, self.spec.columns)):
                assert distances[column][low ^ self.offset(column, rest)]
