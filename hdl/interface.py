"""Interface of every unit: one signature for operations and results, with one or several lanes."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from amaranth.hdl import Shape, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.enum import Enum
from amaranth.lib.wiring import In, Out

from ..golden.operations import Operation as GoldenOperation
from ..golden.operations import OperationBit
from .parameters import require_integer


class Operation(Enum, shape=3):
    """Operations of a filter; see `lately.golden.Operation`. Other codes have no effect."""

    NONE = GoldenOperation.NONE.value
    QUERY = GoldenOperation.QUERY.value
    INSERT = GoldenOperation.INSERT.value
    CHECK_AND_INSERT = GoldenOperation.CHECK_AND_INSERT.value
    SHIFT = GoldenOperation.SHIFT.value
    CLEAR = GoldenOperation.CLEAR.value


def operation_bits(operation: Any) -> Any:
    """Return a view of the bits ``query``, ``insert``, ``alone`` and ``remove`` of an operation.

    An operation of three bits has no bit ``remove``.
    """
    value = Value.cast(operation)
    names = [bit.name.lower() for bit in OperationBit][: len(value)]
    return data.View(data.StructLayout(dict.fromkeys(names, 1)), value)


def is_clear(operation: Any) -> Value:
    bits = operation_bits(operation)
    return bits.alone & bits.query & ~bits.insert


class UnitSignature(wiring.Signature):
    """Ports of a unit: an input stream of operations, an output stream of results, and other ports.

    With one lane, the payload of `i` is a request, and the payload of `o` is a result.

    With several lanes, the payload of `i` is a beat with two fields. ``alone`` is an operation that
    takes effect before all lanes: SHIFT or CLEAR; other codes have no effect. ``lanes`` is an array
    of requests, each with a flag ``valid``. The requests take effect in the order of the lanes; a
    SHIFT or CLEAR in a lane has no effect. The payload of `o` has the field ``lanes``, an array of
    results, each with a flag ``valid``.

    A request has the fields ``key``, ``operation``, ``tag`` (a word that the result repeats),
    ``time``, ``window`` and ``query_class``. A result has these fields:

    - ``seen``: whether the key is reported
    - ``age``: age of the youngest generation that can hold the key; 0 if the key was not seen
    - ``oldest``: number of cells of the key that have this age
    - ``status``: see `lately.hdl.unit.BaseUnit`
    - ``time``: low bits of the tick counter
    - ``covered``: value of the port `covered` before the operation takes effect
    - ``tag``: tag of the request

    Zero-width fields are omitted, except the tag.

    Parameters
    ----------
    request, result : mapping of str to shape
        Fields of a request and of a result.
    lanes : int
        Number of requests per beat.
    ports : mapping of str to Member, optional
        Additional ports.

    Raises
    ------
    ValueError
        If the number of lanes is below 1, or the key has no bits.
    """

    def __init__(
        self,
        request: Mapping[str, Any],
        result: Mapping[str, Any],
        *,
        lanes: int = 1,
        ports: Mapping[str, wiring.Member] | None = None,
    ) -> None:
        require_integer("Lanes", lanes, minimum=1)
        require_integer("Key bits", Shape.cast(request["key"]).width, minimum=1)
        self._lanes = lanes
        self._request = self._payload(_existing(request), {"alone": Operation})
        self._result = self._payload(_existing(result), {})
        super().__init__(
            {"i": In(stream.Signature(self._request)), "o": Out(stream.Signature(self._result))}
            | dict(ports or {})
        )

    def _payload(self, fields: dict[str, Any], common: dict[str, Any]) -> data.StructLayout:
        if self._lanes == 1:
            return data.StructLayout(fields)
        lane = data.StructLayout({"valid": 1} | fields)
        return data.StructLayout(common | {"lanes": data.ArrayLayout(lane, self._lanes)})

    @property
    def lanes(self) -> int:
        """Number of requests per beat."""
        return self._lanes

    @property
    def request(self) -> data.StructLayout:
        """Layout of the payload of `i`."""
        return self._request

    @property
    def result(self) -> data.StructLayout:
        """Layout of the payload of `o`."""
        return self._result

    def of_lane(self, payload: Any, number: int) -> Any:
        """Return the part of a payload, or of its layout, that belongs to lane `number`."""
        if self._lanes == 1:
            return payload
        if isinstance(payload, data.StructLayout):
            return payload["lanes"].shape[number].shape
        return payload.lanes[number]

    def macros(self) -> list[str]:
        """Return C macros, each as ``NAME value``, for the positions and widths of all fields.

        The prefix ``I_`` denotes the input, and ``O_`` the output. ``I_BITS`` is the width of the
        payload, ``I_LANE_AT`` the lowest bit of lane 0, and ``I_LANE_BITS`` the width of a lane.
        ``I_KEY_AT`` and ``I_KEY_BITS`` are the position and width of the key within its lane.
        ``I_ALONE_AT`` is the position of the field ``alone`` of a beat.
        """
        lines = [f"LANES {self._lanes}"]
        for prefix, payload in (("I", self._request), ("O", self._result)):
            lane = self.of_lane(payload, 0)
            at = 0 if self._lanes == 1 else payload["lanes"].offset
            lines += [f"{prefix}_BITS {payload.size}", f"{prefix}_LANE_AT {at}",
                      f"{prefix}_LANE_BITS {lane.size}"]  # fmt: skip
            common = [field for field in fields(payload) if self._lanes > 1 and "." not in field[0]]
            for name, offset, bits in [*common, *fields(lane)]:
                lines += [f"{prefix}_{name.upper()}_AT {offset}",
                          f"{prefix}_{name.upper()}_BITS {bits}"]  # fmt: skip
        return lines

    def pack_request(
        self, requests: Sequence[Mapping[str, int] | None], *, alone: int = Operation.NONE.value
    ) -> int:
        """Return the payload of `i` that contains the given requests, as an integer.

        Parameters
        ----------
        requests : sequence
            Fields of each lane's request, or None for a lane without a request. With one lane, the
            request is required.
        alone : int
            Operation that takes effect before all lanes; used only with several lanes.

        Raises
        ------
        ValueError
            If the number of requests is not the number of lanes, a field is unknown, or a value
            does not fit.
        """
        if len(requests) != self._lanes:
            raise ValueError(
                f"requests: must be {self._lanes}, one for each lane, not {len(requests)}"
            )
        if self._lanes == 1:
            return pack(self._request, requests[0])
        lanes = [
            {"valid": 0} if request is None else {"valid": 1, **request} for request in requests
        ]
        return pack(self._request, {"alone": alone, "lanes": lanes})

    def unpack_result(self, bits: int) -> list[dict[str, int] | None]:
        """Return the fields of each lane's result, or None for a lane without a result."""
        fields = unpack(self._result, bits)
        if self._lanes == 1:
            return [fields]
        return [lane if lane.pop("valid") else None for lane in fields["lanes"]]


