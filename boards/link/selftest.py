"""Self-test of a filter unit: what its memories must do and static timing cannot vouch for."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.analysis import segment_false_positive_rate
from ...golden.spec import FilterSpec
from ...hdl.build import UnitProfile
from ...hdl.interface import Operation
from ...hdl.parameters import require_integer
from ...hdl.profile import HardwareProfile
from .protocol import Check

_DRAIN = 4
"""Cycles from a result to the flag that it raises, and one to spare."""

RARE = 1e-12
"""Chance that a sound filter reports more strangers than are let pass, in one pass."""


def check_keys(spec: FilterSpec) -> int:
    """Return the keys of a pass: a generation of them, or half of all that there are."""
    return min(spec.generation, 1 << spec.key_bits - 1)


def key_places(spec: FilterSpec) -> list[int]:
    """Return which bit of its number each bit of a key is, but for the top bit."""
    return spread_places(check_keys(spec), spec.key_bits)


def spread_places(keys: int, key_bits: int) -> list[int]:
    """Return which bit of a number below `keys` each bit of a key of `key_bits` is, as above."""
    width = max(1, (keys - 1).bit_length())
    return [place % width for place in range(key_bits - 1)]


def passes(spec: FilterSpec) -> int:
    """Return the passes of the test: in each, another segment follows those that are filled."""
    return spec.segments + 1


def self_test_cycles(spec: FilterSpec) -> int:
    """Return the most cycles that the test takes, if all is well."""
    keys = check_keys(spec)
    # A run of operations is drained before the next; shifts and clears may pause as well.
    profile = HardwareProfile(spec)
    run = keys + profile.latency + profile.clear_cycles + 100
    return ((passes(spec) + 1) * (2 * spec.ring_segments + 4) + 6) * run


def allowed_strangers(spec: FilterSpec) -> int:
    """Return how many of the keys never inserted may be reported after a fill.

    The number is Poisson about the theory's rate; a filter whose writes set
    one bit too many in each word has several times as many.
    """
    keys = check_keys(spec)
    rate = segment_false_positive_rate(
        keys, blocks=spec.segment_blocks, cells=spec.cells, parts=spec.parts
    )
    return rarely_more(keys * rate**spec.run, keys)


def rarely_more(mean: float, most: int) -> int:
    """Return the number, `most` at most, that a Poisson variable of a `mean` exceeds but rarely."""
    # scipy takes longer to import than all else here.
    from scipy.special import pdtrc

    return next((count for count in range(most) if pdtrc(count, mean) <= RARE), most)


def longest_wait(profile: UnitProfile) -> int:
    """Return the cycles after which a unit, which `profile` is of, does nothing any more."""
    return 2 * (profile.longest_pause + profile.latency + 64)


def streams(unit):
    """Return the members that are a unit's streams, from the other side."""
    return {name: unit.signature.members[name].flip() for name in ("i", "o")}


