"""Stimuli, connections and expected results of the test bench of an exported unit."""

from typing import Any

from ...hdl.bus.flat import FlatUnit
from .design import Design, Port
from .frame_vectors import MOST_FRAME, all_fit, frame_vectors
from .vectors import table_layout, vectors

OPERATIONS = 200
"""Transfers of the test bench."""

KEY_CYCLES = 5000
"""Cycles after reset within which a digest of frames has loaded its keys."""

FRAME_CYCLES = 4 * MOST_FRAME + 200
"""Cycles in which a frame of the test bench leaves, with transfers of one byte and pauses."""

_SEED = 1


def bench_values(design: Design) -> dict[str, Any]:
    """Return the values for the templates of test bench and instance."""
    component, ports = design.component, design.ports
    members = component.signature.members
    if design.frames:
        stimuli = frame_vectors(design, seed=_SEED)
    else:
        stimuli = vectors(design, OPERATIONS, seed=_SEED)
    requests = [port for port in ports if port.name in stimuli.requests[0]]
    results = [port for port in ports if port.name in stimuli.results[0]]
    resets = _resets(component, ports)
    connections = _connections(component, ports, requests, results, resets)
    pause = design.profile.longest_pause
    gap = pause + FRAME_CYCLES if design.frames and not all_fit(design.frame_options) else 0
    table = _table(design, ports)
    connections |= {name: name for name in table.get("inputs", {})}
    entries = table.get("entries", 0)
    return {
        "table": table,
        "outputs": [port for port in ports if _is_watched(port, connections)],
        "resets": resets,
        "open": {port.name for port in ports if _may_be_open(port, requests)},
        "values": {
            port.name: f"{port.width}'d{members[port.name].init or resets[port.name]}"
            for port in ports
            if _may_be_open(port, requests) and port.name not in _wired(design)
        },
        "waits": design.waits,
        "always_ready": not design.input_waits,
        "requests": [_word(requests, values) for values in stimuli.requests],
        "results": [_word(results, values) for values in stimuli.results],
        "request_bits": sum(port.width for port in requests),
        "result_bits": sum(port.width for port in results),
        "result_mask": _word(results, _compared(design, results)),
        "connections": connections,
        "gap": gap,
        "settled": KEY_CYCLES if gap else _settled(design, pause),
        "most_cycles": 100 * max(OPERATIONS, len(stimuli.requests)) * (pause + 1) + 2 * entries,
    }


def _settled(design: Design, pause: int) -> int:
    """Return the cycles after reset until an input without ready accepts all requests."""
    if design.input_waits:
        return 8
    return KEY_CYCLES if design.frames else pause + int(design.component.unit.latency)


def _table(design: Design, ports: list[Port]) -> dict[str, Any]:
    """Return how the ports load a table; empty if no port loads a table."""
    layout = table_layout(design)
    if layout is None:
        return {}
    data, valid, ready = design.component.side_streams["table"]
    spec: Any = design.spec
    return {
        "inputs": {port.name: port.range for port in ports if port.name in (data, valid, "swap")},
        "data": data,
        "valid": valid,
        "ready": ready,
        "entries": 1 << layout["least"].offset,
        "thresholds": spec.hashes + 2,
    }


def _resets(component: FlatUnit, ports: list[Port]) -> dict[str, int]:
    """Return the values of inputs that nothing else drives."""
    members = component.signature.members
    # With the longest period, time does not advance in the test bench.
    return {
        port.name: (1 << port.width) - 1 if port.name == "period" else members[port.name].init or 0
        for port in ports
        if port.inward
    }


def _may_be_open(port: Port, requests: list[Port]) -> bool:
    """Whether a unit works with this input at its value after reset."""
    needed = ("aclk", "aresetn", "clk", "rst", "tick", "s_axis_tvalid", "m_axis_tready",
              "in_valid", "out_ready")  # fmt: skip
    return port.inward and port not in requests and port.name not in needed


def _wired(design: Design) -> set[str]:
    """Return the ports of further streams, and the ports of the bus that the bus uses."""
    bus = getattr(design.unit, "bus_ports", ())
    streams = design.component.side_streams.values()
    return {name for names in (bus, *streams) for name in names if not name.endswith("prot")}


def _is_watched(port: Port, connections: dict[str, str]) -> bool:
    """Whether an output has a wire of its own in the test bench."""
    own = connections[port.name] == port.name
    return own and not port.inward and port.name not in ("in_ready", "out_valid")


def _compared(design: Design, results: list[Port]) -> dict[str, int]:
    """Return the compared bits of each port; the time is left out if a period had begun."""
    free = dict.fromkeys((port.name for port in results), 0)
    if design.options.get("ticks") == "period":
        for one in design.component.results:
            if one.name == "time":
                free[one.port] |= (1 << one.width) - 1 << one.offset
    return {port.name: (1 << port.width) - 1 & ~free[port.name] for port in results}


def _word(ports: list[Port], values: dict[str, int]) -> int:
    """Return the values of ports, the first one in the highest bits."""
    word = 0
    for port in ports:
        word = word << port.width | values[port.name]
    return word


def _connections(
    component: FlatUnit,
    ports: list[Port],
    requests: list[Port],
    results: list[Port],
    resets: dict[str, int],
) -> dict[str, str]:
    """Return the expression that the test bench connects to each port."""
    found = {port.name: port.name for port in ports}
    found |= {name: f"{len(getattr(component, name))}'d{value}" for name, value in resets.items()}
    found |= {name: name for name in (component.CLOCK, component.RESET)}
    for word, held in (("request", requests), ("result", results)):
        top = sum(port.width for port in held)
        for port in held:
            top -= port.width
            found[port.name] = f"{word}[{top + port.width - 1}:{top}]"
    prefixes = ("s_axis_t", "m_axis_t") if "s_axis_tvalid" in found else ("in_", "out_")
    for prefix, side in zip(prefixes, ("in", "out"), strict=True):
        for flag in ("valid", "ready"):
            if f"{prefix}{flag}" in found:
                found[f"{prefix}{flag}"] = f"{side}_{flag}"
    return found
