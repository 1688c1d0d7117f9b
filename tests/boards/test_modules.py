"""Verilog of exports: modules that instances share, and plain names."""

import re
from functools import cache

import pytest
from amaranth.back import rtlil, verilog
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lately.boards.export.bundle import groups, save_file
from lately.boards.export.design import Design
from lately.boards.export.verilog import (
    keywords,
    plain_lines,
    read_modules,
    share,
    verilog_text,
)
from lately.golden import any_preset
from lately.golden.spec import GEBFSpec


@cache
def exported(**options):
    return Design(**{"spec": any_preset("tiny"), "name": "seen"} | options).verilog


class Toggle(wiring.Component):
    """A register that is inverted when `i` is high."""

    def __init__(self, init, *, name="event"):
        self._init, self._name = init, name
        super().__init__({"i": In(1), "o": Out(1)})

    def elaborate(self, platform):
        m = Module()
        state = Signal(init=self._init, name=self._name)
        m.d.sync += state.eq(state ^ self.i)
        m.d.comb += self.o.eq(state)
        return m


class Table(wiring.Component):
    """A memory with contents."""

    def __init__(self, contents):
        self._contents = contents
        super().__init__({"i": In(1), "o": Out(2)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = Memory(shape=2, depth=2, init=self._contents)
        port = table.read_port()
        m.d.comb += [port.addr.eq(self.i), self.o.eq(port.data)]
        return m


class Nest(wiring.Component):
    """A component with another one inside."""

    def __init__(self, inside):
        self._inside = inside
        super().__init__({"i": In(1), "o": Out(len(inside.o))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.inside = self._inside
        m.d.comb += [self._inside.i.eq(self.i), self.o.eq(self._inside.o)]
        return m


class Top(wiring.Component):
    """Components side by side with one input."""

    def __init__(self, **parts):
        self._parts = parts
        super().__init__(
            {"i": In(1)} | {f"{name}_o": Out(len(part.o)) for name, part in parts.items()}
        )

    def elaborate(self, platform):
        m = Module()
        for name, part in self._parts.items():
            m.submodules[name] = part
            m.d.comb += [part.i.eq(self.i), getattr(self, f"{name}_o").eq(part.o)]
        return m


def shared(**parts):
    """Return the names of the modules below the top, without its name."""
    modules = share(read_modules(rtlil.convert(Top(**parts), name="top")))
    lines = list(plain_lines(modules))
    return [line.removeprefix("module \\top__") for line in lines if line.startswith("module ")][1:]


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ({"a0": Toggle(0), "a1": Toggle(0)}, ["a"]),
        ({"a0": Toggle(0, name="one"), "a1": Toggle(0, name="other")}, ["a"]),
        ({"a0": Toggle(0), "a1": Toggle(1)}, ["a0", "a1"]),
        ({"a0": Table([1, 2]), "a1": Table([1, 2])}, ["a"]),
        ({"a0": Table([1, 2]), "a1": Table([1, 3])}, ["a0", "a1"]),
        ({"a0": Nest(Toggle(0)), "a1": Nest(Toggle(0))}, ["a", "a__inside"]),
        ({"a0": Nest(Toggle(0)), "a1": Nest(Toggle(1))},
         ["a0", "a0__inside", "a1", "a1__inside"]),
        ({"a0": Nest(Toggle(1)), "b": Toggle(1)}, ["a0", "a0__inside"]),
    ],
)  # fmt: skip
def test_modules_that_differ_in_names_alone_are_one(parts, names):
    assert shared(**parts) == names


def normal(text):
    """Return the text of a module with its identifiers numbered as they come."""
    numbers = {}

    def number(match):
        name = match[0]
        return name if name in keywords() else f"n{numbers.setdefault(name, len(numbers))}"

    return re.sub(r"\\\S+|(?<!['\w])[A-Za-z_]\w*", number, text)


def modules_of(text):
    """Return the text of each module of Verilog, by its name."""
    names = re.findall(r"^module (\S+?)[ (].*?^endmodule$", text, re.M | re.S)
    return dict(zip(names, re.split(r"^module .*?(?=\()", text, flags=re.M)[1:], strict=True))


def test_shared_text_is_the_text_of_each_instance():
    """The parts of a ring's segments have the same text before they become one module."""
    component = Design(spec=any_preset("tiny"), name="seen", wrap="raw").component
    each = {
        name: normal(text.partition("endmodule")[0])
        for name, text in modules_of(
            verilog.convert(component, name="seen", emit_src=False)
        ).items()
    }
    parts = [text for name, text in each.items() if re.search(r"segment\d_part\d$", name)]
    assert len(parts) == 10
    assert len(set(parts)) == 1
    text = verilog_text(Design(spec=any_preset("tiny"), name="seen", wrap="raw").component, "seen")
    names = modules_of(text)
    assert [name for name in names if "part" in name] == ["seen__unit__core__store__segment_part"]
    uses = re.findall(r"^  seen__unit__core__store__segment_part (\w+) \($", text, re.M)
    assert sorted(uses) == [
        f"segment{segment}_part{other}" for segment in range(5) for other in range(2)
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"bus": "axi4-lite"},
        pytest.param({"spec": any_preset("two-lanes-tiny")}, marks=pytest.mark.slow),
        pytest.param(
            {"spec": any_preset("timing-tiny"), "bus": "wishbone"}, marks=pytest.mark.slow
        ),
        pytest.param(
            {"spec": any_preset("dictionary-tiny"), "memory": "ecp5"}, marks=pytest.mark.slow
        ),
    ],
)
def test_names_are_plain(options):
    """No escaped identifier, no name of a tool, no attribute except on the ports of the top."""
    text = exported(**options)
    code = re.sub(r'"[^"]*"|/\*.*?\*/|//[^\n]*', "", text)
    assert not re.search(r"[\\$](?!signed\b)", code)
    top, *below = re.split(r"^endmodule$", text, flags=re.M)
    assert "X_INTERFACE_INFO" in top
    ports = r"(?:  \(\* X_INTERFACE_\w+ = \"[^\"]*\" \*\)\n)+  (?:input|output) "
    assert "(*" not in re.sub(ports, "", top)
    # Cases may be full, and memories of a kind.
    assert not [line for line in below if re.search(r"\(\* (?!full_case|rw_addr_collision)", line)]
    assert not re.search(r"^  reg .*=", text, re.M)


