"""Deduplicator of frames under test, at its buses of another project's models.

Environment variables: as in `unit`, where LATELY_UNIT has the options of the deduplicator, and
LATELY_COUNT (number of frames that a test sends at a time).
"""

import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Self

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

from ...golden.packets.comparison import Field
from ...golden.packets.frame_actions import Action
from ...golden.packets.frame_deduplicator import FrameDeduplicator
from ...hdl.packets.frame_options import FrameOptions
from ...hdl.registers import REGISTERS
from .encapsulated import inner_frames
from .packets import ethernet, ip4, ip6, udp
from .unit import PERIOD_NS, Settings

ADDRESSES = {row.name: row.address for row in REGISTERS}

KEY_CYCLES = 4200
"""Cycles that a wide digest takes to load the keys of a secret."""

QUIET = 150
"""Cycles without output after which nothing is in flight."""

SPACING = 40
"""Cycles from one tick to the next, as the filter needs them."""


@dataclass(frozen=True)
class FrameSettings(Settings):
    """Deduplicator under test, from the environment.

    Attributes
    ----------
    count : int
        Number of frames that a test sends at a time.
    """

    count: int = 20

    @classmethod
    def of_environment(cls) -> Self:
        """Return the settings of the environment."""
        found = vars(Settings.of_environment())
        return cls(**found, count=int(os.environ["LATELY_COUNT"]))

    @cached_property
    def frames(self) -> FrameOptions:
        """Streams, store and rules."""
        return FrameOptions.taken_from(dict(self.options))

    @property
    def statistics(self) -> int:
        """Number of values of a counter."""
        return 1 << int(self.options["statistics_bits"])

    def golden(self) -> FrameDeduplicator:
        """Return a new golden model."""
        how = self.frames
        names = ("longest", "width", "store", "oversize", "inner")
        return FrameDeduplicator(self.spec, **{name: getattr(how, name) for name in names})


class FrameBench:
    """The buses of a deduplicator, and its golden model.

    Attributes
    ----------
    dut : handle
    settings : FrameSettings
    choose : Random
    golden : FrameDeduplicator
    now : int
        Ticks since the last reset.
    """

    def __init__(self, dut, settings: FrameSettings | None = None) -> None:
        self.dut = dut
        self.settings = settings or FrameSettings.of_environment()
        self.choose = random.Random(self.settings.seed)
        Clock(dut.aclk, PERIOD_NS, unit="ns").start()
        how = {"clock": dut.aclk, "reset": dut.aresetn, "reset_active_level": False}
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), **how)
        self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), **how)
        for side in (self.source, self.sink):
            side.log.setLevel("WARNING")
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), **how)
        dut._log.info("seed %d", self.settings.seed)

    @property
    def wide(self) -> bool:
        """Whether the digest has keys, which must be loaded."""
        return self.settings.frames.width > 64

    async def reset(self) -> None:
        """Reset the deduplicator; return when the filter is clear, and the keys are loaded."""
        self.golden = self.settings.golden()
        self.now = 0
        self.dut.tick.value = 0
        self.dut.aresetn.value = 0
        await ClockCycles(self.dut.aclk, 4)
        self.dut.aresetn.value = 1
        await ClockCycles(self.dut.aclk, KEY_CYCLES if self.wide else QUIET)

    async def write(self, name: str, value: int) -> None:
        """Write a register."""
        for at in range(0, 16 if name == "digest_secret" else 4, 4):
            word = (value >> 8 * at & 0xFFFFFFFF).to_bytes(4, "little")
            assert (await self.master.write(ADDRESSES[name] + at, word)).resp == AxiResp.OKAY

    async def read(self, name: str) -> int:
        """Return the value of a register."""
        answer = await self.master.read(ADDRESSES[name], 8)
        assert answer.resp == AxiResp.OKAY
        return int.from_bytes(answer.data, "little")

    async def set(
        self, action: Action, fields: Field = Field.TOS, secret: int | None = None
    ) -> None:
        """Change the settings, here and in the golden model, while nothing is in flight."""
        await self.write("frames", action | fields << 8)
        ignored = Field.LAYER2 if self.golden.inner else Field.NONE
        self.golden.action, self.golden.fields = action, fields & ~ignored
        if secret is not None:
            await self.write("digest_secret", secret)
            self.golden.secret = secret
            await ClockCycles(self.dut.aclk, KEY_CYCLES if self.wide else 0)

    async def ticks(self, count: int) -> None:
        """Send ticks."""
        for _ in range(count):
            self.dut.tick.value = 1
            await RisingEdge(self.dut.aclk)
            self.dut.tick.value = 0
            await ClockCycles(self.dut.aclk, SPACING)
        self.now += count

    async def send(
        self, frames: Sequence[bytes], errored: Sequence[bool] | None = None, *, apart: bool = False
    ) -> list[tuple[bytes, bool]]:
        """Send frames, back to back or `apart`; return what leaves: frames with their marks."""
        for number, frame in enumerate(frames):
            user = [0] * len(frame)
            user[-1] = int(errored is not None and errored[number])
            await self.source.send(AxiStreamFrame(frame, tuser=user))
            if apart:
                await self.source.wait()
                await ClockCycles(self.dut.aclk, SPACING)
        await self.source.wait()
        quiet = 0
        while quiet < QUIET:
            await RisingEdge(self.dut.aclk)
            waits = int(self.dut.m_axis_tvalid.value)
            quiet = 0 if waits else quiet + 1
        left = []
        while not self.sink.empty():
            frame = self.sink.recv_nowait()
            marks = frame.tuser if isinstance(frame.tuser, list) else [frame.tuser]
            assert len(set(marks)) == 1
            left.append((bytes(frame.tdata), bool(marks[0])))
        return left

    async def compare(
        self, frames: Sequence[bytes], errored: Sequence[bool] | None = None, *, apart: bool = False
    ) -> None:
        """Send frames, and compare the output with the golden model's."""
        left = await self.send(frames, errored, apart=apart)
        expected = self.golden.perform(frames, [self.now] * len(frames), errored=errored)
        assert left == [tuple(one) for one in expected]

    async def counts(self) -> dict[str, int]:
        """Return all counters."""
        await self.write("control", 1 | 1 << 3)
        return {name: await self.read(name) for name in asdict(self.golden.counts)}

    async def check_counts(self) -> None:
        """Compare all counters with the golden model's."""
        expected = asdict(self.golden.counts)
        values = self.settings.statistics
        assert await self.counts() == {name: n % values for name, n in expected.items()}

    def watch(self, name: str) -> list[int]:
        """Return a list that gets the value of a port in each cycle; empty without the port."""
        values: list[int] = []

        async def append() -> None:
            while True:
                await FallingEdge(self.dut.aclk)
                values.append(int(getattr(self.dut, name).value))

        if hasattr(self.dut, name):
            cocotb.start_soon(append())
        return values

    def pause(self, source: float, sink: float) -> None:
        """Let both streams pause at random, with these probabilities."""
        for side, probability in ((self.source, source), (self.sink, sink)):
            side.clear_pause_generator()
            side.pause = False
            if probability:
                side.set_pause_generator(pauses(self.choose, probability))


