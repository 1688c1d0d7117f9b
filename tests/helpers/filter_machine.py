"""Any sequence of public calls of any filter: both engines, and one operation after another.

Rings are compared with their definition, bit by bit; other filters with their scalar twins and a
filter in numpy that performs one operation per call.
"""

import io
import pickle
from copy import deepcopy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scalar_twins
from every_model import model_class
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from paths import PATHS, taking
from ring_oracle import RingOracle
from small_filters import CLASSES, as_keys, specs, timed_specs

from lately.golden import (
    Operation,
    RekeyError,
    TimedFilter,
    TimeLimitedRing,
    attach,
    load,
    share,
)
from lately.golden.state_files import read_state

SINGLE = ("query", "check_and_insert", "insert", "age", "__contains__")
HUGE = 1 << 62
"""Longest generation."""
SEEDS = st.integers(0, (1 << 32) - 1)


class Clock:
    """A clock whose time the machine sets."""

    now = 0

    def __call__(self):
        return self.now


class SingleOperations:
    """A filter in numpy as the model of others, with one call for each operation, and its twin."""

    def __init__(self, model):
        self.filter, self.twin = model, scalar_twins.twin_of(model)

    @property
    def latest(self):
        return getattr(self.filter, "latest", 0)

    def ask(self, key, now, window=None):
        answer = self._answer(self.filter.look_up, key, now, window)
        return self._checked(answer, key, now, window)

    def perform(self, code, key, now, window=None):
        answer = self._answer(partial(self.filter.perform, [code]), key, now, window)
        if code in (Operation.QUERY, Operation.CHECK_AND_INSERT):
            self._checked(answer, key, now, window)
        if self.twin is not None and code in (Operation.INSERT, Operation.CHECK_AND_INSERT):
            scalar_twins.insert(self.twin, key, now)
        if code == Operation.CLEAR:
            self.twin = scalar_twins.twin_of(self.filter)
        return answer

    def _checked(self, answer, key, now, window):
        """Return an answer that is that of the twin, which has not performed the operation yet."""
        if self.twin is not None:
            known = scalar_twins.ask(self.twin, self.filter, key, max(now, self.latest), window)
            assert {name: answer[name] for name in known} == known
        return answer

    def _answer(self, call, key, now, window=None):
        now = [max(now, self.latest)] if isinstance(self.filter, TimedFilter) else None
        asked = {} if window is None else {"windows": [window]}
        with taking("readable"):
            results = call(as_keys([key], self.filter.key_bits), now, **asked)
        return {name: column[0] for name, column in results._asdict().items()}


