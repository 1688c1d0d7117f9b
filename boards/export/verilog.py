"""Convert a component to readable Verilog, via RTLIL and yosys.

Identical modules are shared, every module has a comment, no identifier is escaped, and only the
top-level ports have attributes.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from amaranth._toolchain.yosys import find_yosys
from amaranth.back import rtlil
from amaranth.hdl import Elaboratable, Fragment

from ...hdl.verilog import with_start
from .modules import RtlilModule, read_modules, share
from .plain_names import module_names, plain_lines

PACKAGE = __name__.partition(".")[0]
"""Only classes of this package appear in comments."""

WIDTH = 96
"""Width of comment text in columns, without delimiters."""

_MIN_YOSYS = (0, 40)
"""First yosys release that can read Amaranth's output."""

_SCRIPT = """\
read_rtlil <<rtlil
{}
rtlil
proc -nomux -norom
memory_collect
write_verilog
"""
"""Amaranth's own script, plus plain names for unnamed wires."""

_START = re.compile(r"^(  reg (?:signed )?(?:\[\S+\] )?(\S+)) += (\S+);$", re.M)
"""A register and its initial value."""


_INITIAL = re.compile(
    r" *initial begin\n(?: *\S+\[\d+\] = .*;\n)+ *end\n"
    r"| *reg _start_;\n *initial _start_ .*;\n| *if \(_start_ \) begin end\n"
)
"""Initial contents of memories, and the dummy variable that triggers processes."""

_HEAD = re.compile(r"^module (\w+)", re.M)


def verilog_text(component: Any, name: str, *, initial_values: bool = True) -> str:
    """Return a component and its submodules as Verilog-2005."""
    kept = _Kept(component)
    modules = share(read_modules(rtlil.convert(kept, name=name, emit_src=False)))
    comments = _comments(modules, dict(_parts(kept.fragment, name)))
    script = _SCRIPT.format("\n".join(plain_lines(modules)))
    yosys = find_yosys(lambda version: version >= _MIN_YOSYS)
    text = with_start(yosys.run(["-q", "-"], script, ignore_warnings=True))
    text = _HEAD.sub(lambda match: f"{comments.get(match[1], '')}{match[0]}", text)
    if not initial_values:
        return _INITIAL.sub("", _START.sub(r"\1;", text))
    # Verilator warns about registers that are initialised in their declaration and assigned.
    return _START.sub(r"\1;\n  initial \2 = \3;", text)


class _Kept(Elaboratable):
    """Wraps a component to keep the fragment of its elaboration."""

    def __init__(self, component: Any) -> None:
        self._component = component
        self.fragment: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._component, name)

    def elaborate(self, platform: object) -> Any:
        self.fragment = Fragment.get(self._component, platform)
        return self.fragment


def _parts(fragment: Fragment, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the path of each submodule, and the object that it was elaborated from."""
    origins = [
        origin for origin in fragment.origins or () if type(origin).__module__.startswith(PACKAGE)
    ]
    if origins:
        yield path, origins[-1]
    for below, name, _ in fragment.subfragments:
        if name is not None:
            yield from _parts(below, f"{path}.{name}")


def _comments(modules: list[RtlilModule], parts: Mapping[str, Any]) -> dict[str, str]:
    """Return a comment for each Lately module: its summary, class and latency."""
    names = module_names(modules)
    texts = {}
    for module in modules:
        part = parts.get(re.sub(r"\$\d+", "", module.path))
        if part is not None:
            kind = type(part)
            about = (inspect.getdoc(kind) or "").partition("\n\n")[0]
            latency = getattr(part, "latency", None)
            cycles = f" Latency: {latency} cycle{'s' * (latency != 1)}." if latency else ""
            text = f"{about} Class {kind.__qualname__} of {kind.__module__}.{cycles}"
            lines = textwrap.wrap(text.replace("`", ""), WIDTH)
            texts[names[module.name].removeprefix("\\")] = "".join(f"// {line}\n" for line in lines)
    return texts