def pauses(choose: random.Random, probability: float) -> Iterable[bool]:
    """Yield for each cycle whether a model pauses."""
    return iter(lambda: choose.random() < probability, None)


def made(choose: random.Random, how: FrameOptions) -> bytes:
    """Return a frame of a random kind, intact or not, of at most `how.longest` bytes."""
    if how.inner and choose.random() < 0.6:
        return inner_frames(choose, 1)[0][: how.longest]
    payload = udp(choose.randbytes(choose.choice([0, 1, 18, choose.randrange(120)])))
    kind = choose.randrange(8)
    tags = [choose.randrange(1 << 16) for _ in range(choose.choice([0, 0, 1, 2, 3, 4]))]
    if kind < 3:
        octets = choose.choice([b"", b"", b"\1" * 4, b"\1" * 40])
        frame = ethernet(0x0800, ip4(payload, options=octets, ttl=choose.randrange(256)), tags=tags)
    elif kind < 5:
        frame = ethernet(0x86DD, ip6(payload), tags=tags)
    else:
        frame = ethernet(choose.choice([0x0806, 0x0800, 0x86DD]), choose.randbytes(46), tags=tags)
    if choose.random() < 0.2:
        frame = frame[: choose.randint(1, len(frame))]
    if choose.random() < 0.3:
        frame = frame.ljust(60, b"\0")
    return frame[: how.longest]


def stream(choose: random.Random, count: int, how: FrameOptions) -> list[bytes]:
    """Return frames; many come again, some of them through a router, and some are too long."""
    frames: list[bytes] = []
    for _ in range(count):
        if frames and choose.random() < 0.4:
            frame = bytearray(choose.choice(frames[-20:]))
            if len(frame) > 34 and frame[12:14] == b"\x08\0":
                frame[22] = frame[22] + 255 & 255
            frames.append(bytes(frame))
        elif choose.random() < 0.03:
            frames.append(choose.randbytes(how.longest + choose.choice([1, 2, 8, 100])))
        else:
            frames.append(made(choose, how))
    return frames
