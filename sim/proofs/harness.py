"""Base classes and helpers for the components that proofs check.

The inputs of these components are arbitrary in every cycle, including reset; the assertions must
hold for all of them. If an input must follow rules, the component assumes these rules, and another
proof asserts them for the driver of the input.
"""

from typing import Any

from amaranth.hdl import Assert, Fragment, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...hdl.control import Control


class Harness(wiring.Component):
    """Component with assumptions, assertions, and states that must be reachable.

    If `goal` is given, it asserts instead that this state is never reached, so that a
    counterexample is a run that reaches it. If `part` is given, or a subclass sets `PART` to a
    function that builds it, the harness has the ports of that component. After elaboration, `goals`
    maps names to states.
    """

    PART: Any = None

    def __init__(self, members=None, *, part=None, **options):
        self._part = part = self.PART(**options) if self.PART else part
        self.goal = ""
        self.goals: dict[str, Any] = {}
        super().__init__((members or {}) if part is None else {"part": Out(part.signature)})

    def elaborate(self, platform):
        m = Module()
        if self._part is not None:
            wiring.connect(m, self._part, wiring.flipped(self.part))
        self._require: list[Any] = []
        self.build(m)
        if self.goal:
            m.d.comb += Assert(~self.goals[self.goal])
        else:
            m.d.comb += [Assert(condition) for condition in self._require]
        return m

    def build(self, m):
        """Add the design to `m`, with assumptions, requirements and named states."""
        raise NotImplementedError

    def require(self, *conditions):
        """Require that the conditions hold in every cycle."""
        self._require += conditions

    def reach(self, name, condition):
        """Add a named state that must be reachable."""
        assert name not in self.goals
        self.goals[name] = condition


def sampled(m, condition, value, name):
    """Return `value` as it was in the last earlier cycle in which `condition` held."""
    value = Value.cast(value)
    last = Signal.like(value, name=name)
    with m.If(condition):
        m.d.sync += last.eq(value)
    return last


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
        met = Signal()
        m.d.sync += met.eq(write.en & (read.addr == write.addr))
        return Mux(met, AnySeq(len(read.data)), read.data)


class Unreliable:
    """Mixin for memories that return arbitrary words while they are wrong."""

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.lies = Signal()

    def answer(self, value):
        return Mux(self.lies, AnySeq(len(value)), value)


def one_lies(m, copies):
    """Choose one arbitrary memory, or none, that is always wrong."""
    liar = Signal(range(len(copies) + 1))
    m.d.comb += liar.eq(AnyConst(len(liar)))
    m.d.comb += [copy.lies.eq(liar == number) for number, copy in enumerate(copies)]


class Rules(wiring.Component):
    """Checks whether control flags follow the rules of `Ring` and `FilterCore`."""

    def __init__(self, *, words):
        self._words = words
        super().__init__(
            {
                "control": In(Control),
                "kept": Out(1),  # the flags of this cycle are allowed, given all earlier flags
                "cleared": Out(1),  # there was a clear since reset
                "left": Out(range(words + 1)),  # remaining cycles of a sweep or clear
            }
        )

    def elaborate(self, platform):
        m = Module()
        control = self.control
        busy = self.left
        resting = Signal()
        acts = Signal()
        m.d.comb += [
            acts.eq(control.valid | control.query | control.insert | control.shift | control.clear),
            self.kept.eq(
                ~(control.shift & (busy != 0))
                & ~(acts & resting & (busy != 0))
                & ~(control.clear & (control.query | control.insert | control.shift))
                & ~(acts & ~control.clear & ~self.cleared)
            ),
        ]
        with m.If(busy != 0):
            m.d.sync += busy.eq(busy - 1)
        with m.If(control.shift | control.clear):
            m.d.sync += [busy.eq(self._words), resting.eq(control.clear)]
        with m.If(control.clear):
            m.d.sync += self.cleared.eq(1)
        return m


def elaborated(component):
    """Elaborate a component now, and return its module so that it can be extended."""
    module = component.elaborate(None)
    component.elaborate = lambda platform: module
    return module


def opened(component):
    """Return the fragment of a component, and all signals that it drives, by path.

    Induction starts from any state that satisfies the requirements, so these must constrain every
    register. If a port and an internal signal share a path, the result holds the internal signal.
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
    """Return the signals of a submodule, by their paths within it."""
    prefix = f"{part}."
    return {
        path.removeprefix(prefix): signal
        for path, signal in signals.items()
        if path.startswith(prefix)
    }
