"""Proofs for result queues and units: no result is lost, duplicated or out of order."""

from dataclasses import replace
from functools import partial

from amaranth.hdl import Assume, Cat, Const, Module, Signal, Value
from amaranth.hdl._ast import AnySeq
from amaranth.lib import wiring

from ...golden.spec import APBFSpec
from ...hdl.build import family_of
from ...hdl.control import CoreSignature, Verdict
from ...hdl.interface import operation_bits
from ...hdl.latencies import CONTROL_LAG
from ...hdl.pipeline import delayed
from ...hdl.queue import ResultQueue
from ...hdl.ring.profile import RingProfile
from ...hdl.unit import Unit
from .formal import Induction, Proof
from .harness import Harness, constant, elaborated, latched, opened, sampled, within


def ordinal(m, event, modulus, name):
    """Return the number of events before this cycle, modulo `modulus`, a power of two."""
    count = Signal(range(modulus), name=name)
    m.d.sync += count.eq(count + event)
    return count


def ahead(first, second):
    return (first - second)[: max(len(first), len(second))]


def kept_while_waiting(m, o):
    """Return whether a waiting transfer of a stream stays valid and unchanged."""
    payload = Value.cast(o.payload)
    waits = delayed(m, o.valid & ~o.ready, 1, "waits")
    return ~waits | (o.valid & (payload == delayed(m, payload, 1, "before")))


class Order:
    """Follows one result out of every ``2 * depth`` through a queue.

    `followed` is the ordinal of this result, by default an arbitrary one. Ordinals wrap at twice
    the depth, to distinguish a full queue from an empty queue. Separate ordinals count `tags`,
    `verdicts`, `loads` (results that have left the memories) and `results`. `counts` is another
    `Order` of the same queue, whose counters are reused. A plain `Queue` has entries instead of
    verdicts, and no tags; `enters` is then high when an operation begins that will write an entry.
    """

    def __init__(self, m, queue, *, depth, followed=None, counts=None, enters=None):
        self._queue = queue
        self._depth = depth
        plain = enters is not None
        self._enters = enters if plain else queue.tag_valid
        self._name, verdict = ("entries", queue.word) if plain else ("verdicts", queue.verdict)
        shape = range(2 * depth)
        self.followed = constant(m, shape) if followed is None else Const(followed, shape)
        module = elaborated(queue)
        self._cells = {
            name: module.submodules[name].read_port(domain="comb") for name in queue.words
        }
        module.d.comb += [cell.addr.eq(self.followed) for cell in self._cells.values()]
        if counts is None:
            counted = {
                "tags": self._enters,
                "verdicts": queue.valid_next,
                "results": queue.o.valid & queue.o.ready,
            }
            self._counts = [ordinal(m, event, 2 * depth, name) for name, event in counted.items()]
            self._stored = delayed(m, self._counts[1], 1, "stored_verdicts")
        else:
            self._counts, self._stored = counts._counts, counts._stored
        self.tags, self.verdicts, self.results = self._counts
        # The result at the output has already left the memories.
        self.loads = (self.results + queue.o.valid)[: len(self.results)]
        self.came = delayed(m, queue.valid_next & self.is_followed(self.verdicts), 1, "came")
        # The last tag and verdict with the followed ordinal.
        tag = Const(0, 0) if plain else queue.tag
        self.tag = sampled(m, self._enters & self.is_followed(self.tags), tag, "tag")
        self.verdict = sampled(m, self.came, verdict, "verdict")

    def is_followed(self, number):
        return number[: len(self.followed)] == self.followed

    def between(self, first, end):
        return ahead(self.followed, first) < ahead(end, first)

    def rules(self, room):
        queue = self._queue
        return [
            ~self._enters | (ahead(self.tags, self.results) < room),
            ~queue.valid_next | self._enters | (self.tags != self.verdicts),
        ]

    def require_output(self, m, harness):
        o = self._queue.o
        waiting = self.verdicts != self.results
        harness.require(~o.valid | waiting, self.given(), kept_while_waiting(m, o))
        harness.require_within(m, ResultQueue.LATENCY - 1, waiting & ~o.valid)

    def given(self):
        o = self._queue.o
        agrees = Value.cast(o.p) == Cat(self.verdict, self.tag)
        return ~o.valid | ~self.is_followed(self.results) | agrees

    def held(self):
        ends = {self._name: (self._stored, self.verdict), "tags": (self.tags, self.tag)}
        return [
            ~self.between(self.loads, ends[name][0]) | (cell.data == ends[name][1])
            for name, cell in self._cells.items()
        ]

    def invariants(self, m, inner):
        tags, verdicts, loads, results = self.tags, self.verdicts, self.loads, self.results
        stored = self._stored
        waiting = delayed(m, ahead(verdicts, loads), 1, "waiting")
        loaded = inner["loaded"]
        return [
            *([inner["tags_written"] == tags] if "tags" in self._cells else []),
            inner[f"{self._name}_written"] == stored,
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
            *self.held(),
        ]


