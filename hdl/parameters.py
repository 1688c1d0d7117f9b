"""Checks of parameters that components share."""


def require_integer(name, value, *, least=0, most=None):
    """Reject a parameter that is not an integer or is out of range.

    Parameters
    ----------
    name : str
        Name of the parameter in the message.
    value : object
    least : int
    most : int, optional

    Raises
    ------
    TypeError
        If the value is not an integer.
    ValueError
        If the value is out of range.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, not {value}")


def require_power_of_two(name, value, *, least=1):
    """Reject a parameter that is not a power of two or is too small.

    Parameters
    ----------
    name : str
        Name of the parameter in the message.
    value : object
    least : int

    Raises
    ------
    TypeError
        If the value is not an integer.
    ValueError
        If the value is not a power of two, or is too small.
    """
    require_integer(name, value, least=least)
    if value & (value - 1):
        raise ValueError(f"{name} must be a power of two, not {value}")
