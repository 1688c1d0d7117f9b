"""Functional coverage of the frame bench: situations that the tests must reach."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...golden.packets.comparison import HARDWARE_FIELDS, Field
from ...golden.packets.encapsulations import (
    CONTROL_WORD,
    GTP_EXTENSION,
    IP4,
    IP6,
    IP_PROTOCOL,
    MPLS,
    TAG_TYPES,
    UDP_PORT,
    UNTYPED,
)
from ...golden.packets.frame_actions import Action
from ...golden.packets.packet_layers import EXTENSIONS, FRAGMENT, IP6_NEXT, inner_headers
from ...hdl.packets.frames import FrameOptions
from .coverage import RUNS, Point, length, only
from .frames import PassedFrame

# Headers that can precede the innermost layer-3 header.
HEADERS = {
    "a VLAN tag": TAG_TYPES,
    "IPv4": (IP4,),
    "IPv6": (IP6,),
    "an extension header": tuple(IP6_NEXT + kind for kind, unit in EXTENSIONS.items() if unit == 8),
    "an authentication header": (IP6_NEXT + 51,),
    "a fragment header": (IP6_NEXT + FRAGMENT,),
    "a label of MPLS": (MPLS, MPLS + 1),
    "content without a type": (UNTYPED,),
    "a control word": (CONTROL_WORD,),
    "UDP": (IP_PROTOCOL + 17,),
    "VXLAN": (UDP_PORT + 4789, UDP_PORT + 8472),
    "GRE": (IP_PROTOCOL + 47,),
    "GTP-U": (UDP_PORT + 2152,),
    "an extension header of GTP-U": (GTP_EXTENSION,),
}

FATES = ("errored", "oversize", "no_room", "ip4", "ip6", "other", "malformed")  # frame counters


@dataclass
class FrameMoment:
    now: PassedFrame
    before: list[PassedFrame]

    def __post_init__(self) -> None:
        now, last = self.now, self.before[-1] if self.before else None
        self.last = last if last and last.clears == now.clears else None
        self.follows = self.last is not None and now.came.first == self.last.came.last + 1
        self.duplicate = bool(now.facts["hits"])
        self.equal = [past for past in self.before if past.recorded and past.frame == now.frame]
        self.forgotten = self.equal if now.recorded and not self.duplicate else []

    def headers(self) -> list[str]:
        kinds = [kind for kind, _ in inner_headers(self.now.frame)]
        networks = [at for at, kind in enumerate(kinds) if kind in (IP4, IP6)]
        outer = {*kinds[: networks[-1]]} if networks and self.now.recorded else set()
        return [name for name, kinds in HEADERS.items() if not outer.isdisjoint(kinds)]

    def reasons(self) -> list[str]:
        """Return the reasons why a frame counts as new although it was sent before."""
        now, reasons = self.now, []
        if any(past.clears < now.clears for past in self.forgotten):
            reasons.append("a clear")
        settings = now.clears, now.fields, now.secret
        if any((past.clears, past.fields, past.secret) == settings for past in self.forgotten):
            reasons.append("its span")
        return reasons


def frame_moments(passed: Iterable[PassedFrame]) -> Iterator[FrameMoment]:
    before: list[PassedFrame] = []
    for now in passed:
        yield FrameMoment(now, before)
        before.append(now)


def _compared(field: Field, m: Any) -> list[Any]:
    return only(m.duplicate, field in m.now.fields)


def frame_points(options: FrameOptions) -> Iterator[Point]:
    sizes = (1, 14, 59, 60, 64, options.max_frame, options.max_frame + 1)
    yield Point("bytes", sizes, lambda m: [len(m.now.frame)])
    yield Point("cycles of a pause at the input", RUNS, lambda m: length(m.now.came.pauses))
    yield Point(
        "cycles of a pause at the output", RUNS,
        lambda m: length(m.now.left.pauses) if m.now.left else [],
    )  # fmt: skip
    yield Point("follows in the next cycle", [True], lambda m: [m.follows])
    yield Point(
        "one transfer follows one in the next cycle", [True],
        lambda m: [m.follows and m.now.came.number == m.last.came.number == 1],
    )  # fmt: skip
    fates = [fate for fate in FATES if fate != "no_room" or options.on_overflow == "drop"]
    yield Point(
        "frames", fates, lambda m: [fate for fate in fates if m.now.facts[f"frames_{fate}"] > 0]
    )
    actions = [action.name for action in Action]
    yield Point(
        "action on a first frame", actions,
        lambda m: only(m.now.recorded and not m.duplicate, m.now.action.name),
    )  # fmt: skip
    yield Point("action on a duplicate", actions, lambda m: only(m.duplicate, m.now.action.name))
    for field in HARDWARE_FIELDS & ~(Field.LAYER2 if options.inner else Field.NONE):
        name = f"duplicate with {str(field.name).lower()} compared"
        yield Point(name, (True, False), partial(_compared, field))
    yield Point(
        "new secret", [True], lambda m: only(m.last, m.last and m.last.secret != m.now.secret)
    )
    yield Point(
        "tick since the last frame",
        [True],
        lambda m: only(m.last, m.last and m.last.now < m.now.now),
    )
    yield Point(
        "duplicate after a tick", [True],
        lambda m: only(m.duplicate and m.equal, m.equal and m.equal[-1].now < m.now.now),
    )  # fmt: skip
    yield Point("new again after", ("a clear", "its span"), FrameMoment.reasons)
    if options.inner:
        yield Point("innermost layer 3 behind", HEADERS, FrameMoment.headers)
