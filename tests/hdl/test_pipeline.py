"""Pipelines: values are delayed where stages differ, and misaligned values are rejected."""

from operator import and_, or_, xor

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from simulation import simulate

from lately.hdl.pipeline import (
    Pipeline,
    StageError,
    below,
    delayed,
    registered,
    successor,
)


def run(module, bench):
    """Run a test bench, also for a module without registers."""
    module.d.sync += Signal(name="clocked").eq(1)
    simulate(module, bench)


def history(module, source, sink, values):
    """Feed a value per cycle; return the outputs."""
    outputs = []

    async def bench(ctx):
        for value in values:
            ctx.set(source, value)
            outputs.append(ctx.get(sink))
            await ctx.tick()

    run(module, bench)
    return outputs


def registers(module, ports):
    """Count the registers of a module."""
    return rtlil.convert(module, ports=ports, emit_src=False).count("cell $dff")


def test_values_of_different_stages_are_joined():
    m = Module()
    a, out = Signal(8), Signal(8)
    pipe = Pipeline(m)
    early = pipe.enter(a, "early")
    late = pipe.register("late", lambda value: value + 1, early.at(2))
    total = pipe.register("total", lambda x, y: x + y, early, late)
    m.d.comb += out.eq(total.value)
    assert total.stage == pipe.latency == 4
    values = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
    assert history(m, a, out, values)[4:] == [2 * value + 1 for value in values[:-4]]


@pytest.mark.parametrize("operator", [and_, or_, xor])
def test_operators_of_bits(operator):
    m = Module()
    a, b, out, inverse = Signal(4), Signal(4), Signal(4), Signal(4)
    pipe = Pipeline(m)
    joined = operator(pipe.enter(a, "a"), pipe.enter(b, "b"))
    m.d.comb += [out.eq(joined.value), inverse.eq((~joined).value)]

    async def bench(ctx):
        ctx.set(a, 0b0011)
        ctx.set(b, 0b0101)
        assert (ctx.get(out), ctx.get(inverse)) == (operator(3, 5), 15 - operator(3, 5))

    run(m, bench)


def test_registers_of_a_delayed_value_are_shared():
    m = Module()
    a, b = Signal(), Signal()
    pipe = Pipeline(m)
    value = pipe.enter(a, "a")
    assert value.at(3) is value.at(3)
    assert value.at(2).at(3) is value.at(3)
    assert value.at(0) is value
    m.d.comb += b.eq(value.at(3).value ^ value.at(2).value)
    assert registers(m, [a, b]) == 3


def test_misaligned_use_is_refused_with_names_and_stages():
    pipe = Pipeline(Module())
    base = pipe.enter(Signal(3), "base", stage=4)
    bits = pipe.enter(Signal(3), "bits", stage=7)
    message = r"^base \(stage 4\) and bits \(stage 7\) must have the same stage$"
    for use in (
        lambda: base & bits,
        lambda: base | bits,
        lambda: base ^ bits,
        lambda: pipe.combine("both", lambda a, b: a + b, base, bits),
        lambda: pipe.stage(base, bits),
        lambda: pipe.select([bits, bits], base, "one"),
    ):
        with pytest.raises(StageError, match=message):
            use()
    assert (base.at(7) & bits).stage == 7


def test_value_that_comes_too_late_is_refused():
    pipe = Pipeline(Module())
    bits = pipe.enter(Signal(3), "bits", stage=7)
    with pytest.raises(StageError, match=r"^bits \(stage 7\) is not available at stage 6$"):
        bits.at(6)


def test_component_gets_its_inputs_in_one_cycle():
    component = wiring.Component({"a": In(1), "b": In(1), "o": Out(1)})
    pipe = Pipeline(Module())
    a, b = pipe.enter(Signal(), "first", stage=1), pipe.enter(Signal(), "second", stage=2)
    with pytest.raises(StageError, match=r"^first \(stage 1\) and second \(stage 2\) must"):
        pipe.drive(component, a=a, b=b)
    assert pipe.drive(component, a=a.at(2), b=b) == 2


def test_values_leave_together_after_the_stated_latency():
    pipe = Pipeline(Module())
    seen, age = (pipe.enter(Signal(), name, stage=5) for name in ("seen", "age"))
    pipe.leave(seen, age, latency=5)
    with pytest.raises(StageError, match=r"^seen \(stage 5\) and age \(stage 6\) must have the"):
        pipe.leave(seen, age.at(6), latency=5)
    message = r"^latency: must be 5, the stage of the outputs, not 4$"
    with pytest.raises(StageError, match=message):
        pipe.leave(seen, latency=4)


def test_steady_value_may_be_used_at_any_stage():
    pipe = Pipeline(Module())
    secret = pipe.enter(Signal(8), "secret", stage=None)
    key = pipe.enter(Signal(8), "key", stage=3)
    assert secret.at(9) is secret
    assert (secret ^ key).stage == 3
    assert pipe.register("initial", lambda value: ~value, secret).stage is None
    assert pipe.latency == 3


