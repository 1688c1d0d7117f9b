"""Functional coverage of the bench of frames: situations that its tests must cover."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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
from ...golden.packets.inner_layers import IP6_NEXT, inner_headers
from ...golden.packets.packet_layers import EXTENSIONS, FRAGMENT
from ...hdl.packets.frame_options import FrameOptions
from .coverage import RUNS, Counts, Situation, counted, each
from .frames import FrameSettings, PassedFrame

AUTHENTICATION = 51
"""Extension header of IPv6 whose length counts in words of four bytes."""

KINDS = {
    "a VLAN tag": TAG_TYPES,
    "IPv4": (IP4,),
    "IPv6": (IP6,),
    "an extension header": tuple(
        IP6_NEXT + number for number, unit in EXTENSIONS.items() if unit == 8
    ),
    "an authentication header": (IP6_NEXT + AUTHENTICATION,),
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
"""Headers before the innermost layer 3, by name."""

FACTS = {
    "damaged": "frames_errored",
    "above the maximum": "frames_oversize",
    "without room": "frames_no_room",
    "IPv4": "frames_ip4",
    "IPv6": "frames_ip6",
    "other": "frames_other",
    "malformed": "frames_malformed",
}
"""Counters of frames, by what they count."""


@dataclass
class FrameMoment:
    """A frame after earlier frames, as input of the predicates."""

    now: PassedFrame
    before: list[PassedFrame]

    @property
    def last(self) -> PassedFrame | None:
        """The previous frame since the last reset or clear."""
        found = self.before[-1] if self.before else None
        return found if found and found.clears == self.now.clears else None

    def pauses(self, side: str) -> int:
        """Return the cycles without a transfer inside the frame at `side`, -1 if there is none."""
        transfers = getattr(self.now, side)
        return -1 if transfers is None else transfers.pauses

    @property
    def follows(self) -> bool:
        """Whether no cycle lies between the frame and the previous one."""
        return self.last is not None and self.now.came.first == self.last.came.last + 1

    @property
    def duplicate(self) -> bool:
        """Whether the frame was seen."""
        return bool(self.now.facts["hits"])

    @property
    def equal(self) -> list[PassedFrame]:
        """Equal frames before it that were recorded."""
        return [one for one in self.before if one.recorded and one.frame == self.now.frame]

    @property
    def forgotten(self) -> list[PassedFrame]:
        """The same, if the frame is not seen."""
        return self.equal if self.now.recorded and not self.duplicate else []

    @property
    def way(self) -> list[int]:
        """Kinds of the headers before the innermost layer 3."""
        kinds = [kind for kind, _ in inner_headers(self.now.frame)]
        networks = [place for place, kind in enumerate(kinds) if kind in (IP4, IP6)]
        return kinds[: networks[-1]] if networks else []


def frame_situations(how: FrameOptions) -> list[Situation]:
    """Return the table of a deduplicator."""
    rows = [*_streams(how), *_facts(how), *_settings(how)]
    if how.inner:
        rows += each(
            "innermost layer 3 behind {}",
            KINDS,
            lambda m, name: m.now.recorded and not set(KINDS[name]).isdisjoint(m.way),
        )
    return rows


def _streams(how: FrameOptions) -> Iterator[Situation]:
    """Yield situations of lengths and pauses."""
    sizes = sorted({1, 14, 59, 60, 64, how.longest, how.longest + 1})
    yield from each("frame of {} bytes", sizes, lambda m, size: len(m.now.frame) == size)
    for name, (least, most) in RUNS.items():
        for side, where in (("came", "input"), ("left", "output")):
            yield from each(
                f"pause in a frame at the {where}, cycles: {name}",
                [(side, range(least, most + 1))],
                lambda m, row: m.pauses(row[0]) in row[1],
            )
    yield Situation("frames in consecutive cycles", lambda m: m.follows)
    yield Situation(
        "frames of one transfer in consecutive cycles",
        lambda m: m.follows and m.now.came.number == m.last.came.number == 1,
    )


def _facts(how: FrameOptions) -> Iterator[Situation]:
    """Yield situations of discarded frames, versions, and answers under each action."""
    for name, counter in FACTS.items():
        if name != "without room" or how.when_full == "drop":
            yield from each(f"frame is {name}", [counter], lambda m, one: m.now.facts[one] > 0)
    actions = [action.name for action in Action]
    yield from each(
        "first frame, action {}",
        actions,
        lambda m, name: m.now.recorded and not m.duplicate and m.now.action == Action[name],
    )
    yield from each(
        "duplicate, action {}",
        actions,
        lambda m, name: m.duplicate and m.now.action == Action[name],
    )


def _settings(how: FrameOptions) -> Iterator[Situation]:
    """Yield situations of fields, secrets, clears and ticks."""
    for field in HARDWARE_FIELDS & ~(Field.LAYER2 if how.inner else Field.NONE):
        for compared in (True, False):
            yield from each(
                f"duplicate, {str(field.name).lower()} compared: {compared}",
                [(field, compared)],
                lambda m, row: m.duplicate and (row[0] in m.now.fields) == row[1],
            )
    yield Situation("new secret before a frame", lambda m: m.last and m.last.secret != m.now.secret)
    yield Situation("tick between two frames", lambda m: m.last and m.last.now < m.now.now)
    yield Situation(
        "duplicate after a tick", lambda m: m.duplicate and m.equal and m.equal[-1].now < m.now.now
    )
    yield Situation(
        "frame is new again after a clear",
        lambda m: any(one.clears < m.now.clears for one in m.forgotten),
    )
    yield Situation(
        "frame is new again after its span",
        lambda m: any(_settings_of(one) == _settings_of(m.now) for one in m.forgotten),
    )


def _settings_of(passed: PassedFrame) -> tuple[int, Field, int]:
    return passed.clears, passed.fields, passed.secret


def frame_counts(settings: FrameSettings, passed: Iterable[PassedFrame]) -> Counts:
    """Return the number of occurrences of each situation in one test."""
    return counted(frame_situations(settings.frames), _moments(passed))


def _moments(passed: Iterable[PassedFrame]) -> Iterator[FrameMoment]:
    before: list[PassedFrame] = []
    for now in passed:
        yield FrameMoment(now, before)
        before.append(now)
