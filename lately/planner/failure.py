"""The cheapest filters, what limits of memory permit, and why no filter meets a requirement."""

from dataclasses import replace
from fractions import Fraction
from itertools import islice

from ..golden.durations import time_text
from ..golden.times import TIME_LIMIT
from .requirement import (
    LARGEST_WINDOW,
    OPTIONS,
    PLANNER_FAMILIES,
    Found,
    PlannerFamily,
    Requirement,
    RequirementError,
    unit_profile,
)
from .rings import most_generations

USELESS = 0.5
"""Least rate at which a filter is not offered."""

_TRIED = 60
"""Cheapest filters per family in the search for ticks."""


def cheapest(requirement: Requirement, count: int = 1) -> list[Found]:
    """Return at most `count` filters of each family, cheapest first."""
    every = (family.search(requirement) for family in requirement.able)
    return [one for found in every for one in islice(found, count)]


def within_limits(requirement: Requirement, *, window: bool) -> Requirement:
    """Return a requirement with the lowest rate that its memory limits permit.

    With `window`, it has the largest window of three digits instead. Its present rate or window is
    ignored. Raises a `RequirementError` if no filter is within the limits.
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


def explain(requirement: Requirement) -> RequirementError:
    """Return a one-line error that names the binding constraint."""
    return RequirementError(_message(requirement))


def _message(requirement: Requirement) -> str:
    if not requirement.able:
        return _unable(requirement)
    slacks = [family.least_slack(requirement) for family in requirement.able]
    least = min((slack for slack in slacks if slack is not None), default=None)
    if least is None:
        return f"window: must be 2 insertions or more for hardware, not {requirement.window}"
    if requirement.slack is not None and least > requirement.slack:
        return (
            f"slack: must be at least {_up(least)} for {family_names(requirement)} with a "
            f"{requirement.window_text()} in {most_generations(requirement):,} generations at "
            f"most, not {requirement.slack:g}"
        )
    anywhere = _lowest_rate(replace(requirement, device=None))
    if requirement.device is None or anywhere is None or anywhere > requirement.false_positive_rate:
        return _rate_message(requirement, anywhere)
    return _tick_message(requirement) or _device_message(requirement)


def _unable(requirement: Requirement) -> str:
    """Return the requirement that no permitted family can meet, and the families that can."""
    unit = "insertions" if requirement.span is None else "time"
    wanted = " and ".join([f"a window of {unit}", *(OPTIONS[name] for name in requirement.special)])
    can = replace(requirement, families=tuple(PLANNER_FAMILIES)).able
    if can:
        given = " or ".join(requirement.families)
        return f"family: must be {_names(can)} for {wanted}, not {given}"
    return f"span: must be left out, as no family has {wanted}, not {requirement.window_text()}"


def _lowest_rate(requirement: Requirement) -> float | None:
    rates = [family.lowest_rate(requirement) for family in requirement.able]
    return min((rate for rate in rates if rate is not None), default=None)


def _rate_message(requirement: Requirement, lowest: float | None) -> str:
    limits = [] if requirement.any_size else [family.limit for family in requirement.able]
    why = next((f", {limit}" for limit in limits if limit), "")
    slack = "" if requirement.slack is None else f" and a slack of {requirement.slack:g}"
    could = "cannot be met" if lowest is None else f"must be at least {_up(lowest)}"
    return (
        f"fpr: {could} for {family_names(requirement)} with a {requirement.window_text()}"
        f"{slack}{why}, not {requirement.false_positive_rate:g}"
    )


def _tick_message(requirement: Requirement) -> str | None:
    """Return the error if hardware that fits needs longer ticks; None if no hardware fits."""
    span, device = requirement.span, requirement.device
    if span is None or device is None or device.limit_mhz is None:
        return None
    found = cheapest(replace(requirement, span=replace(span, tick=Fraction(TIME_LIMIT))), _TRIED)
    if not found:
        return None
    cycles = min(unit_profile(one.spec).least_period for one in found)
    tick = Fraction(cycles) / Fraction(device.limit_mhz * 1e6)
    return (
        f"tick: must be at least {time_text(tick)} on {device.name}, where {cycles} clocks pass "
        f"between two ticks, not {time_text(span.tick)}"
    )


def _device_message(requirement: Requirement) -> str:
    device = requirement.device
    assert device is not None
    lowest = _lowest_rate(requirement)
    roomy = replace(device, bram=1 << 62)
    unfit = cheapest(replace(requirement, device=roomy))
    if not unfit:
        return _uncounted(requirement)
    best = min(unfit, key=lambda one: one.cost)
    window = largest_window(requirement)
    could = [] if window is None else [f"a window of {window:,} at this rate"]
    if lowest is not None and lowest < USELESS:
        could.append(f"this window at a rate of {_up(lowest)}")
    nearest = " or ".join(could) or "nothing of this slack"
    return (
        f"device: {device.name} cannot hold a {requirement.text().split(' on ')[0]}: the cheapest, "
        f"of family {best.spec.family}, needs {best.cost:,} block RAMs of {device.bram:,}; "
        f"it holds {nearest}"
    )


def _uncounted(requirement: Requirement) -> str:
    """Return the error for filters whose block RAMs are not known on a device."""
    from ..boards.flow.devices import DEVICES

    assert requirement.device is not None
    found = [
        (PLANNER_FAMILIES[one.spec.family], one.spec)
        for one in cheapest(replace(requirement, device=None))
    ]
    known = {
        device.family
        for device in DEVICES.values()
        if any(family.is_counted(spec, device) for family, spec in found)
    }
    return (
        f"device: must be of {', '.join(sorted(known))} for {family_names(requirement)}, whose "
        f"block RAMs are known there, not {requirement.device.name}"
    )


def largest_window(requirement: Requirement, digits: int = 2) -> int | None:
    """Return the largest window, of `digits` digits, that meets the other requirements; or None."""
    first = 10 ** (digits - 1)
    windows = [*range(2, first), *(d * 10**e for e in range(10) for d in range(first, 10 * first))]
    windows = [window for window in windows if window < requirement.window]
    low, high = -1, len(windows)
    while high - low > 1:
        middle = (low + high) // 2
        can = bool(cheapest(replace(requirement, window=windows[middle])))
        low, high = (middle, high) if can else (low, middle)
    return windows[low] if low >= 0 else None


def family_names(requirement: Requirement) -> str:
    """Return the permitted families, in words."""
    kind = "" if requirement.any_size else "buildable "
    return f"a {kind}filter of {_names(requirement.able)}"


def _names(families: tuple[PlannerFamily, ...]) -> str:
    return " or ".join(family.name for family in families)


def _up(value: float) -> str:
    """Return a value rounded up to three digits, so that the stated figure can be met."""
    text = f"{value:.3g}"
    return text if float(text) >= value else f"{value * 1.005:.3g}"
