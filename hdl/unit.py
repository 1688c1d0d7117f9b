"""Filters as units: streams in and out, nothing lost under back-pressure."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..golden.errors import SpecificationError
from .core import FilterCore
from .issue import GenerationCounter, Issue, Operation
from .queue import ResultQueue
from .statistics import EventCounter


class Request(data.StructLayout):
    """Payload of the unit's input.

    Members: ``key``, ``operation`` (`Operation`) and ``tag``, a word of the
    user's that comes back with the result.
    """

    def __init__(self, *, key_bits, tag_bits):
        super().__init__({"key": key_bits, "operation": Operation, "tag": tag_bits})


class Result(data.StructLayout):
    """Payload of the unit's output.

    Members: ``seen``, ``age`` (youngest generation that the key can be of, 0
    for the current one; 0 if it was not seen) and ``tag``.
    """

    def __init__(self, *, generations, tag_bits):
        super().__init__({"seen": 1, "age": range(generations), "tag": tag_bits})


class FilterUnit(wiring.Component):
    """A count-based sliding-window filter.

    Accepts one operation per clock for as long as results are taken, through
    shifts and whatever the keys are. Every operation gives one result, in
    order, `latency` clocks after its acceptance if the results before it have
    been taken. Operations take effect one after another.

    `i.ready` falls while results wait to be taken, for ``spec.clear_words``
    clocks after a CLEAR and after reset, and before a shift that comes sooner
    than ``spec.minimum_generation`` clocks after the last one: by force, or by
    a `generation` below that length. Nothing is lost or wrong then.

    Parameters
    ----------
    spec : FilterSpec
        What to build; must pass ``spec.check_buildable()``.
    tag_bits : int
        Width of the tag.
    statistics_bits : int
        Width of the counters, which wrap around. 0 leaves them out.
    memory : str
        Variant of the segment memories, one of `lately.hdl.memories.VARIANTS`.

    Members
    -------
    i : In(stream.Signature(Request))
    o : Out(stream.Signature(Result))
    generation : In(generation_bits)
        Insertions in a generation, at least 1; ``spec.generation`` for what
        the specification promises. A change counts from the first generation
        on that begins with an operation accepted `GENERATION_LEAD` clocks
        later, by a shift, a clear or reset.
    operations, insertions, hits, shifts : Out(statistics_bits)
        Events since reset, counted as the results leave the core: exact once
        the unit has been idle for ``latency + statistics_bits / 8`` clocks.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification.
    """

    families = ("apbf", "apbbf", "gebf", "blocked-gebf")

    GENERATION_LEAD = GenerationCounter.LEAD
    """Clocks from a change of the generation length to the first acceptance that heeds it."""

    LAG = 2
    """Clocks from an acceptance to its effect on the count of places."""

    def __init__(self, spec, *, tag_bits=8, statistics_bits=32, memory="portable"):
        if spec.family not in self.families:
            raise SpecificationError(
                f"family: must be {' or '.join(self.families)} for {type(self).__name__}, "
                f"not {spec.family!r}"
            )
        self._spec = spec
        self._core = FilterCore(spec=spec, memory=memory)
        self._statistics_bits = statistics_bits
        self._request = Request(key_bits=spec.key_bits, tag_bits=tag_bits)
        self._result = Result(generations=spec.window_generations + 1, tag_bits=tag_bits)
        self.generation_bits = spec.generation.bit_length() + 1
        super().__init__(
            {
                "i": In(stream.Signature(self._request)),
                "o": Out(stream.Signature(self._result)),
                "generation": In(self.generation_bits, init=spec.generation),
                "operations": Out(statistics_bits),
                "insertions": Out(statistics_bits),
                "hits": Out(statistics_bits),
                "shifts": Out(statistics_bits),
            }
        )

    @property
    def spec(self):
        """What was built."""
        return self._spec

    @property
    def latency(self):
        """Clocks from the acceptance of an operation to its result on an idle output."""
        return Issue.LATENCY + self._core.latency + ResultQueue.LATENCY

    def elaborate(self, platform):
        m = Module()
        core = self._core
        m.submodules.core = core
        m.submodules.issue = issue = Issue(
            key_bits=self._spec.key_bits,
            generation_bits=self.generation_bits,
            clear_words=self._spec.clear_words,
        )
        m.d.comb += [
            issue.generation.eq(self.generation),
            core.control.eq(issue.control),
            core.key.eq(issue.key),
        ]
        m.submodules.queue = queue = ResultQueue(
            depth=self._depth, tag_bits=len(self.i.p.tag), verdict_bits=1 + len(core.age)
        )
        accepted = self.i.valid & self.i.ready
        taken = self.o.valid & self.o.ready
        room = self._elaborate_room(m, accepted, taken)
        # The tag has time: its result is a pipeline's length away.
        tagged = Signal()
        tag = Signal(len(self.i.p.tag), reset_less=True)
        m.d.sync += [tagged.eq(accepted), tag.eq(self.i.p.tag)]
        m.d.comb += [
            self.i.ready.eq(issue.i.ready & room),
            issue.i.valid.eq(self.i.valid & room),
            issue.i.p.key.eq(self.i.p.key),
            issue.i.p.operation.eq(self.i.p.operation),
            queue.tag_valid.eq(tagged),
            queue.tag.eq(tag),
            queue.verdict_valid.eq(core.valid),
            queue.verdict.eq(Cat(core.seen, core.age)),
            self.o.valid.eq(queue.o.valid),
            self.o.p.eq(queue.o.p),
            queue.o.ready.eq(self.o.ready),
        ]
        self._elaborate_statistics(m)
        return m

    @property
    def _depth(self):
        """Results that may be under way."""
        return 1 << (self.latency + self.LAG + 2).bit_length()

    def _elaborate_room(self, m, accepted, taken):
        """Return whether one more result would find a place."""
        entered, left = Signal(), Signal()
        # Places left, less one and less what the count does not know of yet.
        places = Signal(signed(self._depth.bit_length() + 1), init=self._depth - 1 - self.LAG)
        m.d.sync += [entered.eq(accepted), left.eq(taken), places.eq(places + left - entered)]
        return places >= 0

    def _elaborate_statistics(self, m):
        if self._statistics_bits == 0:
            return
        events = {
            "operations": self._core.valid,
            "insertions": self._core.insert,
            "hits": self._core.hit,
            "shifts": self._core.shift,
        }
        for name, event in events.items():
            counter = EventCounter(width=self._statistics_bits)
            m.submodules[name] = counter
            m.d.comb += [counter.event.eq(event), getattr(self, name).eq(counter.count)]


class APBF(FilterUnit):
    """Age-Partitioned Bloom Filter: one slice per segment, a hash function per slice."""

    families = ("apbf",)


class APBBF(FilterUnit):
    """Age-Partitioned Blocked Bloom Filter: one block per key and segment."""

    families = ("apbbf",)


class GEBF(FilterUnit):
    """Guarded Epoch Bloom Filter: a Bloom filter per epoch, one hash function for all."""

    families = ("gebf",)


class BlockedGEBF(FilterUnit):
    """Blocked Guarded Epoch Bloom Filter: one block per key, the same in every epoch."""

    families = ("blocked-gebf",)
