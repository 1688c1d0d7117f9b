"""Base classes and helpers for the components that proofs check.

The inputs of these components are arbitrary in every cycle, including reset; the assertions must
hold for all of them. If an input must follow rules, the component assumes these rules, and another
proof asserts them for the driver of the input.
"""

from typing import Any

from amaranth.hdl import Assert, Fragment, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib import wiring
from amaranth.lib.wiring import Out


class Harness(wiring.Component):
    """Component with assumptions, assertions, and states that must be reachable.

    If a subclass defines `make`, which builds a component from the options, the harness has the
    ports of that component. If `goal` is set, the harness asserts only that the state with this
    name is never reached, so a counterexample is a run that reaches it.
    """

    make: Any = None

    def __init__(self, members=None, **options):
        self._part: Any = self.make and self.make(**options)
        self.goal = ""
        self.goals: dict[str, Any] = {}  # named states, known after elaboration
        super().__init__({"part": Out(self._part.signature)} if self._part else members or {})

    def elaborate(self, platform):
        m = Module()
        if self._part:
            wiring.connect(m, self._part, wiring.flipped(self.part))
        self._required: list[Any] = []
        self.build(m)
        if self.goal:
            m.d.comb += Assert(~self.goals[self.goal])
        else:
            m.d.comb += [Assert(condition) for condition in self._required]
        return m

    def build(self, m):
        """Add the design to `m`, with assumptions, requirements and named states."""
        raise NotImplementedError

    def require(self, *conditions):
        self._required += conditions

    def require_within(self, m, limit, condition):
        """Require that a condition holds for at most `limit` consecutive cycles."""
        cycles = Signal(range(limit + 2), name="cycles")
        m.d.sync += cycles.eq(Mux(condition, cycles + 1, 0))
        self.require(cycles <= limit)

    def reach(self, name, condition):
        assert name not in self.goals
        self.goals[name] = condition


def constant(m, shape, name="constant"):
    """Return an arbitrary value that never changes."""
    value = Signal(shape, name=name)
    m.d.comb += value.eq(AnyConst(len(Value.cast(value))))
    return value


def sampled(m, condition, value, name):
    """Return `value` from the last earlier cycle in which `condition` held."""
    value = Value.cast(value)
    last = Signal.like(value, name=name)
    with m.If(condition):
        m.d.sync += last.eq(value)
    return last


def latched(m, condition, name="latched"):
    """Return whether a condition held in any earlier cycle."""
    held = Signal(name=name)
    m.d.sync += held.eq(held | condition)
    return held


def cycles_since(m, event, limit, *, init=0):
    """Count cycles up to `limit`, restarting at 0 in the cycle after each event."""
    cycles = Signal(range(limit + 1), init=init, name="cycles_since")
    m.d.sync += cycles.eq(Mux(event, 0, cycles + (cycles != limit)))
    return cycles


def set_free(m, part, flow, but=()):
    """Drive a component's ports of direction `flow` with arbitrary values in every cycle."""
    for _, member, port in part.signature.flatten(part):
        if member.flow is flow and not any(port is excluded for excluded in but):
            value = Value.cast(port)
            m.d.comb += value.eq(AnySeq(len(value)))


class Arbitrary(wiring.Component):
    """Stand-in for a component with the given ports; its outputs are arbitrary in every cycle."""

    def elaborate(self, platform):
        m = Module()
        set_free(m, self, Out)
        return m


class AnyWord:
    """Mixin for portable memories: a word that is read during its write is arbitrary."""

    def _read(self, m, read, write):
        written = Signal()
        m.d.sync += written.eq(write.en & (read.addr == write.addr))
        return Mux(written, AnySeq(len(read.data)), read.data)


class Unreliable:
    """Mixin for memories that return arbitrary words while `is_wrong` is high."""

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.is_wrong = Signal()

    def answer(self, value):
        return Mux(self.is_wrong, AnySeq(len(value)), value)


def make_one_wrong(m, copies):
    """Make at most one memory, chosen arbitrarily, return arbitrary words in all cycles."""
    wrong = constant(m, range(len(copies) + 1), "wrong")
    m.d.comb += [copy.is_wrong.eq(wrong == number) for number, copy in enumerate(copies)]


def control_rules(m, control, words):
    """Check control flags against the rules of `Ring` and `FilterCore`.

    Returns whether the flags of this cycle are allowed after all earlier flags, and how many cycles
    of a sweep or clear remain.
    """
    left, clearing, acts = Signal(range(words + 1)), Signal(), Signal()
    busy = left != 0
    cleared = latched(m, control.clear, "cleared")
    m.d.comb += acts.eq(
        control.valid | control.query | control.insert | control.shift | control.clear
    )
    with m.If(busy):
        m.d.sync += left.eq(left - 1)
    with m.If(control.shift | control.clear):
        m.d.sync += [left.eq(words), clearing.eq(control.clear)]
    kept = (
        ~(control.shift & busy)
        & ~(acts & clearing & busy)
        & ~(control.clear & (control.query | control.insert | control.shift))
        & ~(acts & ~control.clear & ~cleared)
    )
    return kept, left


def elaborated(component):
    """Elaborate a component now, and return its module so that it can be extended."""
    module = component.elaborate(None)
    component.elaborate = lambda platform: module
    return module


def opened(component):
    """Return the fragment of a component, and all signals that it drives, by path.

    Induction starts from any state that satisfies the requirements, so the requirements must
    constrain every register. If a port and an internal signal share a path, the result holds the
    internal signal.
    """
    fragment = Fragment.get(component, None)
    ports = {id(port) for _, _, port in component.signature.flatten(component)}
    driven = sorted(_signals(fragment, ""), key=lambda pair: id(pair[1]) not in ports)
    return fragment, dict(driven)


def _signals(fragment, path):
    for statements in fragment.statements.values():
        for statement in statements:
            for signal in statement._lhs_signals():
                yield f"{path}{signal.name}", signal
    for inner, name, _ in fragment.subfragments:
        yield from _signals(inner, f"{path}{name}.")


def within(signals, part):
    prefix = f"{part}."
    return {
        path.removeprefix(prefix): signal
        for path, signal in signals.items()
        if path.startswith(prefix)
    }