class QueueOrder(Harness):
    def make(self, *, depth, inside=True):
        self._depth = depth
        self._inside = inside  # whether to require the invariants as well
        return ResultQueue(depth=depth, tag_bits=1, verdict_bits=1)

    def build(self, m):
        queue = self._part
        order = Order(m, queue, depth=self._depth)
        m.submodules.queue, inner = opened(queue)
        m.d.comb += [Assume(rule) for rule in order.rules(self._depth)]
        order.require_output(m, self)
        if self._inside:
            self.require(*order.invariants(m, inner))
        o = queue.o
        waiting = ahead(order.verdicts, order.results)
        self.reach("the queue is full", (waiting == self._depth) & o.valid)
        self.reach("a result leaves as another arrives", o.valid & o.ready & queue.valid_next)
        # The first result in a reused word has this ordinal.
        self.reach("a word is reused", o.valid & (order.results == self._depth))


class StandInCore(wiring.Component):
    """Stand-in for a core: the low key bit is the verdict `seen`, and `clean` is arbitrary."""

    latency = CONTROL_LAG + 2

    def __init__(self, *, clear_cycles):
        self.clear_cycles = clear_cycles
        super().__init__(CoreSignature(key_bits=2, verdict=Verdict(ages=2)))

    def elaborate(self, platform):
        m = Module()
        leaving = delayed(m, self.control, 1, "leaving")
        key = delayed(m, self.key, self.latency - 1, "key")
        m.d.comb += [self.valid_next.eq(leaving.valid), self.clean.eq(AnySeq(1))]
        m.d.sync += [
            self.valid.eq(leaving.valid),
            self.verdict.seen.eq(leaving.query & key[0]),
            self.verdict.age.eq(leaving.query & key[1]),
        ]
        return m


class SmallUnit(Unit):
    def __init__(self, *, depth):
        spec = APBFSpec(k=1, l=1, slice_bits=4, clear=2, generation=40, key_bits=2)
        profile = RingProfile.of(spec, tag_bits=1, statistics_bits=0)
        core = StandInCore(clear_cycles=profile.clear_cycles)
        super().__init__(profile, replace(family_of(spec), core=lambda _: core))
        self.depth = depth


class UnitHarness(Harness):
    def make(self, *, depth, inside=True, pauses=False):
        self._depth = depth
        self._inside = inside  # whether to require the invariants as well
        self._pauses = pauses  # whether to check how long the input is closed
        return SmallUnit(depth=depth)

    def open_unit(self, m):
        unit = self._part
        order = Order(m, elaborated(unit).submodules.queue, depth=self._depth)
        m.submodules.unit, inner = opened(unit)
        self.entered = ordinal(m, unit.i.valid & unit.i.ready, 2 * self._depth, "entered")
        self.under_way = ahead(self.entered, order.results)
        return order, inner

    def room_is_counted(self, inner):
        counted = inner["free"] + inner["change"] + inner["left"] - inner["accepted"]
        return counted == self._depth - 1 - self._part.LAG - self.under_way


class UnitEntries(UnitHarness):
    def build(self, m):
        unit = self._part
        inner = self.open_unit(m)[1]
        # `UnitOrder` proves this.
        m.d.comb += Assume(~unit.o.valid | (self.under_way != 0))
        enough = self._depth - 1 - unit.LAG
        runs = delayed(m, Const(1), 3, "runs")
        before = delayed(m, self.under_way, 3, "before")
        self.require(self.under_way <= self._depth)
        self.require(~runs | (inner["room"] == (before <= enough)))
        if self._inside:
            self.require(self.room_is_counted(inner))
            self.require(~inner["front.gate.ready"] | ~inner["front.gate.closed"])
        self.reach("all entries except the spare are in use", self.under_way == self._depth - 1)
        self.reach(
            "the gate is closed only because of missing room",
            ~inner["room"]
            & ~inner["front.gate.closed"]
            & ~inner["front.schedule.one_at_a_time"]
            & ~unit.i.ready,
        )


