"""Registers of an exported unit for C: SystemRDL is the description, PeakRDL writes the header."""

from pathlib import Path
from tempfile import TemporaryDirectory


def c_header(rdl: str, name: str) -> str:
    """Return the C header of registers in SystemRDL; `name` is that of its include guard."""
    from peakrdl_cheader.exporter import CHeaderExporter
    from systemrdl import RDLCompiler

    with TemporaryDirectory() as folder:
        source, header = (Path(folder, f"{name}{suffix}") for suffix in (".rdl", ".h"))
        source.write_text(rdl, "utf-8")
        compiler = RDLCompiler()
        compiler.compile_file(str(source))
        CHeaderExporter().export(compiler.elaborate(), str(header))
        return header.read_text("utf-8")
