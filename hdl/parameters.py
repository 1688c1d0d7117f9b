"""Rules that parameters of components share."""


def require_integer(name, value, *, least=0, most=None):
    """Refuse a parameter that is no integer, or out of its range.

    Parameters
    ----------
    name : str
        As the message is to call it.
    value : object
    least : int
    most : int, optional

    Raises
    ------
    TypeError
        If it is no integer.
    ValueError
        If it is out of its range.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, not {value}")


def require_power_of_two(name, value, *, least=1):
    """Refuse a parameter that is no power of two, or too small.

    Parameters
    ----------
    name : str
        As the message is to call it.
    value : object
    least : int

    Raises
    ------
    TypeError
        If it is no integer.
    ValueError
        If it is no power of two, or too small.
    """
    require_integer(name, value, least=least)
    if value & (value - 1):
        raise ValueError(f"{name} must be a power of two, not {value}")
