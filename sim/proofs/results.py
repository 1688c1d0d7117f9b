"""What is proven of the results: none is lost, doubled, or out of its turn."""

from functools import partial

from amaranth.hdl import Assume, Cat, Const, Fragment, Module, Mux, Signal

# There is no public name for a value that is arbitrary and does not change.
from amaranth.hdl._ast import AnyConst
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from ...golden.spec import APBFSpec
from ...hdl.control import CoreSignature
from ...hdl.pipeline import delayed
from ...hdl.profile import CONTROL_LAG, HardwareProfile
from ...hdl.queue import ResultQueue
from ...hdl.unit import FilterUnit
from .formal import Induction, Proof, Reachable
from .harness import Harness


def elaborated(component):
    """Return the module of a component ahead of its time, to add to it."""
    module = component.elaborate(None)
    component.elaborate = lambda platform: module
    return module


def opened(component):
    """Return the fragment of a component, and all signals that it drives by their paths.

    Induction starts from any state that keeps what is required, so that what is required has to
    say something of every register.
    """
    fragment = Fragment.get(component, None)
    return fragment, dict(_signals(fragment, ""))


def _signals(fragment, path):
    for statements in fragment.statements.values():
        for statement in statements:
            for signal in statement._lhs_signals():
                yield f"{path}{signal.name}", signal
    for inner, name, _ in fragment.subfragments:
        yield from _signals(inner, f"{path}{name}.")


def ordinal(m, event, modulus, name):
    """Return the number of events before this clock, modulo a power of two."""
    count = Signal(range(modulus), name=name)
    m.d.sync += count.eq(count + event)
    return count


def ahead(first, second):
    """Return how far one ordinal is ahead of another."""
    return (first - second)[: max(len(first), len(second))]


class Order:
    """Results of a queue, one in twice its depth of which is followed, starting with any one.

    Ordinals are modulo twice the depth, which tells a full queue from an empty one.

    Parameters
    ----------
    queue : ResultQueue
        Not elaborated yet.
    depth : int
        As the queue has it.

    Attributes
    ----------
    own : Signal
        Ordinal of those that are followed.
    tags, verdicts, loads, results : Value
        How many came in, left the memories, and went out.
    verdict, tag : Signal
        What last came with that ordinal.
    came : Signal
        Whether such a verdict comes.
    """

    def __init__(self, queue, *, depth):
        self._queue = queue
        self._depth = depth
        self._low = (depth - 1).bit_length()
        self.own = Signal(self._low + 1)
        self.tag = Signal.like(queue.tag)
        self.verdict = Signal.like(queue.verdict)
        module = elaborated(queue)
        self._cells = [
            module.submodules[name].read_port(domain="comb") for name in ("verdicts", "tags")
        ]
        module.d.comb += [cell.addr.eq(self.own) for cell in self._cells]

    def follow(self, m):
        """Follow results in the module of the queue's user."""
        queue = self._queue
        m.d.comb += self.own.eq(AnyConst(len(self.own)))
        self.tags, self.verdicts, self.results = (
            ordinal(m, event, 2 * self._depth, name)
            for event, name in (
                (queue.tag_valid, "tags"),
                (queue.valid_next, "verdicts"),
                (queue.o.valid & queue.o.ready, "results"),
            )
        )
        # The output has one that left the memories.
        self.loads = (self.results + queue.o.valid)[: len(self.results)]
        self.came = delayed(m, queue.valid_next & self.is_own(self.verdicts), 1, "came")
        with m.If(queue.tag_valid & self.is_own(self.tags)):
            m.d.sync += self.tag.eq(queue.tag)
        with m.If(self.came):
            m.d.sync += self.verdict.eq(queue.verdict)

    def is_own(self, number):
        """Return whether what has this ordinal is followed."""
        return number[: len(self.own)] == self.own

    def between(self, first, end):
        """Return whether one from `first` on, and before `end`, is followed."""
        return ahead(self.own, first) < ahead(end, first)

    def rules(self, places):
        """Return what whoever writes has to keep."""
        queue = self._queue
        return [
            ~queue.tag_valid | (ahead(self.tags, self.results) < places),
            ~queue.valid_next | queue.tag_valid | (self.tags != self.verdicts),
        ]

    def contract(self, m):
        """Return what is promised for it."""
        o = self._queue.o
        waits = delayed(m, o.valid & ~o.ready, 1, "waits")
        before = delayed(m, o.p, 1, "before")
        waiting = self.verdicts != self.results
        patience = ResultQueue.LATENCY - 1
        idle = Signal(range(patience + 2))
        m.d.sync += idle.eq(Mux(waiting & ~o.valid, idle + 1, 0))
        return [
            ~o.valid | waiting,
            ~o.valid | ~self.is_own(self.results) | (o.p == Cat(self.verdict, self.tag)),
            ~waits | (o.valid & (o.p == before)),
            idle <= patience,
        ]

    def invariants(self, m, inner):
        """Return what holds inside, whose signals are `inner`."""
        tags, verdicts, loads, results = self.tags, self.verdicts, self.loads, self.results
        stored = delayed(m, verdicts, 1, "stored_verdicts")
        waiting = delayed(m, ahead(verdicts, loads), 1, "waiting")
        loaded = inner["loaded"]
        return [
            inner["tags_written"] == tags,
            inner["verdicts_written"] == stored,
            inner["written"] == verdicts,
            inner["came"] == (verdicts != stored),
            inner["read"] == loads,
            inner["after"] == (loads + 1)[: len(loads)],
            ahead(tags, results) <= self._depth,
            ahead(tags, loads) <= ahead(tags, results),
            ahead(tags, verdicts) <= ahead(tags, loads),
            loaded == delayed(m, inner["load"], 1, "load_before"),
            inner["stored"] == (waiting != 0),
            ~loaded | ((waiting != 0) & (inner["another"] == (waiting != 1))),
            ~self.between(loads, tags) | (self._cells[1].data == self.tag),
            ~self.between(loads, stored) | (self._cells[0].data == self.verdict),
        ]


