"""Between a unit and its core: control flags, verdicts, and the ports of a core."""

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..golden.hash.siphash import SECRET_BITS
from .parameters import require_integer


class Control(data.Struct):
    """Flags that travel down the pipeline beside the key.

    Attributes
    ----------
    valid
        A result is expected. The other flags act whether it is set or not.
    query, insert, shift, clear
        The effects of the operation. A shift comes between query and insertion; in a timing filter
        it is a tick, which comes before the operation.
    adopt
        With a shift or clear: a secret that waited comes in.
    """

    valid: 1
    query: 1
    insert: 1
    shift: 1
    clear: 1
    adopt: 1


class Verdict(data.StructLayout):
    """Answer to a query: ``seen``, and ``age``, 0 if the key was not seen.

    Parameters
    ----------
    ages : int
        Ages that a key can have.
    """

    def __init__(self, *, ages):
        super().__init__({"seen": 1, "age": range(ages)})


class CoreSignature(wiring.Signature):
    """Ports of a core of any family: fixed latency, one operation per cycle, no stall inside.

    Results come in order, each `latency` cycles after its key. An operation sees the effects of
    all operations before it. `control` comes some cycles after its key,
    `lately.hdl.latencies.CONTROL_LAG` in a unit of one lane, so that hashing need not wait for the
    decision on the shift. After a clear no operation comes until `clean`.

    A core has the attributes ``latency``; if shifts retire a segment, ``clear_cycles``: cycles
    after a shift or clear from which on `clean` can be relied on; and, if not 0, ``request_lag``:
    cycles by which the fields of a request come after their key.

    Parameters
    ----------
    key_bits : int
        Width of a key.
    verdict : layout
        Answer to an operation: ``seen``, ``age``, and other fields of a result.
    secrets : int
        Secrets that keys are hashed with at one time.
    request : mapping of str to shape, optional
        Further fields of a request; ``remove`` is a bit of its operation.
    ports : mapping of str to Member, optional
        Ports of the core that are ports of the unit.
    events : sequence of str
        Outputs that the unit counts beside ``valid``, ``insert`` and ``hit``: see
        `lately.hdl.registers`.
    others : mapping of str to Member, optional
        Further ports: those below that not every core has.

    Members
    -------
    control : In(Control)
    key : In(key_bits)
    secret0, ... : In(128)
        One for each of `secrets`, see `lately.hdl.hash.siphash.SipHash`.
    valid_next : Out(1)
        `valid` of the next cycle.
    valid, hit, insert, shift : Out(1)
        Flags of the operation that leaves; `hit` is ``seen`` of a valid one.
    verdict : Out(verdict)
    clean : Out(1)
        Whether everything that was to be cleared is, as far as the core can tell.
    fault : Out(1)
        An error was found in a memory. Always low in cores without protection.
    stall : Out(1)
        Some cores: a cycle without an operation is needed.
    limit : In(range(ages + 1))
        Some cores, with `control`: ages below it count.
    phase : In
        Some cores, with `control`: how far the block of insertions is filled.
    illegal : Out(1)
        Cores that are watched: a state that no operations bring about.

    Errors: as `require_integer`.
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
        require_integer("Key width", key_bits, least=1)
        require_integer("Secrets", secrets)
        self.secrets = secrets
        self.request = dict(request or {})
        self.ports = dict(ports or {})
        self.events = ("valid", "insert", "hit", *events)
        super().__init__(
            {
                "control": In(Control),
                "key": In(key_bits),
                "valid_next": Out(1),
                "valid": Out(1),
                "hit": Out(1),
                "insert": Out(1),
                "shift": Out(1),
                "verdict": Out(verdict),
                "clean": Out(1, init=1),
                "fault": Out(1),
            }
            | {f"secret{number}": In(SECRET_BITS) for number in range(secrets)}
            | {name: In(shape) for name, shape in self.request.items()}
            | self.ports
            | dict(others or {})
        )
