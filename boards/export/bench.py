"""Generate the test bench of an exported unit, with random stimuli and expected results."""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...golden import Operation, from_spec
from ...golden.hash.keys import random_keys
from ...golden.packets.frame_actions import ROOM_LAG
from ...golden.packets.frame_deduplicator import FrameDeduplicator
from ...hdl.bus.flat import Field, FlatUnit
from ...hdl.interface import UnitSignature, pack
from ...hdl.packets.frame_store import beats_of
from ...hdl.packets.frames import FrameOptions
from .design import Design, Port

OPERATIONS = 200  # number of transfers in the test bench of a filter

# Cycles after reset within which the frame digest has loaded its keys.
KEY_CYCLES = 5000

_SEED = 1
_CODES = [Operation.QUERY, Operation.INSERT, *[Operation.CHECK_AND_INSERT] * 4]
_ALONE = 0.02  # probability of a SHIFT or CLEAR
_KEYS = 24  # number of distinct keys; many of them are queried more than once

Transfer = dict[str, int]  # values of the ports that carry fields


class Vectors(NamedTuple):
    requests: list[Transfer]
    results: list[Transfer]


class _Step(NamedTuple):
    code: int
    key: Any
    asked: int  # window or class
    tag: int | None  # None for an operation without a result


def vectors(design: Design, count: int, *, seed: int) -> Vectors:
    """Return random transfers and the results that are expected while no tick occurs."""
    component = design.component
    signature: UnitSignature = component.unit.signature
    beats = list(_beats(design, count, np.random.default_rng(seed)))
    answers = _answers(design, [step for beat in beats for step in beat])
    requests, results = [], []
    for beat in beats:
        requests.append(_spread(component.requests, _request(signature, beat)))
        fields = [(next(answers), step.tag) for step in beat]
        lanes = [{"tag": tag, **values} for values, tag in fields if tag is not None]
        result: Any = lanes[0]
        if signature.lanes > 1:
            result = {"lanes": [{"valid": 1, **values} for values in lanes]}
        results.append(_spread(component.results, pack(signature.result, result)))
    return Vectors(requests, results)


def _beats(design: Design, count: int, rng: np.random.Generator) -> Iterator[list[_Step]]:
    """Yield the operations of each transfer, which may include a SHIFT or CLEAR."""
    signature: UnitSignature = design.component.unit.signature
    lanes, tags = signature.lanes, 1 << design.tag_bits + design.tlast
    keys = random_keys(rng, _KEYS, design.spec.key_bits)
    spec, first, last = design.spec, 1, 1
    if spec.query_field:
        first, last = (1, spec.window_blocks) if spec.classes is None else (0, spec.classes - 1)
    # SHIFT and CLEAR have no result without back-pressure; otherwise it has no age or cells.
    has_result = design.waits and "oldest" not in signature.of_lane(signature.result, 0).members
    for number in range(count):
        beat = [
            _Step(
                int(rng.choice([int(code) for code in _CODES])),
                keys[rng.integers(_KEYS)],
                int(rng.integers(first, last + 1)),
                (lanes * number + lane) % tags,
            )
            for lane in range(lanes)
        ]
        if has_result and rng.random() < _ALONE:
            shifts = spec.kind == "ring" and rng.random() < 0.8
            code = int(Operation.SHIFT if shifts else Operation.CLEAR)
            beat = (
                [beat[0]._replace(code=code)]
                if lanes == 1
                else [_Step(code, keys[0], 1, None), *beat]
            )
        yield beat


def table_layout(design: Design) -> Any:
    """Return the layout of a table entry, or None if the unit has no table port."""
    unit = design.component.unit
    return unit.table.p.shape() if "table" in unit.signature.members else None


def bench_thresholds(design: Design) -> NDArray[np.int64]:
    layout = table_layout(design)
    spec: Any = design.spec
    indices = np.indices(spec.table_shape)
    names = ("query_class", "age", "phase")
    address = sum(index << layout[name].offset for name, index in zip(names, indices, strict=True))
    thresholds: NDArray[np.int64] = address % (spec.hashes + 2)
    return thresholds


def _answers(design: Design, steps: list[_Step]) -> Iterator[dict[str, int]]:
    spec = design.spec
    codes = np.array([step.code for step in steps], np.uint8)
    keys = np.array([step.key for step in steps], np.uint64)
    asked = np.array([step.asked for step in steps])
    times = np.zeros(len(steps), np.int64) if spec.timed else None
    model: Any = from_spec(spec)
    if table_layout(design) is not None:
        model.decide_by(bench_thresholds(design))
    unit = spec.block_units if spec.classes is None else 1
    results = model.perform(codes, keys, times, asked * unit if spec.query_field else None)
    signature: UnitSignature = design.component.unit.signature
    names = signature.of_lane(signature.result, 0).members.keys() & results._fields
    columns = {name: np.maximum(getattr(results, name), 0) for name in names - {"time"}}
    for number in range(len(steps)):
        yield {name: int(values[number]) for name, values in columns.items()}


