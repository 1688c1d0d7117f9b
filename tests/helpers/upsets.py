"""Upsets of the memories of a unit in Amaranth's simulator, under full load, and what they do."""

import itertools
import random
from dataclasses import dataclass

from unit_streams import UnitStreams

from lately.golden import Operation, from_spec
from lately.hdl.build import filter_unit

LOAD = [Operation.QUERY, *[Operation.CHECK_AND_INSERT] * 3]


def copies_of(memory):
    """Plain memories that a memory consists of."""
    return [copy.words for copy in getattr(memory, "copies", [memory])]


def ring_words(unit):
    """Plain memories of a ring: for each memory that its copies stand for, those copies."""
    store = unit._core.store
    if hasattr(store, "memories"):
        return [copies_of(memory) for parts in store.memories for memory in parts]
    return [copies_of(bank) for part in store.parts for bank in part._banks]


@dataclass
class Outcome:
    """Answers that are not golden's, and what the unit counted.

    Attributes
    ----------
    negatives, positives : int
        Answers that say less than they have to: nothing, or an older age; and more.
    upsets : int
    """

    negatives: int
    positives: int
    upsets: int


def every_bit(words):
    """Yield copy, row and bit of each bit of plain memories."""
    for group in words:
        for copy in group:
            for row in range(copy.depth):
                for bit in range(copy.shape):
                    yield copy, row, bit


def flip(ctx, copy, row, bit):
    """Flip a bit of a plain memory."""
    ctx.set(copy.data[row], ctx.get(copy.data[row]) ^ 1 << bit)


def upset_ring(spec, *, protect, seed, flips=None, apart=12, organisation="separate", keys=24):
    """Flip bits of a unit, one after another, `apart` operations from each other on average.

    Parameters
    ----------
    flips : int, optional
        Bits that are flipped, drawn from all of them; all of them by default.

    Returns
    -------
    Outcome
    """
    unit = filter_unit(spec, protect=protect, organisation=organisation)
    choose = random.Random(seed)
    bits = list(every_bit(ring_words(unit)))
    bits = choose.sample(bits, len(bits) if flips is None else flips)
    operations = [(choose.choice(LOAD), choose.randrange(keys)) for _ in range(apart * len(bits))]

    times = sorted(choose.sample(range(1, len(operations)), len(bits)))
    waits = [after - before for before, after in itertools.pairwise([0, *times])]

    async def upset(ctx):
        # Until all is clear after reset.
        await ctx.tick().until(unit.i.ready)
        for wait, one in zip(waits, bits, strict=True):
            await ctx.tick().repeat(wait)
            flip(ctx, *one)

    told = []
    found = UnitStreams(unit, ("seen", "age")).run(
        [{"operation": code, "key": key} for code, key in operations],
        upset,
        finish=lambda ctx: told.append(ctx.get(unit.upsets) if protect != "none" else 0),
    )
    codes, asked = zip(*operations, strict=True)
    due = from_spec(spec).apply(codes, asked).age
    late = spec.window_generations + 1
    ages = [(age if seen else late, late if right < 0 else right)
            for (seen, age), right in zip(found, due, strict=True)]  # fmt: skip
    return Outcome(
        negatives=sum(age > right for age, right in ages),
        positives=sum(age < right for age, right in ages),
        upsets=told[0],
    )