class QueueOrder(Harness):
    """A result queue alone.

    Tags come while fewer than `places` results are under way, each verdict with its tag or later.
    """

    def __init__(self, *, depth, queue=ResultQueue, places=None, inside=True, goal=None):
        self._depth = depth
        self._places = depth if places is None else places
        self._inside = inside
        self._queue = queue(depth=depth, tag_bits=1, verdict_bits=1)
        super().__init__(
            {
                "tag_valid": In(1),
                "tag": In(1),
                "valid_next": In(1),
                "verdict": In(1),
                "ready": In(1),
            },
            goal=goal,
        )

    def build(self, m):
        queue = self._queue
        order = Order(queue, depth=self._depth)
        m.submodules.queue, inner = opened(queue)
        order.follow(m)
        m.d.comb += [
            queue.tag_valid.eq(self.tag_valid),
            queue.tag.eq(self.tag),
            queue.valid_next.eq(self.valid_next),
            queue.verdict.eq(self.verdict),
            queue.o.ready.eq(self.ready),
        ]
        m.d.comb += [Assume(rule) for rule in order.rules(self._places)]
        for condition in order.contract(m):
            self.require(condition)
        if self._inside:
            for condition in order.invariants(m, inner):
                self.require(condition)
        o = queue.o
        waiting = ahead(order.verdicts, order.results)
        self.reach("the queue is full", (waiting == self._depth) & o.valid)
        self.reach("one is taken as one comes", o.valid & o.ready & self.valid_next)
        # The ordinal of the first one that comes to a place again.
        self.reach("a place is read again", o.valid & (order.results == self._depth))


