"""Components reject invalid parameters with a message that names the parameter."""

import re
from functools import partial
from itertools import cycle

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import data
from signatures import signature

from lately.golden import any_preset, preset, timing_preset
from lately.hdl.build import filter_unit
from lately.hdl.control import CoreSignature, Verdict
from lately.hdl.frontend.front import (
    FrontEnd,
    Gate,
    GenerationCounter,
    GenerationLength,
    Schedule,
    Serializer,
    SpareTimer,
)
from lately.hdl.frontend.ticks import Prescaler, Stamps, TickSpacing
from lately.hdl.hash.functions import StateHash, expand
from lately.hdl.hash.siphash import Secrets, SipHash
from lately.hdl.lanes.beats import SameBeatKeys, ShiftFinder
from lately.hdl.lanes.collector import Credits
from lately.hdl.lanes.dispatcher import Distributor
from lately.hdl.lanes.shard import Shard
from lately.hdl.latencies import MINIMUM_BEATS
from lately.hdl.memory.cells import ECP5CellMemory, PortableCellMemory
from lately.hdl.memory.paged import DelayLine, PagedMemory
from lately.hdl.memory.segment import VARIANTS, PortableSegmentMemory, segment_memory
from lately.hdl.packets.frame_digest import FrameDigest
from lately.hdl.packets.frame_store import FrameIntake, FrameStore
from lately.hdl.packets.frames import FrameWidener, Sideband
from lately.hdl.packets.polynomials import PolynomialDigest
from lately.hdl.parameters import require_integer, require_power_of_two
from lately.hdl.pipeline import Pipeline
from lately.hdl.queue import ResultQueue
from lately.hdl.registers import Register
from lately.hdl.ring.profile import RingProfile
from lately.hdl.ring.ring import Ring, RingDetector
from lately.hdl.statistics import EventCounter
from lately.hdl.timing.clocks import BlockCount
from lately.hdl.timing.core import DecidingCore
from lately.hdl.timing.oldest import OldestCell

core = partial(CoreSignature, key_bits=8, verdict=Verdict(ages=3))
front = partial(FrontEnd, generation_bits=6, minimum_generation=5, clear_words=4)
schedule = partial(Schedule, generation_bits=6, minimum_generation=5, clear_words=4)
memory = partial(PagedMemory, depth=32, width=8)
segment = partial(PortableSegmentMemory, depth=64, clear_bits=4)
queue = partial(ResultQueue, depth=16, tag_bits=2, verdict_bits=2)
state_hash = partial(StateHash, key_bits=8, seed=1)
detector = partial(RingDetector, segments=8, parts=2, run=2, starts=6)
distributor = partial(Distributor, lanes=2, shards=3, slots=8, depth=16)
ring = partial(Ring, segments=4, run=2, clear_words=4)
dictionary = partial(filter_unit, any_preset("dictionary-tiny"))
stamps = partial(Stamps, request=data.StructLayout({"time": 8}))
finder = partial(ShiftFinder, lanes=2, generation_bits=7, minimum=2 * MINIMUM_BEATS)
LANES = RingProfile.of(preset("two-lanes-tiny"))
shard = partial(Shard, profile=LANES, core=None, number=0, slots=128)
store = partial(FrameStore, size=512, frames=16, longest=100)
intake = partial(FrameIntake, max_frame=1)
polynomials = partial(PolynomialDigest, 128)
register = partial(Register, meaning="", address=0)


def hashed(**sizes):
    pipe = Pipeline(Module())
    return expand(pipe, pipe.enter(Signal(64), "state"), functions=1, seed=0, **sizes)


def deciding(**options):
    spec = timing_preset("counted-tiny")
    return DecidingCore(core=filter_unit(spec).core, spec=spec, **options)


