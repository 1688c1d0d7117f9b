"""Pipeline stages: values as they were some clocks ago."""

from amaranth.hdl import Mux, Signal


def registered(m, value, name, *, reset_less=False):
    """Return a value, or a view, as it was in the clock before.

    Parameters
    ----------
    m : Module
        That the registers go to.
    value : Value or View
    name : str
        Of the registers.
    reset_less : bool
        Whether a reset leaves the register as it is.
    """
    register = Signal(value.shape(), name=name, reset_less=reset_less)
    m.d.sync += register.eq(value)
    return register


def delayed(m, value, clocks, name):
    """Return a value, or a view, as it was `clocks` clocks ago.

    Parameters
    ----------
    m : Module
        That the registers go to.
    value : Value or View
    clocks : int
    name : str
        Of the registers.
    """
    for clock in range(clocks):
        value = registered(m, value, f"{name}{clock}")
    return value


def selected(m, values, number, name):
    """Return one of the values, ``ceil(log2(len(values)))`` clocks late: a binary digit per clock.

    Parameters
    ----------
    values : list of Value
        All of one width.
    number : Value
        Of the one; as early as the values.
    m : Module
        That the registers go to.
    name : str
        Of the registers.
    """
    while len(values) > 1:
        pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
        values = [
            registered(
                m,
                Mux(number[0], pair[-1], pair[0]),
                f"{name}{len(values)}_{index}",
                reset_less=True,
            )
            for index, pair in enumerate(pairs)
        ]
        number = registered(m, number[1:], f"{name}_of_{len(values)}", reset_less=True)
    return values[0]
