"""A window dictionary as a unit: streams in and out, nothing lost under back-pressure."""

from ..interface import operation_bits
from ..latencies import CONTROL_LAG, DEFAULT_LEVELS, VOTES
from ..pipeline import Pipeline
from ..unit_shell import UnitShell
from .core import DictionaryCore
from .dictionary_figures import check_buildable, check_protection


class DictionaryUnit(UnitShell):
    """A dictionary of digests with an exact window, bit for bit `lately.golden.WindowDictionary`.

    The unit accepts one operation per cycle while its results are taken, whatever the keys are, if
    the sweep finds cycles in which no operation writes a column. If every insertion writes the same
    column, the input stalls for one cycle in a few. Every operation gives one result, in order,
    `latency` cycles after its acceptance if the results before it have been taken.

    With moves fewer columns are enough, see `DictionaryCore`. Verdicts and ages are golden's while
    no entry is given up. The pace of the operations decides which entries are given up. The input
    also stalls while the stash is nearly full, for one cycle in 16 at most.

    After a CLEAR and after reset `i.ready` is low for a cycle per row, and some more. SHIFT does
    nothing.

    Parameters
    ----------
    spec : WindowDictionarySpec
        What to build; must pass `lately.hdl.dictionary.dictionary_figures.check_buildable`.
    tag_bits : int
        Width of the tag.
    statistics_bits : int
        Width of the counters, which wrap around.
    memory, levels, protect
        As for `DictionaryCore`.
    check : bool
        As for `UnitShell`.

    Members
    -------
    i, o
        See `lately.hdl.interface.UnitSignature`. The window of a request counts insertions; a
        longer one acts as that of the specification, and with 0 nothing is seen. An operation with
        the bits insert and remove removes. The age counts insertions, 0 for the last one. The
        status is 1 if keys of the window may be missed, as it is longer than the guaranteed one.
    guaranteed : Out
        Largest window for which answers are exact.
    secret : In(stream.Signature(128))
        With ``hash="siphash"`` only: the secret of the hash, 0 after reset. It applies from the
        next CLEAR that is accepted in the same cycle or later. While a CLEAR is in flight, for
        about ten cycles, no secret is taken.
    operations, insertions, hits, lost : Out(statistics_bits)
        Events since reset; entries that were given up.
    upsets : Out(statistics_bits)
        With protection only: cycles in which an operation or the sweep found a cell upset.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification, or there is no such protection.
    TypeError
        If a width is not an integer.
    ValueError
        If a width is out of its range, or there is no such memory.
    """

    COUNTERS = {**UnitShell.COUNTERS, "lost": "lost"}

    def __init__(
        self,
        spec,
        *,
        tag_bits=8,
        statistics_bits=32,
        memory="portable",
        levels=DEFAULT_LEVELS,
        protect="none",
        check=False,
    ):
        check_buildable(spec, memory=memory)
        check_protection(protect)
        if protect != "none":
            self.COUNTERS = {**self.COUNTERS, "upsets": "upset"}
        bits = spec.window.bit_length()
        super().__init__(
            DictionaryCore(spec=spec, memory=memory, levels=levels, protect=protect),
            tag_bits=tag_bits,
            statistics_bits=statistics_bits,
            outputs={"guaranteed": bits},
            copies=1 if protect == "none" else VOTES,
            check=check,
            generations=spec.window,
            window_bits=bits,
            status_bits=1,
            removes=True,
        )

    def _elaborate_core(self, m, control):
        core, bits = self._core, operation_bits(self.i.p.operation)
        pipe = Pipeline(m)
        remove = pipe.enter(self.i.valid & self.i.ready & bits.remove & ~bits.alone, "remove")
        window = pipe.enter(self.i.p.window, "window", reset_less=True)
        m.d.comb += [
            core.remove.eq(remove.at(CONTROL_LAG).value),
            core.window.eq(window.at(CONTROL_LAG).value),
            self.guaranteed.eq(core.guaranteed),
        ]
        return super()._elaborate_core(m, control)
