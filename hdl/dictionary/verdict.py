"""Verdict of a dictionary, from its columns and stash, and the guaranteed window."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..pipeline import Pipeline
from .dictionary_figures import VERDICT


class WindowVerdict(data.StructLayout):
    """Answer to a query: ``seen``, ``age`` in insertions (0 if not seen), and ``status``.

    The status is 1 if the window of the query exceeds the guaranteed window, so that keys may be
    missed.

    Parameters
    ----------
    window : int
    """

    def __init__(self, *, window):
        super().__init__({"seen": 1, "age": range(window), "status": 1})


class Guarantee(wiring.Component):
    """Counts the insertions since the youngest evicted entry.

    Parameters
    ----------
    window : int
    bits : int
        Width of a distance.
    ordered : bool
        Entries are evicted in the order of their insertions, so that each evicted entry is the
        youngest so far. A comparison would limit the clock frequency.

    Members
    -------
    insert, clear : In(1)
        Flags of one operation.
    lost : In(1)
        The operation evicted an entry.
    lost_distance : In
        Distance of the entry from the operation.
    asked : In
        Window of the operation.
    short : Out(1)
        The window of the operation exceeds the guaranteed window; one cycle later.
    guaranteed : Out
        Largest window for which answers are exact; two cycles later.
    """

    def __init__(self, *, window, bits, ordered):
        self._window = window
        self._ordered = ordered
        super().__init__(
            {
                "insert": In(1),
                "clear": In(1),
                "lost": In(1),
                "lost_distance": In(bits),
                "asked": In(range(window + 1)),
                "short": Out(1),
                "guaranteed": Out(range(window + 1), init=window),
            }
        )

    def elaborate(self, platform):
        m = Module()
        window = self._window
        # May exceed the window by one until this is detected.
        count = Signal(range(window + 2), init=window)
        whole = Signal(init=1)
        m.d.sync += [
            whole.eq(count >= window),
            self.guaranteed.eq(Mux(whole, window, count)),
            self.short.eq(self.asked > count),
        ]
        with m.If(self.insert & ~whole):
            m.d.sync += count.eq(count + 1)
        with m.If(self.lost & (1 if self._ordered else ~(count < self.lost_distance))):
            m.d.sync += [count.eq(self.lost_distance), whole.eq(0)]
        with m.If(self.clear):
            m.d.sync += [count.eq(window), whole.eq(1)]
        return m


class Verdict(wiring.Component):
    """Computes the verdict of an operation, `LATENCY` cycles later.

    Parameters
    ----------
    spec : WindowDictionarySpec

    Members
    -------
    query, insert, clear, window : In
        The operation.
    held : In(1)
        A column holds the digest, with an insertion `distance` insertions earlier.
    distance : In
    stashed : In(1)
        The stash holds the digest, inserted `stash_distance` insertions earlier; may have expired.
    stash_distance : In
    lost, lost_distance : In
        As for `Guarantee`, one cycle later.
    verdict : Out(WindowVerdict)
    guaranteed : Out
        As for `Guarantee`, with the verdict.
    """

    LATENCY = VERDICT

    def __init__(self, *, spec):
        self._window = window = spec.window
        bits = spec.timestamp_bits
        inputs = dict.fromkeys(("query", "insert", "clear", "held", "stashed", "lost"), 1)
        inputs |= dict.fromkeys(("distance", "stash_distance", "lost_distance"), bits)
        inputs |= {"window": range(window + 1)}
        # Without moves, the stash evicts its oldest entry.
        self.guarantee = Guarantee(window=window, bits=bits, ordered=not spec.moves)
        super().__init__(
            {name: In(shape) for name, shape in inputs.items()}
            | {
                "verdict": Out(WindowVerdict(window=window)),
                "guaranteed": Out(range(window + 1), init=window),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        window = self._window
        names = ("query", "insert", "clear", "held", "stashed")
        query, insert, clear, held, stashed = (
            pipe.enter(getattr(self, name), name) for name in names
        )
        asked, here, other = (
            pipe.enter(getattr(self, name), name, reset_less=True)
            for name in ("window", "distance", "stash_distance")
        )
        distance = pipe.register(
            "any_distance",
            lambda here, other, stashed: Mux(stashed, other, here),
            here, other, stashed, reset_less=True,
        )  # fmt: skip
        # If the stash holds the digest, no column holds it.
        alive = pipe.register("alive", lambda distance: distance <= window, other)
        found = pipe.register(
            "found", lambda *flags: (flags[0] | flags[1]) & flags[2], held, stashed, query
        )
        found = pipe.register(
            "alive_found", lambda found, alive, stashed: found & (alive | ~stashed),
            found, alive, stashed,
        )  # fmt: skip
        within = pipe.register(
            "within", lambda distance, asked: ~(asked < distance), distance, asked
        )
        age = pipe.register(
            "age", lambda distance: (distance - 1)[: len(self.verdict.age)], distance
        )
        short = self._elaborate_guarantee(m, pipe, insert=insert, clear=clear, asked=asked)
        seen = found & within
        verdict = pipe.register(
            "verdict",
            lambda seen, age, short, query: Cat(
                seen, age & seen.replicate(len(age)), short & query
            ),
            seen, age, short, query,
        )  # fmt: skip
        m.d.comb += self.verdict.as_value().eq(verdict.value)
        pipe.leave(verdict, latency=self.LATENCY)
        return m

    def _elaborate_guarantee(self, m, pipe, **operation):
        """Return whether the window of an operation exceeds the guaranteed window."""
        m.submodules.guarantee = guarantee = self.guarantee
        lost, distance = (
            pipe.enter(getattr(self, name), name, stage=1) for name in ("lost", "lost_distance")
        )
        operation = {name: value.at(1) for name, value in operation.items()}
        come = pipe.drive(guarantee, lost=lost, lost_distance=distance, **operation)
        m.d.comb += self.guaranteed.eq(guarantee.guaranteed)
        return pipe.enter(guarantee.short, "short", stage=come + 1)
