"""What is proven of the results: none is lost, doubled, or out of its turn."""

from amaranth.hdl import Array, Assume, Cat, Fragment, Mux, Signal

# There is no public name for a value that is arbitrary and does not change.
from amaranth.hdl._ast import AnyConst
from amaranth.lib.wiring import In

from ..hdl.queue import ResultQueue
from .formal import Induction, Proof
from .harness import Harness, delayed


def opened(module):
    """Elaborate a module; return the fragment, and by their paths all signals that it drives.

    Induction starts from any state that keeps what is required, so that what is required has to
    say something of every register.
    """
    fragment = Fragment.get(module, None)
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


class QueueOrder(Harness):
    """The result queue against one arbitrary place of an ideal one.

    Tags come while fewer than `places` results are under way, each verdict with its tag or later.
    """

    def __init__(self, *, depth, page_depth, queue=ResultQueue, places=None, goal=None):
        self._depth = depth
        self._page_depth = page_depth
        self._places = depth if places is None else places
        self._queue = queue(depth=depth, page_depth=page_depth, tag_bits=1, verdict_bits=1)
        super().__init__(
            {
                "tag_valid": In(1),
                "tag": In(1),
                "coming": In(1),
                "verdict": In(1),
                "ready": In(1),
            },
            goal=goal,
        )

    def build(self, m):
        queue = self._queue
        module = queue.elaborate(None)
        self._low = (self._depth - 1).bit_length()
        self._page_bits = (self._page_depth - 1).bit_length()
        place = Signal(self._low)
        m.d.comb += place.eq(AnyConst(self._low))
        cells = self._cells(module, place)
        load = module.submodules.stored.down
        m.submodules.queue, inner = opened(module)

        # Ordinals modulo twice the depth tell a full queue from an empty one.
        o = queue.o
        taken = o.valid & self.ready
        tags, verdicts, loads, results = (
            ordinal(m, event, 2 * self._depth, name)
            for event, name in (
                (self.tag_valid, "tags"),
                (self.coming, "verdicts"),
                (load, "loads"),
                (taken, "results"),
            )
        )
        m.d.comb += [
            Assume(~self.tag_valid | (ahead(tags, results) < self._places)),
            Assume(~self.coming | self.tag_valid | (tags != verdicts)),
            queue.tag_valid.eq(self.tag_valid),
            queue.tag.eq(self.tag),
            queue.coming.eq(self.coming),
            queue.verdict.eq(self.verdict),
            o.ready.eq(self.ready),
        ]

        tag = Signal()
        verdict = Signal()
        tag_known = Signal()
        verdict_known = Signal()
        with m.If(self.tag_valid & (tags[: self._low] == place)):
            m.d.sync += [tag.eq(self.tag), tag_known.eq(1)]
        came = delayed(m, self.coming & (verdicts[: self._low] == place), 1, "came")
        with m.If(came):
            m.d.sync += [verdict.eq(self.verdict), verdict_known.eq(1)]

        # The contract.
        expected = Cat(verdict, tag)
        self.require(~o.valid | (verdicts != results))
        self.require(~(o.valid & (results[: self._low] == place)) | (o.p == expected))
        waits = delayed(m, o.valid & ~self.ready, 1, "waits")
        self.require(~waits | (o.valid & (o.p == delayed(m, o.p, 1, "p"))))
        patience = ResultQueue.LATENCY - 1
        idle = Signal(range(patience + 2))
        m.d.sync += idle.eq(idle + 1)
        with m.If(o.valid | (verdicts == results)):
            m.d.sync += idle.eq(0)
        self.require(idle <= patience)

        # What it follows from.
        self.require(inner["tags_written"] == tags[: self._low])
        self.require(inner["verdicts_written"] == verdicts[: self._low])
        self.require(inner["read"] == loads[: self._low])
        self.require(ahead(tags, results) <= self._depth)
        self.require(ahead(tags, loads) <= ahead(tags, results))
        self.require(ahead(tags, verdicts) <= ahead(tags, loads))
        self._require_count(m, inner, ahead(verdicts, loads))
        after = ahead(place, results[: self._low])
        self.require((after >= ahead(tags, results)) | tag_known)
        self.require((after >= ahead(verdicts, results)) | verdict_known | came)
        stored = delayed(m, Cat(tag, tag_known), 1, "stored")
        self.require(~stored[1] | (cells[1] == stored[0]))
        self.require(~verdict_known | (cells[0] == verdict))
        self._require_pipeline(module, inner, o, loads, results, place, expected)

    def _cells(self, module, place):
        """Return what the memories hold at the place: verdict and tag."""
        cells = []
        for name in ("verdicts", "tags"):
            pages = Array(
                getattr(module.submodules, f"{name}{number}").read_port(domain="comb")
                for number in range(self._depth // self._page_depth)
            )
            module.d.comb += [port.addr.eq(place) for port in pages]
            cells.append(Array(port.data for port in pages)[place[self._page_bits :]])
        return cells

    def _require_count(self, m, inner, stored):
        """State that the unary count is what is stored, as it was a clock ago."""
        changes = inner["stored.changes"]
        rises = inner["stored.rises"]
        above = inner["stored.above"]
        count = Signal(range(self._depth + 1))
        m.d.sync += count.eq(stored)
        self.require(above == Cat(count > n for n in range(self._depth)))
        self.require(stored == (count + Mux(changes, Mux(rises, 1, -1), 0))[: len(stored)])
        self.require(inner["loaded"] == changes ^ rises)

    def _require_pipeline(self, module, inner, o, loads, results, place, expected):
        """State what is in the registers between the memories and the output."""
        go = inner["output.go"]
        stages = range(ResultQueue.SELECTION + 1)
        valid = [inner["valid"], *(inner[f"valid{n}"] for n in stages[:-1])]
        pages = [inner["page"], *(inner[f"page{n}"] for n in stages[:-1])]
        words = [
            [
                Cat(
                    getattr(module.submodules, f"{name}{n}").read_ports[0].data
                    for name in ("verdicts", "tags")
                )
                for n in range(self._depth // self._page_depth)
            ]
        ]
        for n in stages[:-1]:
            words.append([s for name, s in inner.items() if name.startswith(f"word{n}_")])
        self.require(go | o.valid)
        place_of = results + o.valid
        self.require(go | (place_of[: self._low] != place) | (inner["output.spare"] == expected))
        place_of = place_of + ~go
        for stage in reversed(stages):
            bits = len(pages[stage])
            own = valid[stage] & (place_of[: self._low] == place)
            word = Array(words[stage])[pages[stage]] if bits else words[stage][0]
            self.require(~own | (word == expected))
            if bits:
                page = place_of[self._low - bits : self._low]
                self.require(~valid[stage] | (pages[stage] == page))
            place_of = place_of + valid[stage]
        self.require(loads == place_of[: len(loads)])


PROOFS = (
    Proof(
        name="result queue",
        statement="The n-th result is the n-th tag with the n-th verdict. It waits unchanged until "
        f"it is taken. While one waits, the output is empty for at most {ResultQueue.LATENCY - 1} "
        "clocks running.",
        design="16 places in pages of 4",
        build=lambda: QueueOrder(depth=16, page_depth=4),
        method=Induction(ResultQueue.LATENCY + 3),
    ),
)