def pack(shape: Any, value: Any) -> int:
    """Pack a dict of fields, a list of elements, or an int into an int; missing fields are 0."""
    if isinstance(shape, data.Layout):
        named = dict(value.items() if isinstance(value, Mapping) else enumerate(value))
        bits = 0
        for name, offset, part in _members(shape):
            bits |= pack(part, named.pop(name, _nothing(part))) << offset
        if named:
            raise ValueError(f"{', '.join(map(str, named))}: not a field of {shape!r}")
        return bits
    bits, width = int(value), _width(shape)
    if not 0 <= bits < 1 << width:
        raise ValueError(f"Value does not fit in {width} bits: {bits}")
    return bits


# Cached: benches pack and unpack in every cycle, and Amaranth rebuilds the fields of a layout on
# each access.


@cache
def _members(layout: data.Layout) -> list[tuple[Any, int, Any]]:
    return [(name, field.offset, field.shape) for name, field in layout]


@cache
def _width(shape: Any) -> int:
    return Shape.cast(shape).width


def _nothing(shape: Any) -> Any:
    return {} if isinstance(shape, data.Layout) else 0


def unpack(shape: Any, bits: int) -> Any:
    """Unpack a payload into a dict of fields, a list of elements, or an int."""
    if not isinstance(shape, data.Layout):
        return bits & ((1 << _width(shape)) - 1)
    fields = {name: unpack(part, bits >> offset) for name, offset, part in _members(shape)}
    return list(fields.values()) if isinstance(shape, data.ArrayLayout) else fields


def fields(shape: Any, name: str = "", offset: int = 0) -> Iterator[tuple[str, int, int]]:
    """Yield the path, offset and width of each field of a payload, such as ``lanes.0.key``."""
    if not isinstance(shape, data.Layout):
        yield name, offset, Shape.cast(shape).width
        return
    for part, field in shape:
        path = f"{name}.{part}" if name else str(part)
        yield from fields(field.shape, path, offset + field.offset)


def _existing(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are wider than zero bits, and the tag even if it has no bits."""
    return {name: shape for name, shape in fields.items()
            if name == "tag" or Shape.cast(shape).width}  # fmt: skip
