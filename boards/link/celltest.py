"""Self-test of units whose memories hold cells with times: dictionaries and timing filters."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from numpy.typing import NDArray

from ...golden.analysis import column_loads
from ...golden.spec.dictionary_sizes import WindowDictionarySpec
from ...golden.spec.timestamp import StampedPartsSpec
from ...hdl.build import UnitProfile
from ...hdl.interface import Operation
from .protocol import Check
from .selftest import Run, longest_wait, rarely_more, spread_places, streams

COVERAGE = 16
"""Keys of a full pass for each cell of a memory: one in e**16 cells is left out."""

BACK = 32
"""Keys after which one is asked for again: all that is under way has been written."""

_LOAD = 4
"""Cycles between two steps."""


class Kind(Enum):
    """Kinds of steps: what is done with each key."""

    CLEAR = "clear"
    """No key: a CLEAR."""
    NONE = "none"
    """A query that must not report it."""
    FILL = "fill"
    """A CHECK_AND_INSERT, and a query in the cycle after it."""
    FLOW = "flow"
    """A CHECK_AND_INSERT, and a query for the key that was inserted some keys ago."""
    ASK = "ask"
    """Two queries, for the least window that has the key and the greatest that has not."""
    STRANGERS = "strangers"
    """A query for a key that was never inserted."""
    ADVANCE = "advance"
    """Time goes on: by ticks, or by insertions of one other key."""


@dataclass(frozen=True)
class Step:
    """A step of the test.

    Attributes
    ----------
    kind : Kind
    count : int
        Keys, insertions or ticks.
    now : int
        Distance of the first key at the beginning of the step, in the unit of the window.
    allowed : int
        Answers that may be wrong, as other keys may have made a key younger.
    check : Check
        What fails if there are more.
    """

    kind: Kind
    count: int = 1
    now: int = 0
    allowed: int = 0
    check: Check = Check.AGE


@dataclass(frozen=True)
class Cells:
    """What the test has to know of a filter.

    Attributes
    ----------
    spec : WindowDictionarySpec or StampedPartsSpec
    """

    spec: Any

    @property
    def block(self) -> int:
        """Insertions by which windows are counted; 0 if they count ticks."""
        return 0 if self.spec.timed else self.spec.block_units

    @property
    def youngest(self) -> int:
        """Age of a key whose distance is 0: with it, an age is a distance."""
        return -1 if isinstance(self.spec, WindowDictionarySpec) else 0

    @property
    def turn(self) -> int:
        """Distance after which the time in a cell comes round."""
        spec = self.spec
        exact = isinstance(spec, WindowDictionarySpec)
        return 1 << (spec.timestamp_bits if exact else spec.stamp_bits)

    @property
    def back(self) -> int:
        """Distance of the key that is asked for in a step FLOW, from memory."""
        return min(self.spec.window_blocks, -(-BACK // self.block)) if self.block else 0

    @property
    def lag(self) -> int:
        """Keys that it lies behind, so that its distance is the same for all of them."""
        return self.back * self.block - 1 if self.block else BACK

    @property
    def few(self) -> int:
        """Keys of a pass in which others make few keys younger."""
        spec = self.spec
        if isinstance(spec, StampedPartsSpec):
            return min(max(1, spec.cells // 2), self._most)
        safe = spec.window
        while safe > 1 and not self._is_safe(safe):
            safe //= 2
        return min(safe, self._most)

    @property
    def all(self) -> int:
        """Keys of a pass that reaches all cells, or as many as it can."""
        spec = self.spec
        if isinstance(spec, StampedPartsSpec):
            return min(COVERAGE * spec.cells, self._most)
        # More keys than the window has do not overfill the cells, if those do not.
        return min(COVERAGE * spec.rows, self._most) if self._is_safe(spec.window) else self.few

    @property
    def _most(self) -> int:
        """Half of all keys; the others are strangers."""
        return 1 << self.spec.key_bits - 1

    def _is_safe(self, keys: int) -> bool:
        """Whether a dictionary gives up none of so many keys."""
        spec = self.spec
        offered = column_loads(keys, columns=spec.columns, rows=spec.rows)[-1] * spec.rows
        return rarely_more(offered, spec.stash + 1) <= spec.stash

    def strangers(self, count: int) -> int:
        """Return how many of as many strangers as `count` may be reported, among as many keys."""
        alive = min(count, self.spec.window_blocks * self.block if self.block else count)
        return rarely_more(count * float(self._chance(np.array(alive))), count)

    def younger(self, count: int, now: int, *, others: int = 0) -> int:
        """Return how many answers of a step ASK may be wrong.

        Parameters
        ----------
        count, now : int
            As those of the step.
        others : int
            Other keys inserted since.
        """
        if not self.block:
            return 0
        blocks = np.arange(count) // self.block
        alive = np.searchsorted(blocks, now - self.spec.window_blocks)
        later = np.searchsorted(blocks, blocks, side="right")
        chances = self._chance(count - np.maximum(later, alive) + others)
        # Both queries for a key.
        return 2 * rarely_more(float(chances.sum()), count)

    def _chance(self, keys: NDArray[Any]) -> NDArray[np.float64]:
        """Return the chance that one of some `keys`, shape (n,), is taken for another, likewise."""
        spec = self.spec
        if isinstance(spec, WindowDictionarySpec):
            return np.minimum(1.0, keys / 2.0**spec.digest_bits)
        chances: NDArray[np.float64] = (1 - (1 - 1 / spec.cells) ** keys) ** spec.hashes
        return chances


def steps(cells: Cells) -> list[Step]:
    """Return the steps of the test of `cells`.

    A pass with few keys, in which strangers are queried. One with keys for all cells: each is
    asked for some keys later, then all of them are, at once, at the edge of the window, behind
    it, and when the times of their cells come round. At last another, and a clear.
    """
    block, window = max(1, cells.block), cells.spec.window_blocks
    few, count = cells.few, cells.all
    last = (count - 1) // block if cells.block else 0
    filled = [number // block if cells.block else 0 for number in (few, count)]
    program = [
        Step(Kind.CLEAR),
        Step(Kind.NONE, few, check=Check.EMPTY),
        Step(Kind.FILL, few),
        Step(Kind.ASK, few, filled[0], cells.younger(few, filled[0])),
        Step(Kind.STRANGERS, few, allowed=cells.strangers(few), check=Check.STRANGERS),
        Step(Kind.CLEAR),
        Step(Kind.FLOW, count),
        Step(Kind.ASK, count, filled[1], cells.younger(count, filled[1])),
    ]
    reached = count if cells.block else 0
    for distance in (window, window + 1, cells.turn + 1):
        now = last + distance
        if now * block > reached:
            program.append(Step(Kind.ADVANCE, now * block - reached))
        allowed = cells.younger(count, now, others=1)
        program.append(Step(Kind.ASK, count, now, allowed, Check.EXPIRY))
        reached = now * block
    end = [Step(Kind.CLEAR), Step(Kind.FLOW, count), Step(Kind.CLEAR)]
    return [*program, *end, Step(Kind.NONE, count, check=Check.EMPTY)]


class CellRun(Run):
    """A run that tells how far back each key is, and asks for windows there.

    If a table answers, whatever it is, it tells by which window the age of a result is judged.

    Parameters
    ----------
    cells : Cells
    distance_bits : int
        Width of a distance.
    options
        As for `Run`.

    Members
    -------
    As those of `Run`, and:

    last : In
        Number of the last key.
    same : In(1)
        The key is another one, and the same in all operations.
    asks, flows : In(1)
        Pairs are two queries; the second of a pair is for a key inserted before.
    now : In(distance_bits)
        Distance of the first key.
    distance : Out(distance_bits)
        Of the key of a result.
    ends : Out(1)
        The insertion of the key of a result ended a block.
    earlier : Out(1)
        It is for a key inserted before.
    within : Out(distance_bits)
        That window.
    """

    def __init__(self, *, cells, distance_bits, most, unit, **options):
        self._block = cells.block
        self._window = cells.spec.window_blocks
        self._lag = cells.lag
        self._counts = {}
        distance = {"now": In(distance_bits), "distance": Out(distance_bits)}
        self._asks_windows = "window" in unit.i.p.shape().members
        if not self._asks_windows:
            distance["within"] = Out(distance_bits)
        super().__init__(
            most=most,
            unit=unit,
            last=In(range(max(2, most))),
            same=In(1),
            asks=In(1),
            flows=In(1),
            ends=Out(1),
            earlier=Out(1),
            **distance,
            **options,
        )

    def elaborate(self, platform):
        m = super().elaborate(platform)
        asked, second = self._counts["issue"][:2]
        told, told_second, ends, earlier = self._counts["answer"]
        m.d.sync += [self.distance.eq(told), self.ends.eq(ends), self.earlier.eq(earlier)]
        if self._asks_windows:
            m.d.comb += self.i.p.window.eq(self._within(asked, second))
        else:
            m.d.sync += self.within.eq(self._within(told, told_second))
        return m

    def _within(self, distance, second):
        """Return the window of an operation on a key."""
        within = Mux(distance > self._window, self._window, distance - (second & distance.any()))
        return Mux(self.asks, within, self._window)

    def _is_last(self, number):
        return number == self.last

    def _of_pair(self, second):
        return Mux(second | self.asks, Operation.QUERY, Operation.CHECK_AND_INSERT)

    def _elaborate_count(self, m, name, port):
        number, second, tag, ended = super()._elaborate_count(m, name, port)
        moves = port.valid & port.ready & ~(self.pairs & ~second)
        # The second of a pair comes a cycle later at least.
        before = Signal.like(number, name=f"{name}_before")
        flows, earlier = Signal(name=f"{name}_flows"), Signal(name=f"{name}_earlier")
        m.d.sync += [before.eq(number - self._lag), flows.eq(self.flows & (number >= self._lag))]
        m.d.comb += earlier.eq(flows & second)
        distance, ends = self._elaborate_distance(m, name, moves)
        self._counts[name] = distance, second, ends, earlier
        number = Mux(earlier, before, number) & ~self.same.replicate(len(number))
        return number, second, tag, ended

    def _elaborate_distance(self, m, name, moves):
        """Return the distance of a key, and whether it ends a block."""
        distance = Signal.like(self.now, name=f"{name}_distance")
        ends = Signal(name=f"{name}_ends")
        over = self.done | ~self.go
        if self._block > 1:
            left = Signal(range(self._block), init=self._block - 1, name=f"{name}_left")
            m.d.comb += ends.eq(left == 0)
            with m.If(over):
                m.d.sync += left.eq(self._block - 1)
            with m.Elif(moves):
                m.d.sync += left.eq(Mux(ends, self._block - 1, left - 1))
        else:
            m.d.comb += ends.eq(self._block)
        with m.If(over):
            m.d.sync += distance.eq(self.now)
        with m.Elif(moves):
            m.d.sync += distance.eq(distance - ends)
        return distance, ends


class CellTest(wiring.Component):
    """Drives a unit of cells through its streams, and judges every answer.

    It goes through `steps`. That a key is lost, or older than it is, is never right; that it is
    younger, or reported when it has expired, is where other keys have its digest or its cells,
    and as rare as theory says. With ticks nothing comes after a key, so that all answers but
    those about strangers are exact.

    The unit is left clear, and its counters and its ticks have moved on.

    Parameters
    ----------
    spec : WindowDictionarySpec or StampedPartsSpec
        What is tested.
    unit : Component
        With a `lately.hdl.interface.UnitSignature`, and a window or a class for each query.
    profile : UnitProfile
        For its pauses and its ticks.

    Members
    -------
    start, busy, failed, i, o
        As those of `lately.boards.link.selftest.SelfTest`.
    tick : Out(1)
        With ticks only: for the unit.
    """

    def __init__(self, *, spec: Any, unit: Any, profile: UnitProfile) -> None:
        self._cells = cells = Cells(spec)
        self._steps = steps(cells)
        self._period = profile.least_period
        self.cycles = sum(self._most_cycles(step, profile) for step in self._steps)
        """Most cycles that the test takes, if all is well."""
        keyed = [one.count for one in self._steps if one.kind is not Kind.ADVANCE or cells.block]
        self._run = CellRun(
            cells=cells,
            distance_bits=max(one.now for one in self._steps).bit_length(),
            most=max(keyed),
            places=spread_places(cells.all, spec.key_bits),
            patience=longest_wait(profile),
            unit=unit,
        )
        ticks = {"tick": Out(1)} if not cells.block else {}
        super().__init__({"start": In(1), "busy": Out(1), "failed": Out(8)} | streams(unit) | ticks)

    def _most_cycles(self, step: Step, profile: UnitProfile) -> int:
        clocks = self._period + 1 if step.kind is Kind.ADVANCE and self._period else 4
        return step.count * clocks + profile.latency + profile.longest_pause + 100

    def elaborate(self, platform):
        m = Module()
        m.submodules.run = run = self._run
        self._number = Signal(range(len(self._steps)))
        self._allowed = Signal(range(1 + max(step.allowed for step in self._steps)))
        self._is = {kind: Signal(name=f"is_{kind.name.lower()}") for kind in Kind}
        lost, advanced = Signal(), Signal()
        m.d.comb += [
            lost.eq((self.failed & Check.ANSWERS.value) != 0),
            self.i.valid.eq(run.i.valid),
            self.i.p.eq(run.i.p),
            run.i.ready.eq(self.i.ready),
            run.o.valid.eq(self.o.valid),
            run.o.p.eq(self.o.p),
            self.o.ready.eq(1),
        ]
        load = Signal(range(_LOAD))
        ticks = self._is[Kind.ADVANCE] & (not self._cells.block)
        with m.FSM(name="test") as fsm:
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += self._number.eq(0)
                m.next = "LOAD"
            with m.State("LOAD"):
                m.d.sync += load.eq(load + 1)
                with m.If(load == _LOAD - 1):
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += run.go.eq(~lost & ~ticks)
                with m.If(run.done | lost | advanced):
                    m.d.sync += self._number.eq(self._number + 1)
                    m.next = "LOAD"
                    with m.If(lost | (self._number == len(self._steps) - 1)):
                        m.next = "IDLE"
            m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
            runs, idle = fsm.ongoing("RUN"), fsm.ongoing("IDLE")
        if not self._cells.block:
            self._elaborate_ticks(m, runs & ticks, advanced)
        self._elaborate_step(m)
        self._elaborate_checks(m, idle)
        return m

    def _each(self, attribute):
        """Return what a function returns of the present step."""
        return Array(int(attribute(step)) for step in self._steps)[self._number]

    def _elaborate_step(self, m):
        """Tell the run what to do in a step."""
        run, kinds = self._run, self._is
        m.d.sync += [
            *(signal.eq(self._each(lambda step, kind=kind: step.kind is kind))
              for kind, signal in kinds.items()),
            run.last.eq(self._each(lambda step: step.count - 1)),
            run.now.eq(self._each(lambda step: step.now)),
            self._allowed.eq(self._each(lambda step: step.allowed)),
        ]  # fmt: skip
        m.d.comb += [
            run.single.eq(kinds[Kind.CLEAR]),
            run.pairs.eq(kinds[Kind.FILL] | kinds[Kind.FLOW] | kinds[Kind.ASK]),
            run.asks.eq(kinds[Kind.ASK]),
            run.flows.eq(kinds[Kind.FLOW]),
            run.strangers.eq(kinds[Kind.STRANGERS] | kinds[Kind.ADVANCE]),
            run.same.eq(kinds[Kind.ADVANCE]),
            run.operation.eq(Operation.QUERY),
        ]
        with m.If(kinds[Kind.CLEAR]):
            m.d.comb += run.operation.eq(Operation.CLEAR)
        with m.If(kinds[Kind.ADVANCE]):
            m.d.comb += run.operation.eq(Operation.INSERT)

    def _elaborate_ticks(self, m, ticking, advanced):
        """Make the ticks of a step, as close as they may be, and tell when the last is over."""
        clocks = Signal(range(self._period))
        most = max(step.count for step in self._steps if step.kind is Kind.ADVANCE)
        left = Signal(range(most + 1))
        over = clocks == self._period - 1
        m.d.comb += [
            self.tick.eq(ticking & (clocks == 0)),
            advanced.eq(ticking & over & (left == 0)),
        ]
        with m.If(~ticking):
            m.d.sync += [clocks.eq(0), left.eq(self._each(lambda step: step.count - 1))]
        with m.Else():
            m.d.sync += [clocks.eq(Mux(over, 0, clocks + 1)), left.eq(left - over)]

    def _elaborate_checks(self, m, idle):
        """Judge the results."""
        run, kinds, window = self._run, self._is, self._cells.spec.window_blocks
        came, answered, seen = run.came, Signal(), Signal()
        age, right, due = Signal(len(run.age) + 1), Signal(), Signal()
        asked, fills = kinds[Kind.ASK], kinds[Kind.FILL] | kinds[Kind.FLOW]
        earlier, repeats = run.came & run.earlier, run.came & fills & run.second & ~run.earlier
        distance = Mux(asked, run.distance, Mux(run.earlier, self._cells.back, run.ends))
        odd, wrong = Signal(), Signal(8)
        count, too_many = Signal.like(self._allowed), Signal()
        m.d.comb += [
            answered.eq(run.age <= run.within if "within" in run.signature.members else run.seen),
            seen.eq(came & answered),
            # As a distance.
            age.eq(run.age - self._cells.youngest),
            right.eq(age == distance),
            # The second query is for a window that has the key only if it is of the present.
            due.eq(Mux(run.second, run.distance == 0, run.distance <= window)),
        ]
        raised = {
            Check.EMPTY: kinds[Kind.NONE] & seen,
            Check.FIRST: fills & seen & run.first,
            Check.REPEAT: repeats & ~(answered & right),
            Check.KEEP: (earlier | (asked & came & due)) & ~answered,
            Check.AGE: (asked | earlier) & seen & (age > distance),
            Check.EXPIRY: 0,
            Check.STRANGERS: 0,
            Check.ANSWERS: run.wrong,
        }
        failing = self._each(lambda step: step.check)
        judged = asked | kinds[Kind.STRANGERS]
        m.d.sync += [
            odd.eq(judged & seen & ~(asked & due & right)),
            too_many.eq(odd & (count == self._allowed)),
            wrong.eq(Cat(raised[check] for check in Check) | Mux(too_many, failing, 0)),
        ]
        with m.If(~run.go):
            m.d.sync += count.eq(0)
        with m.Elif(odd & (count != self._allowed)):
            m.d.sync += count.eq(count + 1)
        with m.If(idle):
            m.d.sync += wrong.eq(0)
        with m.If(self.start & idle):
            m.d.sync += self.failed.eq(0)
        with m.Else():
            m.d.sync += self.failed.eq(self.failed | wrong)
