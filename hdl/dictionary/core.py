"""Core of a window dictionary: digest, columns, placement, stash and verdict."""

from functools import partial, reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.functions import offset_terms
from ...golden.hash.siphash import SECRET_BITS
from ..control import CoreSignature
from ..hash.functions import StateHash, expand
from ..hash.siphash import SipHash
from ..latencies import CONTROL_LAG, DEFAULT_LEVELS
from ..memory.cells import cell_memory
from ..memory.protection import sums
from ..pipeline import Pipeline, registered
from .cells import HazardWindow, row_of, selected
from .column import Column
from .dictionary_figures import ANSWER, HAZARDS, MATCH, STASH_HAZARDS
from .placement import NEAR_BITS, InsertionCount, Placement, Verdict, WindowVerdict, Wipe
from .stash import Moves, Stash


def column_terms(spec):
    return offset_terms(
        columns=spec.columns, row_bits=spec.row_bits, rest_bits=spec.rest_bits, seed=spec.seed
    )


class DigestHash(wiring.Component):
    """Computes the digest of a key, and its row in each column, in `latency` cycles."""

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
                # item c: the row in column c
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
        spec = self._spec
        m.submodules.hash = key_hash = self.hash
        if self._keyed:
            m.d.comb += key_hash.secret.eq(self.secret)
        hashed = pipe.drive(key_hash, key=key) + key_hash.latency
        state = pipe.enter(key_hash.state, "state", stage=hashed, reset_less=True)
        sizes = (spec.rows, 1 << spec.rest_bits)
        (indices,) = expand(pipe, state, sizes=sizes, functions=1, seed=spec.seed)
        return pipe.register("digest", Cat, *indices, reset_less=True)


