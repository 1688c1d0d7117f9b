"""The unit under test, which a bench drives and compares with its golden model.

Environment variables: LATELY_SPEC (TOML file with the specification), LATELY_SEED (seed of all
random choices), LATELY_UNIT (options of the unit, in JSON), LATELY_NETLIST (1 if the design is a
netlist), LATELY_COVERAGE (file to which covered situations are added).
"""

import json
import os
import random
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, Self

import cocotb
import numpy as np
from amaranth.hdl import Shape, UnusedElaboratable
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from cocotb.utils import get_sim_time
from numpy.typing import NDArray

from ...golden import Operation, Specification
from ...golden.operations import OperationBit
from ...hdl.build import filter_unit
from ...hdl.memory.map import PORTABLE, PhysicalMemory
from ...hdl.verilog import TAG_BITS
from .inputs import Tables, TickSource
from .netlist import instance_name
from .parts import PERIOD_NS, Beat, Driver, Monitor, Performed, Scoreboard, Stalls
from .reference import Item, reference


class UnitMemory:
    """The memories of a unit; in a `netlist`, only explicit block RAMs can be read."""

    def __init__(self, dut, unit: Any, *, variant: str, netlist: bool) -> None:
        self._dut = dut
        self._unit = unit
        self._variant = variant
        self._netlist = netlist

    @property
    def readable(self) -> bool:
        return not self._netlist or self._variant not in PORTABLE

    def view(self, now: int) -> NDArray[Any]:
        """Return the contents at tick `now`, in the format of the golden model's `memory`."""
        held: NDArray[Any] = self._unit.memory_map.view(self._bits, now)
        return held

    def _bits(self, memory: PhysicalMemory) -> NDArray[np.bool_]:
        if self._netlist:
            words = self._dut[instance_name(memory.path)]
        else:
            words = reduce(lambda handle, name: handle[name], memory.path, self._dut)
        if memory.cell:
            # The name of the array in this project's models, or in that of yosys for iCE40.
            words = words.memory if words._get("words") is None else words.words
        values = [int(words[word].value) for word in range(memory.words)]
        return np.array(
            [[value >> bit & 1 for bit in range(memory.width)] for value in values], np.bool_
        )


LOADED = 50  # cycles from the first operation to the second reset

# Units are built only to read their properties, and are never elaborated.
warnings.filterwarnings("ignore", category=UnusedElaboratable)


@dataclass(frozen=True)
class Settings:
    spec: Any
    options: dict[str, Any] = field(default_factory=dict)  # of `filter_unit`
    seed: int = 1
    netlist: bool = False
    coverage: str = ""  # file for covered situations; empty if no coverage is collected

    @classmethod
    def of_environment(cls) -> Self:
        return cls(
            spec=Specification.from_toml(os.environ["LATELY_SPEC"]),
            options=json.loads(os.environ["LATELY_UNIT"]),
            seed=int(os.environ["LATELY_SEED"]),
            netlist=os.environ.get("LATELY_NETLIST", "0") == "1",
            coverage=os.environ.get("LATELY_COVERAGE", ""),
        )

    @cached_property
    def unit(self) -> Any:
        return filter_unit(self.spec, tag_bits=TAG_BITS, **self.options)

    @property
    def memory(self) -> str:
        return str(self.options.get("memory", "portable"))

    @property
    def ticks(self) -> str:
        return str(self.options.get("ticks", ""))

    @cached_property
    def traits(self) -> frozenset[str]:
        signature, spec = self.unit.signature, self.spec
        lane = signature.of_lane(signature.result, 0).members
        request = signature.of_lane(signature.request, 0)
        ring, rekeys = "generation" in signature.members, getattr(spec, "rekey", False)
        by_number = ring and ("status" not in lane or (
            self.ticks == "tick" and spec.when_full == "shorten"))  # fmt: skip
        traits = {
            "one lane": signature.lanes == 1,
            f"{signature.lanes} lanes": True,
            "several lanes": signature.lanes > 1,
            "full rate": not ring or by_number or self.ticks == "time",
            "ring": ring,
            "generations by number": by_number,
            "window in time": ring and "status" in lane,
            "timing filter": "oldest" in lane,
            "queries with windows": "window" in request.members,
            "clock of insertions": "oldest" in lane and not self.ticks,
            "tables": "table" in signature.members,
            "dictionary": request["operation"].width > 3,
            "moves": bool(getattr(spec, "moves", None)),
            "no moves": not getattr(spec, "moves", None),
            "secret": "secret" in signature.members,
            "re-keying": rekeys,
            "one secret": "secret" in signature.members and not rekeys,
            "ticks": bool(self.ticks),
            self.ticks: True,
            getattr(spec, "hash", "h3"): True,
            str(self.options.get("protect", "none")): True,
            "self-check": bool(self.options.get("self_check")),
        }
        return frozenset(name for name, holds in traits.items() if holds)