class UnitOrder(UnitHarness):
    def build(self, m):
        unit = self._part
        order, inner = self.open_unit(m)
        i, o = unit.i, unit.o
        entered = self.entered
        operation = operation_bits(i.p.operation)
        query = operation.query & ~operation.alone
        enters = i.valid & i.ready & order.is_followed(entered)
        verdict = sampled(m, enters, i.p.key & query.replicate(2), "verdict")
        tag = sampled(m, enters, i.p.tag, "tag")
        followed = o.valid & order.is_followed(order.results)
        self.require(
            ~followed | (o.p.as_value() == Cat(verdict, tag)),
            ~o.valid | (self.under_way != 0),
            kept_while_waiting(m, o),
        )
        if self._pauses:
            opened_once = latched(m, i.ready, "opened_once")
            flows = opened_once & o.ready & unit.core.clean
            self.require_within(m, unit.longest_pause, flows & ~i.ready)
            self.require(~opened_once | ~inner["front.gate.serializer.starting"].any())
        results_wait = o.valid & ~o.ready
        held = inner["front.gate.serializer.held"] & ~inner["front.gate.serializer.silent"]
        full = (self.under_way == self._depth - 1) & (order.verdicts == entered)
        self.reach("results are in all entries except the spare", results_wait & full)
        self.reach("results wait, and the gate waits for room", results_wait & ~inner["room"])
        self.reach("an operation is held while results wait", results_wait & held)
        self.reach("a result leaves as an operation enters", o.valid & o.ready & i.valid & i.ready)
        if self._inside:
            front = within(inner, "front")
            order.require_output(m, self)
            self.require(
                *order.rules(self._depth),
                *order.invariants(m, within(inner, "queue")),
                self.room_is_counted(inner),
                *self._gate(front),
                *self._front(m, order, inner, front, verdict, tag),
            )

    def _gate(self, front):
        gate = within(front, "gate")
        serializer = within(gate, "serializer")
        held, silent, go = serializer["held"], serializer["silent"], serializer["go"]
        settling = serializer["settling"]
        waits = Cat(serializer["starting"], settling, serializer["settled"])
        closed, alone, ready = gate["closed"], gate["alone"], gate["ready"]
        rests = ~waits.any() & ~held & ~silent & ~go
        return [
            sum(waits) <= 1,
            ~go | serializer["settled"],
            closed | rests,
            ~serializer["open"] | (rests & closed & ~alone),
            ~gate["allowed"] | ~closed,
            ~ready | ~closed,
            ~(alone & closed) | ((settling == 1) & ~held & ~silent & ~go & ~ready),
            ~(gate["accepted"] & gate["operation"][2]) | alone,
            ~silent | held,
            ~held | waits.any(),
            front["schedule.timer.left"] < self._part.core.clear_cycles,
            ~closed | waits.any() | alone | serializer["open"],
        ]

    def _front(self, m, order, inner, front, verdict, tag):
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
            ahead(issued, order.verdicts) == self._part.core.valid_next,
            ~order.between(order.results, order.tags) | (order.tag == tag),
            ~come | (order.verdict == verdict),
            ~(held & order.is_followed(entered - 1)) | (verdict == 0),
        ]


_IN_ORDER = (
    "The n-th result has {content}. It stays unchanged until accepted. No result leaves without an "
    f"operation. While a result is due, `valid` is low for at most {ResultQueue.LATENCY - 1} "
    "consecutive cycles."
)

PROOFS = (
    Proof(
        name="result queue",
        statement=_IN_ORDER.format(content="the n-th tag and the n-th verdict"),
        design="16 entries",
        build=partial(QueueOrder, depth=16),
        smaller=("8 entries", partial(QueueOrder, depth=8, inside=False)),
        method=Induction(ResultQueue.LATENCY + 1),
    ),
    Proof(
        name="free entries",
        statement="The number of operations in flight never exceeds the size of the result queue. "
        "The gate has room if and only if, three cycles ago, the operations in flight left room in "
        "the queue for all operations that could still enter.",
        design="replacement core, 32 entries",
        build=partial(UnitEntries, depth=32),
        smaller=("16 entries", partial(UnitEntries, depth=16, inside=False)),
        method=Induction(6),
    ),
    Proof(
        name="unit",
        statement=_IN_ORDER.format(
            content="the tag of the n-th accepted operation and the verdict for its key"
        ),
        design="replacement core, 32 entries",
        build=partial(UnitOrder, depth=32),
        smaller=("8 entries", partial(UnitOrder, depth=8, inside=False)),
        method=Induction(6),
    ),
    Proof(
        name="pauses",
        statement="Once the input has opened after reset, it is never closed for more than "
        "`longest_pause` consecutive cycles in which results are accepted and the spare is clean.",
        design="replacement core, 8 entries",
        build=partial(UnitOrder, depth=8, pauses=True),
        smaller=(
            "replacement core, 8 entries, no invariants",
            partial(UnitOrder, depth=8, pauses=True, inside=False),
        ),
        method=Induction(27),
        goals=(),
    ),
)
