"""Protection of memories against upsets: replicas that vote, and cells that a sweep repairs."""

from functools import partial, reduce
from operator import and_, or_
from types import MappingProxyType

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..latencies import VOTE_LATENCY, VOTES
from ..parameters import check_bits
from ..pipeline import delayed, registered

DIGIT = 4  # bits of a word that are compared, or combined, per cycle


class Copies(wiring.Component):
    """Two or three copies of a memory, with the same inputs and voted outputs.

    A voted bit is the OR of two copies, or the majority of three. So two copies mask a lost bit,
    and three copies correct any single bit. A wrong bit stays in its copy until it is overwritten,
    or until `mend` writes the copy.
    """

    def __init__(
        self,
        copies,  # two or three memories with the same signature
        *,
        # voted outputs of each copy. Any other output is high if it is high in all copies.
        answers,
        latency,  # latency of a copy; the vote adds `registers`
        registers=VOTE_LATENCY,  # 1, or 0 if a register follows
        writes=None,  # name of the write enable, if copies can be written one at a time
    ):
        if len(copies) not in (2, 3):
            raise ValueError(f"Number of copies must be 2 or 3, not {len(copies)}")
        self.copies = copies
        self._registers = registers
        self._writes = writes
        self.latency = self.LATENCY = latency + registers
        self._others = len(copies) - 1
        # Position of the flags of each answer.
        self._indices, bits = {}, 0
        for name in answers:
            self._indices[name] = bits
            bits += 1 if registers else self._others * len(getattr(copies[0], name))
        super().__init__(
            # `upset`: one flag for each of the `answers`: whether the copies differ. Without
            # registers, one mask for each copy except the first: the bits that differ from the
            # first copy. Undefined while the answer is undefined.
            {**copies[0].signature.members, "upset": Out(bits)}
            # `mend`, with `writes`: a bit for each copy that is written in this cycle,
            # independent of the write enable
            | ({"mend": In(len(copies))} if writes else {})
        )

    def elaborate(self, platform):
        m = Module()
        domain = m.d.sync if self._registers else m.d.comb
        upsets = []
        for number, copy in enumerate(self.copies):
            m.submodules[f"copy{number}"] = copy
        for name, member in self.copies[0].signature.members.items():
            voted, each = getattr(self, name), [getattr(copy, name) for copy in self.copies]
            if name == self._writes:
                m.d.comb += [
                    port.eq(voted | mend) for port, mend in zip(each, self.mend, strict=True)
                ]
            elif member.flow is In:
                m.d.comb += [port.eq(voted) for port in each]
            elif name in self._indices:
                domain += voted.eq(vote(each))
                if self._registers:
                    upsets.append((reduce(or_, each) & ~reduce(and_, each)).any())
                else:
                    upsets += [each[0] ^ other for other in each[1:]]
            else:
                m.d.comb += voted.eq(Cat(each).all())
        domain += self.upset.eq(Cat(upsets))
        return m

    def unlike(self, name):
        """Return, for each copy after the first, the bit groups that differ from the first copy."""
        start, width = self._indices[name], len(getattr(self, name))
        each = [self.upset[start + number * width :][:width] for number in range(self._others)]
        return [Cat(differs[at : at + DIGIT].any() for at in range(0, width, DIGIT))
                for differs in each]  # fmt: skip


def vote(values):
    """Return a single value unchanged, the OR of two values, or the bitwise majority of three."""
    first, *others = values
    if not others:
        return first
    second, *third = others
    either = first | second
    return first & second | third[0] & either if third else either


def copy_names(copies):
    """Return a name suffix for each copy; the suffix of a single copy is empty."""
    return range(len(copies)) if len(copies) > 1 else [""]


def protected(build, *, copies, answers, latency=None, **options):
    """Return a memory or, if `copies` is more than 1, several copies joined by `Copies`."""
    if copies == 1:
        return build()
    built = [build() for _ in range(copies)]
    if latency is None:
        latency = getattr(built[0], "latency", None) or built[0].LATENCY
    return Copies(built, answers=answers, latency=latency, **options)


