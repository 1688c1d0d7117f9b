"""Verdict of a timing filter: the age of a key's oldest cells, and the number of these cells."""

from functools import cache

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..parameters import require_integer
from ..pipeline import Draft, Pipeline

_DIGIT = 6  # bits of ages that are compared per cycle


class TimingVerdict(data.StructLayout):
    """Answer to a query, with the fields of `lately.golden.Results`."""

    def __init__(self, *, window, hashes):
        super().__init__({"seen": 1, "age": range(window + 2), "oldest": range(hashes + 1)})


class OldestCell(wiring.Component):
    """Finds the oldest cells of a key; each level of pairwise comparisons takes two cycles."""

    def __init__(self, *, window, hashes):
        require_integer("Window", window, minimum=1)
        require_integer("Hashes", hashes, minimum=1)
        self._window = window
        self._hashes = hashes
        self.latency = oldest_latency(hashes)
        age = range(window + 1)
        super().__init__(
            {
                "ages": In(data.ArrayLayout(age, hashes)),  # undefined for expired cells
                "expired": In(hashes),
                "query": In(1),
                "window": In(age),  # highest age that is reported
                # ``age`` and ``oldest`` are valid without a query too
                "verdict": Out(TimingVerdict(window=window, hashes=hashes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        ages = [self.ages[part] for part in range(self._hashes)]
        pipe, lost = Pipeline(m), self._window + 1
        fields = _verdict(pipe, ages, self.expired, self.query, self.window, lost=lost)
        m.d.comb += [self.verdict[name].eq(field.value) for name, field in fields.items()]
        pipe.leave(*fields.values(), latency=self.latency)
        return m


@cache
def oldest_latency(hashes):
    ages = [Signal() for _ in range(hashes)]
    fields = _verdict(Pipeline(Draft()), ages, Signal(hashes), Signal(), Signal(), lost=2)
    return fields["seen"].stage


def _verdict(pipe, ages, expired, query, window, *, lost):
    """Return the fields of a verdict; `lost` is the reported age if a cell has expired."""
    nodes = [
        (pipe.enter(age, f"age{part}", reset_less=True),
         pipe.enter(Const(1), f"count{part}", stage=None))
        for part, age in enumerate(ages)
    ]  # fmt: skip
    while len(nodes) > 1:
        pairs = zip(nodes[::2], nodes[1::2], strict=False)
        level = [_older(pipe, f"{len(nodes)}_{at}", *pair) for at, pair in enumerate(pairs)]
        nodes = level + nodes[2 * len(level) :]
    ((age, oldest),) = nodes
    window = pipe.enter(window, "window", reset_less=True)
    late = pipe.combine("late", _above, *_compared(pipe, "late", age, window.at(age.stage)))
    expired = pipe.enter(expired, "expired", reset_less=True)
    count = pipe.register(
        "count",
        lambda expired: sum(expired[1:], expired[0])[: len(ages).bit_length()],
        expired,
        reset_less=True,
    )
    none = pipe.register("none", lambda expired: ~expired.any(), expired, reset_less=True)
    # With several cells, the path to the registers of the verdict takes one more cycle.
    end = max(value.stage or 0 for value in (none, count, age, oldest, late)) + (len(ages) > 1)
    none, count, age, oldest = (value.at(end) for value in (none, count, age, oldest))
    return {
        "seen": pipe.register(
            "seen", lambda query, none, late: query & none & ~late,
            pipe.enter(query, "query").at(end), none, late.at(end),
        ),
        "age": pipe.register(
            "age", lambda none, age: Mux(none, age, lost), none, age, reset_less=True
        ),
        "oldest": pipe.register(
            "oldest", lambda none, first, second: Mux(none, first, second), none, oldest, count,
            reset_less=True,
        ),
    }  # fmt: skip


def _older(pipe, name, left, right):
    """Return the larger of two ages and, one cycle later, the number of cells of that age."""
    ages = [left[0], right[0]]
    stage = max(age.stage for age in ages)
    first, second = (age.at(stage) for age in ages)
    larger, apart = _compared(pipe, name, first, second)
    above = pipe.combine(f"above{name}", _above, larger, apart)
    age = pipe.register(
        f"age{name}", lambda above, a, b: Mux(above, a, b), above,
        *(value.at(above.stage) for value in (first, second)), reset_less=True,
    )  # fmt: skip
    late = pipe.register(f"late{name}", lambda above: above, above, reset_less=True)
    equal = pipe.register(f"equal{name}", lambda apart: ~apart.any(), apart, reset_less=True)
    oldest = pipe.register(
        f"oldest{name}",
        lambda equal, above, a, b: Mux(equal, a + b, Mux(above, a, b)),
        equal, late, left[1], right[1], reset_less=True,
    )  # fmt: skip
    return age, oldest


def _compared(pipe, name, first, second):
    """Return which digits of `first` are larger than in `second`, and which digits differ."""
    digits = [slice(low, low + _DIGIT) for low in range(0, len(first), _DIGIT)]
    return [
        pipe.register(
            f"{flag}{name}",
            lambda a, b, of=of: Cat(of(a[at], b[at]) for at in digits),
            first,
            second,
            reset_less=True,
        )
        for flag, of in (("larger", _larger), ("apart", lambda a, b: a != b))
    ]


def _larger(first, second):
    """Return whether `first` is larger than `second`, without using a slow carry chain."""
    pairs = [(first[at : at + 2], second[at : at + 2]) for at in range(0, len(first), 2)]
    return _above(
        [(a & ~b)[-1] | (a[-1] == b[-1]) & (a & ~b)[0] for a, b in pairs],
        [a != b for a, b in pairs],
    )


def _above(larger, apart):
    above = Const(0)
    for digit in range(len(larger)):
        above = larger[digit] | ~apart[digit] & above
    return above