class StandInCore(wiring.Component):
    """What a unit needs of a core, and no more: it finds what the low bit of the key says.

    `clean` is arbitrary.
    """

    latency = CONTROL_LAG + 2

    def __init__(self, *, clear_cycles):
        self.clear_cycles = clear_cycles
        self.swept = Signal()
        super().__init__(
            CoreSignature(key_bits=2, ages=2, latency=self.latency, clear_cycles=clear_cycles)
        )

    def elaborate(self, platform):
        m = Module()
        leaving = delayed(m, self.control, 1, "leaving")
        key = delayed(m, self.key, self.latency - 1, "key")
        m.d.comb += [self.valid_next.eq(leaving.valid), self.clean.eq(self.swept)]
        m.d.sync += [
            self.valid.eq(leaving.valid),
            self.verdict.seen.eq(leaving.query & key[0]),
            self.verdict.age.eq(leaving.query & key[1]),
        ]
        return m


class SmallUnit(FilterUnit):
    """A unit with a stand-in for its core, and few places for results."""

    def __init__(self, *, depth, organisation="bit-sliced"):
        spec = APBFSpec(k=1, l=1, slice_bits=4, clear=2, generation=40, key_bits=2)
        self._places = depth
        core = StandInCore(clear_cycles=HardwareProfile(spec).clear_cycles)
        super().__init__(spec, tag_bits=1, statistics_bits=0, organisation=organisation, core=core)

    @property
    def core(self):
        """The stand-in."""
        return self._core

    @property
    def _depth(self):
        return self._places


class UnitHarness(Harness):
    """A small unit, whatever comes and whenever results are taken."""

    def __init__(self, *, depth, unit=SmallUnit, inside=True, goal=None):
        self._depth = depth
        self._unit = unit(depth=depth)
        self._inside = inside
        super().__init__(
            {
                "valid": In(1),
                "key": In(2),
                "operation": In(3),
                "tag": In(1),
                "ready": In(1),
                "generation": In(self._unit.generation_bits),
                "swept": In(1),
            },
            goal=goal,
        )

    def connect(self, m):
        """Put the unit into `m`; return the order of its results, and its signals by group."""
        unit = self._unit
        queue = elaborated(unit).submodules.queue
        order = Order(queue, depth=self._depth)
        m.submodules.unit, inner = opened(unit)
        order.follow(m)
        m.d.comb += [
            unit.i.valid.eq(self.valid),
            unit.i.p.key.eq(self.key),
            unit.i.p.operation.eq(self.operation),
            unit.i.p.tag.eq(self.tag),
            unit.o.ready.eq(self.ready),
            unit.generation.eq(self.generation),
            unit.core.swept.eq(self.swept),
        ]
        accepts = unit.i.valid & unit.i.ready
        self.entered = ordinal(m, accepts, 2 * self._depth, "entered")
        self.under_way = ahead(self.entered, order.results)
        return order, inner


class UnitPlaces(UnitHarness):
    """How many operations a unit lets in.

    That no result comes of nothing is assumed here, and proven of `UnitOrder`.
    """

    def build(self, m):
        unit = self._unit
        inner = self.connect(m)[1]
        m.d.comb += Assume(~unit.o.valid | (self.under_way != 0))
        enough = self._depth - 1 - unit.LAG
        runs = delayed(m, Const(1), 3, "runs")
        before = delayed(m, self.under_way, 3, "before")
        self.require(self.under_way <= self._depth)
        self.require(~runs | (inner["room"] == (before <= enough)))
        if self._inside:
            counted = inner["places"] + inner["change"] + inner["left"] - inner["accepted"]
            self.require(counted == enough - self.under_way)
            self.require(~inner["front.gate.ready"] | ~inner["front.gate.closed"])
        self.reach("all places but the spare one are taken", self.under_way == self._depth - 1)
        self.reach(
            "the gate is open but for want of room",
            ~inner["room"]
            & ~inner["front.gate.closed"]
            & ~inner["front.schedule.one_at_a_time"]
            & ~unit.i.ready,
        )


