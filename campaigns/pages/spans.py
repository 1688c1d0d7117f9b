"""Tables for docs/deduplicator.md: the longest spans, and placed deduplicators."""

from bisect import bisect_right
from dataclasses import replace
from decimal import ROUND_DOWN, Context
from fractions import Fraction

from lately.boards.flow.devices import Device, device
from lately.golden.packets.frame_actions import default_buffer
from lately.planner import Requirement
from lately.planner.plans import cheapest, largest_window
from lately.planner.requirement import Span

from .. import frames as placements
from .blocks import NOTHING, records, table

LINES = {"1 Gb/s": 1_488_095, "10 Gb/s": 14_880_952, "100 Gb/s": 148_809_524}
"""Number of 60-byte frames per second, by line rate."""

ULTRA_BITS = 1 << 18  # bits of an UltraRAM, without parity bits

DEVICES = {"ecp5-25k-6": (64, 0), "ecp5-85k-8": (64, 0), "xcu50": (512, 640), "xcu55c": (512, 960)}
"""Stream width in bits, and number of UltraRAMs (from AMD's data sheets), by device."""

DOWN = Context(prec=2, rounding=ROUND_DOWN)

WANTED = {744_048: "50 ms at 10 Gb/s, 5 ms at 100 Gb/s", 3_720_239: "25 ms at 100 Gb/s"}
"""Spans of other products, by the number of frames that a span contains."""


def _requirement(frames: int, chip: Device | None = None) -> Requirement:
    span = Span.of(Fraction(1), Fraction(1, 1000), when_full="shorten")
    # Of all families, GEBF needs the fewest block RAMs.
    return Requirement(
        window=frames, span=span, false_positive_rate=1e-4, device=chip, families=("gebf",)
    )


def _memories(frames: int, tried: int) -> tuple[int, int]:
    plans = cheapest(_requirement(frames), tried)
    specs = [plan.spec for plan in plans]
    parts = [spec.segments * spec.parts * -(-spec.part_bits // ULTRA_BITS) for spec in specs]
    return int(plans[0].cost), min(parts)


def _row(name: str, kind: str, frames: int, width: int) -> dict[str, object]:
    row: dict[str, object] = {"device": name, "memory": kind, "frames": frames}
    for line, rate in LINES.items():
        span = DOWN.create_decimal_from_float(1000 * frames / rate)
        row[line] = NOTHING if line == "100 Gb/s" and width < 512 else f"{span:f} ms"
    return row


def content() -> dict[str, str]:
    rows = []
    sizes = [digits * 10**power for power in range(4, 8) for digits in range(10, 100)]
    for name, (width, ultra) in DEVICES.items():
        chip = device(name)
        store_blocks = -(-8 * default_buffer(width) // chip.bram_bits)
        chip = replace(chip, bram=chip.bram - store_blocks)
        frames = largest_window(_requirement(1 << 32, chip), digits=2)
        assert frames is not None
        rows.append(_row(name, f"{chip.bram:,} block RAMs", frames, width))
        if ultra:
            at = bisect_right(sizes, ultra, key=lambda frames: _memories(frames, 10)[1])
            rows.append(_row(name, f"{ultra} UltraRAMs", sizes[at - 1], width))
    wanted = []
    for frames, names in WANTED.items():
        blocks, ultra = _memories(frames, 600)
        wanted.append({"span": names, "frames": frames, "block RAMs": blocks, "UltraRAMs": ultra})
    return {
        "spans": table(rows) + "\n\n" + table(wanted),
        "rates": table(placements.rates(records("frames"))),
        "placements": table(placements.rows(records("frames"))),
    }
