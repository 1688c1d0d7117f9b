"""A unit in Python at the ports that a bench drives, with golden's answers and maybe one fault."""

import logging
from collections import deque

import numpy as np
from amaranth.hdl import Shape
from amaranth.lib.wiring import Out

from lately.golden import Operation
from lately.golden.operations import OperationBit
from lately.hdl.interface import pack, unpack
from lately.sim.bench.reference import reference

LATENCY = 7


class Port:
    """A port of the unit."""

    def __init__(self, width, value=0):
        self._width = width
        self.value = value

    def __len__(self):
        return self._width


class StubUnit:
    """Answers as golden does, except for its fault from `arm` on, which is one of these.

    ``field NAME``, of the result numbered `at`; ``missing``, ``surplus`` or ``swapped``, in its
    place; ``changes`` or ``withdrawn``, while a result waits; ``port NAME``, a counter or another
    output; ``memory``, a bit or a cell; ``no cells``, which are all empty; ``no tick``, ``early
    tick`` and ``late tick``: the first is lost, or takes effect at another time, for results and
    times alike; ``no clear``, ``no secret`` and ``no swap``, which have no effect.
    """

    def __init__(self, settings, *, lead, fault="", at=-1, latency=LATENCY, poll=1):
        self._signature = settings.unit.signature
        self._members = dict(self._signature.members.items())
        self.reference = reference(settings.spec, self._signature)
        self._lead, self._armed, self._at = lead, "", at
        self._fault = fault
        self._latency, self._poll = latency, poll
        self._log = logging.getLogger("stub")
        self._queue = deque()
        self._kept = None
        self._cycle = self._waited = self._ticks = self._next_tick = 0
        self._period = settings.unit.profile.least_period
        # Cycles from the acceptance of an operation to its effect.
        self._lag = int(settings.spec.kind == "timing")
        self._waiting = deque()
        self.results = 0
        self._forget_tables()

    def arm(self):
        """Let the fault come; the results are counted from here on."""
        self._armed, self._at = self._fault, self._at + self.results
        return self._at

    def _forget_tables(self):
        if "table" in self._members:
            shape = self.reference.spec.table_shape
            self._banks, self._answers = [np.zeros(shape, np.int64) for _ in range(2)], 0

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        head, _, part = name.partition("__")
        member = self._members.get(head)
        if member is not None and member.is_port and member.flow == Out:
            return self._output(name, Shape.cast(member.shape).width)
        width = 1
        if part == "payload":
            width = Shape.cast(member.signature.members["payload"].shape).width
        elif member is not None and member.is_port:
            width = Shape.cast(member.shape).width
        setattr(self, name, Port(width, int(part == "ready")))
        return getattr(self, name)

    @property
    def table__ready(self):
        return Port(1, int(not self.swap.value))

    def _output(self, name, width):
        # A unit with moves that gives nothing up.
        idle = {"lost": 0, "guaranteed": getattr(self.reference.spec, "window", 0)}
        value = (idle | self.reference.outputs)[name]
        return Port(width, int(value) + (self._armed == f"port {name}"))

    def edge(self, now):
        """Take what the ports have, and show what comes next."""
        self._cycle += 1
        ports, golden = self.__dict__, self.reference
        if "generation" in self._members:
            golden.generation = golden.golden.generation = max(int(self.generation.value), 1)
        if self.rst.value:
            self._queue.clear()
            self._waiting.clear()
            self._ticks = self._next_tick = 0
            self._kept, self._waited, self.results = None, 0, 0
            golden.reset()
            self._forget_tables()
        else:
            if (
                "secret__valid" in ports and self.secret__valid.value
                and self._armed != "no secret"
            ):  # fmt: skip
                golden.rekey(now + 10 * self._lead, self.secret__payload.value)
            if self.o__valid.value and self.o__ready.value:
                self._queue.popleft()
                self._waited = 0
            if self.i__valid.value:
                self._waiting.append((self._cycle + self._lag, self.i__payload.value, now))
            # In a timing filter, an operation sees the ticks of the next cycle, too.
            if self._lag and "tick" in ports:
                self._tick()
            if self._waiting and self._waiting[0][0] == self._cycle:
                self._accept(*self._waiting.popleft()[1:])
            if not self._lag and "tick" in ports:
                self._tick()
            if "table" in self._members:
                self._take_table(now)
        self._show()

    def _tick(self):
        """Count a tick, not too soon after the last; a late one has a distance no unit needs."""
        golden = self.reference
        if self._armed == "early tick" and self.results == self._at:
            golden.now += 1
            self._armed = "no tick"
        self._ticks += self.tick.value and not self._fails("no tick")
        if self._ticks and self._fails("late tick"):
            self._next_tick = self._cycle + 2 * self._period
        if self._ticks and self._cycle >= self._next_tick:
            self._next_tick = self._cycle + self._period
            golden.now += 1
            self._ticks -= 1

    def _take_table(self, now):
        if self.table__valid.value and not self.swap.value:
            entry = self._members["table"].signature.members["payload"].shape
            fields = unpack(entry, self.table__payload.value)
            place = (fields["query_class"], fields["age"], fields["phase"])
            self._banks[1 - self._answers][place] = fields["least"]
        if self.swap.value and self._armed != "no swap":
            self._answers = 1 - self._answers
            self.reference.swap(now, self._banks[self._answers])

    def _show(self):
        shown = bool(self._queue) and self._queue[0][0] <= self._cycle
        payload = self._queue[0][1] if shown else 0
        if shown:
            self._waited += 1
            if self._waited == 2 and self._fails("changes"):
                payload ^= 1
            if self._waited == 2 and self._fails("withdrawn"):
                shown = False
        self.o__valid.value, self.o__payload.value = int(shown), payload

    def _fails(self, fault):
        """Whether the unit fails in that way now, for the first time."""
        fails = self._armed == fault
        self._armed = "" if fails else self._armed
        return fails

    def _accept(self, payload, now):
        request = unpack(self._signature.request, payload)
        payload = self._answer(request, now)
        mine = self.results == self._at
        self.results += 1
        if mine and self._armed == "missing":
            return
        if mine and self._armed == "swapped":
            self._kept = payload
            return
        payloads = [payload] * (1 + (mine and self._armed == "surplus"))
        if self._kept is not None:
            payloads.append(self._kept)
            self._kept = None
        # Shown at the first check of a collector, which checks once in `poll` cycles.
        accepted = self._cycle - self._lag
        due = -(-(accepted + self._latency - 1) // self._poll) * self._poll
        self._queue += [(due, one) for one in payloads]

    def _answer(self, request, now):
        if "lanes" not in request:
            return pack(self._signature.result, self._fields(request, now))
        if request["alone"] in (Operation.SHIFT, Operation.CLEAR):
            self._fields({"operation": request["alone"], "key": 0}, now)
        lanes = []
        for lane in request["lanes"]:
            if lane["operation"] & OperationBit.ALONE:
                lane["operation"] = int(Operation.NONE)
            lanes.append({"valid": 1} | self._fields(lane, now) if lane["valid"] else {})
        if self.results == self._at and self._armed == "field valid":
            lanes[0] = {} if lanes[0] else {"valid": 1}
        return pack(self._signature.result, {"lanes": lanes})

    def _fields(self, item, now):
        """Fields of a result, one of which may be wrong."""
        if item["operation"] == Operation.CLEAR and self._armed == "no clear":
            item = item | {"operation": int(Operation.NONE)}
        layout = self._signature.of_lane(self._signature.result, 0)
        times = 1 << (layout["time"].width if "time" in layout.members else 0)
        shown = dict.fromkeys((name for name in layout.members if name != "valid"), 0)
        shown |= {"time": self.reference.now % times} if "time" in shown else {}
        due = self.reference.perform(item, shown, now)
        fields = {name: int(value) for name, value in (shown | due).items() if name in shown}
        kind, _, name = self._armed.partition(" ")
        if self.results == self._at and kind == "field" and name != "valid":
            # A time that goes back; the others have to be right as they are.
            fields[name] = fields[name] - 1 & 0xFF if name == "time" else fields[name] ^ 1
        return fields


class StubMemory:
    """Memory of a `StubUnit`, in the place of `lately.sim.bench.memory.UnitMemory`."""

    readable = True

    def __init__(self, unit, *_arguments, **_options):
        self._unit = unit

    def view(self, _now):
        """Return what golden holds, or something else if that is the fault."""
        memory = self._unit.reference._memory.copy()
        if self._unit._armed == "no cells":
            memory[:] = 0
        elif self._unit._armed == "memory":
            used = np.flatnonzero(memory)
            memory.flat[used[-1] if len(used) else -1] ^= 1
        return memory
