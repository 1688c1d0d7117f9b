"""Proof for the frame store: each kept frame leaves whole, once and in order, unless dropped."""

from amaranth.hdl import Array, Assume, Mux, Signal
from amaranth.lib import data

from ...golden.packets.frame_actions import Action
from ...hdl.packets.frame_store import FrameStore
from .formal import Induction, Proof
from .harness import Harness, constant, elaborated, opened, within
from .results import Order, ahead, kept_while_waiting

WIDTH = 16  # width of a beat; small, because the store only moves beats
_BEATS, _FRAMES = 16, 4  # capacity of the store
_LONGEST = 4  # maximum beats per frame


class Watched(FrameStore):
    def _elaborate_writing(self, m, read_address, gone):
        self.read_address, self.gone = read_address, gone
        super()._elaborate_writing(m, read_address, gone)

    def _elaborate_output(self, m, credits, reads, beside):
        self.reads, self.size, self.mark = reads, beside[:-2], beside[-1]
        super()._elaborate_output(m, credits, reads, beside)


class StoredFrames(Harness):
    """Follows one arbitrary bit of a frame through the store.

    Numbers of frames and transfers wrap at twice the capacity. `IntakeRules` proves the assumptions
    on `write`, `keep` and `discard`.
    """

    @staticmethod
    def make():
        beat = WIDTH // 8
        return Watched(size=_BEATS * beat, frames=_FRAMES, longest=_LONGEST * beat, width=WIDTH)

    def build(self, m):
        self._store = store = self._part
        parts = elaborated(store).submodules
        first = Order(m, parts.waiting, depth=_FRAMES, followed=0)
        orders = [first, *(Order(m, parts.waiting, depth=_FRAMES, followed=at, counts=first)
                           for at in range(1, 2 * _FRAMES))]  # fmt: skip
        self._kept, self._gone = first.tags, first.results
        self._records = [data.View(store.record.shape(), order.tag) for order in orders]
        self._read = Order(m, parts.output, depth=store.OUTPUT_DEPTH, enters=store.reads)
        cell = elaborated(store.ring).submodules.words.read_port(domain="comb")
        m.submodules.store, inner = opened(store)
        self._assume_source(m, first)
        self._follow_turn(m, orders)
        agrees = self._follow_bit(m, cell)
        # A frame begins after the last beat of the previous frame, or after a dropped frame.
        ended = self._dropped | self._finishes | (self._index == self._beats)
        self.require(
            ~store.gone | ended,
            ~store.reads | (~self._dropped & (self._index < self._beats)),
            ~self._followed | agrees(store.o.p.as_value()),
            kept_while_waiting(m, store.o),
        )
        # Invariants that imply this.
        arrived = self._read.between(self._read.results, self._read.verdicts) & ~self._read.came
        self.require(~arrived | agrees(self._read.verdict))
        self._require_addresses(inner, orders, active=~parts.waiting.o.ready | store.reads)
        self._require_queues(m, inner, orders)
        leaves = self._followed & store.o.ready & store.o.p.last & store.o.p.mark
        self.reach("the last beat of a marked frame leaves", leaves & self._follows)

    def _assume_source(self, m, order):
        store = self._store
        self._written, self._total = Signal(range(_LONGEST + 2)), Signal(range(2 * _BEATS))
        self._starts = Array(
            Signal(range(2 * _BEATS), name=f"start{number}") for number in range(2 * _FRAMES)
        )
        count = self._written + store.write
        m.d.comb += [
            Assume(~store.write | store.room),
            Assume(~store.keep | (store.write & (store.record.beats == count))),
            Assume(~(store.keep & store.discard)),
            Assume(count <= _LONGEST),
            Assume(~store.verdict.valid | (order.verdicts != order.tags)),
        ]
        m.d.sync += self._written.eq(Mux(store.keep | store.discard, 0, count))
        with m.If(store.keep):
            m.d.sync += [
                self._starts[self._kept].eq(self._total),
                self._total.eq(self._total + count),
            ]

    def _follow_turn(self, m, orders):
        store = self._store
        self._turn = (self._gone - 1)[: len(self._gone)]
        self._beats = Array(record.beats for record in self._records)[self._turn]
        self._size = Array(record.size for record in self._records)[self._turn]
        self._index = Signal(range(_LONGEST + 1))
        self._dropped, self._marked = Signal(init=1), Signal()
        self._finishes = store.reads & (self._index + 1 == self._beats)
        m.d.sync += self._index.eq(Mux(store.gone, 0, self._index + store.reads))
        seen = Array(order.verdict for order in orders)[self._gone]
        with m.If(store.gone):
            m.d.sync += [
                self._dropped.eq(seen & (store.action == Action.DROP)),
                self._marked.eq(seen & (store.action == Action.MARK)),
            ]

    def _follow_bit(self, m, cell):
        """Track one bit through the store; return a function that checks a transfer for it."""
        store, read = self._store, self._read
        number, beat = constant(m, range(2 * _FRAMES)), constant(m, range(_LONGEST))
        lane, value, expected = constant(m, range(len(store.o.p.data))), Signal(), Signal()
        last, marked, size = Signal(), Signal(), Signal.like(self._size)
        opening, turn = self._kept == number, self._turn == number
        waiting = ahead(number, self._gone) < ahead(self._kept, self._gone)
        unread = waiting | (turn & ~self._dropped & (self._index <= beat))
        beats = Array(record.beats for record in self._records)[number]
        stored = Mux(opening, beat < self._written, (beat < beats) & unread)
        m.d.comb += cell.addr.eq(Mux(opening, self._total, self._starts[number]) + beat)
        with m.If(store.write & opening & (self._written == beat)):
            m.d.sync += value.eq(store.word.bit_select(lane, 1))
        self._follows = Signal()
        with m.If(store.reads & read.is_followed(read.tags)):
            m.d.sync += [
                self._follows.eq(turn & (self._index == beat)),
                expected.eq(value),
                last.eq(self._finishes),
                size.eq(Mux(self._finishes, self._size, -1)),
                marked.eq(self._marked),
            ]
        self.require(~stored | (cell.data.bit_select(lane, 1) == value))
        self._followed = store.o.valid & read.is_followed(read.results)

        def agrees(transfer):
            given = data.View(store.o.p.shape(), transfer)
            same = ~self._follows | (given.data.bit_select(lane, 1) == expected)
            return same & (given.last == last) & (given.mark == marked) & (given.size == size)

        return agrees

    def _require_addresses(self, inner, orders, active):
        store, gone, kept = self._store, self._gone, self._kept
        left, address, index = inner["left"], store.read_address, self._index
        waiting = ahead(kept, gone)
        end = (address + Mux(active, left, 0))[: len(address)]
        self.require(
            active == (~self._dropped & (index < self._beats)),
            Mux(self._dropped, index == 0, index <= self._beats),
            ~active | (left == self._beats - index),
            ~active | (address == (self._starts[self._turn] + index)[: len(address)]),
            ~active | ((store.size == self._size) & (store.mark == self._marked)),
            end == Mux(waiting == 0, self._total, self._starts[gone]),
            inner["begin"] == self._total,
            inner["write_address"] == (self._total + self._written)[: len(address)],
            inner["kept"] == waiting,
            # Beats that have been written but not read.
            (self._total + self._written - address)[: len(address)] < _BEATS,
        )
        for number, (order, record) in enumerate(zip(orders, self._records, strict=True)):
            after = (number + 1) % len(orders)
            begin = Mux(kept == after, self._total, self._starts[after])
            follows = begin == (self._starts[number] + record.beats)[: len(begin)]
            legal = (record.beats != 0) & (record.beats <= _LONGEST)
            self.require(~order.between(gone, kept) | (follows & legal))

    def _require_queues(self, m, inner, orders):
        read, depth = self._read, self._store.OUTPUT_DEPTH
        for order, path, room in ((orders[0], "waiting", _FRAMES), (read, "output", depth)):
            order.require_output(m, self)
            self.require(*order.rules(room), *order.invariants(m, within(inner, path)))
        for order in orders[1:]:
            self.require(order.given(), *order.held())
        credits = within(inner, "credits")
        counted = credits["left"] + credits["change"] + credits["refunded"] - credits["spent"]
        self.require(
            counted == depth - 4 - ahead(read.tags, read.results),
            ahead(read.tags, read.verdicts) == inner["reads0"],
        )


PROOFS = (
    Proof(
        name="frames stored",
        statement="A kept frame leaves exactly once and whole, with the right bytes, length and "
        "mark, unless it is a duplicate and the action is DROP. Frames leave in order and never "
        "interleave. A transfer does not change until accepted.",
        design=f"store for {_BEATS} beats of {WIDTH} bits and {_FRAMES} frames of at most "
        f"{_LONGEST} beats; any source that follows the rules of *frames kept*, any verdicts, any "
        "actions and any receiver",
        build=StoredFrames,
        method=Induction(3),
    ),
)
