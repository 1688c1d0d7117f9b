"""Why nothing meets a requirement, and what could be met."""

from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from ..durations import time_text
from ..golden.times import TIME_LIMIT
from ..hdl.build import unit_profile
from ..hdl.target_clocks import limit_mhz
from . import cost
from .abilities import ABILITIES, OPTIONS
from .requirement import Requirement, RequirementError
from .search import by_cost, cheapest, lowest_rate, sized
from .space import GENERATIONS, shapes
from .timestamped import StampFound, lowest_stamp_rate, timestamped

_USELESS = 0.5
"""Rate from which on a filter is not told of."""


def explain(requirement: Requirement) -> RequirementError:
    """Return the error that tells what binds, in one line."""
    if not requirement.able:
        return RequirementError(_unable(requirement))
    least = _least_slack(requirement)
    if least is None:
        return RequirementError(
            f"window: must be 2 insertions or more for hardware, not {requirement.window}"
        )
    if requirement.slack is not None and least > requirement.slack:
        return RequirementError(
            f"slack: must be at least {_up(least)} for {_families(requirement)} with a "
            f"{requirement.window_text()} in {max(GENERATIONS):,} generations at most, "
            f"not {requirement.slack:g}"
        )
    anywhere = _lowest_rate(replace(requirement, device=None))
    if requirement.device is None or anywhere is None or anywhere > requirement.false_positive_rate:
        return RequirementError(_rate_message(requirement, anywhere))
    if requirement.span is not None and (period := _least_tick(requirement)):
        return RequirementError(period)
    return RequirementError(_device_message(requirement))


def _unable(requirement: Requirement) -> str:
    """Return which of what is asked no family that may be chosen can do, and which can."""
    unit = "insertions" if requirement.span is None else "time"
    wanted = " and ".join([f"a window of {unit}", *(OPTIONS[name] for name in requirement.special)])
    can = replace(requirement, families=tuple(ABILITIES)).able
    if can:
        given = " or ".join(requirement.families)
        return f"family: must be {' or '.join(can)} for {wanted}, not {given}"
    return f"span: must be left out, as no family has {wanted}, not {requirement.window_text()}"


def _lowest_rate(requirement: Requirement) -> float | None:
    """Return a rate that can be met, about the lowest; as `lowest_rate` of all families."""
    rates = (lowest_rate(requirement), lowest_stamp_rate(requirement))
    return min((rate for rate in rates if rate is not None), default=None)


def _least_slack(requirement: Requirement) -> float | None:
    least: list[float] = []
    if requirement.stamped:
        return 0.0
    if requirement.span is not None:
        return 1 / min(max(GENERATIONS), requirement.span.ticks)
    for family in requirement.rings:
        found = shapes(family, requirement)
        if not requirement.any_size:
            found = found[found.generation >= 2]
        if len(found):
            least.append(float(found.trace.min()) / requirement.window - 1)
    return min(least, default=None)


def _rate_message(requirement: Requirement, lowest: float | None) -> str:
    cleared = requirement.rings and not requirement.any_size
    why = ", whose segments must be cleared within a generation" if cleared else ""
    slack = "" if requirement.slack is None else f" and a slack of {requirement.slack:g}"
    could = "cannot be met" if lowest is None else f"must be at least {_up(lowest)}"
    return (
        f"fpr: {could} for {_families(requirement)} with a {requirement.window_text()}"
        f"{slack}{why}, not {requirement.false_positive_rate:g}"
    )


def _least_tick(requirement: Requirement) -> str | None:
    """Return what is wrong if hardware that fits needs longer ticks; None if none fits."""
    span, device = requirement.span, requirement.device
    assert span is not None
    assert device is not None
    slower = replace(requirement, span=replace(span, tick=Fraction(TIME_LIMIT)))
    found: list[Any] = [one.spec for ones in cheapest(slower).values() for one in ones]
    found += [one.spec for family in slower.stamped for one in timestamped(family, slower)]
    if not found:
        return None
    clocks = min(unit_profile(spec).least_period for spec in found)
    tick = Fraction(clocks) / Fraction(limit_mhz(device.name) * 1e6)
    return (
        f"tick: must be at least {time_text(tick)} on {device.name}, where {clocks} clocks pass "
        f"between two ticks, not {time_text(span.tick)}"
    )


def _device_message(requirement: Requirement) -> str:
    device = requirement.device
    assert device is not None
    every = (sized(family, requirement, fitting=False) for family in requirement.rings)
    needs: list[Any] = [one for each in every for one in islice(by_cost(each, requirement), 1)]
    needs += [
        one
        for family in requirement.stamped
        for one in timestamped(family, requirement, fitting=False)[:1]
    ]
    if not needs:
        return _rate_message(requirement, _lowest_rate(requirement))
    best = min(needs, key=lambda one: one.cost)
    area = _area(best, requirement)
    beyond = area.excess(device)
    binds = " and ".join(
        f"{need} {name} of {have:,}"
        for name, need, have in (
            ("block RAMs", f"{area.bram[0]:,}", device.bram),
            ("LUTs", f"up to {float(area.lut[0]) * (1 + area.lut_error):,.0f}", device.lut),
            ("flip-flops", f"up to {float(area.ff[0]) * (1 + area.ff_error):,.0f}", device.ff),
        )
        if beyond[name][0]
    )
    lowest = _lowest_rate(requirement)
    window = largest_window(requirement)
    could = [] if window is None else [f"a window of {window:,} at this rate"]
    if lowest is not None and lowest < _USELESS:
        could.append(f"this window at a rate of {_up(lowest)}")
    nearest = " or ".join(could) or "nothing of this slack"
    return (
        f"device: {device.name} cannot hold a {requirement.text().split(' on ')[0]}: the cheapest, "
        f"of family {best.spec.family}, needs {binds}; it holds {nearest}"
    )


def _area(found: Any, requirement: Requirement) -> cost.Area:
    device = requirement.device
    assert device is not None
    if isinstance(found, StampFound):
        assert found.area is not None
        return found.area
    return cost.area(found.shapes, np.array([found.part_size]), device, requirement.key_bits)


def largest_window(requirement: Requirement) -> int | None:
    """Return the largest window that meets the rest, to two digits; None if there is none."""
    digits = [d * 10**e for e in range(10) for d in range(10, 100)]
    windows = [window for window in (*range(2, 10), *digits) if window < requirement.window]
    low, high = -1, len(windows)
    while high - low > 1:
        middle = (low + high) // 2
        can = _can(replace(requirement, window=windows[middle]))
        low, high = (middle, high) if can else (low, middle)
    return windows[low] if low >= 0 else None


def _can(requirement: Requirement) -> bool:
    rings = ((sized(family, requirement).number >= 0).any() for family in requirement.rings)
    return any(rings) or any(timestamped(family, requirement) for family in requirement.stamped)


def _families(requirement: Requirement) -> str:
    kind = "" if requirement.any_size else "buildable "
    return f"a {kind}filter of {' or '.join(requirement.able)}"


def _up(value: float) -> str:
    """Return a value rounded up to three digits, so that what is told can be met."""
    text = f"{value:.3g}"
    return text if float(text) >= value else f"{value * 1.005:.3g}"
