"""Contract tests for deduplicators of frames."""

from collections.abc import Awaitable, Callable, Iterable

import cocotb
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp

from ...golden.packets.comparison import HARDWARE_FIELDS, Field
from ...golden.packets.encapsulations import IP4, IP6
from ...golden.packets.frame_actions import Action
from ...hdl.bus.register_map import ADDRESS_BITS, WORD_BYTES
from ...hdl.packets.inner_parser import InnerStep
from .coverage import collect, count
from .frame_coverage import frame_moments, frame_points
from .frames import (
    ADDRESSES,
    JUMBO,
    KEY_CYCLES,
    QUIET,
    FrameBench,
    FrameSettings,
    sized,
    stream,
    variants,
)
from .packets import ethernet, ip4, udp
from .testplan import register

# Frame sizes in bytes that set all bits of the length field, and overflow byte positions.
HUGE = ((1 << 16) - 1, (1 << 16) + 100)


async def _check(function: Callable[[FrameBench], Awaitable[None]], dut) -> None:
    bench = FrameBench(dut)
    await bench.reset()
    await function(bench)
    if bench.settings.coverage:
        points = frame_points(bench.settings.frames)
        collect(bench.settings.coverage, count(points, frame_moments(bench.passed)))


sentence = register(FrameSettings.of_environment, _check, timeout_time=20, timeout_unit="ms")


@sentence
async def random_frames(bench: FrameBench) -> None:
    options, count = bench.settings.frames, bench.settings.count
    settings = [
        (Action.DROP, Field.TOS, None, (0, 0)),
        (Action.MARK, Field.NONE, 0x0F0E0D0C0B0A09080706050403020100, (0.3, 0.5)),
        (Action.COUNT, Field.TTL | Field.VLAN, None, (0, 0.6)),
        (Action.MARK, Field.LAYER2, (1 << 128) - 1, (0.6, 0)),
        (Action.DROP, Field.FRAME, 1, (0.2, 0.2)),
    ]
    bursts = 2 if count >= 20 else 1
    for action, fields, secret, (source, sink) in settings:
        await bench.set(action, fields, secret)
        bench.pause(source, sink)
        for _ in range(bursts):
            frames = stream(bench.choose, count, options)
            errored = [bench.choose.random() < 0.1 for _ in frames]
            await bench.compare(frames, errored, apart=not options.tready)
            await bench.ticks(bench.choose.randrange(1 + 3 * bursts))
    bench.pause(0, 0)
    await bench.check_counts()
    assert bench.golden.counts.hits > count
    await bench.clear()
    await bench.compare(frames, apart=not options.tready)


