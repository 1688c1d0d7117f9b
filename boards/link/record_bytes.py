"""Bytes of operations and of their results, as a board reads and writes them."""

from amaranth.hdl import Array, Cat, Const

from ...golden.operations import Operation
from .information import whole_bytes
from .protocol import MAX_PAYLOAD


def is_bounded(information):
    """Return whether an answer has room for fewer operations than a request.

    Parameters
    ----------
    information : Information
        Of the board.
    """
    return information.batch_operations < MAX_PAYLOAD // information.record_bytes


def is_unknown(code, information):
    """Return whether a code is that of no operation.

    Parameters
    ----------
    code : Value
    information : Information
        Of the board.
    """
    unknown = code > Operation.CLEAR
    return unknown & (code != Operation.REMOVE) if information.removes else unknown


def is_above(byte, was_above, position, information):
    """Return whether the bytes of a window, or class, up to one are above those of the greatest.

    Parameters
    ----------
    byte, was_above : Value
        The byte, and what this function returned of the one before it.
    position : Value
        Place of the byte in its record.
    information : Information
        Of the board.
    """
    greatest = information.most_asked.to_bytes(information.asked_bytes, "little")
    same = Array([*bytes(1 + whole_bytes(information.key_bits)), *greatest])[position]
    return (byte > same) | ((byte == same) & was_above)


def answer_bytes(result, information):
    """Return the bytes of a result, as `lately.boards.link.protocol` has them.

    Parameters
    ----------
    result : View
        Of a `lately.hdl.interface.UnitSignature.result`.
    information : Information
        Of the board.
    """
    verdict, oldest, beside = (8 * size for size in information.verdict_parts)
    parts = [(result.age, verdict - 1), (result.seen, 1)]
    if oldest:
        parts.append((result.oldest, oldest))
    if beside:
        names = [name for name in ("time", "status") if name in result.shape().members]
        parts.append((Cat(getattr(result, name) for name in names), beside))
    return Cat(Cat(value, Const(0, bits - len(value))) for value, bits in parts)
