"""Random operations and the results of the golden model, as port values."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...golden import Operation, from_spec
from ...golden.hash.keys import random_keys
from ...hdl.bus.flat import Field
from ...hdl.interface import UnitSignature, pack
from .design import Design

_CODES = [Operation.QUERY, Operation.INSERT, *[Operation.CHECK_AND_INSERT] * 4]
_ALONE = 0.02
_KEYS = 24
"""Number of different keys; many of them are queried more than once."""


@dataclass(frozen=True)
class Vectors:
    """Values of the ports that hold fields, by name, transfer by transfer."""

    requests: list[dict[str, int]]
    results: list[dict[str, int]]


class _Step(NamedTuple):
    """An operation: its code, key, window or class, and its tag; None if it has no result."""

    code: int
    key: Any
    asked: int
    tag: int | None


def vectors(design: Design, count: int, *, seed: int) -> Vectors:
    """Return random transfers and their expected results; no tick occurs between them."""
    component = design.component
    signature: UnitSignature = component.unit.signature
    beats = list(_beats(design, count, np.random.default_rng(seed)))
    answers = _answers(design, [step for beat in beats for step in beat])
    requests, results = [], []
    for beat in beats:
        found: list[dict[str, Any]] = [next(answers) | {"tag": step.tag} for step in beat]
        requests.append(_spread(component.requests, _request(signature, beat)))
        results.append(_spread(component.results, _result(signature, found)))
    return Vectors(requests, results)


def _beats(design: Design, count: int, rng: np.random.Generator) -> Iterator[list[_Step]]:
    """Yield the operations of each transfer; SHIFT and CLEAR come first, outside the lanes."""
    signature: UnitSignature = design.component.unit.signature
    lanes, tags = signature.lanes, 1 << design.tag_bits + design.last
    keys = random_keys(rng, _KEYS, design.spec.key_bits)
    least, most = _asked_range(design)
    # Without back-pressure, SHIFT and CLEAR have no result; otherwise, no age and no cells.
    told = design.waits and "oldest" not in signature.of_lane(signature.result, 0).members
    for number in range(count):
        beat = [
            _Step(
                int(rng.choice([int(code) for code in _CODES])),
                keys[rng.integers(_KEYS)],
                int(rng.integers(least, most + 1)),
                (lanes * number + lane) % tags,
            )
            for lane in range(lanes)
        ]
        if told and rng.random() < _ALONE:
            shifts = design.spec.kind == "ring" and rng.random() < 0.8
            code = int(Operation.SHIFT if shifts else Operation.CLEAR)
            beat = (
                [beat[0]._replace(code=code)]
                if lanes == 1
                else [_Step(code, keys[0], 1, None), *beat]
            )
        yield beat


def _asked_range(design: Design) -> tuple[int, int]:
    """Return the lowest and highest window, or class, of a query."""
    spec = design.spec
    if not spec.query_field:
        return 1, 1
    return (1, spec.window_blocks) if spec.classes is None else (0, spec.classes - 1)


def table_layout(design: Design) -> Any:
    """Return the layout of an entry of the table; None if no port loads a table."""
    unit = design.component.unit
    return unit.table.p.shape() if "table" in unit.signature.members else None


def bench_thresholds(design: Design) -> NDArray[np.int64]:
    """Return the table that the test bench loads: threshold = address modulo all thresholds.

    It has the shape of `lately.golden.DecisionTable.thresholds`.
    """
    layout = table_layout(design)
    spec: Any = design.spec
    places = np.indices(spec.table_shape)
    names = ("query_class", "age", "phase")
    address = sum(place << layout[name].offset for name, place in zip(names, places, strict=True))
    thresholds: NDArray[np.int64] = address % (spec.hashes + 2)
    return thresholds


def _answers(design: Design, steps: list[_Step]) -> Iterator[dict[str, int]]:
    """Yield the fields of the result of each operation, except the tag."""
    codes = np.array([step.code for step in steps], np.uint8)
    keys = np.array([step.key for step in steps], np.uint64)
    asked = np.array([step.asked for step in steps])
    times = np.zeros(len(steps), np.int64)
    spec = design.spec
    model: Any = from_spec(spec)
    if table_layout(design) is not None:
        model.decide_by(bench_thresholds(design))
    unit = spec.block_units if spec.classes is None else 1
    windows = asked * unit if spec.query_field else None
    results = model.perform(codes, keys, times if spec.timed else None, windows)
    signature: UnitSignature = design.component.unit.signature
    names = signature.of_lane(signature.result, 0).members.keys() & results._fields
    found = {name: np.maximum(getattr(results, name), 0) for name in names - {"time"}}
    for number in range(len(steps)):
        yield {name: int(values[number]) for name, values in found.items()}


def _request(signature: UnitSignature, beat: list[_Step]) -> int:
    asks = {"window", "query_class"} & signature.request.members.keys()
    requests = [
        {"operation": step.code, "key": _number(step.key), "tag": step.tag}
        | dict.fromkeys(asks, step.asked)
        for step in beat
        if step.tag is not None
    ]
    alone = next((step.code for step in beat if step.tag is None), Operation.NONE.value)
    return signature.pack_request(requests, alone=alone)


def _result(signature: UnitSignature, found: list[dict[str, Any]]) -> int:
    results = [fields for fields in found if fields["tag"] is not None]
    if signature.lanes == 1:
        return pack(signature.result, results[0])
    return pack(signature.result, {"lanes": [{"valid": 1} | fields for fields in results]})


def _number(key: Any) -> int:
    words = np.atleast_1d(key)
    return sum(int(word) << 64 * place for place, word in enumerate(words))


def _spread(fields: list[Field], bits: int) -> dict[str, int]:
    """Return the values of the ports whose fields a payload has."""
    values: dict[str, int] = {}
    for one in fields:
        part = bits >> one.source & (1 << one.width) - 1
        values[one.port] = values.get(one.port, 0) | part << one.offset
    return values