def _request(signature: UnitSignature, beat: list[_Step]) -> int:
    asks = {"window", "query_class"} & signature.request.members.keys()
    requests = [
        {
            "operation": step.code,
            "key": sum(int(word) << 64 * n for n, word in enumerate(np.atleast_1d(step.key))),
            "tag": step.tag,
        }
        | dict.fromkeys(asks, step.asked)
        for step in beat
        if step.tag is not None
    ]
    alone = next((step.code for step in beat if step.tag is None), Operation.NONE.value)
    return signature.pack_request(requests, alone=alone)


def _spread(fields: list[Field], bits: int) -> Transfer:
    """Distribute a payload over the ports that carry its fields."""
    values: Transfer = {}
    for field in fields:
        part = bits >> field.source & (1 << field.width) - 1
        values[field.port] = values.get(field.port, 0) | part << field.offset
    return values


# Frames

_FRAMES = 24
_MIN_FRAME, MAX_FRAME = 14, 80  # frame length in bytes
_MIN_LINE_FRAME = 60  # minimum length if the input has no back-pressure
_REPEATS = 0.4  # probability that a frame repeats an earlier frame
_IP4 = b"\x08\x00\x45"  # IPv4: EtherType and first byte
_LABEL = b"\x88\x47\x00\x01\x41\x40"  # MPLS: EtherType and label

# Cycles within which a frame leaves, even with one-byte transfers and pauses.
FRAME_CYCLES = 4 * MAX_FRAME + 200


def all_fit(options: FrameOptions) -> bool:
    """Return whether the deduplicator accepts every frame of the test bench at any input rate."""
    beats = _FRAMES * beats_of(MAX_FRAME, options.beat) + ROOM_LAG
    slow = options.tready or options.max_frame >= _MIN_LINE_FRAME
    fits = (
        beats * options.beat <= 8 * (options.buffer or 0)
        and (options.frames or 0) >= _FRAMES + ROOM_LAG
    )
    return options.on_overflow == "wait" or (slow and fits)


