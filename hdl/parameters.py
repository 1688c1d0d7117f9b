"""Parameter checks and widths shared by components and profiles.

This module does not import Amaranth.
"""


def require_integer(name, value, *, minimum=0, maximum=None):
    """Raise TypeError unless `value` is an integer, and ValueError if it is out of range."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, not {value}")
    if maximum is not None and value > maximum:
        raise ValueError(f"{name} must be at most {maximum}, not {value}")


def require_power_of_two(name, value, *, minimum=1):
    require_integer(name, value, minimum=minimum)
    if value & (value - 1):
        raise ValueError(f"{name} must be a power of two, not {value}")


def alternatives(values) -> str:
    """Return the quoted values joined with commas and "or": 'a', 'b' or 'c'."""
    *others, last = map(repr, values)
    return f"{', '.join(others)} or {last}" if others else last


def ceil_log(base: int, value: int) -> int:
    """Return the smallest n with ``base**n >= value``."""
    exponent, power = 0, 1
    while power < value:
        exponent, power = exponent + 1, power * base
    return exponent


def stamp_bits(span: int) -> int:
    """Return the width of a timestamp that can express ages of up to twice `span` ticks."""
    return (2 * span + 1).bit_length()


def check_bits(held_bits: int) -> int:
    """Return the number of parity bits of a cell: 1 or 2, so that the total width is even."""
    return 1 + (held_bits + 1) % 2
