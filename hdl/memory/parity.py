"""Parity of cells that are written whole: what it is made of, and what tells that it is wrong."""

from amaranth.hdl import Cat, Const, Value

from ..latencies import check_bits

DIGIT = 4
"""Bits of a word that are added up in a clock."""


def parity(held):
    """Return the bits beside what a cell holds, of which the ones are odd in number then.

    A word of ones alone is wrong, too, as is one of zeros: where the number of its bits would be
    odd, it has a zero more.

    Parameters
    ----------
    held : Value
    """
    held = Value.cast(held)
    return Cat(~held.xor(), Const(0, check_bits(len(held)) - 1))


def sums(word):
    """Return the parities of the digits of a cell. An even number of them is odd if it is wrong.

    Parameters
    ----------
    word : Value
    """
    return Cat(word[at : at + DIGIT].xor() for at in range(0, len(word), DIGIT))