class DictionaryCore(wiring.Component):
    """Pipeline of a window dictionary; accepts one operation per cycle and has a fixed latency.

    A shift has no effect. The core asserts `stall` if the sweep of a column needs a cycle without
    an operation, or if the stash of a dictionary with moves is almost full.
    """

    request_lag = CONTROL_LAG

    def __init__(
        self, *, spec, memory="portable", levels=DEFAULT_LEVELS, protect="none", digest=None
    ):
        self._spec = spec
        terms = column_terms(spec) if spec.moves else [None] * spec.columns
        self.digest = digest or DigestHash(spec=spec, levels=levels)
        self.columns = [
            Column(
                spec=spec,
                memory=partial(cell_memory, memory),
                terms=terms[index],
                side=2 * index // spec.columns,
                protect=protect,
            )
            for index in range(spec.columns)
        ]
        self.placement = Placement(columns=spec.columns)
        self.stash = Stash(spec=spec)
        self.verdicts = Verdict(spec=spec)
        # Cycles from a key to its rows; to the read of its cells; to the decision about its write.
        self._rows = max(CONTROL_LAG + 2, self.digest.latency)
        self._read = self._rows + HazardWindow.LATENCY
        self._placed = self._read + Placement.LATENCY
        self.latency = self._read + ANSWER
        super().__init__(
            CoreSignature(
                key_bits=spec.key_bits,
                verdict=WindowVerdict(window=spec.window),
                secrets=1 if spec.hash == "siphash" else 0,
                # With `control`. With window 0 no key is seen.
                request={"remove": 1, "window": range(spec.window + 1)},
                # Largest window for which results are exact, after the last operation that left.
                ports={"guaranteed": Out(range(spec.window + 1), init=spec.window)},
                # `lost`: the operation that leaves has evicted an entry.
                events=["lost", *(["upset"] if protect != "none" else [])],
                others={"lost": Out(1), "stall": Out(1)},
            )
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        operation = self._elaborate_operation(m, pipe)
        self._elaborate_columns(m, pipe, operation)
        self._elaborate_placement(m, pipe, operation)
        if self._spec.moves:
            self._elaborate_moves(m)
        self._elaborate_verdict(m, pipe, operation)
        if "upset" in self.signature.events:
            self._elaborate_upsets(m, pipe, operation)
        return m

    def _elaborate_operation(self, m, pipe):
        m.submodules.hash = digest = self.digest
        m.submodules.count = count = InsertionCount(spec=self._spec)
        control = pipe.enter(self.control, "control", stage=CONTROL_LAG)
        remove = pipe.enter(self.remove, "remove", stage=CONTROL_LAG)
        window = pipe.enter(self.window, "window", stage=CONTROL_LAG, reset_less=True)
        insert = pipe.combine("insert", lambda a, b: a & ~b, control["insert"], remove)
        key = pipe.enter(self.key, "key", reset_less=True).at(self._rows - digest.latency)
        if "secret" in digest.signature.members:
            m.d.comb += digest.secret.eq(self.secret0)
        hashed = pipe.drive(digest, key=key) + digest.latency
        counted = pipe.drive(count, insert=insert.at(hashed - 1))
        return {
            **{name: control[name] for name in ("valid", "query", "clear")},
            **{"insert": insert, "remove": remove, "window": window},
            "digest": pipe.enter(digest.digest, "digest", stage=hashed, reset_less=True),
            "number": pipe.enter(count.number, "number", stage=counted, reset_less=True),
        }

    def _elaborate_columns(self, m, pipe, operation):
        spec, count = self._spec, m.submodules.count
        m.submodules.wipe = wipe = Wipe(rows=spec.rows)
        pipe.drive(wipe, clear=operation["clear"].at(self._placed))
        written = self._elaborate_written(m, pipe, operation)
        rest = operation["digest"][spec.row_bits :]
        for index, column in enumerate(self.columns):
            m.submodules[f"column{index}"] = column
            word = self._rows + column.WORD_LAG
            pipe.drive(column, rest=rest.at(word), number=operation["number"].at(word))
            m.d.comb += [
                column.row.eq(self.digest.rows[index]),
                column.writes.eq(self.placement.writes[index]),
                column.written.eq(written),
                column.clear.eq(wipe.clears),
                column.clear_row.eq(wipe.row),
                column.tick.eq(count.tick),
            ]
        late, overdue = (
            Cat(getattr(column, name) for column in self.columns).any()
            for name in ("late", "overdue")
        )
        late = (registered(m, late, "any_late") & count.tick) | overdue
        m.d.sync += self.stall.eq(late | (self.stash.crowded if spec.moves else 0))
        m.d.comb += [
            wipe.announced.eq(self.control.clear),
            self.clean.eq(wipe.clean),
            self.stash.clear.eq(wipe.clears),
        ]

    def _elaborate_written(self, m, pipe, operation):
        stage = self._placed + 1
        cell = Signal(self.columns[0].written.shape(), name="written")
        number, rest = operation["number"], operation["digest"][self._spec.row_bits :]
        m.d.comb += [
            cell.used.eq(registered(m, self.placement.fills, "used")),
            cell.time.eq(number.at(stage).value),
            cell.rest.eq(rest.at(stage).value),
        ]
        if "check" in cell.shape().members:
            # The parity of the cell as if `used` were 0; the column corrects it.
            values = number.at(stage - 2), rest.at(stage - 2)
            added = pipe.register("cell_sums", lambda *each: sums(Cat(each)), *values)
            check = pipe.register("cell_check", lambda added: ~added.xor(), added)
            m.d.comb += cell.check.eq(check.value)
        return cell

    def _elaborate_placement(self, m, pipe, operation):
        m.submodules.placement = placement = self.placement
        m.submodules.stash = stash = self.stash
        digest, number = operation["digest"], operation["number"]
        m.submodules.hazards = hazards = HazardWindow(bits=len(digest), depth=HAZARDS)
        compared = pipe.drive(hazards, value=digest) + hazards.LATENCY
        same = pipe.enter(hazards.same, "same", stage=compared, reset_less=True)
        same_rows = Cat(column.same for column in self.columns)
        pipe.drive(
            placement,
            insert=operation["insert"].at(compared),
            remove=operation["remove"].at(compared),
            number=number[:NEAR_BITS].at(compared),
            same=same,
            same_rows=pipe.enter(same_rows, "same_rows", stage=self._read),
        )
        begins = self._placed + 1 - STASH_HAZARDS
        same = same[:STASH_HAZARDS].at(begins)
        pipe.drive(stash, digest=digest.at(begins), number=number.at(begins), same=same)
        m.d.comb += [
            placement.match.eq(Cat(column.match for column in self.columns)),
            placement.free.eq(Cat(column.free for column in self.columns)),
            stash.acts.eq(placement.acts),
            stash.push.eq(placement.push),
        ]

    def _elaborate_moves(self, m):
        m.submodules.moves = moves = Moves(spec=self._spec)
        wiring.connect(m, self.stash.exchange, moves.exchange)
        m.d.comb += moves.pushes.eq(self.placement.pushes)
        for index, column in enumerate(self.columns):
            wiring.connect(m, getattr(moves, f"visit{index}"), column.visit)

    def _elaborate_cells(self, pipe):
        """Return whether a column holds or may hold the digest, and the age of the cell."""
        placement, matched = self.placement, self._read + MATCH
        doubted = Cat(column.doubted for column in self.columns)
        doubted = pipe.enter(doubted, "doubted", stage=matched)
        doubted = pipe.register("may_hold", lambda doubted: doubted.any(), doubted)
        distances = [
            pipe.enter(
                selected([column.match], [column.distance]), f"distance{index}", stage=matched
            )
            for index, column in enumerate(self.columns)
        ]
        for count in (2, len(distances)):
            groups = [distances[low : low + count] for low in range(0, len(distances), count)]
            distances = [
                pipe.register(f"any{count}_{at}", lambda *each: reduce(or_, each), *group,
                              reset_less=True)
                for at, group in enumerate(groups)
            ]  # fmt: skip
        held = pipe.enter(placement.hit, "held", stage=self._placed)
        near = Cat(placement.near_distance, placement.near)
        distance = pipe.register(
            "cell_distance",
            lambda far, near: Mux(near[-1], near[:-1], far),
            *distances,
            pipe.enter(near, "near", stage=self._placed + 1),
            reset_less=True,
        )
        distance = pipe.register(
            "min_distance",
            lambda distance, held, doubted: Mux(doubted & ~held, 1, distance),
            distance,
            held,
            doubted,
            reset_less=True,
        )
        return held | doubted.at(held.stage), distance

    def _elaborate_verdict(self, m, pipe, operation):
        m.submodules.verdicts = verdicts = self.verdicts
        stash, stage = self.stash, self.latency - verdicts.LATENCY
        held, distance = self._elaborate_cells(pipe)
        performed = self._placed + 1
        inputs = {name: operation[name] for name in ("query", "insert", "clear", "window")}
        inputs |= {"held": held, "distance": distance}
        inputs["stashed"] = pipe.enter(stash.hit, "stashed", stage=performed + 1)
        inputs["stash_distance"] = pipe.enter(stash.distance, "stash_distance", stage=stage)
        pipe.drive(verdicts, **{name: value.at(stage) for name, value in inputs.items()})
        lost = pipe.enter(stash.lost, "lost", stage=stage + 1)
        valid, insert = operation["valid"], operation["insert"]
        m.d.comb += [
            verdicts.lost.eq(stash.lost),
            verdicts.lost_distance.eq(stash.lost_distance),
            self.verdict.eq(verdicts.verdict),
            self.guaranteed.eq(verdicts.guaranteed),
            self.valid_next.eq(valid.at(self.latency - 1).value),
            self.valid.eq(valid.at(self.latency).value),
            self.hit.eq(self.valid & self.verdict.seen),
            self.insert.eq(insert.at(self.latency).value),
            self.lost.eq(lost.at(self.latency).value),
        ]

    def _elaborate_upsets(self, m, pipe, operation):
        stage = self._read + MATCH
        upset = pipe.enter(Cat(column.upset for column in self.columns), "upset", stage=stage)
        looks = operation["query"] | operation["insert"] | operation["remove"]
        upset_read = pipe.register(
            "found_upset", lambda upset, looks: upset.any() & looks, upset, looks
        )
        swept = registered(m, Cat(column.swept_upset for column in self.columns), "swept_upsets")
        m.d.sync += self.fault.eq(upset_read.value | swept.any())
