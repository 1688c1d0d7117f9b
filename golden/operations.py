"""Operations of a filter, the same in golden and hardware."""

from enum import IntEnum, IntFlag


class OperationBit(IntFlag):
    """Meaning of the bits of an operation's code.

    With ALONE, the other bits select an operation that concerns no key: none of them SHIFT, and
    QUERY CLEAR. Other combinations do nothing.
    """

    QUERY = 1
    """The key is looked up, before the other bits take effect."""
    INSERT = 2
    """The key is inserted."""
    ALONE = 4
    """The operation is performed alone: it changes the whole filter, not one key."""
    REMOVE = 8
    """The key is removed; only in families that can remove keys."""


class Operation(IntEnum):
    """An operation, by its code: `OperationBit` says what the bits mean.

    The codes are those of the hardware's ``operation`` field and of the serial protocol.
    Operations take effect in order, each as if the one before it had
    finished. A query answers from the state before its own insertion.
    """

    NONE = 0
    """Nothing; gives a result like any other operation."""
    QUERY = OperationBit.QUERY
    """Report whether the key is in the filter."""
    INSERT = OperationBit.INSERT
    """Insert the key; shift first if the generation is full."""
    CHECK_AND_INSERT = OperationBit.QUERY | OperationBit.INSERT
    """Query, then insert, whatever the query said."""
    SHIFT = OperationBit.ALONE
    """Start a new generation now."""
    CLEAR = OperationBit.ALONE | OperationBit.QUERY
    """Forget everything and return to the first position of the ring."""
    REMOVE = OperationBit.REMOVE
    """Remove the key; only in families that can remove keys."""
