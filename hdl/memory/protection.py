"""Protection of cells against upsets: build the memory, detect upset cells, repair cells."""

from functools import partial
from types import MappingProxyType

from amaranth.hdl import Cat, Const, Mux, Value

from ..latencies import VOTES, check_bits
from ..pipeline import delayed, registered
from .copies import DIGIT, Copies


class CellProtection:
    """Cells without protection; defines the interface of all protections.

    A component builds its memory with `memory`. One cycle after each word of a port, `wrong`
    reports whether the cell is upset. If `lost`, the content of the cell is unknown and must be
    discarded; otherwise the word is already correct. A sweep reads cells at port B and writes wrong
    cells with `repair`.

    The methods of this class report no errors; synthesis removes the logic that depends on them.
    """

    copies = 1
    """Copies of the memory."""

    checked = False
    """Whether the component stores `parity` in each cell."""

    def check_bits(self, held):
        """Return the parity bits of a cell with `held` bits; 0 without parity.

        Parameters
        ----------
        held : int
        """
        return check_bits(held) if self.checked else 0

    def memory(self, build, *, depth, width):
        """Return a memory of cells.

        Parameters
        ----------
        build : callable
            As for the classes of `lately.hdl.memory.cells`.
        depth, width : int
            Number of cells, and bits of a cell, including its parity.
        """
        return build(depth=depth, width=width)

    def wrong(self, m, memory, port):
        """Return whether the word of the previous cycle belongs to an upset cell.

        Parameters
        ----------
        m : Module
            Gets the registers.
        memory : Component
            Memory built by `memory`.
        port : str
            "a" or "b".
        """
        return Const(0)

    def lost(self, wrong):
        """Return whether the content of a cell is lost.

        Parameters
        ----------
        wrong : Value or Staged
            Whether the cell is upset.
        """
        return wrong & Const(0)

    def repair(self, m, memory, read=None, *, port="b"):
        """Return the `Repair` of the cell that a sweep has read.

        Parameters
        ----------
        m : Module
            Gets the registers.
        memory : Component
            Memory built by `memory`.
        read : Value, optional
            Whether the word of the cell is at the port; by default in every cycle.
        port : str
            "a" or "b".
        """
        return Repair(self, memory, Const(0))


class Parity(CellProtection):
    """Each cell stores the parity of its content, which is lost if the parity is wrong."""

    checked = True

    def wrong(self, m, memory, port):
        """See `CellProtection.wrong`."""
        word = getattr(memory, f"{port}_word")
        return ~registered(m, sums(word), f"{port}_sums").xor()

    def lost(self, wrong):
        """See `CellProtection.lost`."""
        return wrong

    def repair(self, m, memory, read=None, *, port="b"):
        """See `CellProtection.repair`."""
        wrong = self.wrong(m, memory, port)
        return Repair(self, memory, _kept(m, read)(wrong, "repair_wrong"))


class Triplication(CellProtection):
    """Three copies of the memory, which vote; a copy that differs is rewritten.

    Only the copy that differs is written. Until then, the other two copies answer each read. A
    repair never overwrites the write of an operation.
    """

    copies = VOTES

    def memory(self, build, *, depth, width):
        """See `CellProtection.memory`."""
        copies = [build(depth=depth, width=width) for _ in range(VOTES)]
        return Copies(
            copies,
            answers=["a_word", "b_word"],
            latency=copies[0].LATENCY,
            registers=0,
            writes="write",
        )

    def wrong(self, m, memory, port):
        """See `CellProtection.wrong`."""
        return registered(m, Cat(memory.unlike(f"{port}_word")), f"{port}_unlike").any()

    def repair(self, m, memory, read=None, *, port="b"):
        """See `CellProtection.repair`."""
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
    """Return a function that registers a value one cycle after a word, until the next word."""
    found = None if read is None else registered(m, read, "repair_found")
    return partial(registered, m, enable=found)


class Repair:
    """Repair of the cell that a sweep read last.

    Parameters
    ----------
    protection : CellProtection
    memory : Component
        Memory built by `CellProtection.memory`.
    copies : Value
        Whether the cell is wrong; with copies, one bit for each copy that differs.
    word : Value, optional
        Content of the cell in the other copies.

    Attributes
    ----------
    wrong : Value
        The cell is upset: valid from two cycles after its word to two cycles after the next word.
    lost : Value
        The content of the cell is lost; valid in the same cycles.
    """

    LATENCY = 2
    """Cycles from a word to its repair."""

    def __init__(self, protection, memory, copies, *, word=None):
        self._protection = protection
        self._memory = memory
        self._copies = copies
        self._word = word
        self.wrong = copies.any()
        self.lost = protection.lost(self.wrong)

    def delayed(self, m, cycles):
        """Return the repair delayed by `cycles` cycles.

        Parameters
        ----------
        m : Module
            Gets the registers.
        cycles : int
        """
        copies = delayed(m, self._copies, cycles, "repair_copies_")
        word = self._word
        if word is not None:
            word = delayed(m, word, cycles, "repair_word_", reset_less=True)
        return Repair(self._protection, self._memory, copies, word=word)

    def value(self, repairs, value):
        """Return the value to write into the memory.

        Parameters
        ----------
        repairs : Value
            The cell is repaired in this cycle.
        value : Value
            The value without a repair, or if the content of the cell is lost.
        """
        return value if self._word is None else Mux(repairs, self._word, value)

    def write(self, m, repairs, *, domain="comb"):
        """Write a copy that differs; return whether the component writes the memory instead.

        Parameters
        ----------
        m : Module
            Gets the connection.
        repairs : Value
            The cell is repaired in this cycle.
        domain : str
            "comb", or "sync" to write the copy in the next cycle.
        """
        if self._word is None:
            return repairs & self.lost
        mend = self._copies & repairs.replicate(len(self._copies))
        m.d[domain] += self._memory.mend.eq(mend)
        return Const(0)


CELL_PROTECTIONS = MappingProxyType(
    {"none": CellProtection(), "parity": Parity(), "tmr": Triplication()}
)
"""Protections of cells by name; the names are keys of `lately.hdl.latencies.PROTECTIONS`."""


def parity(held):
    """Return the parity bits of a cell, which make the number of ones odd.

    Words of only zeros or only ones are wrong. For this, the parity has a second bit, 0, if the
    number of bits would otherwise be odd.

    Parameters
    ----------
    held : Value
    """
    held = Value.cast(held)
    return Cat(~held.xor(), Const(0, check_bits(len(held)) - 1))


def sums(word):
    """Return the parity of each digit of a cell; the cell is wrong if an even number is set.

    Parameters
    ----------
    word : Value
    """
    return Cat(word[at : at + DIGIT].xor() for at in range(0, len(word), DIGIT))


def deviating(second, third):
    """Return which of three copies differs from the other two, as at most one set bit.

    If all three differ, as after an upset in each of two copies, the first copy is chosen.

    Parameters
    ----------
    second, third : Value
        Bits in which the second and third copies differ from the first.
    """
    second, third = second.any(), third.any()
    return Cat(second & third, second & ~third, third & ~second)
