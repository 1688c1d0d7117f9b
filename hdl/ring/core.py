"""The pipeline of a filter: fixed latency, one operation per clock, no stall inside."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.siphash import SECRET_BITS
from ..hash.functions import Expand, Fold, Mix
from ..hash.siphash import SipHash
from ..memory.variants import segment_memory
from ..profile import CONTROL_LAG, HardwareProfile
from .detector import Align, MatchReducer, RunDetector
from .ring import Ring


class Control(data.Struct):
    """What travels down the pipeline beside the key.

    Attributes
    ----------
    valid
        A result is expected. The other flags act whether it is set or not.
    query, insert, shift, clear
        The effects of the operation. A shift comes between query and insertion.
    adopt
        With a shift or clear: a secret that waited comes in.
    """

    valid: 1
    query: 1
    insert: 1
    shift: 1
    clear: 1
    adopt: 1


class KeyHash(wiring.Component):
    """Cell indices of a key: the hash of the specification, pipelined.

    Latency `latency` clocks, one key per clock.

    Parameters
    ----------
    spec : FilterSpec

    Members
    -------
    key : In(key_bits)
    secret : In(128)
        With siphash only, see `SipHash`.
    """

    def __init__(self, *, spec):
        self._keyed = spec.hash == "siphash"
        if self._keyed:
            self._siphash = SipHash(key_bits=spec.key_bits)
            steps = [self._siphash]
        else:
            self._fold = Fold(key_bits=spec.key_bits, seed=spec.seed)
            self._mix = Mix(seed=spec.seed)
            steps = [self._fold, self._mix]
        self._expand = Expand(sizes=spec.index_sizes, functions=spec.hash_functions, seed=spec.seed)
        self.latency = sum(step.latency for step in (*steps, self._expand))
        super().__init__(
            {"key": In(spec.key_bits)} | ({"secret": In(SECRET_BITS)} if self._keyed else {})
        )

    def indices(self, function):
        """Signals of one function's indices, in the order of the sizes."""
        return self._expand.indices(function)

    def elaborate(self, platform):
        m = Module()
        m.submodules.expand = self._expand
        if self._keyed:
            m.submodules.siphash = siphash = self._siphash
            m.d.comb += [
                siphash.key.eq(self.key),
                siphash.secret.eq(self.secret),
                self._expand.state.eq(siphash.state),
            ]
        else:
            m.submodules.fold = fold = self._fold
            m.submodules.mix = mix = self._mix
            m.d.comb += [
                fold.key.eq(self.key),
                mix.i.eq(fold.state),
                self._expand.state.eq(mix.o),
            ]
        return m


