"""What is proven of windows in time: what counts, for how long, and that no loss is silent."""

from functools import partial

from amaranth.hdl import Assume, Mux, Signal
from amaranth.hdl._ast import AnySeq

from ...hdl.frontend.time_window import TimeWindow
from .formal import Bounded, Proof
from .harness import Harness, opened

_GENERATIONS, _SPAN = 2, 3

# Clocks between two turns: fewer than in any unit.
_APART = 8


class Followed(Harness):
    """A time window, any insertions, ticks and clears, and turns that are some clocks apart.

    A generation is followed that is chosen at will: how many ticks ago its last insertion was, and
    how often the ring has turned since.
    """

    def __init__(self, *, window=TimeWindow, goal=None):
        self._window = window(run=2, generations=_GENERATIONS, span=_SPAN, generation_span=2)
        super().__init__(part=self._window, goal=goal)

    def build(self, m):
        part = self._window
        m.submodules.window, inner = opened(part)
        apart = Signal(range(_APART + 1))
        m.d.sync += apart.eq(Mux(part.turn, _APART, apart - (apart != 0)))
        m.d.comb += Assume(~part.turn | (apart == 0))
        marked, age, turns = self._elaborate_mark(m, inner)
        held = marked & (turns <= _GENERATIONS)
        young = age <= _SPAN
        lost = Signal()
        m.d.sync += lost.eq(marked & ~held & young)
        self.require(
            ~held | ((part.limit > turns) == young),
            ~lost | (part.status == 1),
        )
        self.reach("the oldest segment at the end of its span",
                   held & (turns == _GENERATIONS) & (age == _SPAN))  # fmt: skip
        self.reach("a segment expired that has a younger one",
                   held & ~young & (part.limit != 0))  # fmt: skip
        self.reach("a segment is lost within its span", lost)

    def _elaborate_mark(self, m, inner):
        """Return whether a generation is followed, its ticks and its turns."""
        insert, turn, clear, tick = (
            inner[name] for name in ("insert_before", "turn_before", "clear_before", "tick_now")
        )
        marked = Signal()
        age = Signal(range(_SPAN + 2))
        turns = Signal(range(_GENERATIONS + 2))
        turned = Signal.like(turns)
        begins = Signal()
        fresh = Signal.like(age)
        m.d.comb += [
            turned.eq(Mux(turn & (turns <= _GENERATIONS), turns + 1, turns)),
            begins.eq(insert & ~marked & AnySeq(1)),
            fresh.eq(Mux(begins | (insert & (turned == 0)), 0, age)),
        ]
        m.d.sync += [
            marked.eq((marked | begins) & ~clear),
            turns.eq(Mux(begins, 0, turned)),
            age.eq(Mux(tick & (fresh <= _SPAN), fresh + 1, fresh)),
        ]
        return marked, age, turns


PROOFS = (
    Proof(
        name="window in time",
        statement="A segment counts exactly until the span has passed since the last insertion of "
        "its generation, whatever comes and however long nothing does; what is retired before is "
        "told of.",
        design=f"time window, k = 2, l = {_GENERATIONS}, a span of {_SPAN} ticks",
        build=partial(Followed),
        method=Bounded(40),
        goals={
            "the oldest segment at the end of its span": 80,
            "a segment expired that has a younger one": 80,
            "a segment is lost within its span": 80,
        },
    ),
)
"""Proofs of windows in time."""