@pytest.mark.parametrize(
    ("build", "wrong", "message"),
    [
        (core, {"key_bits": 0}, "Key width must be at least 1, not 0"),
        (core, {"secrets": -1}, "Secrets must be at least 0, not -1"),
        (front, {"generation_bits": 0}, "Generation bits must be at least 1, not 0"),
        (schedule, {"minimum_generation": 0}, "Minimum must be at least 1, not 0"),
        (schedule, {"clear_words": 0}, "Words must be at least 1, not 0"),
        (Gate, {"start": 0}, "Start must be at least 1, not 0"),
        (Serializer, {"start": 0}, "Start must be at least 1, not 0"),
        (GenerationLength, {"width": 0, "minimum": 2}, "Width must be at least 1, not 0"),
        (GenerationCounter, {"width": 0}, "Width must be at least 1, not 0"),
        (Prescaler, {"width": 0, "min_period": 4}, "Width must be at least 1, not 0"),
        (Prescaler, {"width": 8, "min_period": 3}, "Shortest period must be at least 4, not 3"),
        (Prescaler, {"width": 3, "min_period": 8}, "Shortest period must be at most 7, not 8"),
        (TickSpacing, {"min_period": 1}, "Shortest period must be at least 2, not 1"),
        (stamps, {"span": 0}, "Span must be at least 1, not 0"),
        (stamps, {"span": 128}, "Span must be at most 127, not 128"),
        (dictionary, {"statistics_bits": -1}, "statistics_bits: must be at least 0, not -1"),
        (EventCounter, {"width": 0}, "Width must be at least 1, not 0"),
        (BlockCount, {"block": 0}, "Block must be at least 1, not 0"),
        (SpareTimer, {"words": 0}, "Words must be at least 1, not 0"),
        (state_hash, {"key_bits": 0}, "Key width must be at least 1, not 0"),
        (state_hash, {"seed": -1}, "Seed must be at least 0, not -1"),
        (state_hash, {"levels": 0}, "Levels must be at least 1, not 0"),
        (Secrets, {"pipelines": 3, "ring_segments": 4}, "Pipelines must be at most 2, not 3"),
        (Secrets, {"pipelines": 1, "ring_segments": 0}, "Ring segments must be at least 1, not 0"),
        (distributor, {"lanes": 3}, "Lanes must be 2 or 4, not 3"),
        (distributor, {"shards": 0}, "Shards must be at least 1, not 0"),
        (distributor, {"slots": 12}, "Slots must be a power of two, not 12"),
        (SipHash, {"key_bits": 0}, "Key width must be at least 1, not 0"),
        (memory, {"depth": 48}, "Depth must be a power of two, not 48"),
        (memory, {"width": 0}, "Width must be at least 1, not 0"),
        (memory, {"number": 1}, "Number must be at most 0, not 1"),
        (memory, {"share": 0}, "Share must be at least 1, not 0"),
        (segment, {"address_registers": 0}, "Address registers must be at least 1, not 0"),
        (queue, {"depth": 12}, "Depth must be a power of two, not 12"),
        (queue, {"tag_bits": -1}, "Tag width must be at least 0, not -1"),
        (queue, {"verdict_bits": -1}, "Verdict width must be at least 0, not -1"),
        (queue, {"apart": 3}, "Separate verdict bits must be at most 2, not 3"),
        (detector, {"segments": 6}, "Segments must be at least 7, not 6"),
        (detector, {"parts": 0}, "Parts must be at least 1, not 0"),
        (detector, {"run": 0}, "Run must be at least 1, not 0"),
        (detector, {"starts": 0}, "Starts must be at least 1, not 0"),
        (detector, {"levels": 0}, "Levels must be at least 1, not 0"),
        (ring, {"segments": 1}, "Segments must be at least 2, not 1"),
        (ring, {"run": 4}, "Run must be at most 3, not 4"),
        (ring, {"clear_words": 0}, "Words to clear must be at least 1, not 0"),
        (ring, {"clear_words": 3}, "Words to clear must be a power of two, not 3"),
        *((Credits, {"limit": limit}, f"Limit must be a non-negative integer, not {limit!r}")
          for limit in (-1, True, 2.0)),
        *((finder, {"lanes": lanes}, f"Lanes must be 2 or 4, not {lanes}") for lanes in (1, 3, 8)),
        (finder, {"minimum": 15}, "Minimum must be at least 16 and fit in 7 bits, not 15"),
        (finder, {"minimum": 128}, "Minimum must be at least 16 and fit in 7 bits, not 128"),
        (SameBeatKeys, {"lanes": 3}, "Lanes must be 2 or 4, not 3"),
        (shard, {"number": 3}, "Shard number must be below 3, not 3"),
        (shard, {"slots": 100}, "Slots must be a power of two, not 100"),
        (memory, {"depth": 8, "memories": 5}, "Memories must be at most 4 for a depth of 8, not 5"),
        *((partial(segment_memory, variant), {"depth": depth, "clear_bits": 1},
           f"Depth must be a power of two, not {depth!r}")
          for variant, depth in zip(VARIANTS, cycle([0, 3, -4, 4.0, "8"]), strict=False)),
        (segment, {"depth": 1, "clear_bits": 1}, "Depth must be at least 2, not 1"),
        *((segment, {"clear_bits": bits}, f"Clear width must be a power of two, not {bits}")
          for bits in (0, 3, 0.5)),
        (segment, {"clear_bits": 128}, "Clear width must be at most the depth of 64, not 128"),
        (partial(segment_memory, "x"), {"depth": 16, "clear_bits": 8},
         f"Memory must be one of {', '.join(VARIANTS)}, not 'x'"),
        (PortableCellMemory, {"depth": 12, "width": 5}, "Depth must be a power of two, not 12"),
        (ECP5CellMemory, {"depth": 1 << 15, "width": 5},
         "Depth must be at most 16384 for ecp5, not 32768"),
        (DelayLine, {"width": 5, "cycles": 18}, "Cycles must be at most 17, not 18"),
        (OldestCell, {"window": 0, "hashes": 2}, "Window must be at least 1, not 0"),
        (hashed, {"sizes": (4, 12)}, "Sizes must be powers of two, not 12"),
        (store, {"size": 384}, "Buffer must be a power of two, not 384"),
        (store, {"frames": 3}, "Frames must be at least 4, not 3"),
        (store, {"size": 128},
         "Buffer must be at least 232 bytes to hold two frames of 100 bytes, not 128"),
        (intake, {"max_frame": 0}, "Maximum frame length must be at least 1, not 0"),
        (intake, {"max_frame": 131072}, "Maximum frame length must be at most 131071, not 131072"),
        (intake, {"on_overflow": "cut"}, "on_overflow: must be 'wait' or 'drop', not 'cut'"),
        *((FrameWidener, {"width": width},
           f"Width must be one of 8, 64, 128, 256, 512, not {width!r}")
          for width in (0, 16, 65, "8")),
        (Sideband, {"id": -1}, "TID width must be at least 0, not -1"),
        (Sideband, {"user": 3, "bad": 3}, "Bad bit must be at most 2, not 3"),
        (Sideband, {"user": 3, "mark": 4}, "Mark bit must be at most 3, not 4"),
        (Sideband, {"user": 0, "bad": 1}, "Bad bit must be at most 0, not 1"),
        *((FrameDigest, {"width": width}, f"Width must be 64, 128, 256 or 512, not {width!r}")
          for width in (8, 1024, "64")),
        *((polynomials, {"table_bits": bits}, f"Table bits must be 4 or 5, not {bits!r}")
          for bits in (3, 6, "4")),
        (deciding, {"classes": 2, "bits": 1}, "Phase bits must be at most 0, not 1"),
        (deciding, {"classes": 0, "bits": 0}, "Classes must be at least 1, not 0"),
        (register, {"name": "two words"}, "Name must be an identifier, not 'two words'"),
        (register, {"name": "a", "width": 0}, "Width must be at least 1, not 0"),
        (signature, {"lanes": 0}, "Lanes must be at least 1, not 0"),
        (signature, {"request": {"key": 0}}, "Key bits must be at least 1, not 0"),
    ],
)  # fmt: skip
def test_parameters_wrong(build, wrong, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        build(**wrong)


@pytest.mark.parametrize("value", [1.5, "4", None, True])
def test_integer_wrong(value):
    for require in (require_integer, require_power_of_two):
        with pytest.raises(TypeError, match=rf"^Depth must be an integer, not {value!r}$"):
            require("Depth", value)


def test_edges_of_rules():
    require_integer("Depth", 2, minimum=2, maximum=2)
    require_power_of_two("Depth", 1)
    finder()
    for width in (64, 128, 256, 512):
        FrameDigest(width)
    for value, message in ((1, "at least 2, not 1"), (3, "at most 2, not 3")):
        with pytest.raises(ValueError, match=f"^Depth must be {message}$"):
            require_integer("Depth", value, minimum=2, maximum=2)
