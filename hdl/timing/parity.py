"""Parity of the cells of timing filters: what it is made of, and what tells that it is wrong."""

from amaranth.hdl import Cat, Const, Value

from .timing_profile import check_bits

DIGIT = 4
"""Bits of a word that are added up in a clock."""


def parity(stamp):
    """Return the bits that a cell holds beside a stamp, of which the ones are odd in number then.

    A word of ones alone is wrong, too, as is one of zeros: where the number of its bits would be
    odd, it has a zero more.

    Parameters
    ----------
    stamp : Value
    """
    stamp = Value.cast(stamp)
    return Cat(~stamp.xor(), Const(0, check_bits(len(stamp)) - 1))


def sums(word):
    """Return the parities of the digits of a cell. An even number of them is odd if it is wrong.

    Parameters
    ----------
    word : Value
    """
    return Cat(word[at : at + DIGIT].xor() for at in range(0, len(word), DIGIT))