class UnitOrder(UnitHarness):
    """Results of a unit, of which an arbitrary one is followed from the operation on.

    With `pauses`, also for how long the input is closed.
    """

    def __init__(self, *, pauses=False, **options):
        self._pauses = pauses
        super().__init__(**options)

    def build(self, m):
        unit = self._unit
        order, inner = self.connect(m)
        i, o = unit.i, unit.o
        entered = self.entered
        verdict = Signal(2)
        tag = Signal()
        query = self.operation[0] & ~self.operation[2]
        with m.If(i.valid & i.ready & order.is_own(entered)):
            m.d.sync += [verdict.eq(self.key & query.replicate(2)), tag.eq(self.tag)]
        own = o.valid & order.is_own(order.results)
        waits = delayed(m, o.valid & ~o.ready, 1, "waits")
        before = delayed(m, o.p.as_value(), 1, "before")
        self.require(~own | (o.p.as_value() == Cat(verdict, tag)))
        self.require(~o.valid | (self.under_way != 0))
        self.require(~waits | (o.valid & (o.p.as_value() == before)))
        if self._pauses:
            opened_once = Signal()
            closed = Signal(range(unit.longest_pause + 2))
            flows = opened_once & o.ready & self.swept
            m.d.sync += [
                opened_once.eq(opened_once | i.ready),
                closed.eq(Mux(flows & ~i.ready, closed + 1, 0)),
            ]
            self.require(closed <= unit.longest_pause)
            self.require(~opened_once | ~inner["front.gate.serializer.starting"].any())
        results_wait = o.valid & ~o.ready
        held = inner["front.gate.serializer.held"] & ~inner["front.gate.serializer.silent"]
        full = (self.under_way == self._depth - 1) & (order.verdicts == entered)
        self.reach("results are in all places but the spare one", results_wait & full)
        self.reach("results wait, and the gate for room", results_wait & ~inner["room"])
        self.reach("an operation is held while results wait", results_wait & held)
        self.reach("one is taken as one enters", o.valid & o.ready & i.valid & i.ready)
        if self._inside:
            self._require_inside(m, order, inner, verdict, tag)

    def _require_inside(self, m, order, inner, verdict, tag):
        """Require what the contract follows from."""
        queue, front = (
            {
                name.removeprefix(prefix): signal
                for name, signal in inner.items()
                if name.startswith(prefix)
            }
            for prefix in ("queue.", "front.")
        )
        counted = inner["places"] + inner["change"] + inner["left"] - inner["accepted"]
        for condition in [
            *order.rules(self._depth),
            *order.contract(m),
            *order.invariants(m, queue),
            counted == self._depth - 1 - self._unit.LAG - self.under_way,
            *self._gate(front),
            *self._front(m, order, inner, front, verdict, tag),
        ]:
            self.require(condition)

    def _gate(self, front):
        """Return what holds where operations are accepted, and of the one that is held."""
        held = front["gate.serializer.held"]
        silent = front["gate.serializer.silent"]
        settling = front["gate.serializer.settling"]
        waits = Cat(front["gate.serializer.starting"], settling, front["gate.serializer.settled"])
        go = front["gate.serializer.go"]
        closed = front["gate.closed"]
        alone = front["gate.alone"]
        rests = ~waits.any() & ~held & ~silent & ~go
        return [
            sum(waits) <= 1,
            ~go | front["gate.serializer.settled"],
            closed | rests,
            ~front["gate.serializer.open"] | (rests & closed & ~alone),
            ~front["gate.allowed"] | ~closed,
            ~front["gate.ready"] | ~closed,
            ~(alone & closed) | ((settling == 1) & ~held & ~silent & ~go & ~front["gate.ready"]),
            ~(front["gate.accepted"] & front["gate.operation"][2]) | alone,
            ~silent | held,
            ~held | waits.any(),
            front["schedule.timer.left"] < self._unit.core.clear_cycles,
            ~closed | waits.any() | alone | front["gate.serializer.open"],
        ]

    def _front(self, m, order, inner, front, verdict, tag):
        """Return that each accepted operation is on its way to the queue."""
        entered = self.entered
        control = front["control"]
        issued = ordinal(m, control[0], 2 * self._depth, "issued")
        held = front["gate.serializer.held"] & ~front["gate.serializer.silent"]
        under_way = (
            inner["accepted"]
            + held
            + front["gate.serializer.result"]
            + front["gate.valid"]
            + control[0]
        )
        come = order.between(order.results, order.verdicts) & ~order.came
        return [
            ahead(entered, order.tags) == inner["accepted"],
            ahead(entered, issued) == under_way,
            ahead(issued, order.verdicts) == self._unit.core.valid_next,
            ~order.between(order.results, order.tags) | (order.tag == tag),
            ~come | (order.verdict == verdict),
            ~(held & order.is_own(entered - 1)) | (verdict == 0),
        ]


