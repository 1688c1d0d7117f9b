"""A unit in Python at the ports that a bench drives, with golden's answers and maybe one fault."""

import copy
import logging
from collections import deque
from types import SimpleNamespace

import numpy as np
from amaranth.hdl import Shape
from amaranth.lib.wiring import Out

from lately.golden import Operation
from lately.golden.operations import OperationBit
from lately.hdl.interface import pack, unpack

LATENCY = 6


class Port:
    """A port of the unit."""

    def __init__(self, width):
        self._width = width
        self.value = 0

    def __len__(self):
        return self._width


class StubUnit:
    """Answers as the scoreboard expects, less its fault, which is one of these.

    ``field NAME``, of the result numbered `at`; ``missing``, ``surplus`` or ``swapped``, in its
    place; ``changes`` or ``withdrawn``, while a result waits; ``port NAME``, a counter or another
    output; ``memory``, a bit or a cell; ``no cells``, which are all empty; ``no tick``, of which
    the first is lost; ``no clear``, ``no secret`` and ``no swap``, which have no effect.

    Parameters
    ----------
    signature : UnitSignature
    lead : int
        Cycles from a secret's acceptance to the first operation that it applies to.
    entry : layout, optional
        Of tables.
    """

    def __init__(self, signature, *, fault="", at=-1, lead=0, entry=None):
        self._signature = signature
        self._members = dict(signature.members.items())
        self._lead = lead
        self._entry = entry
        self.fault, self._at = fault, at
        self._log = logging.getLogger("stub")
        self._queue = deque()
        self._kept = None
        self._clock = self._waited = 0
        # Until `begin`, nothing is accepted.
        self.board = None
        self.results = 0
        self.done = False

    def begin(self, board):
        """Answer as a copy of a scoreboard does."""
        self.board = copy.deepcopy(board)
        if self._entry is not None:
            shape = self.board.golden.spec.table_shape
            self._banks, self._answers = [np.zeros(shape, np.int64) for _ in range(2)], 0

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        head, _, part = name.partition("__")
        member = self._members.get(head)
        if member is not None and member.is_port and member.flow == Out:
            return self._told(name, Shape.cast(member.shape).width)
        width = 1
        if part == "payload":
            width = Shape.cast(member.signature.members["payload"].shape).width
        elif member is not None and member.is_port:
            width = Shape.cast(member.shape).width
        port = Port(width)
        port.value = int(part == "ready")
        setattr(self, name, port)
        return port

    @property
    def table__ready(self):
        port = Port(1)
        port.value = int(not self.swap.value)
        return port

    def _told(self, name, width):
        board, golden = self.board, self.board.golden
        if name == "covered":
            value = golden.guaranteed_span(board.now) + 1
        elif name == "guaranteed":
            value = golden.guaranteed_window
        else:
            value = board.counts[name] if hasattr(board, "counts") else getattr(golden, name)
        port = Port(width)
        port.value = int(value) + (self.fault == f"port {name}")
        return port

    def edge(self, now):
        """Take what the ports have, and show what comes next."""
        self._clock += 1
        ports = self.__dict__
        if self.rst.value:
            self._queue.clear()
            self._kept, self._waited = None, 0
            if self.board is not None:
                self.board.forget()
        elif self.board is not None:
            if "generation" in self._members:
                self.board.golden.generation = int(self.generation.value)
            if "tick" in ports and self.tick.value and not self._fails("no tick"):
                self.board.now += 1
            secret = "secret__valid" in ports and self.secret__valid.value
            if secret and self.fault != "no secret":
                self.board.rekey(now + 10 * self._lead, self.secret__payload.value)
            if self.o__valid.value and self.o__ready.value:
                self._queue.popleft()
                self._waited = 0
            if self.i__valid.value:
                self._accept(now)
            self._take_table(now)
        self._show()

    def _take_table(self, now):
        if self._entry is None:
            return
        if self.table__valid.value and not self.swap.value:
            entry = unpack(self._entry, self.table__payload.value)
            place = (entry["query_class"], entry["age"], entry["phase"])
            self._banks[1 - self._answers][place] = entry["least"]
        if self.swap.value and self.fault != "no swap":
            self._answers = 1 - self._answers
            self.board.swap(now, self._banks[self._answers])

    def _show(self):
        shown = bool(self._queue) and self._queue[0][0] <= self._clock
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
        now = self.fault == fault and not self.done
        self.done |= now
        return now

    def _accept(self, now):
        request = unpack(self._signature.request, self.i__payload.value)
        payload = self._packed(self._answer(request, now))
        mine = self.results == self._at
        self.results += 1
        if mine and self.fault == "missing":
            return
        if mine and self.fault == "swapped":
            self._kept = payload
            return
        payloads = [payload] * (1 + (mine and self.fault == "surplus"))
        if self._kept is not None:
            payloads.append(self._kept)
            self._kept = None
        self._queue += [(self._clock + LATENCY, one) for one in payloads]

    def _answer(self, request, now):
        board = self.board
        if "lanes" in request:
            alone = request["alone"]
            turn = Operation(alone) if alone in (Operation.SHIFT, Operation.CLEAR) else 0
            lanes = [self._item(one) if one.pop("valid") else None for one in request["lanes"]]
            for lane in lanes:
                if lane is not None and lane.operation & OperationBit.ALONE:
                    lane.operation = Operation.NONE
            item = SimpleNamespace(turn=self._turn(turn), lanes=lanes)
        else:
            item = self._item(request)
            item.operation = self._turn(item.operation)
        if hasattr(board, "answered"):
            nothing = SimpleNamespace(age=0, oldest=0)
            return board._answer(item, now, nothing)
        board.expect(item)
        return board._expected.pop()

    def _turn(self, code):
        clears = code == Operation.CLEAR and self.fault == "no clear"
        return Operation.NONE if clears else code

    @staticmethod
    def _item(fields):
        return SimpleNamespace(**fields)

    def _packed(self, outcome):
        if self._signature.lanes == 1:
            return pack(self._signature.result, self._fields(outcome))
        lanes = [{"valid": 1} | self._fields(one) if one else {} for one in outcome]
        if self.results == self._at and self.fault == "field valid":
            lanes[0] = {} if lanes[0] else {"valid": 1}
        return pack(self._signature.result, {"lanes": lanes})

    def _fields(self, outcome):
        layout = self._signature.of_lane(self._signature.result, 0)
        names = {name for name, _ in layout}
        fields = {name: int(value) for name, value in outcome._asdict().items() if name in names}
        if self.results == self._at:
            kind, _, name = self.fault.partition(" ")
            if kind == "field" and name != "valid":
                # A time that goes back; the others have to be right as they are.
                fields[name] = fields[name] - 1 & 0xFF if name == "time" else fields[name] ^ 1
        return fields

    def memory(self, *_arguments, **_options):
        """Bits of a ring, as golden's."""
        bits = self.board.golden.memory.copy()
        if self.fault == "memory":
            bits.flat[-1] ^= True
        return bits

    def cells(self, _dut, path, **_options):
        """Words of the cells of a part of a timing filter, or of a column of a dictionary."""
        board, spec = self.board, self.board.golden.spec
        wrong = self.fault == "memory" and int(path[-2][-1]) == 0
        number = int(path[-2].lstrip("abcdefghijklmnopqrstuvwxyz"))
        if hasattr(spec, "stamp_bits"):
            ages = np.array(board.memory[number])
            if wrong:
                ages[-1] = 0 if ages[-1] else 1
            return (board.block - ages) % (1 << spec.stamp_bits)
        distance, rest = board.golden.memory[:, number]
        live, numbers = distance > 0, 1 << spec.timestamp_bits
        if self.fault == "no cells":
            return np.zeros_like(distance)
        cells = ((board.counts["insertions"] - distance) % numbers << 1) + 1
        cells = (cells | rest << 1 + spec.timestamp_bits) * live
        if wrong:
            row = int(np.flatnonzero(live)[0])
            cells[row] ^= 1 << 1 + spec.timestamp_bits
        return cells
