"""Core of a window dictionary: digests, columns, placement, stash and verdicts, put together."""

from functools import partial, reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.functions import offset_terms
from ..control import PlainCoreSignature
from ..hash.functions import StateHash, expand
from ..hash.siphash import SipHash
from ..latencies import CONTROL_LAG, DEFAULT_LEVELS
from ..memory.copies import OF_CELLS, protected
from ..memory.parity import sums
from ..memory.variants import cell_memory
from ..pipeline import Pipeline, registered
from .column import Column
from .dictionary_figures import (
    ANSWER,
    DECISION,
    HAZARDS,
    DictionaryProfile,
    rows_latency,
    swept_per_row,
)
from .placement import NEAR_BITS, Placement
from .stash import STASH_HAZARDS, Stash


class WindowVerdict(data.StructLayout):
    """Answer to a query: ``seen``, ``age`` in insertions, 0 if not seen, and ``status``.

    The status is 1 if keys of the window asked for may be missed, as it is longer than the
    guaranteed one.

    Parameters
    ----------
    window : int
    """

    def __init__(self, *, window):
        super().__init__({"seen": 1, "age": range(window), "status": 1})


class DictionaryCore(wiring.Component):
    """Pipeline of a window dictionary, of fixed latency, which takes one operation a clock.

    A shift does nothing. The core is late where the sweep needs a clock without an operation.

    Parameters
    ----------
    spec : WindowDictionarySpec
    memory : str or type
        Variant of the memories; as for `lately.hdl.memory.variants.cell_memory`.
    levels : int
        Levels of look-up tables between two registers of the hash, see `Pipeline`.
    protect : str
        What an upset of a cell may cost, one of `lately.hdl.latencies.PROTECTIONS`. With "parity"
        a cell whose parity is wrong holds whatever is asked for, inserted last, and keeps it until
        all that it can have held has expired. With "ecc" there are three copies of each cell, of
        which most count, and the sweep writes one anew that differs from the other two.

    Members
    -------
    As those of `PlainCoreSignature`, and:

    remove, window : In
        With the control: whether the key is removed; the window that is asked for, at most that
        of the specification. With 0 nothing is seen.
    lost : Out(1)
        An entry was given up for the operation that leaves.
    guaranteed : Out
        Largest window for which answers are exact, after the operation that left last.
    upset : Out(1)
        If protected: an operation or the sweep has found a cell upset.

    Raises
    ------
    ValueError
        If there is no such memory.
    """

    def __init__(self, *, spec, memory="portable", levels=DEFAULT_LEVELS, protect="none"):
        self._spec = spec
        profile = DictionaryProfile(spec, protect=protect)
        build = partial(cell_memory, memory, depth=spec.rows, width=profile.cell_bits)
        self.columns = [
            self._column(
                column,
                memory=protected(build, copies=profile.copies, **OF_CELLS),
                side=2 * column // spec.columns,
                protect=protect,
            )
            for column in range(spec.columns)
        ]
        self._checks = self.columns[0].checks
        # Whether it is told that cells are upset.
        self._tells = protect != "none"
        self.hash = (
            SipHash(key_bits=spec.key_bits)
            if spec.hash == "siphash"
            else StateHash(key_bits=spec.key_bits, seed=spec.seed, levels=levels)
        )
        self._read = rows_latency(spec, levels=levels)
        self.latency = self._read + ANSWER
        super().__init__(
            PlainCoreSignature(
                key_bits=spec.key_bits,
                verdict=WindowVerdict(window=spec.window),
                keyed=spec.hash == "siphash",
                remove=In(1),
                window=In(range(spec.window + 1)),
                lost=Out(1),
                guaranteed=Out(range(spec.window + 1), init=spec.window),
                **({"upset": Out(1)} if self._tells else {}),
            )
        )

    def _column(self, index, **options):
        return Column(spec=self._spec, **options)

    def _placement(self):
        return Placement(columns=self._spec.columns)

    def _stash(self):
        return Stash(spec=self._spec)

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        control = pipe.enter(self.control, "control", stage=CONTROL_LAG)
        digest, rows = self._elaborate_digest(m, pipe)
        number = self._elaborate_number(m, pipe, control)
        m.submodules.placement = placement = self._placement()
        m.submodules.stash = stash = self._stash()
        self._elaborate_hazards(m, pipe, digest, rows, placement, stash)
        clearing, cleared_row = self._elaborate_clear(m)
        decided = self._read + DECISION
        m.d.comb += [
            placement.insert.eq(self._inserts(pipe, control).at(decided).value),
            placement.remove.eq(self._removes(pipe, control).at(decided).value),
            placement.number.eq(number.at(decided).value),
            stash.asked.eq(digest.at(decided + 2 - STASH_HAZARDS).value),
            stash.acts.eq(registered(m, placement.acts, "stash_acts")),
            stash.push.eq(placement.push),
            stash.digest.eq(digest.at(decided + 2).value),
            stash.number.eq(number.at(decided + 2).value),
            stash.clear.eq(clearing),
        ]
        distance = self._elaborate_columns(
            m, pipe, digest, rows, number, placement, clearing, cleared_row
        )
        if self._tells:
            self._elaborate_upsets(m, pipe, control)
        self._elaborate_verdict(m, pipe, control, placement, stash, distance)
        return m

    # Ahead of the columns

    def _elaborate_digest(self, m, pipe):
        """Return the digest of a key, and its row in each column."""
        spec = self._spec
        m.submodules.hash = key_hash = self.hash
        start = self._read - 4 - key_hash.latency
        key = pipe.enter(self.key, "key", reset_less=True).at(start)
        if spec.hash == "siphash":
            m.d.comb += key_hash.secret.eq(self.secret)
        hashed = pipe.drive(key_hash, key=key) + key_hash.latency
        state = pipe.enter(key_hash.state, "state", stage=hashed, reset_less=True)
        (indices,) = expand(
            pipe, state, sizes=(spec.rows, 1 << spec.rest_bits), functions=1, seed=spec.seed
        )
        return self._elaborate_rows(pipe, pipe.register("digest", Cat, *indices, reset_less=True))

    def _elaborate_rows(self, pipe, digest):
        """Return a digest, and its row in each column."""
        spec = self._spec
        shape = {"row_bits": spec.row_bits, "rest_bits": spec.rest_bits, "seed": spec.seed}
        rows = [
            pipe.register(
                f"row{column}",
                lambda digest, terms=terms: Cat(
                    reduce(lambda a, b: a ^ b, [digest[bit], *(digest[spec.row_bits + term]
                                                               for term in added)])
                    for bit, added in enumerate(terms)
                ),
                digest,
                reset_less=True,
            )
            for column, terms in enumerate(offset_terms(columns=spec.columns, **shape))
        ]  # fmt: skip
        return digest, rows

    def _elaborate_number(self, m, pipe, control):
        """Return the number that the insertion of an operation has, or would have."""
        insert = self._inserts(pipe, control).at(self._read - 3)
        count = Signal(self._spec.timestamp_bits)
        # One bit moves on with each insertion.
        turn = Signal(swept_per_row(self._spec), init=1)
        tick = Signal()
        with m.If(insert.value):
            m.d.sync += [
                count.eq(count + 1),
                turn.eq(turn.rotate_left(1)),
            ]
        late, overdue = (
            Cat(getattr(column, name) for column in self.columns).any()
            for name in ("late", "overdue")
        )
        rests = self._rests((registered(m, late, "any_late") & tick) | overdue)
        m.d.sync += [tick.eq(insert.value & turn[-1]), self.late.eq(rests)]
        m.d.comb += [column.tick.eq(tick) for column in self.columns]
        return pipe.enter(count, "number", stage=insert.stage, reset_less=True)

    def _rests(self, late):
        """Return whether the input is to rest, if only for the sweep."""
        return late

    def _inserts(self, pipe, control):
        remove = pipe.enter(self.remove, "remove", stage=CONTROL_LAG)
        return pipe.combine("inserts", lambda a, b: a & ~b, control["insert"], remove)

    def _removes(self, pipe, control):
        return pipe.enter(self.remove, "removes", stage=CONTROL_LAG)

    def _elaborate_hazards(self, m, pipe, digest, rows, placement, stash):
        """Compare each operation with those that are under way ahead of it."""

        def same(value, distance, name):
            # So many clocks ago the operation ahead was where this one is now.
            ahead = value.at(value.stage + distance).value
            pairs = pipe.register(
                f"{name}_pairs{distance}",
                lambda here: Cat(here[low : low + 2] == ahead[low : low + 2]
                                 for low in range(0, len(here), 2)),
                value,
                reset_less=True,
            )  # fmt: skip
            return pipe.register(
                f"{name}{distance}", lambda pairs: pairs.all(), pairs, reset_less=True
            )

        told = self._read + DECISION + 1
        for distance in range(1, HAZARDS + 1):
            alike = same(digest.at(digest.stage + 1), distance, "same")
            here = max(self._read, told - distance)
            m.d.comb += placement.same[distance - 1].eq(alike.at(here).value)
            if distance <= STASH_HAZARDS:
                m.d.comb += stash.same[distance - 1].eq(alike.at(told + 1 - distance).value)
            alike = [
                same(row, distance, f"same{column}_").at(here).value
                for column, row in enumerate(rows)
            ]
            m.d.comb += placement.same_rows[distance - 1].eq(Cat(alike))

    # The columns

    def _elaborate_clear(self, m):
        """Return whether all cells are being cleared, and in which row."""
        last = self._read + DECISION + 1 - CONTROL_LAG
        ahead = Signal(range(last + 1))
        clearing = Signal()
        row = Signal(range(self._spec.rows))
        m.d.comb += self.clean.eq(~clearing & (ahead == 0))
        with m.If(ahead != 0):
            m.d.sync += [ahead.eq(ahead - 1), clearing.eq(ahead == 1)]
        with m.If(clearing):
            m.d.sync += [row.eq(row + 1), clearing.eq(~row.all())]
        with m.If(self.control.clear):
            m.d.sync += [ahead.eq(last), clearing.eq(0), row.eq(0)]
        return clearing, row

    def _elaborate_columns(self, m, pipe, digest, rows, number, placement, clearing, cleared_row):
        """Return the distance of the cell that matches, when placement tells whether one does."""
        spec = self._spec
        written = Signal(self._checks.cell)
        writing = self._read + DECISION + 2
        writes, used = Signal(spec.columns), Signal()
        # An operation right behind that inserts the same digest will write the same cell.
        absorbed = (placement.same[0] & placement.insert).replicate(spec.columns)
        acted = (placement.fills & ~absorbed) | placement.empties
        m.d.sync += [
            writes.eq(acted | clearing.replicate(spec.columns)),
            used.eq(placement.filled),
        ]
        m.d.comb += [
            written.used.eq(used),
            written.time.eq(number.at(writing).value),
            written.rest.eq(digest.at(writing).value[spec.row_bits :]),
            placement.match.eq(Cat(column.match for column in self.columns)),
            placement.free.eq(Cat(column.free for column in self.columns)),
        ]
        if self._checks.CHECKED:
            self._elaborate_check(m, pipe, digest, number, written, writing)
        for index, (column, row) in enumerate(zip(self.columns, rows, strict=True)):
            m.submodules[f"column{index}"] = column
            write_row = Signal(range(spec.rows), name=f"write_row{index}", reset_less=True)
            m.d.sync += write_row.eq(Mux(clearing, cleared_row, row.at(writing - 1).value))
            told = self._read + column.memory.LATENCY
            m.d.comb += [
                column.row.eq(row.at(self._read).value),
                column.next_row.eq(row.at(self._read - 1).value),
                column.rest.eq(digest.at(told).value[spec.row_bits :]),
                column.number.eq(number.at(told).value),
                column.write.eq(writes[index]),
                column.same_row.eq(placement.same_rows[HAZARDS - 1][index]),
                column.write_row.eq(write_row),
                column.coming_row.eq(row.at(writing - 2).value),
                column.written.eq(written),
            ]
        return self._elaborate_distance(pipe)

    def _elaborate_check(self, m, pipe, digest, number, written, writing):
        """Give what is written the parity that it has if no entry is."""
        added = pipe.register(
            "cell_sums",
            lambda number, digest: sums(Cat(number, digest[self._spec.row_bits :])),
            number.at(writing - 2),
            digest.at(writing - 2),
            reset_less=True,
        )
        check = pipe.register("cell_check", lambda added: ~added.xor(), added, reset_less=True)
        m.d.comb += written.check.eq(check.value)

    def _elaborate_upsets(self, m, pipe, control):
        """Tell upsets that the sweep has found, and operations, not those that are none."""
        stage = self._read + Column.LATENCY
        upset = pipe.enter(Cat(column.upset for column in self.columns), "upset", stage=stage)
        removes = self._removes(pipe, control)
        asks = pipe.combine("asks", or_, control["query"] | control["insert"], removes)
        found = pipe.register("found_upset", lambda upset, asks: upset.any() & asks, upset, asks)
        swept = registered(m, Cat(column.swept_upset for column in self.columns), "swept_upsets")
        m.d.sync += self.upset.eq(found.value | swept.any())

    def _elaborate_distance(self, pipe):
        stage = self._read + Column.LATENCY
        terms = [
            pipe.enter(
                column.distance & column.match.replicate(len(column.distance)),
                f"distance{index}",
                stage=stage,
            )
            for index, column in enumerate(self.columns)
        ]

        def merged(terms, most):
            return [
                pipe.register(f"distance{most}_{low}", lambda *group: reduce(or_, group),
                              *terms[low : low + most], reset_less=True)
                for low in range(0, len(terms), most)
            ]  # fmt: skip

        (distance,) = merged(merged(terms, 2), len(terms))
        return distance

    # Behind the columns

    def _elaborate_verdict(self, m, pipe, control, placement, stash, distance):
        window = self._spec.window
        told = self._read + DECISION + 1
        acted = told + 1
        held = pipe.enter(placement.hit, "held", stage=told)
        near = pipe.enter(Cat(placement.near_distance, placement.near), "near", stage=acted)
        distance = pipe.register(
            "cell_distance",
            lambda far, near: Mux(near[NEAR_BITS], near[:NEAR_BITS], far),
            distance,
            near,
            reset_less=True,
        )
        if self._checks.CHECKED:
            held, distance = self._elaborate_doubt(pipe, held, distance)
        stashed = pipe.enter(stash.hit, "stashed", stage=acted + 1).at(acted + 2)
        other = pipe.enter(stash.distance, "stash_distance", stage=acted + 2)
        distance = pipe.register(
            "any_distance", lambda here, other, stashed: Mux(stashed, other, here),
            distance.at(acted + 2), other, stashed, reset_less=True,
        )  # fmt: skip
        alive = pipe.register("alive", lambda distance: distance <= window, other)
        found = pipe.register(
            "found", lambda held, stashed, query: (held | stashed) & query,
            held, stashed, control["query"],
        )  # fmt: skip
        asked = pipe.enter(self.window, "window", stage=CONTROL_LAG, reset_less=True)
        within = pipe.register(
            "within", lambda distance, asked: ~(asked < distance), distance, asked.at(acted + 3)
        )
        found = pipe.register(
            "alive_found",
            lambda found, alive, stashed: found & (alive | ~stashed),
            found,
            alive,
            stashed,
        )
        seen = found & within
        age = pipe.register(
            "age", lambda distance: (distance - 1)[: (window - 1).bit_length()], distance
        )
        short = self._elaborate_guarantee(m, pipe, control, stash, asked, stage=acted + 3)
        verdict = pipe.register(
            "verdict",
            lambda seen, age, short, query: Cat(
                seen, age & seen.replicate(len(age)), short & query
            ),
            seen,
            age,
            short,
            control["query"],
        )
        valid = control["valid"].at(self.latency).value
        m.d.comb += [
            self.verdict.as_value().eq(verdict.value),
            self.valid_next.eq(control["valid"].at(self.latency - 1).value),
            self.valid.eq(valid),
            self.hit.eq(valid & self.verdict.seen),
            self.insert.eq(self._inserts(pipe, control).at(self.latency).value),
            self.lost.eq(pipe.enter(stash.lost, "lost", stage=acted + 3).at(self.latency).value),
        ]
        pipe.leave(verdict, latency=self.latency)

    def _elaborate_doubt(self, pipe, held, distance):
        """Return whether a cell may hold the digest, and the distance, that of the last insertion.

        An entry that does hold it is younger than what any doubted cell has lost.
        """
        stage = self._read + Column.LATENCY
        doubted = pipe.enter(Cat(column.doubted for column in self.columns), "doubted", stage=stage)
        doubted = pipe.register("may_hold", lambda doubted: doubted.any(), doubted)
        distance = pipe.register(
            "least_distance",
            lambda distance, held, doubted: Mux(doubted & ~held, 1, distance),
            distance,
            held,
            doubted,
            reset_less=True,
        )
        return held | doubted.at(held.stage), distance

    def _elaborate_guarantee(self, m, pipe, control, stash, asked, *, stage):
        """Count how many insertions ago an entry was given up; return if too few."""
        window = self._spec.window
        insert = self._inserts(pipe, control).at(stage).value
        # May be one more than the window until that is found.
        count = Signal(range(window + 2), init=window)
        whole = Signal(init=1)
        m.d.sync += [
            whole.eq(count >= window),
            self.guaranteed.eq(Mux(whole, window, count)),
        ]
        with m.If(insert & ~whole):
            m.d.sync += count.eq(count + 1)
        with m.If(self._shortens(stash, count)):
            m.d.sync += [count.eq(stash.lost_distance), whole.eq(0)]
        with m.If(control["clear"].at(stage).value):
            m.d.sync += [count.eq(window), whole.eq(1)]
        return pipe.register("short", lambda asked: asked > count, asked.at(stage))

    def _shortens(self, stash, count):
        """Return whether an entry was given up, the youngest so far."""
        return stash.lost
