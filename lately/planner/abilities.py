"""What filters of each family can do beside telling whether a key was inserted lately."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..golden import FAMILIES


@dataclass(frozen=True)
class Abilities:
    """What filters of a family can do.

    Attributes
    ----------
    exact_window : bool
        Whether a key can be forgotten just when its window ends.
    window_per_query : bool
        Whether each query has a window of its own.
    exact_age : bool
        Whether answers tell how many insertions ago a key came, and nothing else.
    remove : bool
        Whether keys can be removed.
    counts : tuple of str
        What the window may be counted in: "insertions", "time" or both.
    answers : str
        All that in few words, with the unit of ages.
    """

    exact_window: bool = False
    window_per_query: bool = False
    exact_age: bool = False
    remove: bool = False
    counts: tuple[str, ...] = ("insertions", "time")
    answers: str = "age in generations"


_RING = Abilities()

ABILITIES: Mapping[str, Abilities] = {
    **dict.fromkeys(FAMILIES, _RING),
    "window-dictionary": Abilities(
        exact_window=True,
        window_per_query=True,
        exact_age=True,
        remove=True,
        counts=("insertions",),
        answers="exact age, any window, remove",
    ),
    "partitioned-timing": Abilities(
        exact_window=True,
        window_per_query=True,
        counts=("insertions",),
        answers="age in blocks, any window",
    ),
    "timed-timing": Abilities(
        exact_window=True,
        window_per_query=True,
        counts=("time",),
        answers="age in ticks, any window",
    ),
}
"""Abilities by family, of all families that are planned."""

OPTIONS: Mapping[str, str] = {
    "exact_window": "a slack of 0",
    "window_per_query": "a window for each query",
    "exact_age": "exact ages",
    "remove": "removal",
}
"""What is asked for, in words, by name in `Abilities`."""
