"""What the page of an exported unit promises: reset, throughput, order and window."""

from ...hdl.latencies import GENERATION_LEAD
from .design import NO_BUS, Design


def contract(design: Design) -> list[tuple[str, str]]:
    """Return a subject and its sentences, for each subject.

    Parameters
    ----------
    design : Design
    """
    found = [
        ("Reset", _reset(design)),
        ("Clear", _clear(design)),
        ("Throughput", _throughput(design)),
        ("Order", _order(design)),
        ("Window", _window(design)),
    ]
    return [(subject, " ".join(sentences)) for subject, sentences in found]


def _reset(design: Design) -> list[str]:
    component, profile = design.component, design.profile
    level = "low" if component.ACTIVE_LOW else "high"
    return [
        f"Hold `{component.RESET}` {level} for at least one rising edge of `{component.CLOCK}`.",
        f"The filter takes its first {_unit(design)} at most {profile.reset_pause} cycles after "
        "the reset ends.",
        f"Reset empties the filter; {_unit(design)}s in flight are lost.",
    ]


def _clear(design: Design) -> list[str]:
    pause = design.profile.longest_pause
    if design.frames:
        return [f"After a CLEAR the filter takes the next frame at most {pause} cycles later."]
    found = [f"After a CLEAR the unit takes the next request at most {pause} cycles later."]
    if design.bus != NO_BUS:
        found.append(f"A CLEAR from the register begins {GENERATION_LEAD} cycles after the write.")
    return found


def _unit(design: Design) -> str:
    return "frame" if design.frames else "request"


def _throughput(design: Design) -> list[str]:
    profile = design.profile
    if design.frames:
        return [
            "One transfer per cycle, for frames of 60 bytes or more and while the store has room."
        ]
    requests = f"{profile.lanes} requests" if profile.lanes > 1 else "One request"
    found = [f"{requests} per cycle.", *profile.pauses]
    if "time" in design.component.unit.signature.request.members:
        found.append("A request with a later time than the one before waits for its time.")
    closed = (
        "The input also closes while results wait to be taken."
        if design.waits
        else "A request that comes while the input is closed is refused."
    )
    return [*found, closed]


def _order(design: Design) -> list[str]:
    if design.frames:
        return ["Frames leave in the order in which they came."]
    lanes = ", and lane 0 before lane 1" if design.profile.lanes > 1 else ""
    return [
        f"Requests take effect one after another, in the order of acceptance{lanes}.",
        "A check-and-insert answers from the state before its own insertion.",
        "Results leave in the order of their requests.",
    ]


def _window(design: Design) -> list[str]:
    key = "frame" if design.frames else "key"
    others = f"A {key} that did not come may be reported as well: a false positive."
    return [*design.profile.promise(key, flags=not design.frames), others]