class Run(wiring.Component):
    """One operation for each key of a set, and the results in order.

    Parameters
    ----------
    most : int
        Operations of a run, or pairs of them.
    places : list of int
        As `key_places` returns.
    patience : int
        Cycles without an acceptance or a result after which none will come.
    unit : Component
        With a `lately.hdl.interface.UnitSignature`.
    others
        Further ports, by name.

    Members
    -------
    go : In(1)
        High until `done`.
    single : In(1)
        One operation in place of one for each key.
    pairs : In(1)
        A CHECK_AND_INSERT and, in the cycle after it, a QUERY, for each key.
    strangers : In(1)
        The other set of keys.
    operation : In(Operation)
        What to do, but for pairs.
    done : Out(1)
    came, seen, age : Out
        A result; `age` as the unit's.
    first, second : Out(1)
        It is the first one; it is the query of a pair.
    wrong : Out(1)
        It is that of another operation, or none came.
    i, o
        As those of `SelfTest`.

    Raises
    ------
    TypeError
        If the patience is not an integer.
    ValueError
        If the patience is below 1.
    """

    def __init__(self, *, most, places, patience, unit, **others):
        self._keys = most
        self._places = places
        require_integer("Patience", patience, least=1)
        self._patience = patience
        orders = dict.fromkeys(("go", "single", "pairs", "strangers"), In(1))
        results = dict.fromkeys(("done", "came", "seen", "first", "second", "wrong"), Out(1))
        super().__init__(
            orders
            | {"operation": In(Operation), "age": Out(len(unit.o.p.age))}
            | results
            | streams(unit)
            | others
        )

    def elaborate(self, platform):
        m = Module()
        number, second, tag, issued = self._elaborate_count(m, "issue", self.i)
        place, answer_second, answer_tag, answered = self._elaborate_count(m, "answer", self.o)
        drain = Signal(range(_DRAIN + 1))
        of_pair = self._of_pair(second)
        m.d.comb += [
            self.i.valid.eq(self.go & ~issued),
            self.i.p.key.eq(self._key(number)),
            self.i.p.tag.eq(tag),
            self.i.p.operation.eq(Mux(self.pairs, of_pair, self.operation)),
            self.o.ready.eq(1),
            self.done.eq(drain == _DRAIN),
        ]
        m.d.sync += [
            self.came.eq(self.o.valid & self.go),
            self.seen.eq(self.o.p.seen),
            self.age.eq(self.o.p.age),
            self.first.eq((place == 0) & ~answer_second),
            self.second.eq(answer_second),
            self.wrong.eq((self.o.valid & self.go & (self.o.p.tag != answer_tag)) | self._late(m)),
            drain.eq(Mux(answered & ~self.done, drain + 1, 0)),
        ]
        return m

    def _of_pair(self, second):
        """Return the operation of a pair."""
        return Mux(second, Operation.QUERY, Operation.CHECK_AND_INSERT)

    def _is_last(self, number):
        """Return whether the key of a number is the last."""
        return number == self._keys - 1

    def _key(self, number):
        """Spread the bits of a number over a key; the top bit tells the sets apart."""
        return Cat(*(number[place] for place in self._places), self.strangers)

    def _elaborate_count(self, m, name, port):
        """Count the operations that pass a stream; return key, whether second, tag and the end."""
        number = Signal(range(max(2, self._keys)), name=f"{name}_number")
        second = Signal(name=f"{name}_second")
        tag = Signal(len(self.i.p.tag), name=f"{name}_tag")
        ended = Signal(name=f"{name}_ended")
        final = self.single | self._is_last(number)
        with m.If(port.valid & port.ready):
            m.d.sync += tag.eq(tag + 1)
            with m.If(self.pairs & ~second):
                m.d.sync += second.eq(1)
            with m.Else():
                m.d.sync += [number.eq(number + 1), second.eq(0), ended.eq(final)]
        with m.If(self.done | ~self.go):
            m.d.sync += [number.eq(0), second.eq(0), tag.eq(0), ended.eq(0)]
        return number, second, tag, ended

    def _late(self, m):
        """Return whether nothing has happened for longer than it may."""
        cycles = Signal(range(self._patience + 1))
        late = Signal()
        moves = (self.i.valid & self.i.ready) | self.o.valid
        m.d.sync += late.eq(cycles == self._patience)
        with m.If(moves | ~self.go | self.done):
            m.d.sync += cycles.eq(0)
        with m.Elif(cycles != self._patience):
            m.d.sync += cycles.eq(cycles + 1)
        return late


