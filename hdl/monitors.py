"""Self-checks of units, which detect lost or duplicated results and wrong counters."""

from amaranth.hdl import Cat, ResetInserter, ResetSignal, Signal
from amaranth.lib.wiring import Out

from .pipeline import delayed, registered

ALARM_BITS = 16  # width of the alarm counter, which wraps around


def alarm_ports(check):
    return {"fault": Out(1), "alarms": Out(ALARM_BITS)} if check else {}


def recovering(m, unit, wrongs):
    """Make the unit reset itself if any flag in `wrongs` is set; count the resets in `alarms`."""
    registers = [registered(m, flag, f"wrong{number}") for number, flag in enumerate(wrongs)]
    # Resets by the unit itself do not clear this count.
    alarms = Signal.like(unit.alarms, reset_less=True)
    m.d.sync += unit.fault.eq(Cat(registers).any())
    m.d.comb += unit.alarms.eq(alarms)
    with m.If(ResetSignal(allow_reset_less=True)):
        m.d.sync += alarms.eq(0)
    with m.Elif(unit.fault):
        m.d.sync += alarms.eq(alarms + 1)
    return ResetInserter(unit.fault)(m)


def watch_count(m, count, name, *, more, less=0):
    """Return whether a counter differs from a second count of the same events."""
    # This copy counts down, so synthesis cannot merge it with the count.
    other = Signal(len(count), name=f"{name}_other", init=~count.init & (1 << len(count)) - 1)
    m.d.sync += other.eq(other - more + less)
    return registered(m, ~(Cat(count) ^ other).all(), f"{name}_wrong")


def watch_credits(m, credits, name):
    """Return whether the sum of credits and operations in flight differs from the limit."""
    late = delayed(m, Cat(credits.spend, credits.refund), 2, f"{name}_late")
    return watch_count(m, credits.left, name, more=late[1], less=late[0])


def watch_way(m, start, end, cycles, name):
    """Return whether `end` differs from the value that `start` had `cycles` cycles earlier."""
    # This copy is inverted, so synthesis cannot merge it with the flag's registers.
    none = Signal(cycles, name=f"{name}_none", init=-1)
    m.d.sync += none.eq(Cat(~start, none))
    return registered(m, end == none[-1], f"{name}_lost")


def watch_results(
    m,
    *,
    i,  # requests
    accepted,  # whether a request was accepted in the previous cycle
    queue,  # `ResultQueue` with `check`
    # free entries minus a constant; signed. At least one high bit repeats the sign of the number of
    # entries modulo twice the depth of the queue.
    free,
    lags,  # cycles by which `free` reflects tags and results later than the queue does
    due,  # whether a verdict is due in the next cycle
    valid_next,  # whether a verdict arrives in the next cycle
):
    """Return a flag that rises a few cycles after a result has been lost or duplicated.

    The flag also rises if `accepted` is wrong.
    """
    missed = registered(m, due ^ valid_next, "missed")
    tagged = delayed(m, queue.tagged, lags[0], "tagged_before")
    given = delayed(m, queue.given, lags[1], "given_before")
    total = Signal.like(queue.tagged, init=free.init % (1 << len(queue.tagged)))
    unbalanced = Signal()
    # The total cannot detect more entries than exist, or fewer than none.
    sign = free[len(total) - 1 :]
    m.d.sync += [
        total.eq(free + tagged - given),
        unbalanced.eq((total != total.init) | (sign.any() & ~sign.all())),
    ]
    refused = watch_way(m, i.valid & i.ready, accepted, 1, "accepted")
    return unbalanced | missed | refused
