"""Ethernet frames that tests send to hardware, of all kinds, and their beats."""

from lately.sim.bench.packets import ethernet, ip4, ip6

KINDS = {4: 0x0800, 6: 0x86DD}


def packet_frame(random, *, tags=None, shortest=0):
    """A frame with a packet of IP, with options or extension headers at times."""
    version = random.choice([4, 6])
    payload = random.randbytes(random.randrange(80))
    tos, limit = random.randrange(256), random.randrange(256)
    if version == 4:
        options = random.randbytes(4 * random.choice([0, 0, 1, 10]))
        layer3 = ip4(payload, tos=tos, ttl=limit, options=options, checksum=random.randrange(65536))
    else:
        chain = random.choice([b"", b"\x2b\0" + bytes(6)])
        layer3 = ip6(chain + payload, traffic=tos, limit=limit, protocol=0 if chain else 17)
    tags = random.choices(range(1 << 16), k=random.randrange(5)) if tags is None else tags
    frame = ethernet(KINDS[version], layer3, tags=tags, macs=random.randbytes(12))
    if random.random() < 0.5:
        frame += bytes(random.randrange(9))
    return frame.ljust(shortest, b"\0")


def harmed_frame(random):
    """A frame of a packet with wrong bytes in its headers, or cut, or of something else."""
    frame = bytearray(packet_frame(random))
    kind = random.random()
    if kind < 0.4:
        for _ in range(random.randrange(1, 4)):
            frame[random.randrange(12, len(frame))] = random.choice([0, 4, 5, 64, 69, 96, 255])
    elif kind < 0.9:
        frame = frame[: random.randrange(1, min(len(frame), 81))]
    else:
        frame = random.randbytes(random.randrange(1, 200))
    return bytes(frame)


def random_frames(random, count):
    """Frames, half of which are harmed."""
    return [random.choice([packet_frame, harmed_frame])(random) for _ in range(count)]


def beats(frame, *, error=0, random=None, width=64):
    """Return the beats of a frame as fields of `FrameBeat(width)`; past its end are other bytes."""
    size = width // 8
    tail = random.randbytes(size - 1) if random else b"\xff" * (size - 1)
    return [
        {
            "data": int.from_bytes((part + tail)[:size], "little"),
            "size": len(part) - 1,
            "last": int(at + size >= len(frame)),
            "error": int(at + size >= len(frame) and error),
        }
        for at in range(0, len(frame), size)
        for part in [frame[at : at + size]]
    ]


def sized_frame(random, size):
    """A frame of so many bytes, at random with padding; IP if there is room for a header."""
    version, tags = random.choice([4, 6]), random.choices(range(1 << 16), k=random.randrange(4))
    begin, header = 14 + 4 * len(tags), 20 if version == 4 else 40
    content = size - begin - header
    if content < 0:
        return random.randbytes(size)
    padding = min(content, random.choice([0, 0, 1, random.randrange(80)]))
    payload = random.randbytes(content - padding)
    layer3 = ip4(payload) if version == 4 else ip6(payload)
    frame = ethernet(KINDS[version], layer3, tags=tags, macs=random.randbytes(12))
    return frame + random.randbytes(padding)
