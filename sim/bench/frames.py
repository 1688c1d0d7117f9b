"""The frame deduplicator under test, with its golden model and the frames to send.

Environment variables: those of `unit`, where LATELY_UNIT holds the options of the deduplicator, and
LATELY_COUNT (number of frames that a test sends at a time).
"""

import itertools
import os
import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

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
from ...golden.packets.encapsulations import IP4
from ...golden.packets.frame_actions import Action
from ...golden.packets.frame_deduplicator import FrameDeduplicator, Sent
from ...hdl.packets.deduplicator import ControlledDeduplicator, Deduplicator
from ...hdl.packets.frame_store import FATES
from ...hdl.packets.frames import FrameOptions
from ...hdl.registers import REGISTERS, WORD_BITS
from .packets import ethernet, inner_frames, ip4, ip6, udp
from .unit import PERIOD_NS, Settings

ADDRESSES = {row.name: row.address for row in REGISTERS}

KEY_CYCLES = 4200  # cycles that a wide digest needs to load the keys of a secret
QUIET = 300  # after this many cycles without output, nothing is in flight
JUMBO = 9600  # bytes of a jumbo frame
SPACING = 40  # minimum cycles between two ticks


@dataclass(frozen=True)
class FrameSettings(Settings):
    count: int = 20  # number of frames that a test sends at a time

    @classmethod
    def of_environment(cls) -> Self:
        settings = vars(Settings.of_environment())
        return cls(**settings, count=int(os.environ["LATELY_COUNT"]))

    @cached_property
    def frames(self) -> FrameOptions:
        return FrameOptions.taken_from(dict(self.options))

    @cached_property
    def unit(self) -> ControlledDeduplicator:
        frames = Deduplicator(self.spec, ticks="tick", **self.options)
        return ControlledDeduplicator(frames, bus="axi4-lite", version=(1, 2, 3))

    @cached_property
    def traits(self) -> frozenset[str]:
        traits = {
            "frames": True,
            f"{self.frames.width} bits": True,
            "inner packets": self.frames.inner,
            "no TREADY": not self.frames.tready,
            "jumbo frames": self.frames.on_oversize == "pass"
            and self.frames.longest_forwarded >= JUMBO,
        }
        return frozenset(name for name, holds in traits.items() if holds)

    @property
    def statistics_bits(self) -> int:
        return int(self.options["statistics_bits"])

    def golden(self) -> FrameDeduplicator:
        options = self.frames
        names = ("max_frame", "width", "buffer", "on_oversize", "inner")
        return FrameDeduplicator(self.spec, **{name: getattr(options, name) for name in names})


class Transfers(NamedTuple):
    first: int  # cycle of a frame's first transfer
    last: int  # cycle of its last transfer
    number: int

    @property
    def pauses(self) -> int:
        return self.last - self.first + 1 - self.number


@dataclass(frozen=True)
class PassedFrame:
    frame: bytes
    facts: dict[str, int]  # change of each counter of the golden model
    action: Action
    fields: Field
    secret: int
    now: int  # number of ticks since the last reset
    clears: int  # number of resets and clears before the frame
    came: Transfers
    left: Transfers | None  # None if the frame did not leave

    @property
    def recorded(self) -> bool:
        return not any(self.facts[f"frames_{fate}"] for fate in FATES)