class SelfTest(wiring.Component):
    """Drives a filter unit through its streams and judges every answer.

    It clears and queries, then goes through `passes`. Each fills the empty
    filter with a generation of keys, every insertion with a query for the
    same key in the cycle after it, queries them all and as many others, and
    then shifts and queries until the segments that were filled are spare
    again. A pass begins one segment before the last one did, so that each
    segment once comes next to filled ones when it should be clean: what it
    kept shows as a wrong age. The end is a fill, a clear, and queries.

    All answers but those about strangers are exact, since nothing else is in
    the filter. The unit must have the generation of the specification. It is
    left clear; shifts and counters have moved on.

    Of a unit with a window in time, no tick may come: nothing expires then, and no generation
    grows old. As no segment counts right after a clear, memory that keeps its contents raises
    `Check.FIRST`, `Check.AGE` and `Check.EXPIRY`, but not `Check.EMPTY`.

    Parameters
    ----------
    spec : FilterSpec
        What is tested.
    unit : Component
        With a `lately.hdl.interface.UnitSignature`.
    profile : UnitProfile
        For its pauses.

    Members
    -------
    start : In(1)
    busy : Out(1)
    failed : Out(8)
        `Check` bits of the last test.
    i, o
        The unit's streams; results are always taken.
    """

    def __init__(self, *, spec, unit, profile):
        self._spec = spec
        self.cycles = self_test_cycles(spec)
        """Most cycles that the test takes, if all is well."""
        self._run = Run(
            most=check_keys(spec),
            places=key_places(spec),
            patience=longest_wait(profile),
            unit=unit,
        )
        super().__init__({"start": In(1), "busy": Out(1), "failed": Out(8)} | streams(unit))

    def elaborate(self, platform):
        m = Module()
        spec = self._spec
        m.submodules.run = run = self._run
        left = Signal(range(passes(spec) + 1))
        turns = Signal(range(spec.ring_segments + 1))
        lost = Signal()
        m.d.comb += lost.eq((self.failed & Check.ANSWERS.value) != 0)
        states = ("IDLE", "CLEAR", "EMPTY", "FILL", "KEEP", "STRANGERS", "SHIFT", "AGED")
        done = Signal()
        m.d.comb += [
            done.eq(run.done | lost),
            run.go.eq(self.busy & ~lost),
            self.i.valid.eq(run.i.valid),
            self.i.p.eq(run.i.p),
            run.i.ready.eq(self.i.ready),
            run.o.valid.eq(self.o.valid),
            run.o.p.eq(self.o.p),
            self.o.ready.eq(1),
        ]
        after = {"KEEP": "STRANGERS", "STRANGERS": "SHIFT", "SHIFT": "AGED", "CLEAR": "EMPTY"}
        with m.FSM(name="test") as fsm:
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += [left.eq(passes(spec)), turns.eq(0)]
                m.next = "CLEAR"
            for state, follows in after.items():
                with m.State(state), m.If(done):
                    m.next = follows
            with m.State("EMPTY"), m.If(done):
                m.next = "FILL"
                with m.If(left == 0):
                    m.next = "IDLE"
            with m.State("FILL"), m.If(done):
                m.next = "KEEP"
                with m.If(left == 0):
                    m.next = "CLEAR"
            with m.State("AGED"), m.If(done):
                m.next = "SHIFT"
                with m.If((turns == spec.ring_segments) | lost):
                    m.d.sync += [left.eq(Mux(lost, 0, left - 1)), turns.eq(0)]
                    m.next = "FILL"
            m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
        step = {state: fsm.ongoing(state) for state in states}
        with m.If(step["SHIFT"] & done):
            m.d.sync += turns.eq(turns + 1)
        self._elaborate_step(m, step)
        self._elaborate_checks(m, step, turns)
        return m

    def _elaborate_step(self, m, step):
        """Tell the run what to do in a step."""
        run = self._run
        m.d.comb += [
            run.single.eq(step["CLEAR"] | step["SHIFT"]),
            run.pairs.eq(step["FILL"]),
            run.strangers.eq(step["STRANGERS"]),
            run.operation.eq(Operation.QUERY),
        ]
        for state, operation in (("CLEAR", Operation.CLEAR), ("SHIFT", Operation.SHIFT)):
            with m.If(step[state]):
                m.d.comb += run.operation.eq(operation)

    def _elaborate_checks(self, m, step, turns):
        """Judge the results."""
        run = self._run
        allowed = allowed_strangers(self._spec)
        strangers = Signal(range(allowed + 2))
        too_many = Signal()
        gone = Signal()
        seen = Signal()
        missed = Signal()
        wrong = Signal(8)
        m.d.comb += [
            seen.eq(run.came & run.seen),
            missed.eq(run.came & ~(run.seen & (run.age == turns))),
        ]
        raised = {
            Check.EMPTY: step["EMPTY"] & seen,
            Check.FIRST: step["FILL"] & seen & run.first,
            Check.REPEAT: step["FILL"] & missed & run.second,
            Check.KEEP: step["KEEP"] & missed,
            Check.AGE: step["AGED"] & missed & ~gone,
            Check.EXPIRY: step["AGED"] & seen & gone,
            Check.STRANGERS: too_many,
            Check.ANSWERS: run.wrong,
        }
        m.d.sync += [
            gone.eq(turns > self._spec.window_generations),
            wrong.eq(Cat(raised[check] for check in Check)),
            too_many.eq(strangers == allowed + 1),
        ]
        with m.If(~step["STRANGERS"]):
            m.d.sync += strangers.eq(0)
        with m.Elif(seen & (strangers <= allowed)):
            m.d.sync += strangers.eq(strangers + 1)
        with m.If(step["IDLE"]):
            m.d.sync += wrong.eq(0)
        with m.If(self.start & step["IDLE"]):
            m.d.sync += self.failed.eq(0)
        with m.Else():
            m.d.sync += self.failed.eq(self.failed | wrong)
