"""Fields in the streams of an exported unit, with their names in the exported files."""

from typing import NamedTuple

from ...hdl.bus.flat import FlatUnit


class Label(NamedTuple):
    """A field of a stream.

    Attributes
    ----------
    side : str
        "in" or "out".
    label : str
        Name, with the number of the lane if there are several.
    port : str
    offset, width : int
        Lowest bit in the port, and number of bits.
    name : str
        Name without the number of the lane.
    """

    side: str
    label: str
    port: str
    offset: int
    width: int
    name: str = ""


def labels(component: FlatUnit) -> list[Label]:
    """Return the fields of requests, then of results.

    Parameters
    ----------
    component : FlatUnit
    """
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