@sentence
async def line_rate(bench: FrameBench) -> None:
    options = bench.settings.frames
    for size in (60, 64, options.max_frame):
        await bench.reset()
        await bench.set(Action.COUNT)
        count = bench.settings.count if size <= 64 else 1 + bench.settings.count // 8
        payloads = [bench.choose.randbytes(size - 42) for _ in range(2 * count)]
        frames = [
            ethernet(0x0800, ip4(udp(bench.choose.choice(payloads)))) for _ in range(4 * count)
        ]
        assert {len(frame) for frame in frames} == {size}
        ready, valid = bench.watch("s_axis_tready"), bench.watch("m_axis_tvalid")
        await bench.compare(frames)
        assert all(ready)
        clocks = len(frames) * -(-8 * size // options.width)
        assert bench.golden.counts.hits > count
        # The first frames wait for a free cycle in the loop of parser steps, at most one round in
        # total.
        waits = InnerStep.LATENCY + 1 if options.inner and options.width <= 64 else 0
        first = valid.index(1)
        assert sum(valid[first : first + clocks + waits]) == sum(valid) == clocks


@sentence
async def full_store(bench: FrameBench) -> None:
    options = bench.settings.frames
    await bench.set(Action.MARK)
    bench.pause(0, 0.995)
    # Shorter frames may wait for their digests.
    frames = [
        number.to_bytes(2, "big") * bench.choose.randint(30, 99)
        for number in range((options.frames or 0) + 48)
    ]
    ready = bench.watch("s_axis_tready")

    async def hurry() -> None:
        await ClockCycles(bench.dut.aclk, 3000)
        bench.pause(0, 0)

    cocotb.start_soon(hurry())
    left = await bench.send(frames)
    whole = [frame for frame, _ in left]
    lost = [frame not in whole for frame in frames]
    drops = options.on_overflow == "drop"
    assert any(lost) == drops
    assert all(ready) == drops
    bench.check(frames, left, lost=lost)
    await bench.check_counts()


@sentence
async def jumbo_frames(bench: FrameBench) -> None:
    longest = bench.settings.frames.max_frame
    await bench.set(Action.MARK)
    sizes = [64, 65, 127, 128, 1500, 1518, 1519, 4096, JUMBO, 64, JUMBO - 1, 60]
    frames = [bench.choose.randbytes(size) for size in sizes]
    await bench.compare([*frames, *frames])
    bench.pause(0.3, 0.3)
    # Long frames with pauses would dominate the run time.
    await bench.compare(frames[:8])
    await bench.check_counts()
    counts, sent = bench.golden.counts, [*sizes, *sizes, *sizes[:8]]
    assert counts.frames_oversize == sum(size > longest for size in sent)
    assert counts.hits == sum(size <= longest for size in sent[len(sizes) :])
    assert counts.frames_in == counts.frames_out + counts.discarded("pass")


@sentence
async def no_waiting(bench: FrameBench) -> None:
    await bench.set(Action.MARK)
    bench.pause(0.1, 0.6)
    # The first bytes of a frame are its number.
    frames = [
        number.to_bytes(2, "big") + bench.choose.randbytes(bench.choose.randint(58, 198))
        for number in range(4 * bench.settings.count)
    ]

    async def change() -> None:
        while True:
            await ClockCycles(bench.dut.aclk, bench.choose.randrange(200, 2000))
            await bench.write("digest_secret", bench.choose.getrandbits(128))

    changing = cocotb.start_soon(change())
    left = await bench.send(frames)
    changing.cancel()
    # The previous secret may still be loading.
    await ClockCycles(bench.dut.aclk, KEY_CYCLES if bench.wide else 0)
    whole = [frame for frame, _ in left + await bench.send([])]
    assert all(len(frame) <= bench.settings.frames.max_frame for frame in whole)
    at = [int.from_bytes(frame[:2], "big") for frame in whole]
    assert at == sorted(set(at))
    assert whole == [frames[number] for number in at]
    assert len(whole) < len(frames)
    counts = await bench.counts()
    counted = [counts[name] for name in ("frames_in", "bytes_in", "frames_out", "bytes_out")]
    expected = [len(frames), sum(map(len, frames)), len(whole), sum(map(len, whole))]
    lost = counts["frames_oversize"] + counts["frames_no_room"] + counts["frames_errored"]
    assert counted == [bench.wrapped(count) for count in expected]
    assert bench.wrapped(lost) == bench.wrapped(len(frames) - len(whole))


@sentence
async def lengths(bench: FrameBench) -> None:
    options = bench.settings.frames
    await bench.set(Action.MARK)
    beat, longest = options.beat // 8, options.max_frame
    sizes = *range(1, 80), *range(longest - beat - 1, longest + beat + 2)
    times = 2 if bench.settings.count > 10 else 1
    frames = [frame for size in sizes for frame in [sized(bench.choose, size)] * times]
    for shortest in (1, beat // 2):
        frames += [bench.choose.randbytes(bench.choose.randint(shortest, beat)) for _ in range(40)]
    await bench.compare(frames, apart=not options.tready)
    # So few frames do not wait for their digests.
    await bench.compare([bench.choose.randbytes(options.width // 8) for _ in range(8)])
    # At 8 bits these frames take as many cycles as all others together.
    for size in HUGE if options.width > 8 else ():
        await bench.compare([bench.choose.randbytes(size), frames[0]], apart=not options.tready)
    await bench.check_counts()


@sentence
async def fields(bench: FrameBench) -> None:
    options, every = bench.settings.frames, (1 << len(HARDWARE_FIELDS)) - 1
    numbers: Iterable[int] = range(every + 1)
    if bench.settings.count <= 10:
        # Compare each single field, and all fields except one.
        numbers = [base ^ flip for base in (0, every) for flip in HARDWARE_FIELDS]
    for number in numbers:
        action = bench.choose.randrange(4)
        secret = None if number % 8 else bench.choose.getrandbits(128)
        await bench.set(action, Field(number), secret)
        frames = [base for kind in (IP4, IP6) for base in variants(bench.choose, kind)]
        await bench.compare(frames, apart=not options.tready)
        await bench.ticks(1)
    await bench.check_counts()


@sentence
async def span(bench: FrameBench) -> None:
    frame, ticks = sized(bench.choose, 60), bench.settings.spec.span
    for silence in (0, 1, ticks - 1, 3 * ticks, ticks):
        await bench.ticks(silence)
        await bench.compare([frame])
    assert bench.golden.counts.hits >= 2
    await bench.check_counts()


@sentence
async def closed_input(bench: FrameBench) -> None:
    options = bench.settings.frames
    await bench.set(Action.COUNT)
    frames = [sized(bench.choose, bench.choose.randint(60, options.max_frame)) for _ in range(8)]
    await bench.write("control", 0)
    if options.on_overflow == "drop":
        left = await bench.send(frames, apart=True)
        bench.check(frames, left, lost=[True] * len(frames))
        await bench.write("control", 1)
        await bench.compare(frames, apart=True)
    else:
        sending = cocotb.start_soon(bench.compare(frames))
        leaves = bench.watch("m_axis_tvalid")
        await ClockCycles(bench.dut.aclk, 2 * QUIET)
        assert not any(leaves)
        await bench.write("control", 1)
        await sending
    await bench.check_counts()


@sentence
async def registers(bench: FrameBench) -> None:
    words = {word.address: word for word in bench.settings.unit.registers.words}
    for address in range(0, 1 << ADDRESS_BITS, WORD_BYTES):
        answer = await bench.master.read(address, WORD_BYTES)
        word = words.get(address)
        assert (answer.resp == AxiResp.OKAY) == (word is not None and word.readable)
        value = int.from_bytes(answer.data, "little")
        for field in word.fields if word is not None and word.readable else ():
            if field.reset is not None:
                assert value & field.mask == field.reset << field.low
    bench.pause_bus(0.5)
    for _ in range(4):
        data = bench.choose.randbytes(WORD_BYTES)
        for at in range(WORD_BYTES):
            await bench.master.write(ADDRESSES["frames"] + at, data[at : at + 1])
        answer = await bench.master.read(ADDRESSES["frames"], WORD_BYTES)
        assert answer.data == bytes([data[0] & 3, data[1] & 31, 0, 0])
    for address in range(0, 1 << ADDRESS_BITS, WORD_BYTES):
        if address not in words or not words[address].writable:
            answer = await bench.master.write(address, bench.choose.randbytes(WORD_BYTES))
            assert answer.resp == AxiResp.SLVERR
