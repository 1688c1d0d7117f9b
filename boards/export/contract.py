"""What the page of an exported unit promises: reset, throughput, order and window."""

from ...golden.spec import FilterSpec
from ...golden.spec.dictionary_sizes import WindowDictionarySpec
from ...golden.spec.timestamp import StampedPartsSpec
from ...hdl.latencies import GENERATION_LEAD, SHIFT_PAUSE
from ...hdl.profile import HardwareProfile
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
    spec, profile = design.spec, design.profile
    if design.frames:
        return [
            "One transfer per cycle, for frames of 60 bytes or more and while the store has room."
        ]
    found = [f"{profile.lanes} requests per cycle." if profile.lanes > 1 else
             "One request per cycle."]  # fmt: skip
    if isinstance(profile, HardwareProfile):
        found.append(
            f"A SHIFT closes the input for {SHIFT_PAUSE} cycles, or for at most "
            f"{profile.longest_pause} cycles soon after another shift."
        )
        least = profile.minimum_generation
        found.append(f"If `generation` is below {least}, requests enter one at a time.")
    elif interval := getattr(profile, "rest_interval", 0):
        found.append(f"If every cycle has a request, the input closes for one cycle in {interval}.")
    elif isinstance(spec, WindowDictionarySpec):
        found.append("The input closes for single cycles if many insertions write one column.")
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
    spec, key = design.spec, "frame" if design.frames else "key"
    others = f"A {key} that did not come may be reported as well: a false positive."
    if isinstance(spec, FilterSpec):
        return [*_ring_window(spec, key, design.frames), others]
    if isinstance(spec, StampedPartsSpec):
        unit = "ticks" if spec.timed else "insertions"
        last = f"the last {spec.guaranteed_window} {unit}"
        if spec.classes is not None:
            return [f"The table decides which keys of {last} are reported.", others]
        return [f"Every key of {last} is reported.", others]
    assert isinstance(spec, WindowDictionarySpec)
    return [
        f"Every key of the last {spec.window} insertions is reported. Older keys are forgotten.",
        "An entry may be lost if its columns are full: `lost` counts such entries.",
        others,
    ]


def _ring_window(spec: FilterSpec, key: str, frames: bool) -> list[str]:
    if not spec.timed:
        return [
            f"A key is reported for at least {spec.guaranteed_window} insertions after its own.",
            "A SHIFT, or a smaller `generation`, ends the window earlier.",
        ]
    report = f"A {key} is reported for at least {spec.span} ticks after its insertion"
    room = f"more than {spec.generation} insertions come in {spec.generation_span} ticks"
    flag = "" if frames else f", and `status` is {1 if spec.when_full == 'shorten' else 2}"
    if spec.when_full == "shorten":
        return [f"{report}.", f"If {room}, the window is shorter{flag}."]
    return [f"{report}.", f"If {room}, false positives are more frequent{flag}."]
