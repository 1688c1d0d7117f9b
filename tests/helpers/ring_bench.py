"""A dictionary unit with moves beside an exact list of digests, in Amaranth's simulator."""

from dataclasses import dataclass, replace

from dictionary_bench import Bench

from lately.golden import Operation, WindowDictionary


@dataclass
class RingBench(Bench):
    """As `Bench`: compares every answer that the unit vouches for, and all entries, wherever."""

    def expect(self, operations):
        """Results of a golden model that has room for all, and gives nothing up."""
        self.exact = WindowDictionary.from_spec(replace(self.spec, stash=256))
        due = []
        for code, key, window in operations:
            age = -1
            if code != Operation.SHIFT:
                age = int(self.exact.apply([code], [key], windows=[window]).age[0])
            due.append((age >= 0, max(age, 0), False))
        assert self.exact.lost == 0
        return due

    def agree(self, found, due):
        """Whether a result is right, or missed with a status that says so."""
        seen, _, status = found
        return found[:2] == due[:2] or (status and not seen)

    def compare_lost(self):
        """What golden gives up is another matter."""

    def read_back(self, ctx):
        """Compare all entries, each of which is in one cell, or one place of the stash."""
        spec, core = self.spec, self.unit.core
        number, found = ctx.get(core.columns[0].number), {}
        for digest, time in [*self.celled(ctx), *self.stashed(ctx)]:
            distance = (number - time) % (1 << spec.timestamp_bits)
            if distance <= spec.window:
                assert digest not in found, "an entry is held twice"
                found[digest] = distance
        held = dict(self.exact.entries.tolist())
        guaranteed = ctx.get(self.unit.guaranteed)
        self.counts = {name: ctx.get(getattr(self.unit, name)) for name in self.unit.counters}
        assert found.items() <= held.items(), (found, held)
        assert all(held[digest] > guaranteed for digest in held.keys() - found.keys())
        if not self.counts["lost"]:
            assert found == held
            assert guaranteed == spec.window

    def celled(self, ctx):
        """Digest and time of every cell in use, live or not."""
        for column, row, time, rest in self.cells(ctx):
            yield digest_of(self.exact, column, row, rest), time

    def stashed(self, ctx):
        """Digest and time of every place of the stash in use, after an exchange that is due."""
        stash = self.unit.core.stash
        kept, exchange = ctx.get(stash.valid), stash.exchange
        if ctx.get(exchange.exchanges):
            kept &= ~ctx.get(exchange.exchanged)
            if ctx.get(exchange.evicted_valid):
                yield ctx.get(exchange.evicted.digest), ctx.get(exchange.evicted.time)
        for at in range(self.spec.stash):
            if kept >> at & 1:
                yield ctx.get(stash.entries[at].digest), ctx.get(stash.entries[at].time)


def digest_of(model, column, row, rest):
    """The digest that has a cell and a rest."""
    for byte, table in enumerate(model._tables[column]):
        row ^= int(table[rest >> 8 * byte & 0xFF])
    return rest << model.spec.row_bits | row
