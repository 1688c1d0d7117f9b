"""Digest of a key, and the row of its cell in each column."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.functions import offset_terms
from ...golden.hash.siphash import SECRET_BITS
from ..hash.functions import StateHash, expand
from ..hash.siphash import SipHash
from ..latencies import DEFAULT_LEVELS
from ..pipeline import Pipeline
from .cells import row_of


def column_terms(spec):
    """Return the terms of each column for `row_of`.

    Parameters
    ----------
    spec : WindowDictionarySpec
    """
    return offset_terms(
        columns=spec.columns, row_bits=spec.row_bits, rest_bits=spec.rest_bits, seed=spec.seed
    )


class DigestHash(wiring.Component):
    """Computes the digest of a key and its row in each column.

    Latency `latency` cycles.

    Parameters
    ----------
    spec : WindowDictionarySpec
    levels : int
        Levels of LUTs between two registers of the hash, see `Pipeline`.
    hashed : bool
        Whether keys are already digests.

    Members
    -------
    key : In
    secret : In(128)
        With ``hash="siphash"`` only, see `lately.hdl.hash.siphash.SipHash`.
    digest : Out(digest_bits)
    rows : Out
        Item c: row in column c.
    """

    def __init__(self, *, spec, levels=DEFAULT_LEVELS, hashed=False):
        self._spec = spec
        self._keyed = spec.hash == "siphash" and not hashed
        self.hash = None
        if self._keyed:
            self.hash = SipHash(key_bits=spec.key_bits)
        elif not hashed:
            self.hash = StateHash(key_bits=spec.key_bits, seed=spec.seed, levels=levels)
        self.latency = 1 if hashed else self.hash.latency + 2
        super().__init__(
            {
                "key": In(spec.digest_bits if hashed else spec.key_bits),
                "digest": Out(spec.digest_bits),
                "rows": Out(data.ArrayLayout(range(spec.rows), spec.columns)),
            }
            | ({"secret": In(SECRET_BITS)} if self._keyed else {})
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        bits = self._spec.row_bits
        digest = pipe.enter(self.key, "key", reset_less=True)
        if self.hash:
            digest = self._elaborate_hash(m, pipe, digest)
        rows = [
            pipe.register(
                f"row{column}",
                lambda digest, terms=terms: row_of(digest[:bits], digest[bits:], terms),
                digest,
                reset_less=True,
            )
            for column, terms in enumerate(column_terms(self._spec))
        ]
        m.d.comb += [
            self.digest.eq(digest.at(self.latency).value),
            *(self.rows[column].eq(row.value) for column, row in enumerate(rows)),
        ]
        pipe.leave(*rows, latency=self.latency)
        return m

    def _elaborate_hash(self, m, pipe, key):
        """Return the digest of a key."""
        spec = self._spec
        m.submodules.hash = key_hash = self.hash
        if self._keyed:
            m.d.comb += key_hash.secret.eq(self.secret)
        hashed = pipe.drive(key_hash, key=key) + key_hash.latency
        state = pipe.enter(key_hash.state, "state", stage=hashed, reset_less=True)
        sizes = (spec.rows, 1 << spec.rest_bits)
        (indices,) = expand(pipe, state, sizes=sizes, functions=1, seed=spec.seed)
        return pipe.register("digest", Cat, *indices, reset_less=True)
