"""Upsets of the memories of a unit in Amaranth's simulator, under full load, and what they do."""

import itertools
import random
from dataclasses import dataclass

from garbage_memory import GarbageMemory, with_own_garbage
from unit_streams import UnitStreams

from lately.golden import Operation, from_spec
from lately.hdl.build import filter_unit

LOAD = [Operation.QUERY, *[Operation.CHECK_AND_INSERT] * 3]
MIXED = [*LOAD * 3, Operation.INSERT, Operation.REMOVE]


def copies_of(memory):
    """Plain memories that a memory consists of."""
    return [copy.words for copy in getattr(memory, "copies", [memory])]


def ring_words(unit):
    """Plain memories of a ring: for each memory that its copies stand for, those copies."""
    store = unit.core.store
    if hasattr(store, "memories"):
        return [copies_of(memory) for parts in store.memories for memory in parts]
    return [copies_of(bank) for part in store.parts for bank in part._banks]


def cell_words(unit):
    """Plain memories of a timing filter, as `ring_words`."""
    core = getattr(unit.core, "_core", unit.core)
    return [copies_of(part.memory) for part in core.parts]


def column_words(unit):
    """Plain memories of a dictionary, as `ring_words`."""
    return [copies_of(column.memory) for column in unit.core.columns]


@dataclass
class Outcome:
    """Answers that are not golden's, and what the unit counted.

    Attributes
    ----------
    negatives, positives : int
        Answers that say less than they have to: nothing, or an older age; and more.
    upsets : int
    left : int
        Bits that were not flipped, as their rows still had an upset.
    """

    negatives: int
    positives: int
    upsets: int
    left: int


def every_bit(words):
    """Yield all copies, one of them, row and bit, for each bit of plain memories."""
    for copies in words:
        for copy in copies:
            for row in range(copy.depth):
                for bit in range(copy.shape):
                    yield copies, copy, row, bit


def is_sound(ctx, copies, row, *, parity):
    """Whether no upset of a row is left: copies agree, and the number of ones is odd."""
    first, *others = (ctx.get(copy.data[row]) for copy in copies)
    return all(word == first for word in others) and (not parity or first.bit_count() % 2)


def flips(unit, words, choose, *, count, clocks, parity=False):
    """Return a bench that flips bits at random times, and the list of those that are left.

    Each is the only upset of its row: those of a row that still has one come later.

    Parameters
    ----------
    words : list of list of Memory
        As `ring_words`.
    choose : random.Random
    count : int or None
        Bits that are flipped, drawn from all of them; all of them if None.
    clocks : callable
        Takes the number of bits; returns the clocks in which they are flipped.
    parity : bool
        Whether words have an odd number of ones.
    """
    bits = list(every_bit(words))
    bits = choose.sample(bits, len(bits) if count is None else count)
    times = sorted(choose.sample(range(1, clocks(len(bits))), len(bits)))
    waits = [after - before for before, after in itertools.pairwise([0, *times])]

    async def upset(ctx):
        # Until all is clear after reset.
        await ctx.tick().until(unit.i.ready)
        for wait in waits:
            await ctx.tick().repeat(wait)
            sound = (number for number, (copies, _, row, _) in enumerate(bits)
                     if is_sound(ctx, copies, row, parity=parity))  # fmt: skip
            if (number := next(sound, None)) is not None:
                _, copy, row, bit = bits.pop(number)
                ctx.set(copy.data[row], ctx.get(copy.data[row]) ^ 1 << bit)

    return upset, bits


def upset_ring(spec, *, protect, seed, count=None, apart=12, keys=24):
    """Flip bits of a ring, one after another, `apart` operations from each other on average.

    Returns
    -------
    Outcome
    """
    unit = filter_unit(spec, protect=protect)
    choose = random.Random(seed)
    upset, bits = flips(
        unit, ring_words(unit), choose, count=count, clocks=lambda bits: apart * bits
    )
    operations = [(choose.choice(LOAD), choose.randrange(keys)) for _ in range(apart * len(bits))]
    told = []
    found = UnitStreams(unit, ("seen", "age")).run(
        [{"operation": code, "key": key} for code, key in operations],
        upset,
        finish=lambda ctx: told.append(ctx.get(unit.upsets) if protect != "none" else 0),
    )
    codes, asked = map(list, zip(*operations, strict=True))
    due = from_spec(spec).apply(codes, asked).age
    late = spec.window_generations + 1
    ages = [(age if seen else late, late if right < 0 else right)
            for (seen, age), right in zip(found, due, strict=True)]  # fmt: skip
    return Outcome(
        negatives=sum(age > right for age, right in ages),
        positives=sum(age < right for age, right in ages),
        upsets=told[0],
        left=len(bits),
    )


def upset_dictionary(spec, *, protect, seed, count=None, apart=12, keys=24):
    """As `upset_ring`, of a dictionary, whose memories answer with garbage of their own.

    What is missed with a status that says so is no negative.
    """
    memory = with_own_garbage(GarbageMemory)
    unit = filter_unit(spec, protect=protect, memory=memory)
    choose = random.Random(seed)
    parity = protect == "parity"
    upset, bits = flips(
        unit,
        column_words(unit),
        choose,
        count=count,
        clocks=lambda bits: apart * bits,
        parity=parity,
    )
    codes = choose.choices(MIXED, k=apart * len(bits))
    asked = [choose.randrange(keys) for _ in codes]
    told = []
    found = UnitStreams(unit, ("seen", "age", "status")).run(
        [
            {"operation": int(code), "key": key, "window": spec.window}
            for code, key in zip(codes, asked, strict=True)
        ],
        upset,
        finish=lambda ctx: told.append(ctx.get(unit.upsets) if protect != "none" else 0),
    )
    due = from_spec(spec).apply(codes, asked).age
    ages = [(age if seen else spec.window, spec.window if right < 0 else right)
            for (seen, age, status), right in zip(found, due, strict=True)
            if seen or not status]  # fmt: skip
    return Outcome(
        negatives=sum(age > right for age, right in ages),
        positives=sum(age < right for age, right in ages),
        upsets=told[0],
        left=len(bits),
    )
