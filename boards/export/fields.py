"""Fields in the streams of an exported unit, with their names in the exported files."""

from typing import NamedTuple

from ...hdl.bus.flat import FlatUnit


class Label(NamedTuple):
    """A field of a stream."""

    side: str  # "in" or "out"
    label: str  # name, with the number of the lane if there are several
    port: str
    offset: int  # of the lowest bit in the port
    width: int
    name: str = ""  # without the number of the lane


def labels(component: FlatUnit) -> list[Label]:
    """Return the fields of requests, then of results."""
    several = getattr(component.unit.signature, "lanes", 1) > 1
    return [
        Label(
            side,
            f"{one.name}{one.lane}" if several and one.name != "alone" else one.name,
            one.port,
            one.offset,
            one.width,
            one.name,
        )
        for side, found in (("in", component.requests), ("out", component.results))
        for one in found
    ]
