"""Frames at the ports of hardware, in Amaranth's simulator."""

import random

import simulation
from amaranth.hdl import ClockDomain, Module


def cut(frame, size):
    return [frame[at : at + size] for at in range(0, len(frame), size)]


async def send(ctx, port, transfers, stall, choose):
    """Offer transfers, with pauses; what is offered stays until it is taken."""
    for transfer in transfers:
        while choose.random() < stall:
            await ctx.tick()
        ctx.set(port.payload, transfer)
        ctx.set(port.valid, 1)
        await ctx.tick().until(port.ready)
        ctx.set(port.valid, 0)


async def receive(ctx, port, taken, stall, choose):
    """Take what is offered, with pauses, for ever; it must stay as it is until then."""
    offered = None
    while True:
        ready = choose.random() >= stall
        ctx.set(port.ready, ready)
        _, _, valid, payload = await ctx.tick().sample(port.valid, port.payload)
        bits = payload.as_value().value
        if offered is not None:
            assert valid
            assert bits == offered
        offered = bits if valid and not ready else None
        if valid and ready:
            taken.append(payload)


def transfers(frame, width, error=False, **beside):
    """Return the transfers of a frame on an AXI4-Stream, each with the same signals beside."""
    size = width // 8
    parts = cut(frame, size)
    return [
        {
            "data": int.from_bytes(part.ljust(size, b"\x5a"), "little"),
            "keep": (1 << len(part)) - 1,
            "last": number == len(parts) - 1,
            "user": int(error and number == len(parts) - 1) | beside.get("user", 0),
            **{name: value for name, value in beside.items() if name != "user"},
        }
        for number, part in enumerate(parts)
    ]


def whole(taken, flag, *, kept):
    """Return the frames of what was taken, each with its flag, which all of its beats have.

    `kept` says how many bytes a beat has.
    """
    frames, octets, flags = [], b"", set()
    for payload in taken:
        size = kept(payload)
        octets += payload.data.to_bytes(64, "little")[:size]
        flags.add(getattr(payload, flag))
        if payload.last:
            assert len(flags) == 1
            frames.append((octets, bool(flags.pop())))
            octets, flags = b"", set()
    assert not octets
    return frames


def simulate(component, *benches, background=()):
    m = Module()
    # Also for what has no registers.
    m.domains.sync = ClockDomain()
    m.submodules.component = component
    simulation.simulate(m, *benches, background=background)


def random_frame(choose, least=1, most=200):
    return bytes(choose.randrange(256) for _ in range(choose.randint(least, most)))


def seeded(seed):
    print("seed", seed)
    return random.Random(seed)
