"""What a unit and its core have in common: control flags, verdicts, and the ports of a core."""

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
        The effects of the operation. A shift comes between query and insertion.
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
    """Ports of a core, whatever family it is of: fixed latency, no stall inside.

    A core accepts one operation per cycle and gives its results in order, each `latency` cycles
    after its key. An operation sees the effects of all operations before it. `control` comes
    some cycles after its key, `lately.hdl.latencies.CONTROL_LAG` in a unit of one lane, so that
    hashing need not wait for the decision on the shift.

    Parameters
    ----------
    key_bits : int
        Width of a key.
    ages : int
        Ages that a key can have.
    secrets : int
        Secrets that keys are hashed with at one time.
    latency : int
        Cycles from a key to its verdict.
    clear_cycles : int
        Cycles after a shift or clear from which on `clean` can be relied on.
    timed : bool
        Whether only what starts below a limit is reported.
    checks : bool
        Whether the state of the core is watched.

    Members
    -------
    control : In(Control)
    key : In(key_bits)
    secret0, ... : In(128)
        One for each of `secrets`, see `lately.hdl.hash.siphash.SipHash`.
    limit : In(range(ages + 1))
        If timed, with `control`: ages below it count.
    valid_next : Out(1)
        `valid` of the next cycle.
    valid, hit, insert, shift : Out(1)
        Flags of the operation that leaves; `hit` is ``seen`` of a valid one.
    verdict : Out(Verdict)
    clean : Out(1)
        Whether everything that was to be cleared is, as far as the core can tell.
    fault : Out(1)
        Whether the core has found an error in its memory. Always low in cores without protection.
    illegal : Out(1)
        If it is watched: the core is in a state that no operations bring about.

    Errors: as `require_integer`.
    """

    def __init__(
        self, *, key_bits, ages, latency, clear_cycles, secrets=0, timed=False, checks=False
    ):
        require_integer("Key width", key_bits, least=1)
        require_integer("Ages", ages, least=1)
        require_integer("Secrets", secrets)
        self.latency = latency
        self.clear_cycles = clear_cycles
        self.secrets = secrets
        super().__init__(
            {
                "control": In(Control),
                "key": In(key_bits),
                "valid_next": Out(1),
                "valid": Out(1),
                "hit": Out(1),
                "insert": Out(1),
                "shift": Out(1),
                "verdict": Out(Verdict(ages=ages)),
                "clean": Out(1, init=1),
                "fault": Out(1),
            }
            | {f"secret{number}": In(SECRET_BITS) for number in range(secrets)}
            | ({"limit": In(range(ages + 1))} if timed else {})
            | ({"illegal": Out(1)} if checks else {})
        )


class PlainCoreSignature(wiring.Signature):
    """Ports of a core that is no ring: fixed latency, one operation per clock, no stall inside.

    Results come in order, each `latency` clocks after its key, and an operation sees the effects
    of all operations before it. `control` comes `lately.hdl.latencies.CONTROL_LAG` clocks after
    the key. After a clear no operation comes until `clean`.

    Parameters
    ----------
    key_bits : int
        Width of a key.
    verdict : layout
        Answer to an operation.
    keyed : bool
        Whether keys are hashed with a secret.
    others
        Further ports of the core, by name.

    Members
    -------
    control : In(Control)
    key : In(key_bits)
    secret : In(128)
        If keyed, see `lately.hdl.hash.siphash.SipHash`.
    valid_next : Out(1)
        `valid` of the next clock.
    valid, hit, insert : Out(1)
        Flags of the operation that leaves; `hit` is ``seen`` of a valid one.
    verdict : Out(verdict)
    clean : Out(1)
        Whether all is clear; low from the clock after a clear on.
    late : Out(1)
        The core needs a clock without an operation.

    Errors: as `require_integer`.
    """

    def __init__(self, *, key_bits, verdict, keyed=False, **others):
        require_integer("Key width", key_bits, least=1)
        super().__init__(
            {
                "key": In(key_bits),
                "control": In(Control),
                **({"secret": In(SECRET_BITS)} if keyed else {}),
                "valid_next": Out(1),
                "valid": Out(1),
                "hit": Out(1),
                "insert": Out(1),
                "verdict": Out(verdict),
                "clean": Out(1),
                "late": Out(1),
            }
            | others
        )
