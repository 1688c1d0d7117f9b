"""Parameter checks and widths shared by components and profiles. Does not import Amaranth."""


def require_integer(name, value, *, minimum=0, maximum=None):
    """Reject a parameter that is not an integer or is out of range."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, not {value}")
    if maximum is not None and value > maximum:
        raise ValueError(f"{name} must be at most {maximum}, not {value}")


def require_power_of_two(name, value, *, minimum=1):
    """Reject a parameter that is not a power of two or is too small."""
    require_integer(name, value, minimum=minimum)
    if value & (value - 1):
        raise ValueError(f"{name} must be a power of two, not {value}")


def alternatives(values) -> str:
    """Quote values, and join them with commas and "or"."""
    *others, last = map(repr, values)
    return f"{', '.join(others)} or {last}" if others else last


def ceil_log(base: int, value: int) -> int:
    """Return the smallest n with ``base**n >= value``."""
    exponent, power = 0, 1
    while power < value:
        exponent, power = exponent + 1, power * base
    return exponent


def stamp_bits(span: int) -> int:
    """Return the width of a time stamp for ages up to twice `span`, in ticks."""
    return (2 * span + 1).bit_length()


def check_bits(held_bits: int) -> int:
    """Return the number of parity bits of a cell, which makes the total number of bits even."""
    return 1 + (held_bits + 1) % 2
