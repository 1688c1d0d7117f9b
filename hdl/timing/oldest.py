"""Age of a key's oldest cell, number of cells with this age, and comparison with the window."""

from amaranth.hdl import Cat, Const, Module, Mux
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..parameters import require_integer
from ..pipeline import Pipeline
from .timing_profile import oldest_latency

_DIGIT = 6
"""Bits of ages that are compared per cycle."""


class TimingVerdict(data.StructLayout):
    """Answer to a query, with the fields of `lately.golden.Results`.

    Parameters
    ----------
    window : int
        Longest window, in blocks; ``age`` is ``window + 1`` if a cell has expired.
    hashes : int
        Cells of a key.
    """

    def __init__(self, *, window, hashes):
        super().__init__({"seen": 1, "age": range(window + 2), "oldest": range(hashes + 1)})


class OldestCell(wiring.Component):
    """Finds the oldest cell of a key by pairwise comparison, two cycles for each comparison.

    Latency `latency` cycles.

    Parameters
    ----------
    window : int
        Longest window, in blocks, at least 1.
    hashes : int
        Cells of a key.

    Members
    -------
    ages : In(ArrayLayout(range(window + 1), hashes))
        Undefined for expired cells.
    expired : In(hashes)
    query : In(1)
    window : In(range(window + 1))
        Highest age that is reported.
    verdict : Out(TimingVerdict)
        ``age`` and ``oldest`` are valid without a query too.

    Errors: as `require_integer`.
    """

    def __init__(self, *, window, hashes):
        require_integer("Window", window, least=1)
        require_integer("Hashes", hashes, least=1)
        self._window = window
        self._hashes = hashes
        self.latency = oldest_latency(hashes)
        age = range(window + 1)
        super().__init__(
            {
                "ages": In(data.ArrayLayout(age, hashes)),
                "expired": In(hashes),
                "query": In(1),
                "window": In(age),
                "verdict": Out(TimingVerdict(window=window, hashes=hashes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        age, oldest = self._elaborate_oldest(pipe)
        window = pipe.enter(self.window, "window", reset_less=True)
        late = pipe.combine("late", _above, *_compared(pipe, "late", age, window.at(age.stage)))
        expired = pipe.enter(self.expired, "expired", reset_less=True)
        count = pipe.register(
            "count",
            lambda expired: sum(expired[1:], expired[0])[: len(self.verdict.oldest)],
            expired,
            reset_less=True,
        )
        none = pipe.register("none", lambda expired: ~expired.any(), expired, reset_less=True)
        end = self.latency - 1
        none, count, age, oldest = (value.at(end) for value in (none, count, age, oldest))
        lost = self._window + 1
        fields = {
            "seen": pipe.register(
                "seen", lambda query, none, late: query & none & ~late,
                pipe.enter(self.query, "query").at(end), none, late.at(end),
            ),
            "age": pipe.register(
                "age", lambda none, age: Mux(none, age, lost), none, age, reset_less=True
            ),
            "oldest": pipe.register(
                "oldest", lambda none, one, other: Mux(none, one, other), none, oldest, count,
                reset_less=True,
            ),
        }  # fmt: skip
        m.d.comb += [self.verdict[name].eq(field.value) for name, field in fields.items()]
        pipe.leave(*fields.values(), latency=self.latency)
        return m

    def _elaborate_oldest(self, pipe):
        """Return the age of the oldest cell, and one cycle later the number of cells with it."""
        nodes = [
            (pipe.enter(self.ages[part], f"age{part}", reset_less=True),
             pipe.enter(Const(1), f"one{part}", stage=None))
            for part in range(self._hashes)
        ]  # fmt: skip
        while len(nodes) > 1:
            pairs = zip(nodes[::2], nodes[1::2], strict=False)
            level = [self._elaborate_pair(pipe, f"{len(nodes)}_{at}", *pair)
                     for at, pair in enumerate(pairs)]  # fmt: skip
            nodes = level + nodes[2 * len(level) :]
        return nodes[0]

    def _elaborate_pair(self, pipe, name, left, right):
        ages = [left[0], right[0]]
        stage = max(age.stage for age in ages)
        one, other = (age.at(stage) for age in ages)
        larger, apart = _compared(pipe, name, one, other)
        above = pipe.combine(f"above{name}", _above, larger, apart)
        age = pipe.register(
            f"age{name}", lambda above, a, b: Mux(above, a, b), above,
            *(value.at(above.stage) for value in (one, other)), reset_less=True,
        )  # fmt: skip
        late = pipe.register(f"late{name}", lambda above: above, above, reset_less=True)
        equal = pipe.register(f"equal{name}", lambda apart: ~apart.any(), apart, reset_less=True)
        oldest = pipe.register(
            f"oldest{name}",
            lambda equal, above, a, b: Mux(equal, a + b, Mux(above, a, b)),
            equal, late, left[1], right[1], reset_less=True,
        )  # fmt: skip
        return age, oldest


def _compared(pipe, name, one, other):
    """Return, one cycle later, which digits of a value are larger than another's, or differ."""
    digits = [slice(low, low + _DIGIT) for low in range(0, len(one), _DIGIT)]
    return [
        pipe.register(
            f"{flag}{name}",
            lambda a, b, of=of: Cat(of(a[at], b[at]) for at in digits),
            one,
            other,
            reset_less=True,
        )
        for flag, of in (("larger", _larger), ("apart", lambda a, b: a != b))
    ]


def _larger(one, other):
    """Return whether a value is above another, without a carry chain, which is slow."""
    pairs = [(one[at : at + 2], other[at : at + 2]) for at in range(0, len(one), 2)]
    return _above(
        [(a & ~b)[-1] | (a[-1] == b[-1]) & (a & ~b)[0] for a, b in pairs],
        [a != b for a, b in pairs],
    )


def _above(larger, apart):
    """Return whether a value is above another, from the flags of larger and different digits."""
    above = Const(0)
    for digit in range(len(larger)):
        above = larger[digit] | ~apart[digit] & above
    return above
