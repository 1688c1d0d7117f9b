"""Banks of words: passes one after another, whatever rows they meet in."""

import random
from collections import deque

import pytest
from amaranth.sim import Simulator

from lately.hdl.memory.ecp5 import ECP5WordBank
from lately.hdl.memory.words import PortableWordBank

SEED = 496
COLUMNS = 4


class Reference:
    """Words of a bank with its sweep, pass by pass."""

    def __init__(self, rows):
        self.words = [0] * rows
        self.swept = rows

    def perform(self, *, access, insert, row, start, set, wipe):
        """Perform what comes in one clock; return the word before, None without an access."""
        before = None
        if access:
            before = self.words[row]
            if insert:
                self.words[row] = (before | set) & ~wipe
        elif self.swept < len(self.words):
            self.words[self.swept] &= ~wipe
            self.swept += 1
        if start:
            self.swept = 0
        return before


def run(rows, passes, visible):
    """Hold a bank against the reference, in the columns that `visible` gives for each clock."""
    bank = PortableWordBank(rows=rows, columns=COLUMNS)
    reference = Reference(rows)

    async def bench(ctx):
        masks = deque([(0, 0)] * bank.MASK_LAG)
        words = deque([(None, 0)] * bank.LATENCY)
        for number, entry in enumerate(passes):
            for name in ("access", "insert", "row", "start"):
                ctx.set(getattr(bank, name), entry[name])
            masks.append((entry["set"], entry["wipe"]))
            set, wipe = masks.popleft()
            ctx.set(bank.set, set)
            ctx.set(bank.wipe, wipe)
            assert ctx.get(bank.clean) == (reference.swept == rows), f"clock {number}"
            expected, columns = words.popleft()
            if expected is not None:
                got = ctx.get(bank.word)
                assert got & columns == expected & columns, f"seed {SEED}, clock {number}"
            words.append((reference.perform(**entry), visible(entry)))
            await ctx.tick()

    simulator = Simulator(bank)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return reference


def idle(**values):
    return {"access": 0, "insert": 0, "row": 0, "start": 0, "set": 1, "wipe": 2} | values


@pytest.mark.parametrize("rows", [2, 8, 16, 64])
@pytest.mark.parametrize("load", [0.3, 0.7, 1.0])
def test_passes_at_random(rows, load):
    """Epochs one after another: a column is seen again only after a whole sweep."""
    choose = random.Random(SEED + rows)
    passes = []
    youngest, spare, near = 0, COLUMNS - 1, 0
    mirror = Reference(rows)
    for _ in range(4000):
        if choose.random() < 0.1:
            near = choose.randrange(rows)
        row = near ^ choose.randrange(2) if choose.random() < 0.9 else choose.randrange(rows)
        access = choose.random() < load
        turn = mirror.swept == rows and choose.random() < 0.2
        # At full load nothing is swept unless the input rests.
        access &= mirror.swept == rows or load < 1 or choose.random() < 0.5
        if turn:
            youngest, spare = spare, (spare - 1) % COLUMNS
        passes.append(
            idle(
                access=int(access),
                insert=int(access and choose.random() < 0.5),
                row=row % rows,
                start=int(turn),
                set=1 << youngest,
                wipe=1 << spare,
            )
        )
        mirror.perform(**passes[-1])
    # What is wiped may read as zero already.
    run(rows, passes, lambda entry: (1 << COLUMNS) - 1 & ~entry["wipe"])
    assert sum(entry["start"] for entry in passes) > 10


@pytest.mark.parametrize("distance", range(1, 9))
@pytest.mark.parametrize("between", ["nothing", "queries", "sweep"])
def test_every_distance(distance, between):
    """An insertion is seen by the pass so many clocks later, and by an insertion on top of it."""
    filler = {
        "nothing": idle(row=5),
        "queries": idle(access=1, row=7),
        "sweep": idle(start=1),
    }[between]
    first = idle(access=1, insert=1, row=5, set=1)
    second = idle(access=1, insert=1, row=5, set=4)
    passes = [idle()] * 8
    for _ in range(5):
        passes += [first, *[filler] * (distance - 1), second, *[filler] * (distance - 1)]
        passes += [idle(access=1, row=5), *[idle(row=5)] * 9]
    reference = run(8, [*passes, *[idle()] * 8], lambda entry: 0b1101)
    assert reference.words[5] & 0b1101 == 0b101


@pytest.mark.parametrize("offset", range(-7, 8))
def test_column_that_is_swept_stays_so(offset):
    """Insertions into a row so many clocks around its sweep do not bring the column back."""
    rows, row = 16, 9
    fill = [idle(access=1, insert=1, row=row, set=0b1000, wipe=0)] * 5
    start = [idle(start=1, wipe=0b1000)]
    before = [idle(wipe=0b1000)] * (row + offset)
    insertions = [idle(access=1, insert=1, row=row, set=1, wipe=0b1000)] * 3
    after = [idle(wipe=0b1000)] * (rows - row - min(0, offset) + 12)
    # The column is the youngest now.
    turned = [idle(access=1, row=row, set=0b1000, wipe=0b0100)] * 3
    passes = [*fill, *start, *before, *insertions, *after, *turned, *[idle()] * 8]
    reference = run(rows, passes, lambda entry: 0b1111 & ~entry["wipe"])
    assert reference.words[row] == 1


def test_sweep_takes_as_many_clocks_as_rows():
    """From the clock after its start; `run` compares `clean` in every clock."""
    for rows in (2, 4, 16, 32, 512):
        reference = run(rows, [idle(start=1), *[idle()] * (rows + 3)], lambda entry: 0b1101)
        assert reference.swept == rows


@pytest.mark.parametrize("rows", [0, 1, 3, 8.0])
def test_rows_wrong(rows):
    with pytest.raises(ValueError, match=r"^Rows must be a power of two greater than 1, not "):
        PortableWordBank(rows=rows, columns=2)


def test_rows_of_ecp5_wrong():
    with pytest.raises(ValueError, match=r"^Rows must be at most 1024 for ecp5, not 2048$"):
        ECP5WordBank(rows=2048, columns=2)
