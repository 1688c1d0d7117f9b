"""Frame deduplicator: parameters, and settings that change between frames."""

import pytest
from bus_masters import MASTERS
from frame_streams import random_frame, receive, seeded, send, simulate, transfers, whole

from lately.golden import any_preset
from lately.golden.errors import SpecificationError
from lately.golden.packets.comparison import DEFAULT_FIELDS
from lately.golden.packets.frame_actions import Action
from lately.golden.spec import GEBFSpec
from lately.hdl.packets.deduplicator import ControlledDeduplicator, Deduplicator
from lately.hdl.packets.frame_digest import DigestSettings

pytestmark = pytest.mark.rtl

SPEC = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)
HINT = "; `lately plan --wrap frames-64` finds a filter"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"spec": any_preset("tiny")}, SpecificationError,
         f"span: must be given for a frame deduplicator{HINT}"),
        ({"spec": any_preset("timing-small")}, SpecificationError,
         f"family: must be a ring for a frame deduplicator, not timed-timing{HINT}"),
        ({"spec": any_preset("timed-tiny")}, SpecificationError,
         f"key_bits: must be 64, the width of a digest, not 8{HINT}"),
        ({"width": 32}, ValueError, "Width must be one of 8, 64, 128, 256, 512, not 32"),
        ({"period": 1 << 24}, ValueError, "Period must be at most 16777215, not 16777216"),
        ({"ticks": "time"}, ValueError,
         "ticks: must be 'tick' or 'period' for a deduplicator, not 'time'"),
        ({"buffer": 2048}, ValueError,
         "Buffer must be at least 4024 bytes to hold two frames of 2000 bytes, not 2048"),
        ({"on_overflow": "cut"}, ValueError, "on_overflow: must be 'wait' or 'drop', not 'cut'"),
        ({"on_oversize": "cut"}, ValueError, "on_oversize: must be 'drop' or 'pass', not 'cut'"),
        ({"tready": False}, ValueError,
         "on_overflow: must be 'drop' for an input without TREADY, not 'wait'"),
    ],
)  # fmt: skip
def test_deduplicator_wrong(options, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        Deduplicator(**{"spec": SPEC} | options)


def test_settings_wait_for_digests():
    settings = DigestSettings()
    outputs = (settings.open, settings.steady_fields, settings.steady_secret, settings.secret.ready)

    async def bench(ctx):
        async def clock(begins=0, ends=0):
            ctx.set(settings.begins, begins)
            ctx.set(settings.ends, ends)
            await ctx.tick()
            return tuple(map(ctx.get, outputs))

        ctx.set(settings.fields, DEFAULT_FIELDS.value)
        before = (1, DEFAULT_FIELDS.value, 0, 0)
        assert await clock(begins=1) == before
        ctx.set(settings.fields, 6)
        ctx.set(settings.secret.valid, 1)
        ctx.set(settings.secret.payload, 1 << 127)
        # A frame begins in the cycle of the change.
        assert await clock(begins=1) == (0, *before[1:])
        assert await clock(ends=1) == (0, *before[1:])
        assert await clock() == (0, *before[1:])
        assert await clock(ends=1) == (0, *before[1:3], 1)
        ctx.set(settings.secret.valid, 1)
        open_, *steady, _ = await clock()
        assert (open_, *steady) == (1, 6, 1 << 127)
        ctx.set(settings.secret.valid, 0)
        assert (await clock())[0] == 1
        ctx.set(settings.fields, 7)
        assert (await clock())[0] == 0
        assert (await clock())[:3] == (1, 7, 1 << 127)
        # Then only the secret changes.
        ctx.set(settings.secret.valid, 1)
        ctx.set(settings.secret.payload, 5)
        assert await clock() == (0, 7, 1 << 127, 1)
        assert (await clock())[:3] == (1, 7, 5)

    simulate(settings, bench)


def test_a_clear_by_register_is_held():
    unit = ControlledDeduplicator(Deduplicator(SPEC, width=8), bus="wishbone", version=(0, 1, 0))

    async def bench(ctx):
        master = MASTERS["pipelined"](ctx, unit)
        for pause in (1, 2, 60):
            # The filter may still be closed when the first command arrives.
            await ctx.tick().repeat(1200)
            assert await master.access(0x14, 5) == (False, None)
            begun = 0
            while await master.access(0x18) == (False, 1):
                begun += 1
                assert await master.access(0x14, 5) == (True, None)
            assert begun
            await ctx.tick().repeat(pause)
            assert await master.access(0x14, 5) == (False, None)

    simulate(unit, bench)


def test_no_frame_is_lost_by_a_clear():
    deduplicator, taken = Deduplicator(SPEC, width=64), []
    choose = seeded(1)
    frames = [random_frame(choose, 60, 70) for _ in range(4)]
    sent = [transfer for frame in [*frames, *frames] for transfer in transfers(frame, 64)]

    async def source(ctx):
        ctx.set(deduplicator.action, Action.MARK)
        await send(ctx, deduplicator.i, sent, 0, choose)
        for _ in range(600):
            if sum(beat.last for beat in taken) < 2 * len(frames):
                await ctx.tick()

    async def clears(ctx):
        while True:
            ctx.set(deduplicator.clear, choose.random() < 0.1)
            await ctx.tick()

    async def sink(ctx):
        await receive(ctx, deduplicator.o, taken, 0.1, choose)

    simulate(deduplicator, source, background=[clears, sink])
    left = [frame for frame, _ in whole(taken, "user", kept=lambda beat: beat.keep.bit_count())]
    assert left == [*frames, *frames]
