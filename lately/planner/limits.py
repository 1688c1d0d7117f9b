"""The lowest rate and the largest window that memory limits permit."""

from dataclasses import replace

from .failure import USELESS, cheapest, family_names, largest_window
from .requirement import LARGEST_WINDOW, PLANNER_FAMILIES, Requirement, RequirementError

_DECADE = 1000
"""Rates per decade in the search for the lowest rate."""

_LOWEST = 30
"""Decades below 1 that are searched."""


def within_limits(requirement: Requirement, *, window: bool) -> Requirement:
    """Return a requirement with the lowest rate that its memory limits permit.

    With `window`, it has the largest window of three digits instead. The current rate or window of
    the requirement is ignored.

    Raises
    ------
    RequirementError
        If no filter is within the limits.
    """
    if requirement.most_bits is not None and requirement.device is None:
        requirement = replace(requirement, bits_only=not requirement.any_size)
    if window:
        largest = largest_window(replace(requirement, window=LARGEST_WINDOW), digits=3)
        if largest is not None:
            return replace(requirement, window=largest)
    else:
        lowest = _lowest_rate(requirement)
        if lowest is not None and lowest < USELESS:
            return replace(requirement, false_positive_rate=lowest)
    option, most = next(iter(requirement.limits.items()))
    asked = f"rate of {requirement.false_positive_rate:g}" if window else requirement.window_text()
    where = f" on {requirement.device.name}" if requirement.device else ""
    raise RequirementError(
        f"{option}: must be more for {family_names(requirement)} with a {asked}{where}, not {most}"
    )


def _lowest_rate(requirement: Requirement) -> float | None:
    """Return the rate of the best filter within the limits; None if there is none."""
    found = cheapest(replace(requirement, false_positive_rate=USELESS))
    low, high, best = 300, _LOWEST * _DECADE if found else 0, None
    while high - low > 1:
        middle = (low + high) // 2
        wanted = replace(requirement, false_positive_rate=10.0 ** (-middle / _DECADE))
        rates = [PLANNER_FAMILIES[o.spec.family].rates(o.spec, wanted)[0] for o in cheapest(wanted)]
        low, high, best = (middle, high, min(rates)) if rates else (low, middle, best)
    return best