def test_ports_are_named_by_the_signals_that_they_carry():
    text = exported()
    ports = re.findall(r"^  (?:input|output) (?:\[\S+\] )?(\w+);$", text, re.M)
    assert not [name for name in ports if re.fullmatch(r"port_?\d.*", name)]
    part = modules_of(text)["seen__unit__core__store__segment_part"]
    assert re.search(r"^  input \[1:0\] address_1_0;$", part, re.M)
    assert re.search(r"\.bits_3\(bits_3\)", text)


def test_each_module_of_ours_says_what_it_is():
    text = exported()
    heads = re.findall(r"((?:^// .*\n)+)^module (\w+)", text, re.M)
    assert [name for _, name in heads] == [*modules_of(text)]
    comments = {name: " ".join(head.split("\n// ")).strip("/ \n") for head, name in heads}
    store = comments["seen__unit__core__store"]
    assert store.startswith("Segments of a ring; each part of each segment has its own memory.")
    assert store.endswith("Class SegmentStore of lately.hdl.ring.core. Latency: 5 cycles.")


def test_waves_name_signals_of_the_module():
    """Each group has the ports of one module; the modules form a tree below the bench."""
    text = exported()
    ports_by_path = dict(groups(text, "seen", "seen_tb.dut"))
    assert len(ports_by_path) == len(modules_of(text))
    assert "seen_tb.dut.unit.core.store.segment0_part0" in ports_by_path
    first, *_ = ports_by_path.values()
    assert "seen_tb.dut.s_axis_tvalid" in first
    assert [port for port in first if re.fullmatch(r"seen_tb\.dut\.s_axis_tdata\[\d+:0\]", port)]
    lines = save_file(text, "seen").splitlines()
    assert [line[1:] for line in lines if line[0] == "-"][::2] == [*ports_by_path]


@pytest.mark.slow
def test_a_filter_of_many_small_memories_is_short():
    """In the plan of the README each of 336 memories had 98 lines of its own."""
    spec = GEBFSpec(
        window=20000, epochs=27, hashes=12, bits=344064, generation=741, key_bits=64, clear=2
    )
    assert len(Design(spec=spec, name="seen").verilog.splitlines()) < 16_000
