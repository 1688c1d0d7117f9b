"""The interface of every unit: one signature of operations and results, for one lane or several."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from amaranth.hdl import Shape, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.enum import Enum
from amaranth.lib.wiring import In, Out

from ..golden.operations import Operation as GoldenOperation
from ..golden.operations import OperationBit
from ..golden.spec import FilterSpec
from .latencies import PERIOD_BITS, STATUS_BITS, stamp_bits
from .parameters import require_integer


class Operation(Enum, shape=3):
    """Operations of a filter; see `lately.golden.Operation`. Other values do nothing."""

    NONE = GoldenOperation.NONE.value
    QUERY = GoldenOperation.QUERY.value
    INSERT = GoldenOperation.INSERT.value
    CHECK_AND_INSERT = GoldenOperation.CHECK_AND_INSERT.value
    SHIFT = GoldenOperation.SHIFT.value
    CLEAR = GoldenOperation.CLEAR.value


def operation_bits(operation: Any) -> Any:
    """Return a view of an operation with its bits ``query``, ``insert``, ``alone`` and ``remove``.

    A unit that removes no keys has operations of three bits, which lack ``remove``.

    Parameters
    ----------
    operation : Value or View
    """
    value = Value.cast(operation)
    names = [bit.name.lower() for bit in OperationBit][: len(value)]
    return data.View(data.StructLayout(dict.fromkeys(names, 1)), value)


def is_clear(operation: Any) -> Value:
    """Return whether an operation of three bits is a CLEAR.

    Parameters
    ----------
    operation : Value or View
    """
    bits = operation_bits(operation)
    return bits.alone & bits.query & ~bits.insert


class UnitSignature(wiring.Signature):
    """Ports of a unit: a stream of operations in, a stream of results out, and settings.

    With one lane, the payload of `i` is a request and that of `o` a result.
    With several, `i` takes a beat: ``alone``, an operation that is performed
    alone and before the others (SHIFT or CLEAR; others do nothing), and
    ``lanes``, an array of requests, each with ``valid``. Lanes take effect in
    their order; operations that are performed alone do nothing there. `o`
    gives ``lanes``, an array of results, each with ``valid``.

    A request has ``key``, ``operation``, ``tag`` (a word of the user's that
    comes back with the result), ``time``, ``window`` and ``query_class``. A result has
    ``seen``, ``age`` (youngest generation that the key can be of, 0 for the
    current one; 0 if it was not seen), ``oldest`` (cells of the key that have
    that age), ``status``, ``time`` (the low bits of the tick counter), ``covered``
    (as the port of this name, at the operation) and ``tag``.
    A field other than the tag that has no bits does not exist.

    Parameters
    ----------
    key_bits, tag_bits : int
        Widths of key and tag.
    generations : int
        Ages that a key can have.
    lanes : int
        Requests per beat.
    time_bits, window_bits, class_bits : int
        Widths of the time of an operation, of the window that a query asks for, and of its class.
    oldest_bits, status_bits, result_time_bits, result_covered_bits : int
        Widths of the number of oldest cells, of the status, of the time and of the covered ticks
        of a result.
    removes : bool
        Whether operations have the bit ``remove``.
    generation_bits, generation : int
        Width of `generation`, the length of a generation that can be set at
        run time, and its value at reset.
    secret_bits : int
        Width of `secret`, a stream of secrets that can be loaded at run time.
    tick_bits : int
        Width of `period`, the clocks between two ticks; 1 for the port `tick` in its place.
    covered_bits : int
        Width of `covered`, the ticks of which every key is still reported.
    table : layout, optional
        Entry of a table of answers, which is loaded as a stream and put to use by the port `swap`.
    counters : mapping of str to int
        Outputs that count, with their widths.
    others : mapping of str to Member
        Further ports.

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is negative, or 0 where it must not be.
    """

    def __init__(
        self,
        *,
        key_bits: int,
        tag_bits: int,
        generations: int,
        lanes: int = 1,
        time_bits: int = 0,
        window_bits: int = 0,
        class_bits: int = 0,
        oldest_bits: int = 0,
        status_bits: int = 0,
        result_time_bits: int = 0,
        result_covered_bits: int = 0,
        removes: bool = False,
        generation_bits: int = 0,
        generation: int = 0,
        secret_bits: int = 0,
        tick_bits: int = 0,
        covered_bits: int = 0,
        table: data.Layout | None = None,
        counters: Mapping[str, int] | None = None,
        others: Mapping[str, wiring.Member] | None = None,
    ) -> None:
        require_integer("Key bits", key_bits, least=1)
        require_integer("Generations", generations, least=1)
        require_integer("Lanes", lanes, least=1)
        require_integer("Generation", generation)
        widths = {"Tag bits": tag_bits, "Time bits": time_bits, "Window bits": window_bits,
                  "Class bits": class_bits, "Oldest bits": oldest_bits,
                  "Status bits": status_bits, "Result time bits": result_time_bits,
                  "Result covered bits": result_covered_bits,
                  "Generation bits": generation_bits, "Secret bits": secret_bits,
                  "Tick bits": tick_bits, "Covered bits": covered_bits}  # fmt: skip
        widths |= counters or {}
        for name, bits in widths.items():
            require_integer(name, bits)
        self._lanes = lanes
        operation = unsigned(len(OperationBit)) if removes else Operation
        self._request = self._payload(
            {"key": key_bits, "operation": operation, "tag": tag_bits}
            | _existing(time=time_bits, window=window_bits, query_class=class_bits),
            {"alone": Operation},
        )
        # The tag is the highest field, so that a queue can append it to the rest.
        self._result = self._payload(
            {"seen": 1, "age": range(generations)}
            | _existing(oldest=oldest_bits, status=status_bits, time=result_time_bits)
            | _existing(covered=result_covered_bits)
            | {"tag": tag_bits},
            {},
        )
        members = {"i": In(stream.Signature(self._request)),
                   "o": Out(stream.Signature(self._result))}  # fmt: skip
        if generation_bits:
            members["generation"] = In(generation_bits, init=generation)
        members |= {name: Out(bits) for name, bits in (counters or {}).items()}
        members |= {name: Out(bits) for name, bits in _existing(covered=covered_bits).items()}
        if tick_bits:
            members |= {"tick": In(1)} if tick_bits == 1 else {"period": In(tick_bits)}
        if table is not None:
            members |= {"table": In(stream.Signature(table)), "swap": In(1)}
        if secret_bits:
            members["secret"] = In(stream.Signature(secret_bits))
        super().__init__(members | (others or {}))

    @classmethod
    def from_spec(
        cls,
        spec: FilterSpec,
        *,
        ticks: str = "tick",
        time_bits: int | None = None,
        tells_covered: bool = False,
        **options: Any,
    ) -> Self:
        """Return the signature of a unit for a specification.

        Parameters
        ----------
        spec : FilterSpec
        ticks : str
            Where the ticks of a window in time come from, one of `lately.hdl.latencies.TICKS`.
        time_bits : int, optional
            Width of its tick counter; by default the least.
        tells_covered : bool
            Whether results of a window in time tell the covered ticks.
        options
            Parameters that the specification does not determine.
        """
        if spec.timed:
            bits = time_bits or stamp_bits(spec.span)
            covered_bits = (spec.span + 1).bit_length()
            options |= {
                "tick_bits": {"tick": 1, "period": PERIOD_BITS, "time": 0}[ticks],
                "time_bits": bits if ticks == "time" else 0,
                "result_time_bits": bits,
                "status_bits": STATUS_BITS,
                "covered_bits": covered_bits,
                "result_covered_bits": covered_bits * tells_covered,
            }
        return cls(
            key_bits=spec.key_bits,
            generations=spec.window_generations + 1,
            lanes=spec.lanes,
            **options,
        )

    def _payload(self, fields: dict[str, Any], common: dict[str, Any]) -> data.StructLayout:
        """Return the layout of one lane, or of all of them and what they have in common."""
        if self._lanes == 1:
            return data.StructLayout(fields)
        lane = data.StructLayout({"valid": 1} | fields)
        return data.StructLayout(common | {"lanes": data.ArrayLayout(lane, self._lanes)})

    @property
    def lanes(self) -> int:
        """Requests per beat."""
        return self._lanes

    @property
    def request(self) -> data.StructLayout:
        """Payload of the input."""
        return self._request

    @property
    def result(self) -> data.StructLayout:
        """Payload of the output."""
        return self._result

    def of_lane(self, payload: Any, number: int) -> Any:
        """Return the part of a payload, or of a payload's layout, that belongs to a lane.

        Parameters
        ----------
        payload : View or StructLayout
        number : int
            Index of the lane.
        """
        if self._lanes == 1:
            return payload
        if isinstance(payload, data.StructLayout):
            return payload["lanes"].shape[number].shape
        return payload.lanes[number]

    def macros(self) -> list[str]:
        """Return names and values of C macros that say where the fields of a lane's payload lie.

        ``I_`` stands for the input's payload, ``O_`` for the output's:
        ``I_BITS`` in all, ``I_LANE_AT`` where lane 0 begins, ``I_LANE_BITS``
        of a lane, ``I_KEY_AT`` and ``I_KEY_BITS`` of a field within its lane.
        ``I_ALONE_AT`` is that of a beat.
        """
        lines = [f"LANES {self._lanes}"]
        for prefix, payload in (("I", self._request), ("O", self._result)):
            lane = self.of_lane(payload, 0)
            at = 0 if self._lanes == 1 else payload["lanes"].offset
            lines += [f"{prefix}_BITS {payload.size}", f"{prefix}_LANE_AT {at}",
                      f"{prefix}_LANE_BITS {lane.size}"]  # fmt: skip
            common = [one for one in fields(payload) if self._lanes > 1 and "." not in one[0]]
            for name, offset, bits in [*common, *fields(lane)]:
                lines += [f"{prefix}_{name.upper()}_AT {offset}",
                          f"{prefix}_{name.upper()}_BITS {bits}"]  # fmt: skip
        return lines

    def pack_request(
        self, requests: Sequence[Mapping[str, int] | None], *, alone: int = Operation.NONE.value
    ) -> int:
        """Return the bits of the input's payload.

        Parameters
        ----------
        requests : sequence
            The fields of each lane's request, or None where a lane has none;
            with one lane, there must be one.
        alone : int
            Operation before the others, with several lanes.

        Raises
        ------
        ValueError
            If there are not as many requests as lanes, or as `pack` does.
        """
        if len(requests) != self._lanes:
            raise ValueError(f"Requests must be {self._lanes}, one per lane, not {len(requests)}")
        if self._lanes == 1:
            return pack(self._request, requests[0])
        lanes = [{"valid": 0} if one is None else {"valid": 1, **one} for one in requests]
        return pack(self._request, {"alone": alone, "lanes": lanes})

    def unpack_result(self, bits: int) -> list[dict[str, int] | None]:
        """Return the fields of each lane's result, or None where a lane has none.

        Parameters
        ----------
        bits : int
            Payload of the output.
        """
        fields = unpack(self._result, bits)
        if self._lanes == 1:
            return [fields]
        return [lane if lane.pop("valid") else None for lane in fields["lanes"]]


def pack(shape: Any, value: Any) -> int:
    """Return the bits of a payload.

    Parameters
    ----------
    shape : layout or shape
    value : mapping, sequence or int
        Of fields, of elements, or what the bits are; a field that is left out is 0.

    Raises
    ------
    ValueError
        If there is no such field, or a value does not fit.
    """
    if isinstance(shape, data.Layout):
        named = dict(value.items() if isinstance(value, Mapping) else enumerate(value))
        bits = 0
        for name, field in shape:
            bits |= pack(field.shape, named.pop(name, _nothing(field.shape))) << field.offset
        if named:
            raise ValueError(f"Fields must be those of {shape!r}, not {', '.join(map(str, named))}")
        return bits
    bits, width = int(value), Shape.cast(shape).width
    if not 0 <= bits < 1 << width:
        raise ValueError(f"Value must be of {width} bits, not {bits}")
    return bits


def _nothing(shape: Any) -> Any:
    return {} if isinstance(shape, data.Layout) else 0


def unpack(shape: Any, bits: int) -> Any:
    """Return what `pack` makes these bits of: a dict of fields, a list of elements, or an int.

    Parameters
    ----------
    shape : layout or shape
    bits : int
    """
    if not isinstance(shape, data.Layout):
        return bits & ((1 << Shape.cast(shape).width) - 1)
    fields = {name: unpack(field.shape, bits >> field.offset) for name, field in shape}
    return list(fields.values()) if isinstance(shape, data.ArrayLayout) else fields


def fields(shape: Any, name: str = "", offset: int = 0) -> Iterator[tuple[str, int, int]]:
    """Yield the path, offset and width of each field of a payload, such as ``lanes.0.key``.

    Parameters
    ----------
    shape : layout or shape
    name : str
        Path of the whole.
    offset : int
        Bit of the whole value at which it begins.
    """
    if not isinstance(shape, data.Layout):
        yield name, offset, Shape.cast(shape).width
        return
    for part, field in shape:
        path = f"{name}.{part}" if name else str(part)
        yield from fields(field.shape, path, offset + field.offset)


def _existing(**widths: int) -> dict[str, int]:
    return {name: bits for name, bits in widths.items() if bits}
