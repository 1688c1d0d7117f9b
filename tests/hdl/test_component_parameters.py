"""Every component refuses parameters that it cannot be built with, and says which and why."""

import re
from functools import partial

import pytest
from amaranth.lib import data

from lately.golden import any_preset
from lately.hdl.build import filter_unit
from lately.hdl.control import CoreSignature, Verdict
from lately.hdl.frontend.front import FrontEnd
from lately.hdl.frontend.gate import Gate, Serializer
from lately.hdl.frontend.prescaler import Prescaler
from lately.hdl.frontend.request_times import Stamps
from lately.hdl.frontend.schedule import (
    GenerationCounter,
    GenerationLength,
    Schedule,
    SpareTimer,
)
from lately.hdl.frontend.tick_spacing import TickSpacing
from lately.hdl.hash.functions import StateHash
from lately.hdl.hash.secrets import Secrets
from lately.hdl.hash.siphash import SipHash
from lately.hdl.lanes.distributor import Distributor
from lately.hdl.memory.paged import PagedMemory
from lately.hdl.memory.segment import PortableSegmentMemory
from lately.hdl.parameters import require_integer, require_power_of_two
from lately.hdl.queue import ResultQueue
from lately.hdl.ring.detector import RingDetector
from lately.hdl.ring.ring import Ring
from lately.hdl.statistics import EventCounter
from lately.hdl.timing.ticks import BlockCount

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
        (Prescaler, {"width": 0, "least": 4}, "Width must be at least 1, not 0"),
        (Prescaler, {"width": 8, "least": 3}, "Shortest period must be at least 4, not 3"),
        (Prescaler, {"width": 3, "least": 8}, "Shortest period must be at most 7, not 8"),
        (TickSpacing, {"least": 1}, "Shortest period must be at least 2, not 1"),
        (stamps, {"span": 0}, "Span must be at least 1, not 0"),
        (stamps, {"span": 128}, "Span must be at most 127, not 128"),
        (dictionary, {"statistics_bits": -1}, "Statistics bits must be at least 0, not -1"),
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
        (queue, {"apart": 3}, "Bits apart must be at most 2, not 3"),
        (detector, {"segments": 6}, "Segments must be at least 7, not 6"),
        (detector, {"parts": 0}, "Parts must be at least 1, not 0"),
        (detector, {"run": 0}, "Run must be at least 1, not 0"),
        (detector, {"starts": 0}, "Starts must be at least 1, not 0"),
        (detector, {"levels": 0}, "Levels must be at least 1, not 0"),
        (ring, {"segments": 1}, "Segments must be at least 2, not 1"),
        (ring, {"run": 4}, "Run must be at most 3, not 4"),
        (ring, {"clear_words": 0}, "Words to clear must be at least 1, not 0"),
        (ring, {"clear_words": 3}, "Words to clear must be a power of two, not 3"),
    ],
)
def test_parameters_wrong(build, wrong, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        build(**wrong)


@pytest.mark.parametrize("value", [1.5, "4", None, True])
def test_integer_wrong(value):
    for require in (require_integer, require_power_of_two):
        with pytest.raises(TypeError, match=rf"^Depth must be an integer, not {value!r}$"):
            require("Depth", value)


def test_edges_of_rules():
    require_integer("Depth", 2, least=2, most=2)
    require_power_of_two("Depth", 1)
    for value, message in ((1, "at least 2, not 1"), (3, "at most 2, not 3")):
        with pytest.raises(ValueError, match=f"^Depth must be {message}$"):
            require_integer("Depth", value, least=2, most=2)