def frame_vectors(design: Design, *, seed: int) -> Vectors:
    """Return the transfers of random input frames, and of the frames that must be forwarded."""
    choose = random.Random(seed)
    options = design.frame_options
    shortest = _MIN_FRAME if options.tready else min(_MIN_LINE_FRAME, options.max_frame)
    frames: list[bytes] = []
    for _ in range(_FRAMES):
        if frames and choose.random() < _REPEATS:
            frames.append(_duplicate(choose, choose.choice(frames), inner=options.inner))
        else:
            frames.append(_frame(choose, choose.randint(shortest, MAX_FRAME)))
    if options.max_frame < MAX_FRAME:
        # At least one frame is forwarded.
        frames[0] = frames[0][: options.max_frame]
    side, widths = options.side, options.side.widths(leaves=False)
    sidebands = []
    for _ in frames:
        signals = {name: choose.getrandbits(bits) if bits else 0 for name, bits in widths.items()}
        # Every frame is intact.
        sidebands.append(signals | {"user": signals["user"] & ~(1 << side.bad)})
    model = FrameDeduplicator(
        design.spec,
        max_frame=options.max_frame,
        width=options.width,
        buffer=options.buffer,
        on_oversize=options.on_oversize,
        inner=options.inner,
    )
    requests, results = [], []
    for frame, signals in zip(frames, sidebands, strict=True):
        requests += _transfers("s_axis", frame, options.width // 8, signals)
        if model.perform([frame], [0]):
            carried = sum(signals["user"] & 1 << at for at in side.carried)
            results += _transfers("m_axis", frame, options.width // 8, signals | {"user": carried})
    names = {port.name for port in design.ports}
    for values in requests + results:
        for name in values.keys() - names:
            del values[name]
    return Vectors(requests, results)


def _frame(choose: random.Random, size: int) -> bytes:
    frame = choose.randbytes(size)
    if size < 34:
        return frame
    return frame[:12] + _IP4 + frame[15:16] + (size - 14).to_bytes(2, "big") + frame[18:]


def _duplicate(choose: random.Random, frame: bytes, *, inner: bool) -> bytes:
    """Return a frame with the same IPv4 packet, but different MAC addresses, TTL and checksum."""
    if frame[12:15] != _IP4:
        return frame
    hop = choose.randbytes(15)
    if inner and len(frame) + 4 <= MAX_FRAME and choose.random() < 0.5:
        return hop[:12] + _LABEL + frame[14:]
    return hop[:12] + frame[12:22] + hop[12:13] + frame[23:24] + hop[13:] + frame[26:]


def _transfers(prefix: str, frame: bytes, size: int, signals: Transfer) -> list[Transfer]:
    transfers = []
    for start in range(0, len(frame), size):
        part = frame[start : start + size]
        values = {"data": int.from_bytes(part, "little"), "last": int(start + size >= len(frame)),
                  "keep": (1 << len(part)) - 1} | signals  # fmt: skip
        transfers.append({f"{prefix}_t{name}": value for name, value in values.items()})
    return transfers


# Templates


def bench_values(design: Design) -> dict[str, Any]:
    component, ports = design.component, design.ports
    members = component.signature.members
    if design.frames:
        stimuli = frame_vectors(design, seed=_SEED)
    else:
        stimuli = vectors(design, OPERATIONS, seed=_SEED)
    requests = [port for port in ports if port.name in stimuli.requests[0]]
    results = [port for port in ports if port.name in stimuli.results[0]]
    # Values of inputs that nothing else drives. With the maximum period, time does not advance.
    resets = {
        port.name: (1 << port.width) - 1 if port.name == "period" else members[port.name].init or 0
        for port in ports
        if port.inward
    }
    connections = _connections(component, ports, requests, results, resets)
    table = _table(design)
    connections |= {name: name for name in table.get("inputs", {})}
    # Inputs that may keep their reset values.
    needed = ("aclk", "aresetn", "clk", "rst", "tick", "s_axis_tvalid", "m_axis_tready",
              "in_valid", "out_ready")  # fmt: skip
    optional = [
        port for port in ports if port.inward and port not in requests and port.name not in needed
    ]
    # Ports of additional streams, and ports that the bus uses.
    streams = (getattr(design.unit, "bus_ports", ()), *component.side_streams.values())
    wired = {name for names in streams for name in names if not name.endswith("prot")}
    pause = design.profile.longest_pause
    gap = pause + FRAME_CYCLES if design.frames and not all_fit(design.frame_options) else 0
    # Cycles from reset until an input without ready accepts all requests.
    settled = KEY_CYCLES if design.frames else pause + int(component.unit.latency)
    if design.input_waits:
        settled = 8
    return {
        "table": table,
        "outputs": [
            port
            for port in ports
            if not port.inward
            and connections[port.name] == port.name
            and port.name not in ("in_ready", "out_valid")
        ],
        "resets": resets,
        "open": {port.name for port in optional},
        "values": {
            port.name: f"{port.width}'d{members[port.name].init or resets[port.name]}"
            for port in optional
            if port.name not in wired
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
        "settled": KEY_CYCLES if gap else settled,
        "max_cycles": 100 * max(OPERATIONS, len(stimuli.requests)) * (pause + 1)
        + 2 * table.get("entries", 0),
    }


def _table(design: Design) -> dict[str, Any]:
    layout = table_layout(design)
    if layout is None:
        return {}
    data, valid, ready = design.component.side_streams["table"]
    spec: Any = design.spec
    return {
        "inputs": {
            port.name: port.range for port in design.ports if port.name in (data, valid, "swap")
        },
        "data": data,
        "valid": valid,
        "ready": ready,
        "entries": 1 << layout["least"].offset,
        "thresholds": spec.hashes + 2,
    }


def _compared(design: Design, results: list[Port]) -> Transfer:
    """Return a mask for each result port; it omits times if the unit generates its own ticks."""
    masks = {port.name: (1 << port.width) - 1 for port in results}
    if design.options.get("ticks") == "period":
        for field in design.component.results:
            if field.name == "time":
                masks[field.port] &= ~((1 << field.width) - 1 << field.offset)
    return masks


def _word(ports: list[Port], values: Transfer) -> int:
    word = 0
    for port in ports:
        word = word << port.width | values[port.name]
    return word


def _connections(
    component: FlatUnit,
    ports: list[Port],
    requests: list[Port],
    results: list[Port],
    resets: Transfer,
) -> dict[str, str]:
    expressions = {port.name: port.name for port in ports}
    expressions |= {
        name: f"{len(getattr(component, name))}'d{value}" for name, value in resets.items()
    }
    expressions |= {name: name for name in (component.CLOCK, component.RESET)}
    for word, held in (("request", requests), ("result", results)):
        top = sum(port.width for port in held)
        for port in held:
            top -= port.width
            expressions[port.name] = f"{word}[{top + port.width - 1}:{top}]"
    prefixes = ("s_axis_t", "m_axis_t") if "s_axis_tvalid" in expressions else ("in_", "out_")
    for prefix, side in zip(prefixes, ("in", "out"), strict=True):
        for flag in ("valid", "ready"):
            if f"{prefix}{flag}" in expressions:
                expressions[f"{prefix}{flag}"] = f"{side}_{flag}"
    return expressions