def test_members_of_views_keep_their_stage():
    layout = data.StructLayout({"valid": 1, "tag": 4})
    m = Module()
    pipe = Pipeline(m)
    view = pipe.enter(Signal(layout), "control", stage=1).at(3)
    assert (view["valid"].stage, len(view["tag"]), len(view["tag"][1:])) == (3, 4, 3)
    assert repr(view["tag"]) == "control_tag (stage 3)"


def test_pipeline_stalls_while_disabled():
    m = Module()
    a, out, go = Signal(8), Signal(8), Signal(init=1)
    pipe = Pipeline(m, enable=go)
    m.d.comb += out.eq(pipe.enter(a, "a").at(2).value)

    async def bench(ctx):
        for value in (1, 2, 3):
            ctx.set(a, value)
            await ctx.tick()
        ctx.set(go, 0)
        ctx.set(a, 9)
        await ctx.tick().repeat(3)
        assert ctx.get(out) == 2
        ctx.set(go, 1)
        await ctx.tick()
        assert ctx.get(out) == 3

    run(m, bench)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16])
def test_every_value_can_be_selected(size):
    m = Module()
    number = Signal(max(1, (size - 1).bit_length()))
    values = [Signal(8, init=10 + index) for index in range(size)]
    out = Signal(8)
    pipe = Pipeline(m)
    chosen = pipe.select(
        [pipe.enter(value, f"value{index}") for index, value in enumerate(values)],
        pipe.enter(number, "number"),
        "value",
    )
    m.d.comb += out.eq(chosen.value)
    latency = (size - 1).bit_length()
    numbers = [*range(size), *[0] * latency]
    outputs = history(m, number, out, numbers)
    assert outputs[latency:] == [10 + index for index in range(size)]


@pytest.mark.parametrize("levels", [1, 2, 3, 8])
def test_steps_fill_stages(levels):
    m = Module()
    source, out = Signal(8), Signal(8)
    pipe = Pipeline(m, levels=levels)
    value = pipe.enter(source, "source")
    for step in range(7):
        value = pipe.step(f"step{step}", lambda value, step=step: value + step, value)
        assert (value.stage, value.levels) == divmod(step + 1, levels)
    value = value.settled()
    assert (value.stage, value.levels) == (-(-7 // levels), 0)
    assert value.settled() is value
    m.d.comb += out.eq(value.value)
    values = [3, 1, 4, 1, 5, 9, 2, 6]
    assert history(m, source, out, [*values, *[0] * value.stage])[value.stage :] == [
        value + 21 for value in values
    ]


def test_step_behind_a_full_stage_registers_first():
    pipe = Pipeline(Module(), levels=2)
    value = pipe.step("step", lambda value: ~value, pipe.enter(Signal(), "source"))
    full = pipe.combine("full", lambda value: ~value, value, levels=1)
    assert (full.stage, full.levels) == (0, 2)
    after = pipe.step("after", lambda value: ~value, full)
    assert (after.stage, after.levels) == (1, 1)


@pytest.mark.parametrize(("flags", "stages"), [(1, 0), (1, 1), (4, 1), (5, 2), (16, 2), (17, 3)])
def test_all_flags(flags, stages):
    m = Module()
    source, out = Signal(flags), Signal()
    pipe = Pipeline(m)
    result = pipe.all_of("found", pipe.enter(source, "flags"), steps=min(stages, 1))
    assert result.stage == stages
    m.d.comb += out.eq(result.value)
    whole = (1 << flags) - 1
    values = [whole, *(whole & ~(1 << flag) for flag in range(flags)), whole]
    outputs = history(m, source, out, values + [0] * stages)
    assert outputs[stages:] == [int(value == whole) for value in values]


@pytest.mark.parametrize("bits", [1, 2, 7])
def test_successor_wraps_around(bits):
    m = Module()
    count, after = Signal(bits), Signal(bits)
    m.d.comb += after.eq(successor(count))
    counts = range(1 << bits)
    assert history(m, count, after, counts) == [*counts[1:], 0]


def test_plain_delays():
    m = Module()
    a, out = Signal(8), Signal(8)
    m.d.comb += out.eq(delayed(m, registered(m, a, "first"), 2, "rest"))
    assert history(m, a, out, [1, 2, 3, 4, 5]) == [0, 0, 0, 1, 2]


@pytest.mark.parametrize("width", [1, 3, 4, 5, 8, 9])
def test_below_is_a_comparison(width):
    value = Signal(width)
    edges = {0, 1, 2, 7, 8, 15, 16, 17, 128, 129, 255, 256, 257, (1 << width) - 1, 1 << width}
    limits = sorted(edges | {(1 << width) + 1})
    module, flags = Module(), Signal(len(limits))
    module.d.comb += [flags[at].eq(below(value, limit)) for at, limit in enumerate(limits)]

    async def bench(ctx):
        for number in range(1 << width):
            ctx.set(value, number)
            await ctx.delay(0)
            bits = ctx.get(flags)
            assert [bits >> at & 1 for at in range(len(limits))] == [
                number < limit for limit in limits
            ], number

    run(module, bench)