class FrameBench:
    def __init__(self, dut) -> None:
        self.dut = dut
        self.settings = FrameSettings.of_environment()
        self.choose = random.Random(self.settings.seed)
        # A clock in Python would take a third of the run time. The first edge must not be
        # immediate.
        Clock(dut.aclk, PERIOD_NS, unit="ns", impl="gpi").start(start_high=False)
        clocking = {"clock": dut.aclk, "reset": dut.aresetn, "reset_active_level": False}
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), **clocking)
        self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), **clocking)
        for side in (self.source, self.sink):
            side.log.setLevel("WARNING")
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), **clocking)
        # All processed frames, if coverage is collected.
        self.passed: list[PassedFrame] = []
        self._clears = 0
        self._came: deque[Transfers] = deque()
        self._left: deque[Transfers] = deque()
        if self.settings.coverage:
            cocotb.start_soon(self._record("s_axis", self._came))
            cocotb.start_soon(self._record("m_axis", self._left))
        dut._log.info("seed %d", self.settings.seed)

    async def _record(self, stream: str, frames: deque[Transfers]) -> None:
        cycles: list[int] = []
        ready = getattr(self.dut, f"{stream}_tready", None)
        valid, last = (getattr(self.dut, f"{stream}_{name}") for name in ("tvalid", "tlast"))
        for cycle in itertools.count():
            await FallingEdge(self.dut.aclk)
            # Before the first reset the outputs are undefined.
            if valid.value != 1 or (ready is not None and ready.value != 1):
                continue
            cycles.append(cycle)
            if last.value:
                frames.append(Transfers(cycles[0], cycles[-1], len(cycles)))
                cycles.clear()

    @property
    def wide(self) -> bool:
        return self.settings.frames.width > 64

    async def reset(self) -> None:
        self.golden = self.settings.golden()
        self.now = 0  # ticks
        self._clears += 1
        self.dut.tick.value = 0
        self.dut.aresetn.value = 0
        await ClockCycles(self.dut.aclk, 4)
        self.dut.aresetn.value = 1
        await ClockCycles(self.dut.aclk, KEY_CYCLES if self.wide else QUIET)

    async def write(self, name: str, value: int) -> None:
        """Write a register; a secret is retried while the deduplicator loads the previous one."""
        for at in range(0, 16 if name == "digest_secret" else 4, 4):
            word = (value >> 8 * at & 0xFFFFFFFF).to_bytes(4, "little")
            while (await self.master.write(ADDRESSES[name] + at, word)).resp != AxiResp.OKAY:
                assert name == "digest_secret"

    async def read(self, name: str) -> int:
        size = 8 if self.settings.statistics_bits > WORD_BITS else 4
        answer = await self.master.read(ADDRESSES[name], size)
        assert answer.resp == AxiResp.OKAY
        return int.from_bytes(answer.data, "little")

    async def set(self, action: int, fields: Field = Field.TOS, secret: int | None = None) -> None:
        await self.write("frames", action | fields << 8)
        ignored = Field.LAYER2 if self.golden.inner else Field.NONE
        # The value 3 acts like COUNT.
        self.golden.action = Action(action) if action in list(Action) else Action.COUNT
        self.golden.fields = fields & ~ignored
        if secret is not None:
            await self.write("digest_secret", secret)
            self.golden.secret = secret
            await ClockCycles(self.dut.aclk, KEY_CYCLES if self.wide else 0)

    async def clear(self) -> None:
        await self.write("control", 1 | 1 << 2)
        self.golden = replace(self.golden)
        self._clears += 1
        await ClockCycles(self.dut.aclk, QUIET)

    async def ticks(self, count: int) -> None:
        for _ in range(count):
            self.dut.tick.value = 1
            await RisingEdge(self.dut.aclk)
            self.dut.tick.value = 0
            await ClockCycles(self.dut.aclk, SPACING)
        self.now += count

    async def send(
        self, frames: Sequence[bytes], errored: Sequence[bool] | None = None, *, apart: bool = False
    ) -> list[tuple[bytes, bool]]:
        """Send frames; return the frames that leave, and their marks.

        If `apart` is set, there are pauses between the frames.
        """
        for number, frame in enumerate(frames):
            damaged = errored is not None and errored[number]
            await self.source.send(self._offered(frame, damaged=damaged))
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

    def _offered(self, frame: bytes, *, damaged: bool) -> AxiStreamFrame:
        """Return a frame for the source; an invalid TKEEP or the last TUSER bit marks damage."""
        size = self.settings.frames.width // 8
        user = [self.choose.getrandbits(1) for _ in frame]
        keep = [1] * len(frame)
        holes = damaged and 1 < size < len(frame) and self.choose.random() < 0.5
        if holes:
            keep[self.choose.randrange((len(frame) - 1) // size * size)] = 0
        user[-1] = int(damaged and not holes)
        return AxiStreamFrame(frame, tkeep=keep, tuser=user)

    async def compare(
        self, frames: Sequence[bytes], errored: Sequence[bool] | None = None, *, apart: bool = False
    ) -> None:
        left = await self.send(frames, errored, apart=apart)
        self.check(frames, left, errored=errored)

    def check(
        self,
        frames: Sequence[bytes],
        left: Sequence[tuple[bytes, bool]],
        *,
        errored: Sequence[bool] | None = None,
        lost: Sequence[bool] | None = None,
    ) -> None:
        none = [False] * len(frames)
        expected: list[tuple[bytes, bool]] = []
        for frame, *flags in zip(frames, errored or none, lost or none, strict=True):
            expected += self._perform(frame, *flags)
        assert left == expected

    def _perform(self, frame: bytes, errored: bool, lost: bool) -> list[Sent]:
        golden = self.golden
        before = asdict(golden.counts)
        sent = golden.perform([frame], [self.now], errored=[errored], lost=[lost])
        if self.settings.coverage:
            facts = {name: n - before[name] for name, n in asdict(golden.counts).items()}
            settings = golden.action, golden.fields, golden.secret
            passed = self._came.popleft(), self._left.popleft() if sent else None
            self.passed.append(
                PassedFrame(frame, facts, *settings, self.now, self._clears, *passed)
            )
        return sent

    async def counts(self) -> dict[str, int]:
        await self.write("control", 1 | 1 << 3)
        return {name: await self.read(name) for name in asdict(self.golden.counts)}

    async def check_counts(self) -> None:
        expected = asdict(self.golden.counts)
        assert await self.counts() == {name: self.wrapped(n) for name, n in expected.items()}

    def wrapped(self, count: int) -> int:
        return count % (1 << self.settings.statistics_bits)

    def watch(self, name: str) -> list[int]:
        """Record the value of a port in each cycle; the list stays empty if the port is missing."""
        values: list[int] = []

        async def append() -> None:
            while True:
                await FallingEdge(self.dut.aclk)
                values.append(int(getattr(self.dut, name).value))

        if hasattr(self.dut, name):
            cocotb.start_soon(append())
        return values

    def pause_bus(self, probability: float) -> None:
        writes, reads = self.master.write_if, self.master.read_if
        for channel in (
            writes.aw_channel, writes.w_channel, writes.b_channel, reads.ar_channel, reads.r_channel
        ):  # fmt: skip
            channel.set_pause_generator(pauses(self.choose, probability))

    def pause(self, source: float, sink: float) -> None:
        for side, probability in ((self.source, source), (self.sink, sink)):
            side.clear_pause_generator()
            side.pause = False
            if probability:
                side.set_pause_generator(pauses(self.choose, probability))


def sized(choose: random.Random, size: int) -> bytes:
    room = size - len(ethernet(IP4, ip4(b"")))
    if room < 0:
        return choose.randbytes(size)
    return ethernet(IP4, ip4(choose.randbytes(room), protocol=choose.randrange(256)))


def variants(choose: random.Random, kind: int) -> list[bytes]:
    """Return a frame, frames that differ from it in one field each, and the frame again."""
    macs, payload = choose.randbytes(12), udp(choose.randbytes(20))
    tag, tos, limit = choose.getrandbits(12), choose.getrandbits(8), choose.getrandbits(8)

    def variant(macs=macs, tag=tag, tos=tos, limit=limit, end=b"") -> bytes:
        if kind == IP4:
            packet = ip4(payload, tos=tos, ttl=limit, checksum=choose.getrandbits(16))
        else:
            packet = ip6(payload, traffic=tos, limit=limit)
        return ethernet(kind, packet, tags=[tag], macs=macs) + end

    others: list[dict[str, Any]] = [
        {"macs": choose.randbytes(12)},
        {"tag": tag ^ 1},
        {"tos": tos ^ 1},
        {"limit": limit ^ 1},
        {"end": choose.randbytes(3)},
    ]
    return [variant(**fields) for fields in ({}, *others, {})]


def pauses(choose: random.Random, probability: float) -> Iterable[bool]:
    return iter(lambda: choose.random() < probability, None)


def made(choose: random.Random, options: FrameOptions) -> bytes:
    if options.inner and choose.random() < 0.6:
        return inner_frames(choose, 1)[0][: options.max_frame]
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
    return frame[: options.max_frame]


def stream(choose: random.Random, count: int, options: FrameOptions) -> list[bytes]:
    """Return random frames; many are repeated, some with a lower TTL, and some are too long."""
    frames: list[bytes] = []
    for _ in range(count):
        if frames and choose.random() < 0.4:
            frame = bytearray(choose.choice(frames[-20:]))
            if len(frame) > 34 and frame[12:14] == b"\x08\0":
                frame[22] = frame[22] + 255 & 255
            frames.append(bytes(frame))
        elif choose.random() < 0.03:
            frames.append(choose.randbytes(options.max_frame + choose.choice([1, 2, 8, 100])))
        else:
            frames.append(made(choose, options))
    return frames