class FilterCore(wiring.Component):
    """Pipeline of a count-based filter: hash, ring of segments, run detector.

    Latency `latency` clocks, one operation per clock, results in order. An
    operation sees the effects of all operations before it. Latency counts
    from the key; `control` comes `CONTROL_LAG` clocks after its key, so that
    hashing need not wait for what decides on the shift. The core trusts its
    user with the two rules that `Ring` states: at least `clear_words`
    clocks between two shifts, and `clear_words` idle clocks after a clear.

    Parameters
    ----------
    spec : FilterSpec
        What to build; must pass `HardwareProfile.check_buildable`.
    memory : str
        Variant of the segment memories, one of `lately.hdl.memory.variants.VARIANTS`.

    Members
    -------
    control : In(Control)
    key : In(key_bits)
    secret0, secret1 : In(128)
        With siphash; the second with re-keying only.
    coming : Out(1)
        `valid` of the next clock.
    valid, seen, hit, insert, shift : Out(1)
        `hit` is `seen` of a valid operation. `insert` and `shift` are those of
        the operation that leaves.
    age : Out(range(window_generations + 1))
        Youngest generation that the key can be of; 0 if it was not seen.
    clean : Out(1)
        Whether the spare is clean, as far as the core can tell: it is when `clean` is high
        `clear_clocks` clocks after a shift or a clear, or later. Always high here.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification.
    """

    CONTROL_LAG = CONTROL_LAG
    ORGANISATION = "separate"

    def __init__(self, *, spec, memory="portable"):
        self._profile = HardwareProfile(spec, organisation=self.ORGANISATION, memory=memory)
        self._profile.check_buildable()
        self._spec = spec
        self._memory = memory
        self.pipelines = 2 if spec.rekey else 1
        self._hashes = [self._build_hash() for _ in range(self.pipelines)]
        self._reducer = MatchReducer(segments=spec.segments, parts=spec.parts)
        self._align = Align(segments=spec.segments)
        self._detector = RunDetector(run=spec.run, starts=spec.window_generations + 1)
        self._hash_latency = self._hashes[0].latency
        self._match_latency = self._build_memories() + self._reducer.latency
        self._verdict_latency = self._align.latency + self._detector.latency
        self.latency = (
            self._hash_latency + Ring.LATENCY + self._match_latency + self._verdict_latency + 1
        )
        super().__init__(
            {
                "control": In(Control),
                "key": In(spec.key_bits),
                "coming": Out(1),
                "valid": Out(1),
                "seen": Out(1),
                "hit": Out(1),
                "insert": Out(1),
                "shift": Out(1),
                "age": Out(range(spec.window_generations + 1)),
                "clean": Out(1, init=1),
            }
            | (
                {f"secret{number}": In(SECRET_BITS) for number in range(self.pipelines)}
                if spec.hash == "siphash"
                else {}
            )
        )

    def _build_hash(self):
        """Build the hash of a pipeline."""
        return KeyHash(spec=self._spec)

    def _build_memories(self):
        """Build ring and memories; return the clocks from an address to the segments' bits."""
        spec = self._spec
        self.clear_clocks = self._profile.clear_cycles
        self._ring = Ring(segments=spec.segments, run=spec.run, clear_words=self.clear_clocks)
        self._memories = [
            [self._build_memory() for _ in range(spec.parts)] for _ in range(spec.segments)
        ]
        return self._memories[0][0].latency

    def _build_memory(self):
        """Build the memory of one part of a segment."""
        return segment_memory(
            self._memory,
            depth=self._spec.part_bits,
            clear_bits=self._spec.clear,
            ways=self._profile.address_registers,
        )

    def elaborate(self, platform):
        m = Module()
        for number, key_hash in enumerate(self._hashes):
            m.submodules[f"hash{number}"] = key_hash
            m.d.comb += key_hash.key.eq(self.key)
            if self._spec.hash == "siphash":
                m.d.comb += key_hash.secret.eq(getattr(self, f"secret{number}"))
        m.submodules.ring = ring = self._ring
        m.submodules.reducer = reducer = self._reducer
        m.submodules.align = align = self._align
        m.submodules.detector = detector = self._detector

        hashed = self._delay(m, self.control, self._hash_latency - self.CONTROL_LAG, "hashed")
        m.d.comb += [
            ring.insert.eq(hashed.insert),
            ring.shift.eq(hashed.shift),
            ring.clear.eq(hashed.clear),
            ring.adopt.eq(hashed.adopt if self.pipelines == 2 else 0),
            reducer.bits.eq(self._elaborate_segments(m, hashed)),
            align.i.eq(reducer.matches),
            align.base.eq(self._delay(m, ring.base, self._match_latency, "base")),
            detector.matches.eq(align.o),
        ]

        rest = Ring.LATENCY + self._match_latency + self._verdict_latency
        leaving = self._delay(m, hashed, rest, "leaving")
        seen = leaving.query & detector.seen
        m.d.comb += self.coming.eq(leaving.valid)
        m.d.sync += [
            self.valid.eq(leaving.valid),
            self.insert.eq(leaving.insert),
            self.shift.eq(leaving.shift),
            self.seen.eq(seen),
            self.hit.eq(leaving.valid & seen),
            self.age.eq(detector.age & seen.replicate(len(self.age))),
        ]
        return m

    def _elaborate_segments(self, m, control):
        """Connect every memory to its indices; return their bits, segment by segment."""
        bits = []
        for segment, parts in enumerate(self._memories):
            for part, bank in enumerate(parts):
                m.submodules[f"segment{segment}_part{part}"] = bank
                m.d.comb += [
                    bank.address.eq(self._elaborate_address(m, segment, part)),
                    bank.set.eq(self._ring.set[segment]),
                    bank.clear.eq(self._ring.clear_segments[segment]),
                    bank.clear_address.eq(self._ring.clear_address),
                ]
                bits.append(bank.bit)
        return Cat(bits)

    def _elaborate_address(self, m, segment, part):
        """Return the address of a part of a segment, as late as the ring has its masks."""
        parts = self._spec.parts
        candidates = []
        for number, key_hash in enumerate(self._hashes):
            indices = key_hash.indices(segment % self._spec.hash_functions)
            block, cells = indices[:-parts], indices[-parts:]
            address = Cat(cells[part], *block)
            candidates.append(self._delay(m, address, 1, f"address{segment}_{part}_{number}_"))
        address = candidates[0]
        if self.pipelines == 2:
            address = Mux(self._ring.pipelines[segment], candidates[1], address)
        return self._delay(m, address, Ring.LATENCY - 1, f"address{segment}_{part}_")

    def _delay(self, m, value, clocks, name):
        """Return `value` as it was `clocks` clocks ago; flags are reset, addresses are not."""
        for clock in range(clocks):
            delayed = Signal.like(
                value, name=f"{name}{clock}", reset_less=name.startswith("address")
            )
            m.d.sync += delayed.eq(value)
            value = delayed
        return value
