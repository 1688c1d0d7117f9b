"""The table of limits in docs/limits.md."""

from lately.boards.flow.devices import DEVICES
from lately.boards.flow.limits import limits, unit_limit
from lately.hdl.target_clocks import device_class

from .blocks import DOCS, NOTHING, Page, table


def limits_table() -> str:
    """Lay out the limits: a row per part of a device, a column per class of devices."""
    classes = {device_class(name): name for name in DEVICES}
    found = {name: {x.name: x for x in limits(device)} for name, device in classes.items()}
    parts = dict.fromkeys(part for limits in found.values() for part in limits)
    rows = [
        [part, *(f"{own[part].mhz:g}" if part in own else NOTHING for own in found.values())]
        for part in parts
    ]
    binding = [f"**{unit_limit(device).mhz:g}**" for device in classes.values()]
    return table(["MHz", *(f"`{name}`" for name in found)], [*rows, ["**a unit**", *binding]])


def sources_table() -> str:
    """Lay out where the limits stand."""
    classes = {device_class(name): name for name in DEVICES}
    sources: dict[tuple[str, str], list[str]] = {}
    for name, device in classes.items():
        for limit in limits(device):
            sources.setdefault((limit.name, limit.source), []).append(f"`{name}`")
    rows = [[", ".join(names), part, source] for (part, source), names in sources.items()]
    return table(["devices", "limit", "source"], rows)


PAGE = Page(DOCS / "limits.md", lambda: {"limits": limits_table(), "sources": sources_table()})
