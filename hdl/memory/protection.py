"""Protection of cells against upsets: builds their memory, finds upset cells and repairs them."""

from functools import partial
from types import MappingProxyType

from amaranth.hdl import Cat, Const, Mux, Value

from ..latencies import VOTES, check_bits
from ..pipeline import delayed, registered
from .copies import DIGIT, Copies


class CellProtection:
    """Cells without protection, and the interface of the protections.

    A user builds its memory with `memory`. One cycle after each word of a port, `wrong` says
    whether the cell is upset. If `lost`, the content of such a cell is unknown, and the user
    discards it; otherwise the word is already correct. A sweep reads cells at port B and writes
    the wrong ones as `repair` says.

    The methods of this class find nothing wrong: synthesis removes what depends on them.
    """

    copies = 1
    """Copies of the memory."""

    checked = False
    """Whether the user stores `parity` in each cell."""

    def check_bits(self, held):
        """Return the bits of the parity of a cell that holds `held` bits; 0 if it stores none.

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
            As the classes of `lately.hdl.memory.cells`.
        depth, width : int
            Cells, and bits of each, its parity included.
        """
        return build(depth=depth, width=width)

    def wrong(self, m, memory, port):
        """Return whether the word of the cycle before belongs to an upset cell.

        Parameters
        ----------
        m : Module
            Gets the registers.
        memory : Component
            As built by `memory`.
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
            As built by `memory`.
        read : Value, optional
            The word of the cell is at the port; by default it may be there in each cycle.
        port : str
            "a" or "b".
        """
        return Repair(self, memory, Const(0))


class Parity(CellProtection):
    """Each cell stores the parity of its content, which is lost if the parity is wrong."""

    checked = True

    def wrong(self, m, memory, port):
        """Do as `CellProtection.wrong`."""
        word = getattr(memory, f"{port}_word")
        return ~registered(m, sums(word), f"{port}_sums").xor()

    def lost(self, wrong):
        """Do as `CellProtection.lost`."""
        return wrong

    def repair(self, m, memory, read=None, *, port="b"):
        """Do as `CellProtection.repair`."""
        wrong = self.wrong(m, memory, port)
        return Repair(self, memory, _kept(m, read)(wrong, "repair_wrong"))


class Triplication(CellProtection):
    """Three copies of the memory, whose vote is the word, and the copy that differs is rewritten.

    Only that copy is written. So the other two answer each read until then, and a repair never
    overwrites an operation's write.
    """

    copies = VOTES

    def memory(self, build, *, depth, width):
        """Do as `CellProtection.memory`."""
        copies = [build(depth=depth, width=width) for _ in range(VOTES)]
        return Copies(
            copies,
            answers=["a_word", "b_word"],
            latency=copies[0].LATENCY,
            registers=0,
            writes="write",
        )

    def wrong(self, m, memory, port):
        """Do as `CellProtection.wrong`."""
        return registered(m, Cat(memory.unlike(f"{port}_word")), f"{port}_unlike").any()

    def repair(self, m, memory, read=None, *, port="b"):
        """Do as `CellProtection.repair`."""
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
    """Return a function that registers a value the cycle after a word, until the next word."""
    found = None if read is None else registered(m, read, "repair_found")
    return partial(registered, m, enable=found)


class Repair:
    """Repair of the cell that a sweep has read last.

    Parameters
    ----------
    protection : CellProtection
    memory : Component
        As built by `CellProtection.memory`.
    copies : Value
        Whether the cell is wrong; if there are copies, a bit for the copy that differs.
    word : Value, optional
        Content of the cell in the other copies.

    Attributes
    ----------
    wrong : Value
        The cell is upset: from two cycles after its word until two cycles after the next.
    lost : Value
        Its content is lost, likewise.
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
        """Return the repair as it was `cycles` cycles ago.

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
        """Return the value for the memory's write port.

        Parameters
        ----------
        repairs : Value
            The cell is repaired in this cycle.
        value : Value
            Written otherwise, and if the content of the cell is lost.
        """
        return value if self._word is None else Mux(repairs, self._word, value)

    def write(self, m, repairs, *, domain="comb"):
        """Write a copy if one differs; return whether the user writes the memory instead.

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
"""Protections of cells by name, one of `lately.hdl.latencies.PROTECTIONS`."""


def parity(held):
    """Return the parity bits of a cell: with them the number of its ones is odd.

    So a word of only zeros is wrong, and a word of only ones as well: the parity has one more
    zero, if the number of bits would be odd without it.

    Parameters
    ----------
    held : Value
    """
    held = Value.cast(held)
    return Cat(~held.xor(), Const(0, check_bits(len(held)) - 1))


def sums(word):
    """Return the parity of each digit of a cell: the cell is wrong if an even number is set.

    Parameters
    ----------
    word : Value
    """
    return Cat(word[at : at + DIGIT].xor() for at in range(0, len(word), DIGIT))


def deviating(second, third):
    """Return which of three copies differs from the other two: a bit for each, one at most.

    If all three differ, as after an upset in each of two copies, it is the first copy.

    Parameters
    ----------
    second, third : Value
        Where each of these differs from the first.
    """
    second, third = second.any(), third.any()
    return Cat(second & third, second & ~third, third & ~second)
