"""Components have the ports that their docstrings tell, each with its direction and its width."""

import inspect
import re

from amaranth.hdl import Fragment, Shape
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lately.golden import any_preset
from lately.golden.spec import GEBFSpec
from lately.hdl import filter_unit
from lately.hdl.bus.controlled import COUNTER_BITS, ControlledUnit
from lately.hdl.bus.flat import AxisUnit, ExternUnit, RawUnit
from lately.hdl.packets.deduplicator import AxisFrames, ControlledDeduplicator, Deduplicator

MEMBERS = re.compile(r"^(\w+(?:, \w+)*) : ((?:In|Out)\b.*)$", re.MULTILINE)
FLOW = re.compile(r"(In|Out)(?:\((?:stream\.Signature\()?(\d+)\))?")

FRAMES = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)


def unit(name, **options):
    return filter_unit(any_preset(name), **options)


def controlled(name, bus):
    plain = unit(name, statistics_bits=COUNTER_BITS)
    spec = any_preset(name)
    return ControlledUnit(plain, spec=spec, bus=bus, version=(1, 2, 3), status_bits=7)


def frames(bus):
    inner = Deduplicator(FRAMES, statistics_bits=COUNTER_BITS)
    return AxisFrames(ControlledDeduplicator(inner, bus=bus, version=(1, 2, 3)))


WHOLE = {
    "ring": lambda: AxisUnit(controlled("timed-tiny", "wishbone")),
    "keyed ring": lambda: AxisUnit(controlled("siphash-tiny", "axi4-lite")),
    "ECP5": lambda: RawUnit(unit("tiny", memory="ecp5")),
    "outside memories": lambda: ExternUnit(unit("gebf-tiny")),
    "lanes": lambda: unit("two-lanes-tiny"),
    "dictionary": lambda: unit("dictionary-tiny"),
    "dictionary of rings": lambda: unit("dictionary-ring-tiny"),
    "timing": lambda: unit("timing-tiny"),
    "counted timing": lambda: unit("timing-counted-tiny"),
    "frames": lambda: frames("wishbone"),
}


def documented(kind):
    """Yield the name, the flow and the width, if it is a number, of ports in a docstring."""
    for names, flows in MEMBERS.findall(inspect.cleandoc(kind.__doc__ or "")):
        names, kinds = names.split(", "), FLOW.findall(flows)
        for name, (flow, width) in zip(names, kinds * (len(names) // len(kinds)), strict=True):
            yield name, In if flow == "In" else Out, int(width) if width else None


def parts(build, monkeypatch):
    """Return a component of each kind that a design is made of."""
    made = {}
    plain = wiring.Component.__init__

    def noted(self, *arguments, **options):
        plain(self, *arguments, **options)
        made.setdefault(type(self), self)

    monkeypatch.setattr(wiring.Component, "__init__", noted)
    Fragment.get(build(), None)
    monkeypatch.undo()
    return made


def bits_of(member):
    """Return the width of a port, or of what a stream carries."""
    port = member if member.is_port else member.signature.members["payload"]
    return Shape.cast(port.shape).width


def test_ports_are_as_documented(monkeypatch):
    """Published components list their ports; others explain each port in their signature."""
    checked = 0
    for build in WHOLE.values():
        for kind, component in parts(build, monkeypatch).items():
            members = dict(component.signature.members)
            for name, flow, width in documented(kind):
                if (member := members.get(name)) is None:
                    continue
                assert (kind, name, member.flow) == (kind, name, flow)
                assert width is None or (kind, name, bits_of(member)) == (kind, name, width)
                checked += 1
    assert checked > 20