class CellProtection:
    """Base class of cell protections; the class itself detects no upsets.

    One cycle after a port returns a word, `wrong` reports whether the cell is upset. If `lost` is
    set, the content of an upset cell is unknown; otherwise the word is already correct. A sweep
    reads all cells and rewrites upset cells with `repair`.
    """

    copies = 1  # number of copies of the memory
    checked = False  # whether the component stores `parity` in each cell

    def check_bits(self, held):
        """Return the number of parity bits of a cell with `held` bits; 0 without parity."""
        return check_bits(held) if self.checked else 0

    def memory(self, build, *, depth, width):
        return build(depth=depth, width=width)

    def wrong(self, m, memory, port):
        """Return whether the word of the previous cycle comes from an upset cell."""
        return Const(0)

    def lost(self, wrong):
        return wrong & Const(0)

    def repair(self, m, memory, read=None, *, port="b"):
        """Return the `Repair` of the cell that the sweep read last; `read` marks the word."""
        return Repair(self, memory, Const(0))


class Parity(CellProtection):
    """Stores the parity of each cell; if the parity is wrong, the content of the cell is lost."""

    checked = True

    def wrong(self, m, memory, port):
        word = getattr(memory, f"{port}_word")
        return ~registered(m, sums(word), f"{port}_sums").xor()

    def lost(self, wrong):
        return wrong

    def repair(self, m, memory, read=None, *, port="b"):
        wrong = self.wrong(m, memory, port)
        return Repair(self, memory, _kept(m, read)(wrong, "repair_wrong"))


class Triplication(CellProtection):
    """Keeps three copies of the memory, which vote; a repair writes only a copy that differs."""

    copies = VOTES

    def memory(self, build, *, depth, width):
        copies = [build(depth=depth, width=width) for _ in range(VOTES)]
        return Copies(
            copies,
            answers=["a_word", "b_word"],
            latency=copies[0].LATENCY,
            registers=0,
            writes="write",
        )

    def wrong(self, m, memory, port):
        return registered(m, Cat(memory.unlike(f"{port}_word")), f"{port}_unlike").any()

    def repair(self, m, memory, read=None, *, port="b"):
        keep = _kept(m, read)
        answer = f"{port}_word"
        word = registered(m, getattr(memory, answer), "repair_word_before", reset_less=True)
        unlike = [registered(m, each, "repair_unlike") for each in memory.unlike(answer)]
        return Repair(
            self,
            memory,
            keep(deviating(*unlike), "repair_copies"),
            word=keep(word, "repair_word", reset_less=True),
        )


def _kept(m, read):
    """Return a function that registers a value one cycle after `read`, or always without `read`."""
    is_read = None if read is None else registered(m, read, "repair_found")
    return partial(registered, m, enable=is_read)


class Repair:
    """Whether and how to repair the cell that the sweep read last."""

    LATENCY = 2  # cycles from a word to its repair

    def __init__(self, protection, memory, copies, *, word=None):
        self._protection = protection
        self._memory = memory
        self._copies = copies
        self._word = word
        # the cell is upset: valid from two cycles after its word to two cycles after the next word
        self.wrong = copies.any()
        # the content of the cell is lost; valid in the same cycles
        self.lost = protection.lost(self.wrong)

    def delayed(self, m, cycles):
        copies = delayed(m, self._copies, cycles, "repair_copies_")
        word = self._word
        if word is not None:
            word = delayed(m, word, cycles, "repair_word_", reset_less=True)
        return Repair(self._protection, self._memory, copies, word=word)

    def value(self, repairs, value):
        """Return the value to write: the voted word if copies are repaired, otherwise `value`."""
        return value if self._word is None else Mux(repairs, self._word, value)

    def write(self, m, repairs, *, domain="comb"):
        """Rewrite the copy that differs; return whether the component must write the cell."""
        if self._word is None:
            return repairs & self.lost
        mend = self._copies & repairs.replicate(len(self._copies))
        m.d[domain] += self._memory.mend.eq(mend)
        return Const(0)


# Cell protections by name; the names are keys of `lately.hdl.latencies.PROTECTIONS`.
CELL_PROTECTIONS = MappingProxyType(
    {"none": CellProtection(), "parity": Parity(), "tmr": Triplication()}
)


def parity(held):
    """Return the parity bits of a cell; a cell of only zeros or only ones counts as upset."""
    held = Value.cast(held)
    return Cat(~held.xor(), Const(0, check_bits(len(held)) - 1))


def sums(word):
    """Return the parity of each digit of a cell; the cell is upset if their XOR is 0."""
    return Cat(word[at : at + DIGIT].xor() for at in range(0, len(word), DIGIT))


def deviating(second, third):
    """Return a one-hot mask of the copy that differs from the others (the first if all differ)."""
    second, third = second.any(), third.any()
    return Cat(second & third, second & ~third, third & ~second)
