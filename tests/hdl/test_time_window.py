"""Time windows against the golden model's rules, cycle by cycle."""

import random
from functools import partial

import numpy as np
import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from cases import daily
from simulation import simulate

from lately.golden import Operation
from lately.golden.ring.rotation import RotationPolicy, RotationState
from lately.hdl.frontend.front import Schedule
from lately.hdl.frontend.ticks import Prescaler
from lately.hdl.frontend.time_window import TimeWindow
from lately.hdl.latencies import TICKS_WAITING, TIMED_GENERATION

SEED = 8128
CODES = {"insert": Operation.INSERT, "shift": Operation.SHIFT, "clear": Operation.CLEAR}


class Ring(wiring.Component):
    """A schedule and a time window, connected like in the front end."""

    def __init__(self, policy, *, words, window=TimeWindow):
        self.window = window(policy, time_bits=24)
        self.schedule = Schedule(
            generation_bits=9,
            minimum_generation=TIMED_GENERATION,
            clear_words=words,
            when_full=policy.when_full,
        )
        flags = dict.fromkeys(("tick", "insert", "event", "clear", "fill"), In(1))
        super().__init__(flags | {"generation": In(9, init=policy.generation)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.window = window = self.window
        m.submodules.schedule = schedule = self.schedule
        m.d.comb += [
            window.tick.eq(self.tick),
            window.insert.eq(self.insert),
            window.clear.eq(self.clear),
            window.turn.eq(self.event & schedule.full),
            window.beyond.eq(schedule.beyond),
            window.clean.eq(schedule.spare_clean),
            schedule.old.eq(window.old),
            schedule.out.eq(window.out),
            schedule.event.eq(self.event),
            schedule.fill.eq(self.fill),
            schedule.generation.eq(self.generation),
        ]
        return m


class Course:
    """Drives a ring cycle by cycle, and records inputs and outputs."""

    def __init__(self, policy, *, words, window=TimeWindow):
        self.policy = policy
        self.words = words
        self.ring = Ring(policy, words=words, window=window)
        self.done = []
        self.outputs = []
        self.ticks = 0
        self.counts = {"shortened": 0, "overfilled": 0}
        self.each_clock = lambda ctx: None

    def run(self, actions):
        """Perform actions: names in `CODES`, "tick", both joined by a plus, or empty strings."""

        async def bench(ctx):
            self._ctx = ctx
            # Like the gate after reset.
            await ctx.tick().repeat(2 * self.ring.schedule.length.PERIOD + 1)
            await self._alone("clear")
            for action in actions:
                names = action.split("+")
                if "shift" in names or "clear" in names:
                    await self._alone(names[0])
                else:
                    await self._clock("insert" in names, tick="tick" in names)
            self.settled = len(self.done)
            for _ in range(1000):
                await self._clock(False)
            assert ctx.get(self.ring.window.idle), "a tick still waits"

        simulate(self.ring, bench)
        return self

    async def _alone(self, name):
        """As the gate: wait for the spare, then turn the ring."""
        self._ctx.set(self.ring.fill, 1)
        await self._clock(False)
        while not self._ctx.get(self.ring.schedule.spare_clean):
            await self._clock(False)
        await self._clock(False)
        self._ctx.set(self.ring.fill, 0)
        await self._clock(False, code=CODES[name])
        for _ in range(8 if name == "shift" else 8 + self.words):
            await self._clock(False)

    async def _clock(self, insert, *, tick=False, code=Operation.NONE):
        ctx, ring, window = self._ctx, self.ring, self.ring.window
        code = Operation.INSERT if insert else code
        ctx.set(ring.tick, tick)
        ctx.set(ring.insert, insert)
        ctx.set(ring.event, code != Operation.NONE)
        ctx.set(ring.clear, code == Operation.CLEAR)
        names = ("limit", "status", "time", "covered", "tick_lost")
        values = {name: ctx.get(getattr(window, name)) for name in names}
        self.done.append(code)
        values["clean"] = ctx.get(ring.schedule.spare_clean)
        self.outputs.append(values | {"turn": ctx.get(ring.window.turn)})
        for name in self.counts:
            self.counts[name] += ctx.get(getattr(window, name))
        self.ticks += tick
        self.each_clock(ctx)
        await ctx.tick()

    def check(self):
        """Compare every cycle with the golden model's rules."""
        turns, statuses = RotationState(self.policy), []
        for clock, code in enumerate(self.done[:-2]):
            now = self.outputs[clock + 2]["time"]
            where = f"clock {clock}, tick {now}, {code!r}"
            statuses.append(turns.status(now).code)
            assert self.outputs[clock + 2]["status"] == statuses[-1], where
            passed = turns.follow(np.array([code], np.uint8), np.array([now]))
            # A CLEAR or SHIFT has no query.
            limit = max(0, int(passed.alive[0]) - self.policy.writes + 1)
            assert self.outputs[clock + 1]["limit"] == limit, where
            turned = passed.turned[0] or code in (Operation.SHIFT, Operation.CLEAR)
            assert self.outputs[clock]["turn"] == turned, where
            assert self.outputs[clock]["clean"] or not passed.turned[0], f"{where}: not clean"
        last = self.outputs[-1]
        assert last["time"] == self.ticks, "a tick was lost"
        assert last["covered"] == turns.guaranteed_span(self.ticks) + 1
        assert self.counts == {name: getattr(turns, name) for name in self.counts}
        return turns, statuses


def course(*, policy=None, words=4, window=TimeWindow, **changes):
    """Return a course of a small ring."""
    sizes = {"writes": 2, "settled": 3, "generation": 20, "span": 9, "generation_span": 4}
    return Course(policy or RotationPolicy(**(sizes | changes)), words=words, window=window)


def min_period(policy, words):
    """Return the minimum cycles between ticks."""
    cleaned = words + 40
    return max(8 * (policy.settled + 2), -(-cleaned // (policy.generation_span - 1)))


@pytest.mark.parametrize("when_full", daily(1, ["shorten", "overfill"]))
@pytest.mark.parametrize("number", daily(1, range(12)))
def test_random_streams(when_full, number):
    choose = random.Random(SEED + number)
    draw = choose.randrange
    settled, span, words = draw(1, 7), draw(8, 60), draw(1, 40)
    policy = RotationPolicy(
        writes=draw(1, 5),
        settled=settled,
        generation=max(TIMED_GENERATION, words + 1) + draw(30),
        span=span,
        generation_span=max(2, draw(span // settled + 1, span + 2)),
        when_full=when_full,
    )
    period = min_period(policy, words)
    actions, rate, left = [], 1.0, period
    for _ in range(5000):
        if choose.random() < 0.01:
            rate = choose.choice([1.0, 0.5, 0.05, 0.01, 0.0])
        left -= 1
        names = ["insert"] if choose.random() < rate else []
        if not left:
            names.append("tick")
            left = choose.choice([period, period, 2 * period])
        elif choose.random() < 0.002:
            names = [choose.choice(["shift", "clear"])]
        actions.append("+".join(names))
    turns, statuses = course(policy=policy, words=words).run(actions).check()
    assert turns.shifts > 5
    print(f"seed {SEED + number}: {policy}, {turns.shifts} turns, {turns.shortened} shortened, "
          f"{turns.overfilled} overfilled, statuses {np.bincount(statuses)}")  # fmt: skip


@pytest.mark.parametrize("age", daily(3, [9, 10, 0, *range(1, 9), 11]))
def test_an_insertion_counts_for_the_whole_span_and_not_a_tick_longer(age):
    window = course().run(["insert", *[*[""] * 40, "tick"] * age, *[""] * 40])
    window.check()
    assert (window.outputs[-1]["limit"] > 0) == (age <= 9)


@pytest.mark.slow
def test_a_silence_that_would_wrap_the_times_brings_nothing_back():
    window = course()
    wraps = 3 << window.ring.window._bits
    window.run(["insert", *[*[""] * 40, "tick"] * wraps]).check()
    limits = [values["limit"] for values in window.outputs if values["time"] > 9]
    # The limit is valid a cycle before the time.
    assert not any(limits)


def struck(copies):
    """Return a busy course of a ring; in turn, one copy of its times is corrupted."""
    choose = random.Random(SEED)
    busy = [*["insert"] * 21, *[""] * 30, "tick", *[""] * 45]
    window = course(window=partial(TimeWindow, copies=copies))

    def strike(ctx):
        times = window.ring.window.times
        struck = len(window.done) // 50 % copies
        for row in range(times[0].depth):
            # The copy that was corrupted before is restored.
            right = ctx.get(times[(struck + 1) % copies].data[row])
            for number, copy in enumerate(times):
                wrong = choose.randrange(1 << copy.shape)
                ctx.set(copy.data[row], wrong if number == struck else right)

    window.each_clock = strike
    return window.run([*busy * 5, *["tick", *[""] * 45] * 10])


@pytest.mark.slow
def test_times_survive_a_corrupted_copy():
    struck(copies=3).check()
    with pytest.raises(AssertionError, match=r"^clock "):
        struck(copies=1).check()


@pytest.mark.parametrize("settled", daily(1, [3, 1, 2, 4]))
def test_times_that_are_read_with_the_clock(settled):
    busy = [*["insert"] * 21, *[""] * 30, "tick", *[""] * 45]
    actions = [*busy * 5, *["insert"] * 90, "shift", *busy * 3, *["tick", *[""] * 45] * 10]
    other, made = (
        course(window=partial(TimeWindow, synchronous_read=read), settled=settled, span=12)
        for read in (False, True)
    )
    (times,) = made.ring.window.times

    def look(ctx):
        (reads,), (writes,) = times.read_ports, times.write_ports
        if ctx.get(writes.en):
            assert ctx.get(reads.addr) != ctx.get(writes.addr), f"clock {len(made.done)}"

    made.each_clock = look
    made.run(actions).check()
    assert made.outputs == other.run(actions).outputs


@pytest.mark.parametrize("distance", daily(1, [0, 3, 1, 5, 8, 2, 4, 6, 7, 9]))
def test_tick_at_every_distance_from_a_turn(distance):
    turn = ["insert"] * 21
    fill = [*turn, *[""] * 30, "tick", *[""] * 45] * 3
    actions = []
    for end in (turn, ["insert", *[*[""] * 45, "tick"] * 4, "insert"], ["shift"]):
        for age in (8, 9):
            actions += [*fill, *["tick", *[""] * 45] * age, *end, *["insert"] * distance]
            actions += ["tick", *["insert"] * 40, "clear"]
    course(when_full="shorten").run(actions).check()


def turns_behind_a_tick(kind, window=TimeWindow):
    """Return the course of a ring with a shift at every distance after a tick."""
    turn, rest = ["insert"] * 21, [""] * 60
    fill = {"last": [*turn * 3, *["tick", *[""] * 8] * 8], "old": [*["insert", "tick"] * 3]}[kind]
    actions = []
    for distance in range(20):
        actions += [*fill, *rest, *["insert"] * 17, *rest, "tick", *[""] * distance]
        actions += ["insert", "insert", *rest, "tick", *rest, "insert", *rest, "clear"]
    return course(window=window).run(actions)


@pytest.mark.parametrize("kind", daily(1, ["last", "old"]))
def test_turn_at_every_distance_behind_a_tick(kind):
    turns_behind_a_tick(kind).check()


def a_first_insertion_before_all_expire(before, when_full="shorten", window=TimeWindow):
    silence = [*[""] * 45, "tick"] * 9 + [""] * 45
    late = ["tick", *[""] * before]
    actions = ["insert"] * 101 + silence
    for inserts in (1, 2, 4):
        actions += [*late, *["insert"] * inserts, *silence, *["insert"] * 3, "clear"]
        actions += ["insert"] * 101 + silence
    return course(when_full=when_full, window=window).run(actions)


@pytest.mark.parametrize("when_full", daily(1, ["shorten", "overfill"]))
@pytest.mark.parametrize("before", daily(1, range(4)))
def test_first_insertion_just_before_all_others_expire(before, when_full):
    a_first_insertion_before_all_expire(before, when_full).check()


@pytest.mark.parametrize("age", [3, 4])
def test_a_generation_is_old_exactly_at_its_span(age):
    window = course().run(["insert", *[*[""] * 40, "tick"] * age, *[""] * 40, "insert"])
    turns, _ = window.check()
    assert turns.shifts == (age == 4)


@pytest.mark.parametrize("when_full", ["shorten", "overfill"])
def test_a_full_ring_of_one_tick_shortens_or_overfills(when_full):
    turns, statuses = course(when_full=when_full).run(["insert"] * 101).check()
    assert (turns.shortened, turns.overfilled) == ((2, 0) if when_full == "shorten" else (0, 21))
    assert statuses[-1] == (1 if when_full == "shorten" else 2)


def test_ticks_that_come_close_wait_for_their_effect():
    actions = ["insert", *["tick"] * TICKS_WAITING, *[""] * 2000]
    course().run(actions).check()


def ticks_that_meet(window=TimeWindow):
    """Return a course with ticks at every distance after waiting ticks."""
    actions = []
    for distance in range(24):
        actions += ["insert+tick"] * 3 + ["insert"] * distance + ["insert+tick"] + ["insert"] * 70
    return course(window=window).run(actions)


def test_no_tick_is_lost_as_another_passes():
    ticks_that_meet().check()


def waiting_for_the_spare(ticks, window=TimeWindow):
    """Return a course in which a generation becomes old before the spare is clean."""
    made = course(words=200, generation=300, span=3, generation_span=2, window=window)
    actions = ["shift", "insert", "tick", *[""] * 30, *["tick", ""] * ticks]
    return made.run([*actions, *["insert"] * 400])


def test_a_tick_that_makes_a_generation_old_waits_for_the_spare():
    window = waiting_for_the_spare(1)
    window.check()
    turns = [clock for clock, values in enumerate(window.outputs) if values["turn"]]
    assert min(np.diff(turns)) > 200


@pytest.mark.parametrize("lost", [0, 1])
def test_ticks_beyond_those_that_may_wait_are_lost(lost):
    window = waiting_for_the_spare(TICKS_WAITING + lost)
    assert window.outputs[-1]["time"] == window.ticks - lost
    assert sum(values["tick_lost"] for values in window.outputs) == lost
    window.ticks -= lost
    window.check()


def an_overfull_generation_gets_old(window=TimeWindow):
    """Return a course with an overfull generation, and the generations after it."""
    slowly = [*[*[""] * 40, "tick"] * 4, *["insert"] * 3]
    return course(when_full="overfill", window=window).run(["insert"] * 101 + slowly * 8)


def a_shift_of_a_full_ring(window=TimeWindow):
    """Return a course with a SHIFT that retires a live segment."""
    return course(window=window).run([*["insert"] * 61, "shift", *[""] * 20])


def test_overfull_generation_is_reported_while_it_counts():
    _, statuses = an_overfull_generation_gets_old().check()
    assert {0, 2} == set(statuses)
    assert statuses[-1] == 0


def test_a_shift_shortens_the_window():
    turns, statuses = a_shift_of_a_full_ring().check()
    assert turns.shortened == 1
    assert set(statuses) == {0, 1}


@pytest.mark.parametrize(("period", "real"), [(0, 6), (5, 6), (6, 6), (7, 7), (255, 255)])
def test_a_prescaler_ticks_at_its_period(period, real):
    prescaler = Prescaler(width=8, min_period=6)
    ticks = []

    async def bench(ctx):
        ctx.set(prescaler.period, period)
        for clock in range(2000):
            if ctx.get(prescaler.tick):
                ticks.append(clock)
            await ctx.tick()

    simulate(prescaler, bench)
    assert ticks[0] == 6 - 1
    assert set(np.diff(ticks[1:])) == {real}


def test_a_prescaler_loses_no_tick_as_its_period_changes():
    prescaler, choose = Prescaler(width=8, min_period=6), random.Random(SEED)
    ticks, periods = [], []

    async def bench(ctx):
        clock, change, period = 0, 3, 6
        while len(ticks) < 200:
            if clock == change:
                period = choose.choice([0, 5, 6, 7, 30])
                ctx.set(prescaler.period, period)
            if ctx.get(prescaler.tick):
                ticks.append(clock)
                periods.append(max(period, 6))
                change = clock + choose.randrange(1, 4)
            await ctx.tick()
            clock += 1

    simulate(prescaler, bench)
    assert ticks[0] == 6 - 1
    assert np.diff(ticks).tolist() == periods[:-1]


@pytest.mark.parametrize("before", range(5, 25, 4))
def test_the_first_tick_after_a_warm_reset_comes_after_the_min_period(before):
    whole, prescaler = Module(), Prescaler(width=8, min_period=6)
    whole.domains.sync = domain = ClockDomain("sync")
    whole.submodules.prescaler = prescaler

    async def bench(ctx):
        ctx.set(prescaler.period, 20)
        await ctx.tick().repeat(before)
        ctx.set(domain.rst, 1)
        await ctx.tick()
        ctx.set(domain.rst, 0)
        for clock in range(6):
            assert ctx.get(prescaler.tick) == (clock == 5), f"clock {clock}"
            await ctx.tick()

    simulate(whole, bench)
