"""Operation codes of filters, which golden models and hardware share."""

from enum import IntEnum, IntFlag


class OperationBit(IntFlag):
    """Bits of an operation code; ALONE is SHIFT, and ALONE | QUERY is CLEAR."""

    QUERY = 1  # look up the key, before the other bits take effect
    INSERT = 2
    ALONE = 4  # change the whole filter, not one key
    REMOVE = 8  # only in families that can remove keys


class Operation(IntEnum):
    """Operation codes; `OperationBit` defines the bits of a code.

    The hardware's ``operation`` field and the serial protocol use the same codes. Operations take
    effect in order, each as if the previous operation had finished. CHECK_AND_INSERT reports
    whether the key was in the filter before the insertion.
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
