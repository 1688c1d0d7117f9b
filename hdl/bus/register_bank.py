"""Registers of an exported unit, independent of the bus."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..registers import WORD_BITS, Access
from ..statistics import EventCounter
from .register_map import ADDRESS_BITS, WORD_BYTES

WORD_ADDRESS_BITS = ADDRESS_BITS - (WORD_BYTES - 1).bit_length()  # width of a word address


class AccessSignature(wiring.Signature):
    """Ports through which a bus accesses the registers, one access at a time."""

    def __init__(self):
        super().__init__(
            {
                # High for one cycle when an access begins; other signals are stable until `done`.
                "read": Out(1),
                "write": Out(1),
                "address": Out(WORD_ADDRESS_BITS),  # word address
                "data": Out(WORD_BITS),
                "strobe": Out(WORD_BYTES),  # bytes to be written
                "done": In(1),  # high for one cycle, a fixed time later: the access is complete
                # With `done`: the register does not exist or does not permit this access.
                "error": In(1),
                "word": In(WORD_BITS),  # with `done`: the word that was read
            }
        )


class RegisterBank(wiring.Component):
    """Implements the registers of a `RegisterMap`.

    Reading a counter returns the value in the last snapshot, which captured all counters in the
    same cycle. Writing the last word of a stream register sends the value; the words of this
    register cannot be written again until the stream accepts the value. SHIFT and CLEAR cannot be
    written while either is pending.
    """

    READ_LATENCY = 3
    WRITE_LATENCY = 9  # long enough to complete a snapshot

    def __init__(self, *, registers):
        self._registers = registers
        self._signals = registers.signals()
        # Ports have the names of registers, or of a register and its field: readable registers and
        # counters, settings, commands (high for a cycle), events of sticky bits, and streams.
        super().__init__(
            {"access": In(AccessSignature())}
            | {
                name: self._member(field, width)
                for name, (field, width) in self._signals.items()
                if not field.constant
            }
            # Whether a sticky bit is set whose bit in `irq_mask` is also set.
            | ({"irq": Out(1)} if registers.find("faults") else {})
        )

    @staticmethod
    def _member(field, width):
        match field.access:
            case Access.READ_WRITE:
                return Out(width, init=field.reset)
            case Access.PULSE:
                return Out(1)
            case Access.WRITE:
                return Out(stream.Signature(width))
        return In(width)

    def elaborate(self, platform):
        m = Module()
        written, done = self._elaborate_select(m)
        values = {
            name: self._elaborate_signal(m, name, *signal, written)
            for name, signal in self._signals.items()
        }
        if "irq" in self.signature.members:
            (faults,), (mask,) = (self._registers.find(name) for name in ("faults", "irq_mask"))
            raised = self._value(faults, values) & self._value(mask, values)
            m.d.sync += self.irq.eq(raised.any())
        word = self._elaborate_read(m, values)
        m.d.comb += [self.access.word.eq(word), self.access.done.eq(done)]
        return m

    def _elaborate_select(self, m):
        access, words = self.access, self._registers.words
        reads, writes = Signal(self.READ_LATENCY), Signal(self.WRITE_LATENCY)
        m.d.sync += [reads.eq(Cat(access.read, reads)), writes.eq(Cat(access.write, writes))]
        may = {
            name: self._elaborate_known(m, name, [word for word in words if getattr(word, name)])
            for name in ("readable", "writable")
        }
        chosen, held = {}, []
        for word in words:
            if not word.writable:
                continue
            hit = Signal(name=f"hit_{word.name}")
            m.d.sync += hit.eq(access.address == word.address // WORD_BYTES)
            chosen[word.name] = hit
            held.append(hit & self._is_held(word))
        refused = Signal()
        m.d.comb += refused.eq(Cat(held).any())
        with m.If(reads[0] | writes[0]):
            m.d.sync += access.error.eq(
                Mux(writes[0], ~may["writable"] | refused, ~may["readable"])
            )
        written = {}
        for name, hit in chosen.items():
            written[name] = Signal(name=f"write_{name}")
            m.d.sync += written[name].eq(writes[0] & hit & ~refused)
        return written, reads[-1] | writes[-1]

    def _elaborate_known(self, m, name, words):
        known = Signal(name=name)
        addresses = sum(1 << word.address // WORD_BYTES for word in words)
        m.d.sync += known.eq(
            Const(addresses, 1 << WORD_ADDRESS_BITS).bit_select(self.access.address, 1)
        )
        return known

    def _is_held(self, word):
        (signal, *_) = {field.signal for field in word.fields}
        if word.fields[0].access is Access.WRITE:
            return getattr(self, signal).valid
        if word.register.name == "control":
            orders = [
                self._given(field)
                for field in word.fields
                if field.access is Access.PULSE and field.name in ("shift", "clear")
            ]
            return self.status_order & Cat(orders).any()
        return Const(0)

    def _given(self, field):
        return self.access.data[field.low] & self.access.strobe[field.low // 8]

    def _elaborate_signal(self, m, name, first, width, written):
        """Connect a register or field to its port, and return the value that the bus reads."""
        if first.constant:
            return Const(
                sum(field.reset << field.signal_low for _, field in self._fields(name)), width
            )
        port = getattr(self, name)
        match first.access:
            case Access.PULSE:
                ((word, field),) = self._fields(name)
                m.d.sync += port.eq(written[word] & self._given(field))
                return Const(0, 1)
            case Access.STICKY:
                return self._elaborate_fault(m, name, port, written)
            case Access.READ_WRITE:
                self._elaborate_bytes(m, name, port, written)
                return port
            case Access.WRITE:
                self._elaborate_load(m, name, port, written)
                return Const(0, width)
        if any(word.register.event for word in self._registers.find(name)):
            return self._elaborate_snapshot(m, name, port)
        return port

    def _fields(self, name):
        return [
            (word.name, field)
            for word in self._registers.words
            for field in word.fields
            if field.signal == name
        ]

    def _elaborate_fault(self, m, name, event, written):
        ((word, field),) = self._fields(name)
        held = Signal(name=f"{name}_held")
        m.d.sync += held.eq(event | (held & ~(written[word] & self._given(field))))
        return held

    def _elaborate_bytes(self, m, name, value, written):
        for word, field in self._fields(name):
            for byte in range(WORD_BYTES):
                low, high = max(8 * byte, field.low), min(8 * byte + 8, field.low + field.width)
                if low >= high:
                    continue
                offset = field.signal_low - field.low
                with m.If(written[word] & self.access.strobe[byte]):
                    m.d.sync += value[low + offset : high + offset].eq(self.access.data[low:high])

    def _elaborate_load(self, m, name, port, written):
        self._elaborate_bytes(m, name, port.payload, written)
        last, _ = self._fields(name)[-1]
        with m.If(port.ready):
            m.d.sync += port.valid.eq(0)
        with m.If(written[last]):
            m.d.sync += port.valid.eq(1)

    def _elaborate_snapshot(self, m, name, count):
        """Return the count in the last snapshot.

        Each digit is captured one cycle after the digit below it, when the carry has arrived.
        """
        held, take = Signal.like(count, name=f"{name}_held"), self.control_snapshot
        for low in range(0, len(count), EventCounter.DIGIT):
            high = low + EventCounter.DIGIT
            with m.If(take):
                m.d.sync += held[low:high].eq(count[low:high])
            later = Signal(name=f"{name}_take{low}")
            m.d.sync += later.eq(take)
            take = later
        return held

    def _elaborate_read(self, m, values):
        """Return the word at the address; each cycle decodes two bits of the address."""
        level = {word.address // WORD_BYTES: self._value(word, values)
                 for word in self._registers.words}  # fmt: skip
        for low in range(0, WORD_ADDRESS_BITS, 2):
            after = {}
            for group in sorted({index // 4 for index in level}):
                chosen = Signal(WORD_BITS, name=f"level{low}_{group}", reset_less=True)
                words = Array(level.get(4 * group + digit, Const(0, WORD_BITS))
                              for digit in range(4))  # fmt: skip
                m.d.sync += chosen.eq(words[self.access.address[low : low + 2]])
                after[group] = chosen
            level = after
        return level[0]

    def _value(self, word, values):
        parts, end = [], 0
        for field in sorted(word.fields, key=lambda field: field.low):
            bits = values[field.signal][field.signal_low :][: field.width]
            parts += [Const(0, field.low - end), bits]
            end = field.low + field.width
        return Cat(*parts, Const(0, WORD_BITS - end))
