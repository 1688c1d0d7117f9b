"""Rewrite the memories of an export in the coding style that vendor tools recognise.

Memories that hold segments or cells are named ``words``. A unit never uses a word that one port
reads while the other port writes it; the proofs assume that such a read returns an arbitrary value.
"""

import re
from dataclasses import replace

from ...golden.spec import FilterSpec
from ...golden.spec.base import Specification

# Attributes for Vivado, Quartus and Synplify, for each kind of memory. To the last two, no_rw_check
# says that a read of a word during its write may return any value.
RAM_STYLES = {
    "auto": {"ramstyle": "no_rw_check", "syn_ramstyle": "no_rw_check"},
    "block": {
        "ram_style": "block", "ramstyle": "no_rw_check", "syn_ramstyle": "block_ram,no_rw_check",
    },
    "distributed": {
        "ram_style": "distributed", "ramstyle": "MLAB, no_rw_check",
        "syn_ramstyle": "distributed,no_rw_check",
    },
    "ultra": {"ram_style": "ultra", "ramstyle": "no_rw_check", "syn_ramstyle": "no_rw_check"},
}  # fmt: skip

ULTRA_BITS = 64  # width of an UltraRAM word, without parity bits


def with_wide_words(spec: Specification, style: str) -> Specification:
    """Widen the words of a ring to `ULTRA_BITS` bits if the style is "ultra"."""
    if style != "ultra" or not isinstance(spec, FilterSpec):
        return spec
    bits = min(ULTRA_BITS, spec.part_bits // spec.shards)
    return replace(spec, clear=max(spec.clear, bits))


# A memory as written by yosys: all reads in one process, separate from the write.
_INITIAL = r"(?P<initial> *initial begin\n(?: *words\[\d+\] = .*;\n)+ *end\n)?"
_WRITE = (
    r"  always @\(posedge clk\) begin\n"
    r"    if \((?P<enable>.+)\)\n      words\[(?P<address>.+)\] <= (?P<word>.+);\n  end\n"
)
_READS = r"  always @\(posedge clk\) begin\n(?P<reads>(?:    \S+ <= words\[.+\];\n)+)  end\n"
_MEMORY = re.compile(
    r"  reg (?P<width>\[\S+\] )?words (?P<depth>\[\S+\]);\n"
    + _INITIAL + _WRITE + r"(?P<registers>(?:  reg (?:\[\S+\] )?\S+;\n)+)" + _READS
)  # fmt: skip

_READ = re.compile(r"    (\S+) <= words\[(.+)\];\n")


def with_templates(text: str, style: str) -> str:
    """Rewrite each memory of a Verilog text with attributes and with one process per port."""
    # The write port reads in the same process, so that tools infer a true dual-port memory. Initial
    # contents are omitted, because units clear their memories after reset.
    values = {"rw_addr_collision": "no"} | RAM_STYLES[style]
    attributes = ", ".join(f'{name} = "{value}"' for name, value in values.items())
    return _MEMORY.sub(lambda match: _template(match, attributes), text)


def _template(match: re.Match[str], attributes: str) -> str:
    reads = _READ.findall(match["reads"])
    beside = [register for register, address in reads if address == match["address"]]
    lines = [
        f"(* {attributes} *)",
        f"reg {match['width'] or ''}words {match['depth']};",
        *(line.strip() for line in match["registers"].splitlines()),
        "always @(posedge clk) begin",
        f"  if ({match['enable']})",
        f"    words[{match['address']}] <= {match['word']};",
        *(f"  {register} <= words[{match['address']}];" for register in beside),
        "end",
    ]
    for register, address in reads:
        if register not in beside:
            lines += ["always @(posedge clk)", f"  {register} <= words[{address}];"]
    return "".join(f"  {line}\n" for line in lines)
