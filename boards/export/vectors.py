"""Operations and the results that the golden model gives, as values of an exported unit's ports."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...golden import Operation, TimeLimitedRing, from_spec
from ...golden.hash.keys import random_keys
from ...hdl.bus.flat import Field
from ...hdl.interface import UnitSignature
from .design import Design

_CODES = [Operation.QUERY, Operation.INSERT, *[Operation.CHECK_AND_INSERT] * 4]
_ALONE = 0.02
_KEYS = 24
"""Different keys, of which many are asked for more than once."""


@dataclass(frozen=True)
class Vectors:
    """Values of ports, transfer by transfer.

    Attributes
    ----------
    requests, results : list of dict of str to int
        Values of the ports that hold the fields of a request or result, by name.
    """

    requests: list[dict[str, int]]
    results: list[dict[str, int]]


def vectors(design: Design, count: int, *, seed: int) -> Vectors:
    """Return random transfers and the results that they must have; no tick comes between them.

    Parameters
    ----------
    design : Design
    count : int
    seed : int
    """
    rng = np.random.default_rng(seed)
    component = design.component
    signature = component.unit.signature
    keys = random_keys(rng, _KEYS, design.spec.key_bits)
    # Where nothing waits, the results of what is performed alone tell nothing.
    alone_allowed = design.wrap != "extern"
    requests, performed = [], []
    for number in range(count):
        alone = alone_allowed and rng.random() < _ALONE
        beat = _beat(rng, signature.lanes, alone, number, 1 << design.tag_bits + design.last)
        bits, taken = _packed(signature, beat, keys)
        requests.append(_spread(component.requests, bits))
        performed.append(taken)
    answers = _answers(design, performed, keys)
    results = [
        _spread(component.results, _result(signature, taken, answers)) for taken in performed
    ]
    return Vectors(requests, results)


Step = tuple[int, int, int]
"""Code of an operation, index of its key, and tag."""


def _beat(
    rng: np.random.Generator, lanes: int, alone: bool, number: int, tags: int
) -> tuple[int, list[Step]]:
    """Return an operation before the others, or 0, and one for each lane."""
    single = int(Operation.SHIFT if rng.random() < 0.8 else Operation.CLEAR) if alone else 0
    steps = []
    for lane in range(lanes):
        code = int(rng.choice([int(code) for code in _CODES]))
        if lanes == 1 and single:
            code, single = single, 0
        steps.append((code, int(rng.integers(_KEYS)), (lanes * number + lane) % tags))
    return single, steps


def _packed(
    signature: UnitSignature, beat: tuple[int, list[Step]], keys: NDArray[np.uint64]
) -> tuple[int, list[Step]]:
    single, steps = beat
    window = _window(signature)
    fields = [
        {"operation": code, "key": _number(keys[key]), "tag": tag} | window
        for code, key, tag in steps
    ]
    before = [(single, 0, -1)] if single else []
    return signature.pack_request(fields, alone=single), [*before, *steps]


def _window(signature: UnitSignature) -> dict[str, int]:
    return {}


def _number(key: Any) -> int:
    words = np.atleast_1d(key)
    return sum(int(word) << 64 * place for place, word in enumerate(words))


def _answers(
    design: Design, performed: Iterable[list[Step]], keys: NDArray[np.uint64]
) -> "Iterable[dict[str, int]]":
    """Yield the fields of each operation's result, but for its tag."""
    steps = [step for taken in performed for step in taken]
    codes = np.array([code for code, *_ in steps], np.uint8)
    asked = keys[[key for _, key, _ in steps]]
    model = from_spec(design.spec)
    if isinstance(model, TimeLimitedRing):
        found = model.perform(codes, asked, np.zeros(len(codes), np.int64))
        statuses = [int(status) for status in found.status]
    else:
        found, statuses = model.apply(codes, asked), None
    for number in range(len(codes)):
        answer = {"seen": int(found.seen[number]), "age": max(0, int(found.age[number]))}
        yield answer | ({} if statuses is None else {"status": statuses[number]})


def _result(
    signature: UnitSignature, taken: list[Step], answers: "Iterable[dict[str, int]]"
) -> int:
    from ...hdl.interface import pack

    lanes = []
    for (_, _, tag), answer in zip(taken, answers, strict=False):
        if tag >= 0:
            lanes.append(answer | {"tag": tag})
    if signature.lanes == 1:
        return pack(signature.result, lanes[0])
    return pack(signature.result, {"lanes": [{"valid": 1, **lane} for lane in lanes]})


def _spread(fields: list[Field], bits: int) -> dict[str, int]:
    """Return the values of the ports whose fields a payload has."""
    values: dict[str, int] = {}
    for one in fields:
        part = bits >> one.source & (1 << one.width) - 1
        values[one.port] = values.get(one.port, 0) | part << one.offset
    return values