class Filters(RuleBasedStateMachine):
    """A filter of each engine, their model, and a time that moves with the operations."""

    def __init__(self, name, folder):
        super().__init__()
        self.name, _, self.form = name.partition(", ")
        self.ring, self.folder = self.name in CLASSES, folder
        self.attached, self.mapped = (), {}
        self.patch = pytest.MonkeyPatch()
        self.clock, self.event_times, self.late = None, False, 0

    @initialize(data=st.data(), seed=SEEDS, chunk=st.sampled_from([1, 3, 1 << 15]))
    def start(self, data, seed, chunk):
        self.random = random = np.random.default_rng(seed)
        for length in scalar_twins.CHUNKS:
            self.patch.setattr(length, chunk)
        self.make = self._ring(data) if self.ring else self._other(data)
        self.filters = {}
        for path in PATHS:
            with taking(path):
                self.filters[path] = self.make()
        self.spec = self.filters["readable"].spec
        self.timed = isinstance(self.filters["readable"], TimedFilter)
        self.joinable = getattr(self.filters["readable"], "joinable", False)
        self.pool = [self.secret() % (1 << self.spec.key_bits) for _ in range(9)]
        edges = [getattr(self.spec, "span", None) or 9]
        edges += [getattr(self.spec, name, None) or 1 for name in ("generation_span", "period")]
        near = [edge + step for edge in edges for step in (-1, 0, 1)]
        self.steps = [0, 1, 2, 3, *near, edges[0] // 4, 3 * edges[0], 1 << 36]
        self.now = int(random.choice([0, edges[0], 1 << 41]))

    def _ring(self, data):
        timed = self.form in ("in time", "joinable")
        if keyed := self.form == "keyed":
            timed = data.draw(st.booleans(), "timed")
        spec = data.draw(timed_specs((self.name,)) if timed else specs((self.name,)), "spec")
        if keyed:
            rekey = data.draw(st.sampled_from([True, True, False]), "rekey")
            spec = replace(spec, lanes=1, hash="siphash", rekey=rekey)
        else:
            spec = replace(spec, hash="h3", rekey=False)
        options = {"secret": self.secret()} if keyed else {}
        if self.form == "joinable":
            spec = replace(spec, when_full="overfill")
            options["joinable"] = True
        elif keyed and timed and spec.when_full == "overfill":
            options["joinable"] = data.draw(st.booleans(), "joinable")
        elif not timed and self.name.endswith("gebf") and spec.lanes == 1:
            options["partitioned"] = data.draw(st.booleans(), "partitioned")
        self.model = RingOracle(spec, **options)
        return partial(TimeLimitedRing if timed else CLASSES[self.name], spec, **options)

    def _other(self, data):
        options = data.draw(scalar_twins.sizes(self.name), "options")
        options = options | {"key_bits": data.draw(st.sampled_from([8, 64, 100]), "key_bits")}
        options |= {"secret": self.secret()} if options.get("hash") == "siphash" else {}
        make = partial(model_class(self.name), **options, seed=int(self.random.integers(4)))
        with taking("readable"):
            self.model = SingleOperations(make())
        return make

    def secret(self):
        return int.from_bytes(self.random.bytes(16), "little")

    # Operands

    def draw(self, size):
        """Return keys and times: many at once, some about the edges of the span."""
        keys = [self.pool[number] for number in self.random.integers(0, len(self.pool), size)]
        often = self.random.choice([0.02, 0.2, 0.6])
        steps = self.random.choice(self.steps, size) * (self.random.random(size) < often)
        times = self.now + np.cumsum(steps)
        self.now = int(times[-1]) if size else self.now
        if self.clock is not None:
            self.clock.now = self.now
        return keys, times

    def draw_late(self, size, *, inserts=True):
        """Return keys, the arguments of a call with them, and the times: given or of the clock."""
        keys, times = self.draw(size)
        array = as_keys(keys, self.spec.key_bits)
        if not self.timed:
            return keys, [array], times.tolist()
        early = self.random.choice(self.steps, size) * (self.random.random(size) < 0.3)
        if self.clock is not None and self.random.random() < 0.5:
            self.clock.now -= min(self.clock.now, int(self.random.choice([0, 0, 1, 5])))
            return keys, [array], [self.clock.now] * size
        self.event_times |= inserts and self.clock is not None and size > 0
        times = np.where(early <= times, times - early, times)
        return keys, [array, times], times.tolist()

    def windows(self, size):
        """Windows of queries, or None if the filter takes none."""
        if not self.spec.query_field:
            return None
        if self.spec.classes is not None:
            return self.random.integers(0, self.spec.classes, size).tolist()
        unit = self.spec.block_units
        return (self.random.integers(1, self.spec.window_blocks + 1, size) * unit).tolist()

    # Calls

    def call(self, name, *arguments, **options):
        """Call a method of all filters, and return their answer, which is the same."""
        answers = []
        for path, each in self.paths():
            with taking(path):
                answers.append(getattr(each, name)(*arguments, **options))
        for other in answers[1:]:
            assert type(other) is type(answers[0])
            assert np.array_equal(other, answers[0])
        return answers[0]

    def paths(self):
        """Return the filters that perform operations, each with its path."""
        return [*self.filters.items(), *(("compiled", each) for each in self.attached[:1])]

    def follow(self, code, keys, times):
        """Let the model perform an operation on each key; return its answers."""
        answers = []
        for key, time in zip(keys, times, strict=True):
            self.late += self.timed and time < self.model.latest
            answers.append(self.model.perform(code, key, max(time, self.model.latest)))
        return [answer["seen"] for answer in answers]

    def follow_new(self, keys, times):
        """Let the model insert the keys that it does not report; return whether it reports each."""
        seen = []
        for key, time in zip(keys, times, strict=True):
            seen.append(self.model.ask(key, time)["seen"])
            if seen[-1]:
                self.model.perform(Operation.QUERY, key, max(time, self.model.latest))
            else:
                self.follow(Operation.INSERT, [key], [time])
        return seen

    # Rules: operations

    @rule(size=st.integers(0, 40))
    def perform(self, size):
        kinds = [*self.filters["readable"].supported]
        if self.joinable:
            kinds.remove(Operation.SHIFT)
        chances = np.where(np.array(kinds) >= Operation.SHIFT, 0.02, 0.3)
        codes = self.random.choice(kinds, size, p=chances / chances.sum())
        keys, times = self.draw(size)
        windows = self.windows(size)
        self.event_times |= self.timed and self.clock is not None and size > 0
        results = self.call(
            "perform", codes, as_keys(keys, self.spec.key_bits), times if self.timed else None,
            windows=windows,
        )  # fmt: skip
        rows = zip(codes, keys, times.tolist(), windows or [None] * size, strict=True)
        expected = [self.model.perform(*row) for row in rows]
        for field in expected[0] if expected else ():
            assert getattr(results, field).tolist() == [row[field] for row in expected], field

    @rule(size=st.integers(0, 16))
    def insert(self, size):
        keys, arguments, times = self.draw_late(size)
        assert self.call("insert", *arguments) is None
        self.follow(Operation.INSERT, keys, times)

    @rule(size=st.integers(0, 16))
    def check_and_insert(self, size):
        keys, arguments, times = self.draw_late(size)
        seen = self.call("check_and_insert", *arguments)
        assert seen.tolist() == self.follow(Operation.CHECK_AND_INSERT, keys, times)

    @precondition(lambda self: self.name != "InferentialFilter")
    @rule(size=st.integers(0, 16))
    def check_and_insert_new(self, size):
        keys, arguments, times = self.draw_late(size)
        seen = self.call("check_and_insert", *arguments, refresh=False)
        assert seen.tolist() == self.follow_new(keys, times)

    @rule(size=st.integers(0, 16))
    def query(self, size):
        keys, arguments, times = self.draw_late(size, inserts=False)
        asked = [self.model.ask(*row) for row in zip(keys, times, strict=True)]
        assert self.call("query", *arguments).tolist() == [answer["seen"] for answer in asked]
        ages = [answer["age"] if answer["seen"] else -1 for answer in asked]
        assert self.call("age", *arguments).tolist() == ages

    @rule(names=st.lists(st.sampled_from(SINGLE), min_size=1, max_size=8))
    def single_keys(self, names):
        for name in names:
            inserts = name in ("insert", "check_and_insert")
            (key,), (_, *given), (time,) = self.draw_late(1, inserts=inserts)
            if name == "__contains__":
                now = self.model.latest if self.clock is None else self.clock.now
                given, time = [], max(now, 0)
            answer = self.call(name, key, *(int(each[0]) for each in given))
            if inserts:
                code = Operation.INSERT if name == "insert" else Operation.CHECK_AND_INSERT
                seen = self.follow(code, [key], [time])[0]
                assert answer is (None if name == "insert" else bool(seen))
            else:
                expected = self.model.ask(key, time)
                age = int(expected["age"]) if expected["seen"] else -1
                assert answer == (age if name == "age" else expected["seen"])

    @precondition(lambda self: self.ring)
    @rule()
    def shift(self):
        _, (_, *given), (time,) = self.draw_late(1)
        if self.joinable:
            for _, each in self.paths():
                with pytest.raises(ValueError, match=r"^operations: a joinable ring has no SHIFT"):
                    each.shift(*given)
            return
        self.call("shift", *(int(each[0]) for each in given))
        self.model.perform(Operation.SHIFT, 0, max(time, self.model.latest))

    @rule(seldom=st.integers(0, 2))
    def clear(self, seldom):
        if seldom:
            return
        self.call("clear")
        self.model.perform(Operation.CLEAR, 0, max(self.model.latest, 0))

    # Rules: settings

    @precondition(lambda self: self.ring)
    @rule(value=st.sampled_from([1, 2, 5, 9, HUGE]))
    def set_generation(self, value):
        for _, each in self.paths():
            each.generation = value
            assert type(each.generation) is int
        self.model.generation = value

    @precondition(lambda self: self.timed)
    @rule(clock=st.sampled_from([None, Clock()]))
    def set_clock(self, clock):
        self.clock = clock
        for _, each in self.paths():
            each.clock = clock
        self.draw(1)

    @precondition(lambda self: self.spec.keyed)
    @rule(same=st.booleans())
    def rekey(self, same):
        secret = self.model.secret if same and self.ring else self.secret()
        if not self.ring:
            self.model.filter.rekey(secret)
        elif left := self.model.shifts_to_rekey:
            message = f"still in use for {left} more shift{'s' * (left > 1)}$"
            for _, each in self.paths():
                with pytest.raises(RekeyError, match=message):
                    each.rekey(secret)
            return
        self.model.waiting = secret
        self.call("rekey", secret)

    @precondition(lambda self: self.spec.classes is not None)
    @rule()
    def decide_by(self):
        table = self.random.integers(0, self.spec.hashes + 2, self.spec.table_shape)
        self.call("decide_by", table)
        self.model.filter.decide_by(table)

    # Rules: other objects with the state

    @rule(
        medium=st.sampled_from(["file", "mapped", "bytes", "pickle", "copy"]), other=st.booleans()
    )
    def restart(self, medium, other):
        """Go on with copies; of `other` engines, if a file can hold them."""
        states = [self.state(each) for each in self.filters.values()]
        assert states[0][0] == states[1][0]
        assert all(np.array_equal(states[0][1][name], states[1][1][name]) for name in states[0][1])
        filters = dict(zip(PATHS, self.filters.values(), strict=True))
        if other and medium not in ("pickle", "copy"):
            filters = dict(zip(PATHS, reversed(self.filters.values()), strict=True))
        for path, each in filters.items():
            with taking(path):
                copy = self.copied(each, medium)
            assert type(copy) is type(each)
            assert copy == each
            assert copy.counters == each.counters
            assert copy.parameters == each.parameters
            if self.timed:
                assert (copy.clock is None) == (self.clock is None)
                copy.clock = self.clock
            self.filters[path] = copy
        self.event_times &= self.clock is not None

    def copied(self, each, medium):
        path = self.folder / f"{len(self.mapped)}.state"
        if medium == "mapped":
            each.save(path, secrets=True)
            self.mapped[path] = path.read_bytes()
            return load(path, mmap=True)
        if medium == "file":
            each.save(self.folder / "state", secrets=True)
            return type(each).load(self.folder / "state")
        if medium == "bytes":
            return type(each).from_bytes(each.to_bytes(secrets=True))
        return pickle.loads(pickle.dumps(each)) if medium == "pickle" else deepcopy(each)

    def state(self, each):
        return read_state(io.BytesIO(each.to_bytes(secrets=True)))

    def can_be_shared(self):
        known = self.ring and not self.timed and self.spec.hash == "h3"
        return known and max(self.model.generation, self.model.length) < HUGE

    @precondition(can_be_shared)
    @rule()
    def share(self):
        """From now on, another writer performs all operations, and a reader sees them."""
        path = self.folder / "shared"
        share(self.filters["compiled"], path, replace=True)
        self.attached = attach(path, write=True), attach(path)

    @precondition(lambda self: self.joinable and not self.spec.keyed)
    @rule(size=st.integers(0, 16))
    def union(self, size):
        keys, times = self.draw(size)
        expected = deepcopy(self.model)
        for key, time in zip(keys, times.tolist(), strict=True):
            expected.perform(Operation.INSERT, key, time)
        for path, each in self.filters.items():
            with taking(path):
                other = self.make()
                other.insert(as_keys(keys, self.spec.key_bits), times)
                joined = each.union(other)
                assert other.union(each).memory.tolist() == joined.memory.tolist()
            self.holds_bits(joined, expected)
            assert joined.latest == expected.latest
            ages = joined.age(as_keys(self.pool, self.spec.key_bits), self.now).tolist()
            assert ages == [expected.ask(key, self.now)["age"] for key in self.pool]

    # The state after each rule

    @invariant()
    def both_engines_have_one_state(self):
        fast, slow = self.filters["compiled"], self.filters["readable"]
        assert fast == slow
        assert np.array_equal(fast.memory, slow.memory)
        assert fast.counters == slow.counters
        assert fast.fill_ratios().tolist() == pytest.approx(slow.fill_ratios().tolist())
        for each in self.attached:
            assert np.array_equal(each.memory, slow.memory)
            assert each.ring_position == slow.ring_position
            asked = as_keys(self.pool, self.spec.key_bits)
            assert np.array_equal(each.age(asked), slow.age(asked))
        for each in self.attached[:1]:
            assert each == slow

    @invariant()
    def the_state_is_that_of_the_model(self):
        for each in self.filters.values():
            if self.timed:
                assert (each.late, each.latest) == (self.late, self.model.latest)
            if self.ring:
                self.is_ring(each)
            else:
                assert each == self.model.filter
                assert each.counters == self.model.filter.counters
        if not self.ring and self.model.twin is not None:
            now = max(self.now, self.model.latest)
            scalar_twins.agree(self.model.filter, self.model.twin, self.pool, now)

    def holds_bits(self, each, model):
        assert np.array_equal(each.memory.reshape(self.spec.segments, -1), model.memory)
        assert each.ring_position == model.physical(0)

    def is_ring(self, each):
        model, segments = self.model, range(self.spec.ring_segments)
        self.holds_bits(each, model)
        assert each.counters == {name: model.counters[name] for name in each.counters}
        assert each.insertions == model.counters["insertions"]
        assert each.generation == model.generation
        assert each.secrets == [model.origin(segment).secret for segment in segments]
        assert each.rekey_ready == (model.shifts_to_rekey == 0)
        ratios = [len(model.segment(segment)) / model.segment_bits for segment in segments]
        assert each.fill_ratios().tolist() == pytest.approx(ratios)
        if self.timed:
            settled = [model.time(at) if at >= self.spec.run else -1 for at in segments]
            assert [-1 if time is None else time for time in each.settled_times] == settled
            assert (each.last_insertion or 0) == max(model.last_insertion, 0)
            now = max(self.model.latest, 0)
            if self.clock is not None and not self.event_times:
                now = max(now, self.clock.now)
            assert each.status().code == model.status(now)
            assert each.guaranteed_span() == model.guaranteed_span(now)

    def teardown(self):
        self.patch.undo()
        for each in self.attached:
            each.close()
        for path, content in self.mapped.items():
            assert path.read_bytes() == content
            path.unlink()


def run(name, folder):
    """Draw sequences of calls of a model of `every_model`, or of a ring in a form."""
    given = settings()
    # To shrink a sequence takes minutes: the random profile does it.
    phases = set(Phase) - {Phase.shrink} if given.derandomize else set(Phase)
    run_state_machine_as_test(
        partial(Filters, name, folder),
        settings=settings(
            max_examples=max(1, given.max_examples // 3), stateful_step_count=25, phases=phases
        ),
    )
