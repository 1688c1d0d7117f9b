"""Guarantees on the page of an exported unit: reset, throughput, order and window."""

from fractions import Fraction

from ...golden.durations import time_text
from ...hdl.latencies import GENERATION_LEAD, PERIOD_BITS, TICKS_WAITING
from .design import NO_BUS, Design


def contract(design: Design) -> list[tuple[str, str]]:
    """Return each subject with its sentences."""
    found = [
        ("Reset", _reset(design)),
        ("Clear", _clear(design)),
        ("Throughput", _throughput(design)),
        ("Ticks", ticks(design)),
        ("Order", _order(design)),
        ("Window", _window(design)),
    ]
    return [(subject, " ".join(sentences)) for subject, sentences in found if sentences]


def _reset(design: Design) -> list[str]:
    component, profile = design.component, design.profile
    level = "low" if component.ACTIVE_LOW else "high"
    return [
        f"Hold `{component.RESET}` {level} for at least one rising edge of `{component.CLOCK}`.",
        f"The filter accepts its first {_unit(design)} at most {profile.reset_pause} cycles after "
        "the reset ends.",
        f"Reset empties the filter; {_unit(design)}s in flight are lost.",
    ]


def _clear(design: Design) -> list[str]:
    pause = design.profile.longest_pause
    who = "filter" if design.frames else "unit"
    found = [f"The {who} accepts the next {_unit(design)} at most {pause} cycles after a CLEAR."]
    if design.bus != NO_BUS:
        found.append(f"A CLEAR by register starts {GENERATION_LEAD} cycles after the write.")
    return found


def _unit(design: Design) -> str:
    return "frame" if design.frames else "request"


def _throughput(design: Design) -> list[str]:
    profile = design.profile
    if design.frames:
        return ["One transfer per cycle for frames of at least 60 bytes, while the store has room."]
    requests = f"{profile.lanes} requests" if profile.lanes > 1 else "One request"
    found = [f"{requests} per cycle.", *profile.pauses]
    if "time" in design.component.unit.signature.request.members:
        found.append("A request with a later time than its predecessor waits for this time.")
    closed = (
        "The input also closes if the receiver does not accept the results."
        if design.waits
        else "A request that arrives while the input is closed is refused."
    )
    return [*found, closed]


def ticks(design: Design) -> list[str]:
    """Return the sentences on ticks; none if the unit has no ticks, or takes times of requests."""
    members, least = design.unit.signature.members, design.profile.least_period
    if design.bus != NO_BUS:
        # On the bus, `period` is a register.
        members = {**design.unit.unit.signature.members, **members}
    mhz, found = design.clock_mhz, []
    if "tick" in members:
        sign = "`tick_lost`" if design.bus == NO_BUS else "the bit `tick_lost` of `faults`"
        found = [
            f"Two ticks must be at least {least:,} cycles apart. Up to {TICKS_WAITING} ticks that "
            f"come closer wait for that distance; a further tick is lost, and {sign} reports it."
        ]
    elif "period" in members:
        found = [f"A tick lasts `period` cycles; a value below {least:,} counts as {least:,}."]
        if design.bus != NO_BUS:
            reset = members["period"].init or (1 << PERIOD_BITS) - 1
            time = f", {time_text(reset / (Fraction(mhz) * 10**6))} at {mhz:g} MHz" if mhz else ""
            found.append(f"After reset it lasts {reset:,} cycles{time}.")
    if found and design.tick is not None:
        length = f": {design.planned_period:,} cycles at {mhz:g} MHz" if mhz else ""
        found.append(f"The filter is planned for ticks of {time_text(design.tick)}{length}.")
    return found


def _order(design: Design) -> list[str]:
    if design.frames:
        return ["Frames leave in the order of arrival."]
    lanes = ", lane 0 before lane 1" if design.profile.lanes > 1 else ""
    return [
        f"Requests take effect one after another, in the order of acceptance{lanes}.",
        "A check-and-insert queries the key before it inserts the key.",
        "Results leave in the order of their requests.",
    ]


def _window(design: Design) -> list[str]:
    key = "frame" if design.frames else "key"
    others = f"Occasionally a new {key} is reported as seen: a false positive."
    return [*design.profile.promise(key, flags=not design.frames), others]
