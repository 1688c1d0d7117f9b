"""Operations of a filter, shared by golden models and hardware."""

from enum import IntEnum, IntFlag


class OperationBit(IntFlag):
    """Bits of an operation code: ALONE with QUERY is CLEAR, and ALONE by itself is SHIFT."""

    QUERY = 1  # look up the key, before the other bits take effect
    INSERT = 2
    ALONE = 4  # change the whole filter, not one key
    REMOVE = 8  # only in families that can remove keys


class Operation(IntEnum):
    """Operation codes; `OperationBit` defines the bits.

    The hardware's ``operation`` field and the serial protocol use the same codes. Operations take
    effect in order, each as if the previous operation had finished. CHECK_AND_INSERT answers from
    the state before its own insertion.
    """

    NONE = 0  # do nothing; still returns a result
    QUERY = OperationBit.QUERY  # report whether the key is in the filter
    INSERT = OperationBit.INSERT  # insert the key; shift first if the generation is full
    # query, then insert, whether or not the key is reported
    CHECK_AND_INSERT = OperationBit.QUERY | OperationBit.INSERT
    SHIFT = OperationBit.ALONE  # start a new generation now
    # forget all keys and return to the first position of the ring
    CLEAR = OperationBit.ALONE | OperationBit.QUERY
    REMOVE = OperationBit.REMOVE  # remove the key; only in families that can remove keys