_IN_ORDER = (
    "The n-th result is {first}. It waits unchanged until it is taken. No result comes of nothing, "
    f"and while one is due from the queue, the output is empty for {ResultQueue.LATENCY - 1} "
    "clocks running at most."
)
_ROOM = (
    "There are never more operations under way than places. The gate has room exactly while, three "
    "clocks ago, so few were under way that all that may still come find a place."
)

_GOALS = {
    "result queue": (
        "8 places",
        lambda goal: QueueOrder(depth=8, goal=goal),
        30,
        ("the queue is full", "one is taken as one comes", "a place is read again"),
    ),
    "places": (
        "16 places",
        lambda goal: UnitPlaces(depth=16, goal=goal),
        80,
        (
            "all places but the spare one are taken",
            "the gate is open but for want of room",
        ),
    ),
    "unit": (
        "8 places",
        lambda goal: UnitOrder(depth=8, goal=goal),
        80,
        (
            "results are in all places but the spare one",
            "results wait, and the gate for room",
            "an operation is held while results wait",
            "one is taken as one enters",
        ),
    ),
}


def _unit_proofs(organisation):
    """Return what is proven of units of an organisation of the memory."""
    unit = partial(SmallUnit, organisation=organisation)
    return (
        Proof(
            name=f"places, {organisation}",
            statement=_ROOM,
            design=f"{organisation}, stand-in core, 32 places",
            build=lambda: UnitPlaces(depth=32, unit=unit),
            method=Induction(6),
        ),
        Proof(
            name=f"unit, {organisation}",
            statement=_IN_ORDER.format(
                first="that of the n-th operation that was accepted, with its tag and the verdict "
                "of its key"
            ),
            design=f"{organisation}, stand-in core, 32 places",
            build=lambda: UnitOrder(depth=32, unit=unit),
            method=Induction(6),
        ),
    )


PROOFS = (
    Proof(
        name="result queue",
        statement=_IN_ORDER.format(first="the n-th tag with the n-th verdict"),
        design="16 places",
        build=lambda: QueueOrder(depth=16),
        method=Induction(ResultQueue.LATENCY + 1),
    ),
    *_unit_proofs("separate"),
    *_unit_proofs("bit-sliced"),
    Proof(
        name="pauses, separate",
        statement="From its first opening after reset on, the input is closed for at most "
        "`longest_pause` clocks running while results are taken and the spare is clean in time.",
        design="separate, stand-in core, 8 places",
        build=lambda: UnitOrder(
            depth=8, unit=partial(SmallUnit, organisation="separate"), pauses=True
        ),
        method=Induction(27),
    ),
    *(
        Proof(
            name=f"{name}: {goal}",
            statement=f"It can be that {goal}.",
            design=design,
            build=partial(build, goal),
            method=Reachable(clocks),
        )
        for name, (design, build, clocks, goals) in _GOALS.items()
        for goal in goals
    ),
)
"""What is proven of the results, and what is shown not to be out of reach."""
