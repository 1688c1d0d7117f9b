"""Units in Amaranth's simulator whose memories a test reaches, to flip bits of them."""

from garbage_memory import GarbageMemory, with_own_garbage
from simulation import simulate

from lately.golden import Operation
from lately.hdl.build import filter_unit


def copies_of(memory):
    """Plain memories that a memory consists of."""
    return [copy.words for copy in getattr(memory, "copies", [memory])]


def cell_words(unit):
    """Plain memories of a timing filter: the copies of each memory."""
    core = getattr(unit.core, "_core", unit.core)
    return [copies_of(part.memory) for part in core.parts]


def column_words(unit):
    """Plain memories of a dictionary, as `cell_words`."""
    return [copies_of(column.memory) for column in unit.core.columns]


class Struck:
    """A unit that performs operations, and of which a bit is flipped in between."""

    def __init__(self, spec, protect="parity"):
        self.spec = spec
        memory = with_own_garbage(GarbageMemory)
        self.unit = filter_unit(spec, memory=memory, protect=protect)
        self.words = (column_words if spec.kind == "dictionary" else cell_words)(self.unit)

    def run(self, script):
        """Run a coroutine that takes this."""

        async def bench(ctx):
            self._ctx = ctx
            # Until all is clear after reset.
            await ctx.tick().until(self.unit.i.ready)
            await script(self)

        simulate(self.unit, bench)

    async def do(self, operations):
        """Perform operations, one per clock; return what of (seen, age) each is told."""
        ctx, unit, results = self._ctx, self.unit, []
        waiting = list(operations)
        ctx.set(unit.o.ready, 1)
        while len(results) < len(operations):
            if waiting:
                code, key = waiting[0]
                ctx.set(unit.i.p.operation, int(code))
                ctx.set(unit.i.p.key, key)
                ctx.set(unit.i.p.window, self.spec.window_blocks)
            ctx.set(unit.i.valid, bool(waiting))
            *_, ready, valid, seen, age = await ctx.tick().sample(
                unit.i.ready, unit.o.valid, unit.o.p.seen, unit.o.p.age
            )
            if ready and waiting:
                del waiting[0]
            if valid:
                results.append((bool(seen), int(age)))
        await ctx.tick().repeat(20)
        return results

    def held(self):
        """Words of all cells, as (column, copy, row)."""
        return {
            (column, copy, row): self._ctx.get(words.data[row])
            for column, copies in enumerate(self.words)
            for copy, words in enumerate(copies)
            for row in range(words.depth)
        }

    async def insert(self, key):
        """Insert a key that is not in the dictionary; return its cell."""
        before = self.held()
        await self.do([(Operation.INSERT, key)])
        (cell,) = {(column, row) for (column, copy, row), word in self.held().items()
                   if word != before[column, copy, row]}  # fmt: skip
        return cell

    def flip(self, cell, bit, copy=0):
        """Flip a bit of a cell."""
        column, row = cell
        word = self.words[column][copy].data[row]
        self._ctx.set(word, self._ctx.get(word) ^ 1 << bit)
