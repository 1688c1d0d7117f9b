"""Digests of frames in hardware beside golden, in Amaranth's simulator or compiled."""

import ctypes
import random
from pathlib import Path

import numpy as np
from amaranth.back import verilog
from amaranth.hdl import Value
from amaranth.sim import Simulator
from ethernet_frames import beats

from lately.golden.packets.comparison import Comparison, Field
from lately.golden.packets.packet_digest import message, message_digest
from lately.golden.packets.packet_layers import ETHERNET, Fault, Reach, inner_layers, layers
from lately.hdl.packets.frame_digest import FrameDigest
from lately.sim.replay.model import Closable, cached_model, defines, load_model

DRIVER = Path(__file__).with_name("frame_digest.cpp")
BYTES, WORDS = ctypes.c_char_p, ctypes.c_void_p
SIGNATURES = {
    "digest_new": (ctypes.c_void_p, ()),
    "digest_delete": (None, (ctypes.c_void_p,)),
    "digest_run": (
        ctypes.c_int64,
        (WORDS, BYTES, WORDS, BYTES, ctypes.c_int64, ctypes.c_int, WORDS, WORDS, WORDS),
    ),
}


class DigestBench(Closable):
    """A `FrameDigest` whose results are compared with golden."""

    def __init__(self, width, *, table_bits=4, inner=False):
        self.width, self.inner = width, inner
        self.digest = FrameDigest(width, table_bits=table_bits, inner=inner)

    def expected(self, frame, fields, secret):
        """Digest, version and malformed of a frame by golden."""
        size = len(frame)
        parsed = (
            inner_layers(frame) if self.inner else layers(frame, size, ETHERNET, Reach.HARDWARE)
        )
        comparison = Comparison(fields & ~Field.LAYER2 if self.inner else fields)
        digest = message_digest(message(frame, size, parsed, comparison), secret, self.width)
        return digest, int(parsed.version), int(Fault.MALFORMED in parsed.faults)

    def check(self, frames, fields=Field.TOS, *, secret=0, errors=(), **pauses):
        """Compare with golden; return the cycle of each result, and the number of cycles."""
        results, at, cycles = self.run(frames, fields, secret=secret, errors=errors, **pauses)
        for number, (frame, got) in enumerate(zip(frames, results, strict=True)):
            right = *self.expected(frame, fields, secret), int(number in errors)
            assert tuple(got) == right, (number, fields, frame.hex())
        return at, cycles

    def warm(self):
        """Let the tables of the secret 0 be written, so that no frame waits for them."""
        self.run([bytes(60)])


class SimulatedDigest(DigestBench):
    """A digest in Amaranth's simulator, which is reset before each run."""

    def __init__(self, width, **options):
        super().__init__(width, **options)
        self._simulator = Simulator(self.digest)
        self._simulator.add_clock(1e-6)
        self._simulator.add_process(self._send)
        self._simulator.add_testbench(self._take)
        self._used = False

    def run(self, frames, fields=Field.TOS, *, secret=0, idle=0.0, stall=0.0, errors=(), before=()):
        """Return the results of frames, four numbers each, their cycles, and all cycles.

        Frames that come `before` have another secret, and their results are left out.
        """
        self._frames, self._errors, self._settings = frames, errors, (int(fields), secret)
        self._before = before
        self._idle, self._stall, self._results, self._at = idle, stall, [], []
        if self._used:
            self._simulator.reset()
        self._used = True
        self._simulator.run()
        count = len(before)
        return self._results[count:], np.array(self._at[count:]), self._at[-1] + 1

    async def _send(self, ctx):
        digest, choose, (fields, secret) = self.digest, random.Random(1), self._settings
        ctx.set(Value.cast(digest.fields), fields)
        # Another secret comes while the tables of the one before are written.
        ctx.set(digest.secret, secret ^ 5)
        await ctx.tick().repeat(100)
        await self._offer(ctx, choose, self._before)
        while len(self._results) < len(self._before):
            await ctx.tick()
        ctx.set(digest.secret, secret)
        await ctx.tick().repeat(4)
        await self._offer(ctx, choose, self._frames, self._errors)

    async def _offer(self, ctx, choose, frames, errors=()):
        i = self.digest.i
        for number, frame in enumerate(frames):
            for beat in beats(frame, error=number in errors, random=choose, width=self.width):
                while choose.random() < self._idle:
                    await ctx.tick()
                ctx.set(i.p, beat)
                ctx.set(i.valid, 1)
                await ctx.tick().until(i.ready)
                ctx.set(i.valid, 0)

    async def _take(self, ctx):
        o, choose, cycle = self.digest.o, random.Random(2), 0
        while len(self._results) < len(self._before) + len(self._frames):
            ctx.set(o.ready, choose.random() >= self._stall)
            if ctx.get(o.valid) and ctx.get(o.ready):
                result = ctx.get(o.p)
                self._results.append(
                    [result.digest, result.version, result.malformed, result.error]
                )
                self._at.append(cycle)
            await ctx.tick()
            cycle += 1
            assert cycle - max(self._at, default=0) < 20_000, "the digest hangs"

    def close(self):
        """Release nothing."""


class CompiledDigest(DigestBench):
    """A compiled digest, which keeps its state from run to run."""

    def __init__(self, width, **options):
        super().__init__(width, **options)
        size = width // 8
        header = defines(f"BYTES {size}", f"PLACE_BITS {(size - 1).bit_length()}")
        library = cached_model(
            verilog.convert(self.digest, name="digest", emit_src=False),
            top="digest",
            driver=DRIVER,
            header=header,
            optimisation=1,
        )
        self._library = load_model(library, SIGNATURES)
        self._model = self._library.digest_new()

    def close(self):
        self._library.digest_delete(self._model)

    def run(self, frames, fields=Field.TOS, *, secret=0, idle=0.0, stall=0.0, errors=(), before=()):
        """Return as `SimulatedDigest.run`."""
        if before:
            self.run(before, fields, secret=secret ^ 5)
        sizes = np.array([len(frame) for frame in frames], np.int64)
        damaged = bytes(number in errors for number in range(len(frames)))
        words = np.frombuffer(secret.to_bytes(16, "little"), np.uint32)
        pauses = np.array([256 * idle, 256 * stall], np.int32)
        results = np.zeros((len(frames), 3), np.uint64)
        cycles = self._library.digest_run(
            self._model, b"".join(frames), sizes.ctypes.data, damaged, len(frames), int(fields),
            words.ctypes.data, pauses.ctypes.data, results.ctypes.data,
        )  # fmt: skip
        assert cycles >= 0, "the digest hangs"
        rest = results[:, 1]
        parts = [rest & np.uint64(7), rest >> np.uint64(3) & np.uint64(1), rest >> np.uint64(4)]
        return np.stack([results[:, 0], *parts], 1).tolist(), results[:, 2].astype(np.int64), cycles
