"""Recent insertions into the cell of an access, which have not yet reached the memory."""

from functools import partial

from amaranth.hdl import Cat, Const, Mux

SAME_LATENCY = 2
"""Latency of `same_address`, in cycles."""


def same_address(pipe, name, address, other, flag):
    """Return whether an address equals another valid address, `SAME_LATENCY` stages later.

    Parameters
    ----------
    pipe : Pipeline
    name : str
        Name of the register.
    address : Staged
    other, flag : Value
        The other address and whether it is valid, in the cycle of `address`.
    """
    pairs = pipe.register(
        f"{name}_pairs",
        lambda here: Cat(
            flag, (here[at : at + 2] == other[at : at + 2] for at in range(0, len(here), 2))
        ),
        address,
    )
    return pipe.register(name, lambda pairs: pairs.all(), pairs)


def recent_insertion(pipe, address, insert, tick, port, *, distance, most_ticks):
    """Return whether, and how long ago, a recent access inserted into the cell of an access.

    Parameters
    ----------
    pipe : Pipeline
    address, insert, tick : Staged
        The access, in the cycle of its read. Its tick precedes its insertion.
    port : WritePort
        Holds the insertion of the access `distance` accesses earlier.
    distance : int
        Number of earlier accesses that are compared.
    most_ticks : int
        Maximum number of ticks during these accesses.

    Returns
    -------
    recent : Staged
        Whether one of these accesses inserts into the cell.
    since : Staged
        Ticks since the last of these insertions, at the same stage.
    """
    recent, since, passed = [], [], Const(0)
    for ahead in range(1, distance + 1):
        other, flag = port.address, port.inserts
        if ahead < distance:
            stage = address.stage + ahead
            other, flag = address.at(stage).value, insert.at(stage).value
        recent.append(same_address(pipe, f"same{ahead}", address, other, flag))
        # The tick of the access itself, and the ticks of the accesses between.
        count = partial(_counted, passed, most_ticks)
        ticks = pipe.register(f"passed{ahead}", count, tick.at(address.stage + 1))
        since.append(ticks)
        passed = ticks.value
    for size in (2, distance):
        groups = [slice(at, at + size) for at in range(0, len(recent), size)]
        since = [_last(pipe, recent[group], since[group]) for group in groups]
        recent = [pipe.register("recent", lambda *flags: Cat(flags).any(), *recent[group])
                  for group in groups]  # fmt: skip
    return recent[0], since[0]


def _counted(passed, most, tick):
    return (passed + tick)[: most.bit_length()]


def _last(pipe, recent, since):
    """Return the ticks since the last inserting access of several, one stage later."""

    def chosen(*values):
        flags, ticks = values[: len(recent)], values[len(recent) :]
        result = ticks[-1]
        for flag, one in list(zip(flags, ticks, strict=True))[-2::-1]:
            result = Mux(flag, one, result)
        return result

    return pipe.register("since", chosen, *recent, *since, reset_less=True)
