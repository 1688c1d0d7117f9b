"""From a key to its digest and the row of its cell in each column."""

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
    """Return the terms of each column, as for `row_of`.

    Parameters
    ----------
    spec : WindowDictionarySpec
    """
    return offset_terms(
        columns=spec.columns, row_bits=spec.row_bits, rest_bits=spec.rest_bits, seed=spec.seed
    )


class DigestRows(wiring.Component):
    """Row of a digest in each column, a cycle later.

    Parameters
    ----------
    spec : WindowDictionarySpec

    Members
    -------
    key : In(digest_bits)
        The digest.
    digest : Out(digest_bits)
    rows : Out
        Item c: row in column c.
    """

    latency = 1

    def __init__(self, *, spec):
        self._spec = spec
        super().__init__({"key": In(spec.digest_bits), **digest_ports(spec)})

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        bits = self._spec.row_bits
        digest = pipe.enter(self.key, "digest", reset_less=True)
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


class DigestHash(wiring.Component):
    """Digest of a key, and its row in each column, `latency` cycles later.

    Parameters
    ----------
    spec : WindowDictionarySpec
    levels : int
        Levels of LUTs between two registers of the hash, see `Pipeline`.

    Members
    -------
    key : In(key_bits)
    secret : In(128)
        With ``hash="siphash"``, see `lately.hdl.hash.siphash.SipHash`.
    digest, rows : Out
        As of `DigestRows`.
    """

    def __init__(self, *, spec, levels=DEFAULT_LEVELS):
        self._spec = spec
        keyed = spec.hash == "siphash"
        self.hash = (
            SipHash(key_bits=spec.key_bits)
            if keyed
            else StateHash(key_bits=spec.key_bits, seed=spec.seed, levels=levels)
        )
        self.rows_of = DigestRows(spec=spec)
        self.latency = self.hash.latency + 1 + self.rows_of.latency
        super().__init__(
            {"key": In(spec.key_bits), **digest_ports(spec)}
            | ({"secret": In(SECRET_BITS)} if keyed else {})
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.hash = key_hash = self.hash
        m.submodules.rows = rows = self.rows_of
        spec, pipe = self._spec, Pipeline(m)
        hashed = pipe.drive(key_hash, key=pipe.enter(self.key, "key")) + key_hash.latency
        state = pipe.enter(key_hash.state, "state", stage=hashed, reset_less=True)
        sizes = (spec.rows, 1 << spec.rest_bits)
        (indices,) = expand(pipe, state, sizes=sizes, functions=1, seed=spec.seed)
        digest = pipe.register("digest", Cat, *indices, reset_less=True)
        found = pipe.drive(rows, key=digest) + rows.latency
        m.d.comb += [self.digest.eq(rows.digest), self.rows.eq(rows.rows)]
        pipe.leave(pipe.enter(rows.rows, "rows", stage=found), latency=self.latency)
        if spec.hash == "siphash":
            m.d.comb += key_hash.secret.eq(self.secret)
        return m


def digest_ports(spec):
    """Return the outputs of a component that finds the digest of each key."""
    rows = data.ArrayLayout(range(spec.rows), spec.columns)
    return {"digest": Out(spec.digest_bits), "rows": Out(rows)}
