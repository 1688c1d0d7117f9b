"""Interface between a unit and its core: control flags, verdicts and the ports of a core."""

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..golden.hash.siphash import SECRET_BITS
from .parameters import require_integer


class Control(data.Struct):
    """Flags that accompany a key through the pipeline."""

    valid: 1  # a result is expected. The other flags act independently of this flag.
    query: 1
    insert: 1
    # Takes effect between query and insertion. In a timing filter, a shift is a tick and takes
    # effect before the operation.
    shift: 1
    clear: 1
    adopt: 1  # with a shift or clear: the pending secret takes effect


class Verdict(data.StructLayout):
    """Result of a query: ``seen``, and ``age``, which is 0 if the key was not seen."""

    def __init__(self, *, ages):
        super().__init__({"seen": 1, "age": range(ages)})


class CoreSignature(wiring.Signature):
    """Ports of a core, the pipeline that computes the verdict on a key.

    A core of any family accepts one operation per cycle and never stalls. Results leave in order,
    each ``latency`` cycles after the key. An operation sees the effects of all earlier operations.
    After a clear, no operation may enter until `clean` is high.

    The port `control` follows the key by a fixed number of cycles, which is
    `lately.hdl.latencies.CONTROL_LAG` in a single-lane unit. The hash can therefore start before
    the unit has decided whether to shift.

    Every core has the attribute ``latency``. A core whose shifts retire a segment also has
    ``clear_cycles``, the number of cycles from a shift or clear until `clean` is valid. If a core
    has ``request_lag``, the other fields of a request follow the key by this number of cycles.

    Parameters
    ----------
    key_bits : int
        Width of a key.
    verdict : layout
        Fields of a verdict: ``seen``, ``age``, and other fields of a result.
    secrets : int
        Number of secrets in use at the same time; each has a port, such as `secret0`.
    request : mapping of str to shape, optional
        Additional request fields. The field ``remove`` comes from a bit of the operation.
    ports : mapping of str to Member, optional
        Core ports that the unit exposes.
    events : sequence of str
        Outputs that the unit counts in addition to ``valid``, ``insert`` and ``hit``; see
        `lately.hdl.registers`.
    others : mapping of str to Member, optional
        Ports that only some cores have: ``stall`` (the core needs a cycle without an operation),
        ``limit`` (keys of this age or older are not reported), ``phase`` (number of insertions in
        the current block) and ``illegal`` (the core has detected an illegal state).

    Raises
    ------
    ValueError
        If `key_bits` is below 1 or `secrets` is negative.
    """

    def __init__(
        self,
        *,
        key_bits: int,
        verdict: Any,
        secrets: int = 0,
        request: Mapping[str, Any] | None = None,
        ports: Mapping[str, wiring.Member] | None = None,
        events: Sequence[str] = (),
        others: Mapping[str, wiring.Member] | None = None,
    ) -> None:
        require_integer("Key width", key_bits, minimum=1)
        require_integer("Secrets", secrets)
        self.secrets = secrets
        self.request = dict(request or {})
        self.ports = dict(ports or {})
        self.events = ("valid", "insert", "hit", *events)
        super().__init__(
            {
                "control": In(Control),
                "key": In(key_bits),
                "valid_next": Out(1),  # `valid` in the next cycle
                "valid": Out(1),  # `verdict` is the result of an operation
                "hit": Out(1),  # the result reports its key
                "insert": Out(1),  # the operation that leaves has inserted its key
                "shift": Out(1),  # the operation that leaves has carried a shift
                "verdict": Out(verdict),
                # whether another shift, or an operation after a clear, may enter
                "clean": Out(1, init=1),
                "fault": Out(1),  # a memory upset was detected
            }
            | {f"secret{number}": In(SECRET_BITS) for number in range(secrets)}
            | {name: In(shape) for name, shape in self.request.items()}
            | self.ports
            | dict(others or {})
        )
