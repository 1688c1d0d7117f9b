"""False-positive rate and column loads of a dictionary of digests."""

import math

from .rules import require_counts


def digest_false_positive_rate(window: int, digest_bits: int) -> float:
    """Return the probability that a fresh key has the digest of one of `window` distinct keys.

    1 - (1 - 2**-D)**w for digests of `digest_bits`, D.
    """
    require_counts(window=window, digest_bits=digest_bits)
    return -math.expm1(window * math.log1p(-(2.0**-digest_bits)))


def column_loads(window: int, *, columns: int, rows: int) -> list[float]:
    """Return the mean entries per window that reach a cell of each column, then the stash, per row.

    The window is full of distinct keys, and an entry goes to the first column with a free cell. A
    cell that is offered x entries per window is free for a share 1 / (1 + x) of them (Erlang's loss
    formula for one server), so the next column is offered x**2 / (1 + x). On average the stash
    holds `rows` times the last figure.

    Parameters
    ----------
    window : int
        Insertions after which an entry expires.
    columns, rows : int
        Columns, and cells of each.

    Returns
    -------
    list of float, of length ``columns + 1``
    """
    require_counts(window=window, columns=columns, rows=rows)
    loads = [window / rows]
    for _ in range(columns):
        loads.append(loads[-1] ** 2 / (1 + loads[-1]))
    return loads


def stashed_entries(window: int, *, columns: int, rows: int) -> float:
    """Return the mean number of entries in the stash; parameters, errors: as `column_loads`."""
    return rows * column_loads(window, columns=columns, rows=rows)[-1]