class UnitUnderTest:
    def __init__(self, dut, settings: Settings) -> None:
        self.dut = dut
        self.settings = settings
        self.spec, self.signature = settings.spec, settings.unit.signature
        lane = self.signature.of_lane(self.signature.request, 0).members
        self._widths = {name: Shape.cast(shape).width for name, shape in lane.items()}
        self.random = random.Random(settings.seed)
        self.unit = settings.unit
        self.reference: Any = reference(self.spec, self.signature)
        self.reference.records = bool(settings.coverage)
        # Periodic ticks do not stop while outputs and cells are read.
        self.reference.still = "period" not in settings.traits
        self.scoreboard = Scoreboard(self.reference)
        self.driver = Driver(dut, self.signature, self.scoreboard, seed=settings.seed + 3)
        self.monitor = Monitor(dut, self.signature, self.scoreboard)
        self.ticks = TickSource(self)
        self.scoreboard.legal_times = self.ticks.legal_times if settings.ticks else None
        self.tables = Tables(self)
        self.memory = UnitMemory(dut, self.unit, variant=settings.memory, netlist=settings.netlist)
        self.secrets: list[float] = []
        self._checked = False
        if "ring" in settings.traits:
            # The generation length with which the unit accepts one operation per cycle.
            self.generation = max(self.spec.generation, self.unit.minimum_generation)
        dut._log.info("seed %d", settings.seed)

    @property
    def window(self) -> int:
        spec = self.spec
        return int(spec.window_blocks if spec.query_field else getattr(spec, "window", 0) or 0)

    def key(self) -> int:
        few = self.random.random() < 0.5
        return self.random.randrange(min(1 << self.spec.key_bits, 24 if few else 1 << 64))

    def any_key(self) -> int:
        return self.random.randrange(1 << self.spec.key_bits)

    @property
    def codes(self) -> int:
        return 1 << self._widths["operation"]

    def item(self, operation: int, key: int, window: int | None = None) -> Item:
        """Return the fields of a request, with a random tag; the default window is the longest."""
        fields = {"operation": int(operation), "key": key}
        request, draw = self._widths, self.random.randrange
        if "tag" in request:
            fields["tag"] = draw(1 << TAG_BITS)
        if "window" in request:
            fields["window"] = self.window if window is None else window
        if "query_class" in request:
            fields["query_class"] = draw(self.spec.classes)
        if "time" in request:
            fields["time"] = self.ticks.time % (1 << request["time"])
        return fields

    def mixture(self, count: int) -> Iterator[Item]:
        """Yield random operations on few or many keys, and a few operations without a key."""
        draw = self.random
        removes = (8, 8, 9, 10, 11) if self.codes > 8 else ()
        kinds = (0, 1, 1, 2, 2, *[3] * 8, *removes)
        alone = [code for code in range(self.codes) if code & OperationBit.ALONE]
        keys, hot_key, fraction = 1 << self.spec.key_bits, 0, 0.0
        for _ in range(count):
            if draw.random() < 0.02:
                keys = min(draw.choice((3, 20, 60, 1 << 64)), 1 << self.spec.key_bits)
                hot_key, fraction = draw.randrange(keys), draw.choice((0, 0.5, 1))
            code = draw.choice(alone) if draw.random() < 0.02 else draw.choice(kinds)
            key = hot_key if draw.random() < fraction else draw.randrange(keys)
            self.ticks.step()
            yield self.item(code, key, draw.randint(0, self.window))

    def beats(self, operations: Iterable[Any], *, gaps: float = 0.0) -> list[Beat]:
        """Arrange requests, or arguments of `item`, in beats.

        `gaps` is the fraction of idle lanes.
        """
        lanes, alone = self.signature.lanes, int(Operation.NONE)
        beats: list[Beat] = []
        held: list[Item | None] = []

        def end() -> None:
            nonlocal alone
            if held or alone:
                beats.append(Beat(alone, (*held, *[None] * (lanes - len(held)))))
            alone = Operation.NONE
            held.clear()

        for operation in operations:
            item = operation if isinstance(operation, dict) else self.item(*operation)
            if lanes > 1 and item["operation"] in (Operation.SHIFT, Operation.CLEAR):
                end()
                alone = item["operation"]
                continue
            if lanes > 1 and item["operation"] & OperationBit.ALONE:
                item["operation"] = int(Operation.NONE)
            while len(held) < lanes - 1 and gaps and self.random.random() < gaps:
                held.append(None)
            held.append(item)
            if len(held) == lanes:
                end()
        end()
        return beats

    @property
    def profile(self) -> Any:
        return self.unit.profile

    @property
    def settled(self) -> int:
        """Number of cycles after reset, or after the last result, until all clears are complete."""
        lanes = "several lanes" in self.settings.traits
        return int(self.profile.longest_pause + (2 if lanes else 1) * self.unit.latency)

    @property
    def secret_lead(self) -> int:
        """Number of cycles from the acceptance of a secret until it first takes effect."""
        traits = self.settings.traits
        return int(self.unit.SECRET_LEAD) if traits & {"several lanes", "re-keying"} else -1

    async def send(self, *operations: Any, stalls: Stalls | None = None, gaps: float = 0.0) -> None:
        """Send requests, or arguments of `item`.

        The coroutine starts and ends just after a clock edge.
        """
        self._checked = False
        await self.driver.send(self.beats(operations, gaps=gaps), stalls=stalls)

    def stalls(self, probability: float) -> Stalls:
        return Stalls(probability, self.settings.seed + 2)

    @property
    def performed(self) -> list[Performed]:
        return self.scoreboard.performed

    def asked(self) -> list[Performed]:
        return [performed for performed in self.performed if performed.operation == Operation.QUERY]

    @classmethod
    async def start(cls, dut, settings: Settings) -> Self:
        bench = cls(dut, settings)
        bench.ticks.stop()
        if settings.ticks == "period":
            bench.ticks.set_period(0)
        if "ring" in settings.traits:
            dut.generation.value = bench.reference.generation = bench.generation
        bench.scoreboard.forget()
        dut.rst.value = 1
        Clock(dut.clk, PERIOD_NS, unit="ns", impl="gpi").start()
        streams = [name for name in ("i", "secret", "table") if name in bench.signature.members]
        # Icarus runs an `always @*` only if an input changes, so change every input here.
        for level in (1, 0):
            for stream in streams:
                payload = getattr(dut, f"{stream}__payload")
                payload.value = -level % (1 << len(payload))
                getattr(dut, f"{stream}__valid").value = level
            if "table" in streams:
                dut.swap.value = 0
            await ClockCycles(dut.clk, 2)
        dut.rst.value = 0
        bench.ticks.begin()
        cocotb.start_soon(bench.monitor.run())
        await bench._load()
        await ClockCycles(dut.clk, bench.settled)
        if "table" in streams:
            await bench.tables.begin()
        return bench

    async def _load(self) -> None:
        dut, monitor = self.dut, self.monitor
        monitor.stalls = Stalls(0.2, self.settings.seed)
        self.ticks.start_too_fast()
        if "tables" in self.settings.traits:
            await self.tables.begin()
        items = self.beats(self.mixture(self.settled + LOADED), gaps=0.1)
        sending = cocotb.start_soon(self.driver.send(items))
        while not self.driver.accepted:
            await RisingEdge(dut.clk)
        loading = None
        if "secret" in self.settings.traits:
            loading = cocotb.start_soon(self.load_secret(self.random.getrandbits(128)))
        await ClockCycles(dut.clk, LOADED)
        if loading is not None:
            loading.cancel()
            dut.secret__valid.value = 0
        await self.cut(sending)
        self.monitor.forget()

    async def interrupt(self, items: Sequence[Beat], *, cycles: int) -> int:
        """Reset the unit after `cycles` cycles; return the number of beats that it accepted."""
        earlier = self.driver.accepted
        sending = cocotb.start_soon(self.driver.send(items))
        await ClockCycles(self.dut.clk, cycles)
        return await self.cut(sending) - earlier

    async def cut(self, sending: cocotb.task.Task) -> int:
        """Reset the unit while operations are sent; return the number of accepted beats."""
        sending.cancel()
        self.driver.release()
        accepted = self.driver.accepted
        self.dut.rst.value = 1
        self.ticks.stop()
        await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        self.ticks.begin()
        self.driver.forget()
        self.tables.forget()
        self.scoreboard.forget()
        return accepted

    async def set_generation(self, length: int) -> None:
        await self.settle()
        self.dut.generation.value = self.generation = length
        minimum = self.unit.minimum_generation if "several lanes" in self.settings.traits else 1
        self.reference.generation = self.reference.golden.generation = max(length, minimum)
        await ClockCycles(self.dut.clk, self.unit.GENERATION_LEAD)

    async def load_secret(self, secret: int | None = None) -> int:
        dut = self.dut
        secret = self.random.getrandbits(128) if secret is None else secret
        dut.secret__payload.value = secret
        dut.secret__valid.value = 1
        await FallingEdge(dut.clk)
        for _ in range(10_000):
            if dut.secret__ready.value:
                break
            await FallingEdge(dut.clk)
        else:
            raise AssertionError("the secret was not accepted")
        now = get_sim_time("ns")
        self.secrets.append(now)
        self.reference.rekey(now + self.secret_lead * PERIOD_NS, secret)
        await RisingEdge(dut.clk)
        dut.secret__valid.value = 0
        return secret

    async def settle(self) -> None:
        await RisingEdge(self.dut.clk)
        for _ in range(1000):
            if not self.scoreboard.outstanding:
                break
            await ClockCycles(self.dut.clk, 20)
        await ClockCycles(self.dut.clk, self.settled)

    async def finish(self) -> None:
        if self._checked:
            return
        board, traits = self.scoreboard, self.settings.traits
        if "ticks" in traits:
            await RisingEdge(self.dut.clk)
            await self.ticks.drain()
            await self.send((Operation.QUERY, self.key()))
        await self.settle()
        await FallingEdge(self.dut.clk)
        assert board.outstanding == 0, f"{board.outstanding} results are missing"
        sent = self.driver.accepted
        assert board.compared == sent, f"sent {sent} beats, compared {board.compared}"
        self.reference.check_outputs(self.dut)
        if self.memory.readable:
            self.reference.check_memory(self.memory)
        else:
            self.dut._log.warning("portable memory in a netlist: its bits are not compared")
        self._checked = True
        await RisingEdge(self.dut.clk)

    async def perform(self, *operations: Any, stalls: Stalls | None = None) -> None:
        await self.send(*operations, stalls=stalls)
        await self.finish()
